/*
 * weights.h - how much each part of a window or a patch counts where several overlap.
 *
 * Weights are whole numbers, so that sums of them are the same in any order. In 2-D they are the
 * product of both axes. Two definitions of the same curves:
 *
 * - Cell m = 0 .. K-1 of a window of K cells, along either axis, has the weight
 *
 *     box    1
 *     tent   min(2m + 1, 2K - 2m - 1)
 *     cos    round(4096 sin^2(pi (m + 1/2) / K))
 *     gauss  max(4, round(4096 exp(-((m - (K-1)/2) / (K/8))^2 / 2)))
 *
 * - Of a patch whose edges lie anywhere between those of cells, the first p of n px have the sum of
 *   the weights of their px (box, tent), or the rounded integral of the curve (cos, gauss).
 */
#ifndef WSI_WEIGHTS_H
#define WSI_WEIGHTS_H

#include <stdint.h>

enum weights { WEIGHTS_NONE, WEIGHTS_BOX, WEIGHTS_TENT, WEIGHTS_COS, WEIGHTS_GAUSS, WEIGHTS_KINDS };

/* "none", "box" ... */
const char *weights_name(enum weights w);

/* Of cell m of k. */
int64_t weights_of_cell(enum weights w, int64_t m, int64_t k);
/* Of the first p of n px, 0 <= p <= n. At most 2^11 n, of tents n^2 / 2. */
int64_t weights_before(enum weights w, int64_t p, int64_t n);

#endif
