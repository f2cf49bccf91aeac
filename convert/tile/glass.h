/*
 * glass.h - what the glass of a slide shows: noise, lines, uneven light.
 *
 * A cell has 4 x 4 blocks of 8 x 8 px. It is glass if its mean gray and that of its neighbours in
 * the tile, also across a corner, are at least that from which on the tissue map calls a cell
 * glass. Cells of flat white, 255, were not scanned, and take no part unless too few are left.
 *
 * The variance of a cell has four parts: that between the means of its blocks, and within these
 * what only depends on the row, what only depends on the column, and the rest.
 *
 *   glass_gray     median over the cells of their mean gray
 *   glass_range    from the 5th to the 95th percentile of the same
 *   glass_std      median of their standard deviations
 *   glass_rows, glass_columns, glass_grain: parts of the cells in which the second, the third and
 *                  the fourth part of the variance is the largest
 *
 * The blocks come from the coefficients of a JPEG tile, or from pixels. Sums are whole numbers, so
 * that the order of the tiles does not matter. It needs 32 cells.
 *
 * One thread at a time.
 */
#ifndef WSI_TILE_GLASS_H
#define WSI_TILE_GLASS_H

#include "common/base/err.h"
#include "common/base/glass_numbers.h"
#include "common/codec/jpeg_decoder.h"

#include <stdint.h>

struct glass_cell {
    double gray, std;
    uint8_t least, kind; /* gray of the darkest neighbour, rounded down; part of the variance */
};

/* The cells of some tiles that are bright enough to be glass. Starts as {0}. */
struct glass {
    int64_t n, room;
    struct glass_cell *cell;   /* [n], owned */
    struct jpeg_blocks blocks; /* of one tile; owned */
};

/* Adds the cells of a tile whose blocks are in g->blocks; cols x rows px of it count. */
int glass_add(struct glass *g, int64_t cols, int64_t rows, struct err *e);
/* Fills in g->blocks from cols x rows pixels, [rows][pitch][channels] u8; 3: RGB, 1: gray. */
int glass_take_pixels(struct glass *g, const uint8_t *pixels, int channels, int64_t pitch,
                      int64_t cols, int64_t rows, struct err *e);
/* Adds the cells of another. */
int glass_join(struct glass *g, const struct glass *other, struct err *e);
/* dark: gray of tissue is below. NaN each if there is too little glass. Reorders the cells. */
void glass_find(struct glass *g, double dark, double numbers[GLASS_NUMBERS]);
void glass_free(struct glass *g);

#endif
