/*
 * compare.h - the same slides in two results: what changed.
 *
 * Slides are matched by a table of pairs, if one is given. Else by name, and the rest by quickhash,
 * if one slide on each side has it; results of one slide each are compared whatever it is called.
 * The distance between two slides is W1, the Wasserstein-1 distance of their histograms in dB; maps
 * are compared window by window.
 */
#ifndef WSI_COMPARE_H
#define WSI_COMPARE_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdbool.h>
#include <stdint.h>

struct compare_change {
    int64_t windows;   /* that have a value in both */
    int64_t changed;   /* of these */
    double mean, most; /* of |b - a|, dB; NaN without windows */
};

/* One slide; all differences are b - a. */
struct compare_slide {
    char name[256], name_b[256];  /* they differ if the slides were matched by quickhash */
    int64_t windows_a, windows_b; /* that count */
    double mean_db, std_db;       /* differences; NaN if either has no windows */
    double w1_db;                 /* NaN if only one of them has windows; 0 if none has */
    bool same_shape;              /* the maps have the same size; else they are not compared */
    bool identical;               /* counts, histogram and maps are equal bit for bit */
    double mpp_a, mpp_b;          /* of the stored level, um; NaN if unknown */
    bool other_resolution;        /* same_resolution.h: W1 says nothing about the slide */
    struct compare_change maps[RESULT_MAPS]; /* of those in `maps` below */
};

struct compare {
    struct compare_slide *slides; /* [n], worst first; owned */
    int64_t n, n_renamed;         /* slides; of these, matched by quickhash */
    char **only[2]; /* names of slides in the first and in the second result alone; owned */
    int64_t n_only[2];
    bool maps[RESULT_MAPS]; /* are compared: `change` of map_rows.h */
};

/* Compares the results at two paths, which must have equal parameters.
 * pairs: a table with columns a and b, or NULL. The message names the file. Call compare_free()
 * either way. */
int compare_results(const char *a, const char *b, const char *pairs, struct compare *c,
                    struct err *e);
void compare_free(struct compare *c);

#endif
