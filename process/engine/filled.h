/*
 * filled.h - windows that touch filled tiles: missing or damaged in the slide, or left out.
 *
 * A window touches a tile if the tile holds one of the window's pixels, or one of the pixels around
 * it that the smoothing reads. So no window that touches none depends on a filled pixel.
 */
#ifndef WSI_FILLED_H
#define WSI_FILLED_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "common/store/store.h"

#include <stdint.h>

/* Some window rows of a store, and the chunks that they need. */
struct filled {
    const struct result_params *params;
    const struct store_info *info;
    const struct store_chunk *list; /* [rows][columns] of the store, from `first_row` on */
    int64_t first_row, rows;        /* of chunks */
    int64_t nx, ny;                 /* windows of the slide */
    int64_t first_wy, end_wy;
    uint8_t *flags; /* [ny][nx]: gets the bits of enum result_flag for the tiles that it touches */
};

/*
 * Counts in *counts the windows that touch filled tiles, by the tile's status. `wanted` is
 * [ny][nx], 1 for windows that are to be counted; NULL: all, which needs params without
 * skip_damaged. With it, windows that touch damaged tiles are removed from `wanted` and counted as
 * skipped.
 */
void filled_count(const struct filled *f, uint8_t *wanted, struct result_counts *counts);

#endif
