/*
 * scan_traits.h - measures the glass and earlier compression in a sample of the tiles.
 *
 * --- glass: noise, lines, uneven light ---
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
 *   glass_grid     the part of the cells whose steps are greatest at one place, that of the rows or
 *                  that of the columns, whichever is larger
 *
 * Steps are those from one row of a block to the next, of its mean gray. A cell has one sum of their
 * sizes for each of the 7 places within blocks. It has a place if one sum is at least 21/20 of every
 * other one. The same holds for columns. If more than half of the cells have one place in common,
 * these steps are the borders of the blocks of an earlier JPEG that had another grid: a region that
 * was cut out, or tiles that were cut anew. These cells show no lines in that direction: their
 * second, or third, part counts as 0. Lines that come back every 8 or 12 px have such a place, too,
 * but they go up or down in all blocks side by side: where the size of the sums of such steps over
 * the four blocks of a cell is above 3/4 of the sum of their sizes in more than 3/4 of the cells of
 * a place, it is no place of a grid.
 *
 * The blocks come from the coefficients of a JPEG tile, or from pixels. Sums are whole numbers, so
 * that the order of the tiles does not matter. It needs 32 cells. Of n sorted values the median is
 * number n / 2, from 0, and the percentiles are numbers n / 20 and n - 1 - n / 20. A neighbour's
 * gray is rounded down. Only whole cells of a tile count.
 *
 * One thread at a time.
 */
#ifndef WSI_SCAN_TRAITS_H
#define WSI_SCAN_TRAITS_H

#include "common/base/err.h"
#include "common/base/glass_numbers.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_stream.h"

#include <stdint.h>

struct glass_cell {
    double gray, std;
    uint8_t least;    /* gray of the darkest neighbour, rounded down */
    uint8_t place[2]; /* of the greatest steps of rows, and of columns, 1 to 7; 0: none */
    bool straight[2]; /* these steps go up or down in all blocks side by side, as lines do; those
                       * between blocks that an encoder rounded do not */
    uint8_t kind[4];  /* the largest part of the variance: of all; of all but rows; but columns; but
                       * both */
};

/* The cells of some tiles that are bright enough to be glass. Starts as {0}. */
struct glass {
    int64_t n, room;
    struct glass_cell *cell;   /* [n], owned */
    struct jpeg_blocks blocks; /* of one tile; owned */
};

/* Adds the cells of a tile whose blocks are in g->blocks, and frees these; cols x rows px of it
 * count. */
int glass_add(struct glass *g, int64_t cols, int64_t rows, struct err *e);
/* Fills in g->blocks from cols x rows pixels, [rows][pitch][channels] u8; 3: RGB, 1: gray. */
int glass_take_pixels(struct glass *g, const uint8_t *pixels, int channels, int64_t pitch,
                      int64_t cols, int64_t rows, struct err *e);
/* Adds the cells of another. */
int glass_join(struct glass *g, const struct glass *other, struct err *e);
/* dark: gray of tissue is below. NaN each if there is too little glass. Reorders the cells. */
void glass_find(struct glass *g, double dark, double numbers[GLASS_NUMBERS]);
void glass_free(struct glass *g);

/*
 * --- how JPEG tiles were compressed ---
 *
 * How a slide's JPEG tiles were compressed: quality, subsampling, and whether they had been
 * compressed before. The tiles are a sample of the tissue: the cells of tissue that tile t touches
 * are c_t, the tiles before it touch b_t, all C, and the sample is the up to 32 tiles of which
 * ceil(32 b_t / C) is less than ceil(32 (b_t + c_t) / C). Without tissue or a map each c_t is 1.
 *
 * quality      The IJG quality (ITU-T T.81, table K.1, scaled as libjpeg does) whose luma table is
 *              nearest to that of the tile, by the sum of absolute differences. Of several tiles
 *              the lowest.
 * subsampling  "4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1" or "gray"; "other" for other factors, or
 *              if the tiles differ.
 * twice        0 to 1. A JPEG that was decoded and compressed again less strongly, on the same grid
 *              of blocks, has gaps at regular distances among its quantised coefficients.
 *              Let n_k be the number of luma blocks, wholly on the slide, in which coefficient z is k or -k, k = 1..64,
 *              and S(f) = sum n_k cos(2 pi f k) / sum n_k for f = 0, 1/256 .. 1/2. S falls for
 *              coefficients that were quantised once, and rises towards f = (second quantiser) /
 *              (first one) for others. The score is the mean over z = 1..9 of the largest rise,
 *              among those z with at least 500 blocks; at most 1. (T. Pevny and J. Fridrich,
 *              Detection of double-compression in JPEG images, IEEE Trans. Inf. Forensics Secur.
 *              3, 247, 2008, describes such histograms.) An earlier compression leaves
 *              no trace if it was finer than the last one or used another grid of blocks.
 *
 * One thread at a time.
 */

/* Signs of earlier compression in tiles. Starts as {0}. */
struct jpeg_history {
    int64_t tiles;
    int quality; /* 1 to 100 */
    char subsampling[8];
    struct jpeg_counts counts;
};

/* Adds a whole tile, of which cols x rows px lie on the slide, and describes its blocks if
 * `blocks` is not NULL. 0, JPEG_NO_MEMORY, or JPEG_DAMAGED: it is left out. */
int jpeg_history_add(struct jpeg_history *p, struct jpeg_decoder *d, const struct jpeg_chunk *tile,
                     int64_t cols, int64_t rows, struct jpeg_blocks *blocks, struct err *e);
/* Adds what another thread has found; the order does not matter. */
void jpeg_history_join(struct jpeg_history *p, const struct jpeg_history *other);
/* 0 to 1; NaN if the tiles show too little. */
double jpeg_history_twice(const struct jpeg_history *p);

#endif
