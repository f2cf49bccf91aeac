/*
 * report_scores.h - pools, robust z, blurred shares, distances between histograms.
 *
 * A tissue window is blurred if its focus_db is below the median of all tissue windows of its pool,
 * less 3.5 robust standard deviations (MAD / 0.6745), rounded down to a bin of report_numbers.h.
 *
 * With accepted slides in a pool, medians, MADs and what is blurred come from these alone, and what
 * is usual includes everything that an accepted slide has.
 */
#ifndef WSI_REPORT_SCORES_H
#define WSI_REPORT_SCORES_H

#include "common/base/stats.h"
#include "process/report/verdict/report_groups.h"

struct report_score {
    int32_t pool;
    bool accepted;            /* it is in the list of --accepted */
    double z[REPORT_METRICS]; /* NAN: none */
    double blurred;           /* part of its tissue windows; NAN: not known */
    uint64_t blurred_windows; /* how many these are: a single one is no flag */
    double w1;                /* dB to the pool's median; NAN without windows */
};

/* A group's slides of one resolution. */
struct report_pool {
    int32_t group;
    char resolution[80]; /* "0.25 um/px" */
    bool unknown;        /* nobody states the um per px of its slides */
    int64_t n, counted;  /* slides; those with windows */
    int64_t accepted;    /* slides in the list of --accepted; the summaries are of these, if any */
    struct stats_summary summary[REPORT_METRICS];
    /* The usual range: z from -usual[m][0] to usual[m][1], and values from least[m] to most[m]. */
    double usual[REPORT_METRICS][2], least[REPORT_METRICS], most[REPORT_METRICS];
    double blurred_below; /* dB of focus_db; NAN: not known */
    float *median; /* [bins]: the median CDF; owned; NULL: no slide that counts has windows */
};

/* Starts as {0}. */
struct report_scores {
    int32_t n_pools;
    struct report_pool *pool; /* [n_pools], owned */
    struct report_score *of;  /* [slides], owned */
};

/* accepted: a file of names, or NULL. */
int report_score(const struct report_slides *s, const struct report_groups *g, const char *accepted,
                 struct report_scores *out, struct err *e);
void report_scores_free(struct report_scores *s);
/* Number m, 0 .. REPORT_NUMBERS - 1, of slide k. */
double report_value(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                    int m);
/* focus_db below which a window of tissue is blurred, beside the slides of a pool; NAN: not known,
 * as there are too few slides. */
double report_blur_limit(const struct report_scores *scores, int32_t pool);
/* How far number m of slide k is beyond what is usual: above 1 it is a flag. 0: it is not known. */
double report_excess(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                     int m);

#endif
