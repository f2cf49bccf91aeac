/*
 * map_blend.h - cells from windows that overlap: integer sums, so that no order changes a bit.
 *
 * Cells of C px begin at the slide's origin; C divides the window N and the stride S. K = N/C. Each
 * of the K x K cells of a window has a weight w (weights.h). With Q = round(1000 q) of a window's
 * value q (half away from zero), A = sum of w Q and B = sum of w over the windows with a value that
 * cover a cell, F = sum of w over all windows that fit, in int64: the cell's value is A / (1000 B),
 * none if B = 0, and its coverage B / F. |q| is at most MAP_BLEND_MOST, so that no sum overflows.
 *
 * Memory: the rows of windows that one row of cells needs, ceil(N/S) of them.
 */
#ifndef WSI_MAP_BLEND_H
#define WSI_MAP_BLEND_H

#include "common/base/err.h"
#include "process/scores/weights.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAP_BLEND_MOST = 2000 };

struct map_blend_setup {
    enum weights weights;         /* not WEIGHTS_NONE */
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
