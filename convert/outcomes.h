/*
 * outcomes.h - what a run of wsi2h5 says about its slides: messages on stderr, one JSON line per
 * slide on stdout, the counts at the end.
 */
#ifndef WSI_OUTCOMES_H
#define WSI_OUTCOMES_H

#include "common/base/failed_list.h"
#include "convert/arguments.h"
#include "convert/convert.h"
#include "convert/crash.h"

#include <stddef.h>
#include <stdint.h>

/* One slide in messages and JSON. */
struct outcome {
    const char *path;   /* or its anonymous name */
    const char *target; /* NULL when it is not known */
    size_t below;       /* path + below is its path below the folder that was given */
};

struct outcomes {
    const struct arguments *o;
    double begun;
    const struct codec *kept; /* of the last slide whose tiles were kept; NULL: there is none */
    int64_t converted, skipped, damaged, failed, stopped, not_begun; /* slides */
    int64_t trouble;                          /* of those failed: err_is_trouble */
    double source_bytes, store_bytes, pixels; /* of converted slides */
    struct failed_list *failures;             /* NULL: the output is a file */
};

/* `s`: what a run that crashed has done; see crash.h. -1: out of memory. */
int outcomes_begin(struct outcomes *r, const struct arguments *o, const struct crash_state *s,
                   struct err *e);
/* A slide that is converted or skipped; p describes its store. */
void outcomes_slide(struct outcomes *r, const struct outcome *i, const struct convert_report *p);
/* A slide without a store. The message names it. */
void outcomes_failure(struct outcomes *r, const struct outcome *i, const struct err *why);
/* A signal: `left` slides are not done, the first of which was begun or not. */
void outcomes_stop(struct outcomes *r, bool begun, size_t left);
/* Writes the list of slides that failed into the output folder, unless a signal stopped the run. */
int outcomes_list_failures(struct outcomes *r, struct err *e);
/* The last line: counts, rate, time, memory. */
void outcomes_end(const struct outcomes *r);
void outcomes_free(struct outcomes *r);
/* The exit status of a run that was not stopped. */
int outcomes_status(const struct outcomes *r);

#endif
