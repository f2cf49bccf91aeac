/*
 * outcomes.h - what a run of wsi2h5 says about its slides: messages on stderr, one JSON line per
 * slide on stdout, the counts at the end.
 */
#ifndef WSI_OUTCOMES_H
#define WSI_OUTCOMES_H

#include "convert/arguments.h"
#include "convert/convert.h"
#include "convert/crash.h"

#include <stddef.h>
#include <stdint.h>

/* One slide in messages and JSON. */
struct outcome {
    const char *path;   /* or its anonymous name */
    const char *target; /* NULL when it is not known */
};

struct outcomes {
    const struct arguments *o;
    double begun;
    int64_t converted, skipped, damaged, failed, stopped, not_begun; /* slides */
    double source_bytes, store_bytes, pixels;                        /* of converted slides */
};

/* `s`: what a run that crashed has done; see crash.h. */
void outcomes_begin(struct outcomes *r, const struct arguments *o, const struct crash_state *s);
/* A slide that is converted or skipped; p describes its store. */
void outcomes_slide(struct outcomes *r, const struct outcome *i, const struct convert_report *p);
/* A slide without a store. The message names it. */
void outcomes_failure(struct outcomes *r, const struct outcome *i, const char *message);
/* A signal: `left` slides are not done, the first of which was begun or not. */
void outcomes_stop(struct outcomes *r, bool begun, size_t left);
/* The last line: counts, rate, time, memory. */
void outcomes_end(const struct outcomes *r);
/* The exit status of a run that was not stopped. */
int outcomes_status(const struct outcomes *r);

#endif
