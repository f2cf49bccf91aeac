/*
 * result_merge.h - adding results up.
 *
 * - Parameters, bins, low_db and high_db must be equal.
 * - Slides of different names stay apart. Equal, non-empty quickhashes are an error, unless
 *   duplicates are allowed.
 * - Slides of one name are parts of one slide: what they copied from the store, roi_crc32 and the
 *   thresholds of samples must be equal. No group may be in two parts; none may be missing unless
 *   the result may be partial.
 * - The caller chooses which slides go together (same_resolution.h).
 * - Counts, histograms, profile_sums, spectra with their windows, and times are added. A map takes
 *   each value from the part that has it.
 * - From 1,000 slides on, or if it must be, the output is a table, if it can be one: each slide in one result, which
 *   lies in the folder of the output or below, and nothing `partial`. Of an existing table, rows
 *   are taken over whose result has the same path, size and time.
 *
 * The same files give the same bytes in any order. Against one run over all stores only times and
 * what they were computed with can differ.
 */
#ifndef WSI_RESULT_MERGE_H
#define WSI_RESULT_MERGE_H

#include "common/result/result.h"

/* A slide that may be merged. */
struct result_merge_slide {
    const char *name, *path; /* path: of the first input with a part of it */
    double um, downsample;   /* per stored pixel, and of the level; NaN if unknown */
    bool left_out;           /* false at first */
};

/* The outcome for a slide of an input. */
struct result_merge_fate {
    const char *path, *name;           /* of the input, and in it */
    bool left_out;                     /* by choose() */
    const char *same_path, *same_name; /* of the slide of which this one is a copy; or NULL */
};

struct result_merge_options {
    bool partial; /* groups may be missing */
    /* Called before the output is written if it exists and has slides that the inputs lack; -1 ends
     * the merge. NULL: they may be lost. */
    int (*loses)(void *ctx, struct err *e);
    /* The output, a table, is among the inputs. It stays one, or the merge fails. */
    bool extends;
    bool table; /* the output is a table, of any number of slides, or the merge fails */
    /* Called if the output has enough slides for a table and cannot be one. NULL: not wanted. */
    void (*copies)(void *ctx, const struct err *why);
    bool allow_duplicates; /* slides of several names may have an equal, non-empty quickhash */
    /* Called for a slide that is left out, because it is the same as an earlier one. NULL: then the
     * merge fails. */
    void (*duplicate)(void *ctx, const struct err *why);
    /* At intervals: how many slides of the inputs are merged. NULL: not wanted. */
    void (*progress)(void *ctx, int64_t done, int64_t slides);
    /* Chooses the slides of the sum before anything is read of them but what they are called and
     * their resolution: sets `left_out` of others. 1: nothing is to be written. NULL: all are
     * in. */
    int (*choose)(void *ctx, struct result_merge_slide *slides, int64_t n, struct err *e);
    /* Called for each slide of each input, by name, once the output has its name. NULL: not
     * wanted. */
    void (*fate)(void *ctx, const struct result_merge_fate *f);
    void *ctx;
    int64_t *kept; /* gets how many rows were taken over; NULL: not wanted */
    int *bad;      /* gets the number of the input that cannot be used, or -1; NULL: not wanted */
};

/* Adds n results up into one. Messages name the files. */
int result_merge(const char *out, char *const *paths, int n, const struct result_merge_options *o,
                 struct err *e);

/* Is there a table at this path whose rows a merge takes over, so that it may be an input, too? */
bool result_merge_extends(const char *path);

#endif
