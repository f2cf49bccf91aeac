/*
 * report_scores.h - pools, robust z, distances between histograms, verdicts.
 */
#ifndef WSI_REPORT_SCORES_H
#define WSI_REPORT_SCORES_H

#include "common/base/stats.h"
#include "process/report/report_limits.h"

enum report_verdict { REPORT_NO_VERDICT, REPORT_PASS, REPORT_WARN, REPORT_FAIL };

struct report_score {
    int32_t pool;
    enum report_verdict verdict;
    double z[REPORT_METRICS];
    double w1; /* dB to the pool's median; NAN without windows */
};

/* A group's slides of one resolution. */
struct report_pool {
    int32_t group;
    char resolution[32]; /* "0.25 um/px" */
    int64_t n, counted;  /* slides; those with windows */
    struct stats_summary summary[REPORT_METRICS];
    double profile[3][REPORT_OCTAVES]; /* quartiles of the octaves */
    float *median;                     /* [bins]: the median CDF; owned; NULL if counted is 0 */
};

/* Starts as {0}. */
struct report_scores {
    int32_t n_pools;
    struct report_pool *pool;   /* [n_pools], owned */
    struct report_score *of;    /* [slides], owned */
    double eta[REPORT_METRICS]; /* share of the variation between pools */
    int64_t scored, flags;      /* values that have a z; those with |z| > STATS_FLAG */
};

int report_score(const struct report_slides *s, const struct report_groups *g,
                 const struct report_limits *l, struct report_scores *out, struct err *e);
void report_scores_free(struct report_scores *s);
/* Value of a metric of slide k; REPORT_METRICS is w1. */
double report_value(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                    int metric);

#endif
