/*
 * report_gap.h - slides of a pool that are unlike the others in several numbers together: of
 * another stain, magnification or tissue.
 *
 * Two slides are as far apart as the root mean square of their differences in nine numbers of stain
 * and detail, each over what differs within one kind of slides (report_gap.c). Each slide is joined
 * to the others by the shortest lines that join all (a minimum spanning tree). A line that is far
 * longer than the usual distance from a slide to the nearest other one is a gap. Few slides beyond
 * a gap are alone; more of them are a second kind.
 *
 * So slides that only spread widely have no gap, and two heaps have one though no single number
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
    bool stain;     /* the parts differ in their stain, too */
    /* In words: the numbers of stain and of detail that differ most; NULL: none. */
    const char *number, *second;
};

/* Searches slides slide[n] of a pool. other[k] becomes 1 for slides beyond the gap, lone[k] how
 * many times as far as usual a slide is that is alone with its stain and its detail; both have one
 * element per slide of the report, and are 0 before. Slides without one of the numbers are left
 * out. */
struct report_gap report_find_gap(const struct report_slides *s, const struct report_scores *scores,
                                  const int64_t *slide, int64_t n, uint8_t *other, double *lone);

#endif
