/* clock.c - see clock.h. */
#include "common/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t clock_ns(const struct timespec *t)
{
    int64_t ns;
    return __builtin_mul_overflow((int64_t)t->tv_sec, INT64_C(1000000000), &ns) ||
                   __builtin_add_overflow(ns, (int64_t)t->tv_nsec, &ns)
               ? t->tv_sec < 0 ? INT64_MIN : INT64_MAX
               : ns;
}

const char *clock_text(char buf[32], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9))
        seconds = 0;
    long s = lround(seconds);
    if (seconds < 99.95)
        snprintf(buf, 32, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        snprintf(buf, 32, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(buf, 32, "%ld h %02ld min", s / 3600, s % 3600 / 60);
    return buf;
}
