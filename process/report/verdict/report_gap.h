/*
 * report_gap.h - finds slides of a pool that differ from the others in several numbers at once: by
 * their stain, magnification or tissue.
 *
 * The distance of two slides is the root mean square of their differences in nine numbers of stain
 * and detail, each divided by its usual difference within one kind of slides (report_gap.c). A
 * minimum spanning tree connects all slides. An edge far longer than the usual distance from a slide
 * to its nearest neighbour is a gap. A few slides beyond a gap are alone; more are a second kind.
 *
 * So slides that merely vary widely have no gap, and two clusters have one even if no single number
 * separates them. Results do not depend on the order of slides. Pools of fewer than GAP_LEAST or
 * more than GAP_MOST slides are not searched: time grows with the square of their number.
 */
#ifndef WSI_REPORT_GAP_H
#define WSI_REPORT_GAP_H

#include "process/report/verdict/report_scores.h"

enum { GAP_LEAST = 12, GAP_MOST = 10000 };

struct report_gap {
    double ratio;   /* of the gap to the usual distance; 0: the pool is one kind */
    int64_t others; /* slides beyond the gap: the smaller part */
    bool stain;     /* the parts also differ in stain */
    /* In words: the numbers of stain and of detail that differ most; NULL: none. */
    const char *number, *second;
};

/* Searches slides slide[n] of a pool. Sets other[k] to 1 for slides beyond the gap. Sets lone[k] for
 * slides that are alone in both stain and detail: how many times the usual distance they are away.
 * Both arrays have one element per slide of the report; the caller zeroes them. Slides that lack one
 * of the numbers are skipped. */
struct report_gap report_find_gap(const struct report_slides *s, const struct report_scores *scores,
                                  const int64_t *slide, int64_t n, uint8_t *other, double *lone);

#endif
