/*
 * map_blend.h - cells from windows that overlap: integer sums, so that no order changes a bit.
 *
 * Cells of C px begin at the slide's origin; C divides the window N and the stride S. K = N/C. Cell
 * m = 0 .. K-1 of a window, along either axis, has the weight
 *
 *     box    1
 *     tent   min(2m + 1, 2K - 2m - 1)
 *     cos    round(4096 sin^2(pi (m + 1/2) / K))
 *     gauss  max(4, round(4096 exp(-((m - (K-1)/2) / (K/8))^2 / 2)))
 *
 * and in 2-D the product w of both. With Q = round(1000 q) of a window's value q (half away from
 * zero), A = sum of w Q and B = sum of w over the windows with a value that cover a cell, F = sum
 * of w over all windows that fit, in int64: the cell's value is A / (1000 B), none if B = 0, and
 * its coverage B / F. |q| is at most MAP_BLEND_MOST, so that no sum overflows.
 *
 * Memory: the rows of windows that one row of cells needs, ceil(N/S) of them.
 */
#ifndef WSI_MAP_BLEND_H
#define WSI_MAP_BLEND_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAP_BLEND_MOST = 2000 };

enum map_weights { MAP_RAW, MAP_BOX, MAP_TENT, MAP_COS, MAP_GAUSS, MAP_WEIGHTS };
/* "none", "box" ... */
const char *map_weights_name(enum map_weights w);
/* The kind of this name; -1 if there is none. */
int map_weights_find(const char *name);

struct map_blend_setup {
    enum map_weights weights;     /* not MAP_RAW */
    int64_t window, stride, cell; /* px */
    int64_t nx, ny;               /* windows */
    int64_t cols;                 /* cells */
};

struct map_blend;
/* NULL when out of memory. */
struct map_blend *map_blend_create(const struct map_blend_setup *setup, struct err *e);
void map_blend_free(struct map_blend *b); /* NULL is fine */

/* The row of windows that comes next is needed before row `row` of cells can be made. Rows of cells
 * are made in order. */
bool map_blend_wants(const struct map_blend *b, int64_t row);
/* Adds the next row of windows: values[nx], NaN where there is none. */
void map_blend_add(struct map_blend *b, const float *values);
/* Makes a row of cells: values[cols], NaN where there is none, and coverage[cols] (may be NULL). */
void map_blend_row(const struct map_blend *b, int64_t row, float *values, float *coverage);

#endif
