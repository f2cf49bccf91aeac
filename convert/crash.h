/*
 * crash.h - a slide on which a library crashes does not end the run of the others.
 *
 * OpenSlide and the libraries below it can crash, for instance when no descriptor is left, and so
 * can this program. The
 * handler of such a signal starts the program anew, in the same process, with the same arguments.
 * The new run takes over the state of the old one, gives up the slide whose thread crashed, and
 * goes on.
 *
 * Without effect where a sanitizer or another tool handles crashes, and with a list on standard
 * input, which is gone then.
 */
#ifndef WSI_CRASH_H
#define WSI_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a run hands on to the next one. */
struct crash_state {
    size_t next; /* the first slide that is not done */
    int64_t converted, skipped, damaged, failed;
    int64_t trouble;                          /* of those failed: err_is_trouble */
    double source_bytes, store_bytes, pixels; /* of converted slides */
    double seconds;
};

/* Takes over the state of a run that has crashed; all zero if there is none. Later crashes restart
 * the program with these arguments. */
void crash_begin(char **argv, struct crash_state *s);
/* The state to hand on. */
void crash_note(const struct crash_state *s);
/* A slide failed: the next run is to know it. */
void crash_failure(const char *slide, const char *reason);
/* Calls put for each slide that failed in runs that have crashed. */
void crash_failures(void (*put)(void *ctx, const char *slide, const char *reason), void *ctx);
/* A file in memory that survives the crash, for what must not change: the list of slides. It is
 * empty in a run that follows no crash. -1: there is none. */
int crash_list(void);
/* The calling thread works on this slide from now on; `others`: and the threads that it starts. */
void crash_slide(size_t number, bool others);
/* Has a run crashed on the slide? Then the signal, else 0. */
int crash_signal(size_t number);

#endif
