/*
 * report_kinds.h - pools that are of two kinds, as from two scanners.
 *
 * Up to a third of the slides of a pool can come from another scanner without any of them having a
 * large robust z: they are part of what is usual. So numbers that say how a slide was made are
 * split in two, where the means of both sides are farthest apart in common standard deviations. The
 * separation is their distance in standard deviations of the wider side. A skewed number has a wide
 * side, so skew alone separates little. A side has at least RULE_LEAST_KIND slides, and at least
 * an eighth of the pool. Pairs of numbers are split, too, along 18 directions of their plane, after
 * each was divided by its MAD.
 *
 * A kind of which three quarters are flagged for their sharpness is made of blurred slides, and is
 * not reported: to compare them apart would hide them.
 *
 * Where no number separates two kinds, a gap does (report_gap.h).
 *
 * The separation that is needed falls with the number of slides (report_kinds.c). Fewer than 1 %
 * of pools of one kind reach it (tests/FIGURES.md).
 */
#ifndef WSI_REPORT_KINDS_H
#define WSI_REPORT_KINDS_H

#include "process/report/verdict/report_scores.h"

enum { REPORT_LEAST_OF_TWO = 20 };

/* Of two kinds of one size none is the smaller, whatever the slides are called. */
enum report_kind { KIND_USUAL, KIND_SMALLER, KIND_HALF, KIND_OTHER_HALF, REPORT_KINDS };

struct report_cluster {
    const char *number,
        *second; /* in which numbers they differ, in words; NULL: one kind; one number */
    int metric;  /* the number, if it is one of the page's and how a slide was made; -1 */
    double separation;
    int64_t n, others; /* slides with the numbers; those of the smaller kind, or half */
};

/* Starts as {0}. */
struct report_clusters {
    struct report_cluster *of; /* [n_pools], owned */
    uint8_t *other;            /* [slides], enum report_kind; owned */
    double *lone; /* [slides]: how far from all others (report_gap.h); 0: not alone; owned */
};

void report_find_clusters(const struct report_slides *s, const struct report_scores *scores,
                          struct report_clusters *out);
/* Does number `metric` alone separate the kinds of a pool? Then it sets no flags there. */
bool report_separates_kinds(const struct report_clusters *c, int32_t pool, int metric);
void report_clusters_free(struct report_clusters *c);

#endif
