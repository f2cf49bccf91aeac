/*
 * clock.h - elapsed time, and durations as text.
 */
#ifndef WSI_CLOCK_H
#define WSI_CLOCK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds on a clock that never goes backwards. */
double clock_now(void);
/* "2 h 05 min", "3.2 s" into buf; returns buf. */
const char *clock_text(char buf[32], double seconds);
/* A time of a file in ns since 1970; the nearest that 64 bits hold. */
int64_t clock_ns(const struct timespec *t);

#ifdef __cplusplus
}
#endif
#endif
