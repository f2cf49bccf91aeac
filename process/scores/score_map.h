/*
 * score_map.h - a map out of scores of patches: cells of C px from the slide's origin.
 *
 * A patch of n px at (x, y) covers cells wholly or in part. Its weight in a cell is the product of
 * the weights of the part of it that lies there (weights_before), along both axes. With Q =
 * round(2^32 q) of a patch's value q, A = sum of w Q and B = sum of w over the patches that have a
 * value, in 128 bits: the cell's value is A / (2^32 B), none if B = 0. Its coverage is the part of
 * its px on the slide that patches with a value cover, however many of them. Sums of whole numbers
 * are the same in any order, so the order of the rows changes no bit.
 *
 * Memory is bounded whatever the size of slide, file and cells: the cells are made in bands of
 * whole rows from top to bottom, each of which reads the file again, and go to a temporary file.
 * What is covered is a bit per unit of px that no edge of a patch divides: where patches lie on a
 * grid this is little, else a bit per px, which may need more bands.
 */
#ifndef WSI_SCORE_MAP_H
#define WSI_SCORE_MAP_H

#include "process/scores/score_file.h"

#include <stdint.h>

/*
 * How much each part of a window or a patch counts where several overlap.
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

enum weights { WEIGHTS_NONE, WEIGHTS_BOX, WEIGHTS_TENT, WEIGHTS_COS, WEIGHTS_GAUSS, WEIGHTS_KINDS };

/* "none", "box" ... */
const char *weights_name(enum weights w);

/* Of cell m of k. */
int64_t weights_of_cell(enum weights w, int64_t m, int64_t k);

struct score_map_setup {
    const char *path;
    struct score_options file;
    enum weights weights;  /* not WEIGHTS_NONE */
    int64_t width, height; /* of the slide, px of level 0; 0: up to the farthest patch */
    int64_t cell;          /* px; 0: 32 times the power of 2 that makes SCORES_SIDE cells at most */
    int64_t side;          /* cells along the longer side that this power makes at most */
    int64_t memory;        /* bytes of a band of cells */
    bool lenient; /* rows that cannot be used are left out and counted; else they are an error */
};
enum { SCORES_SIDE = 1024, SCORES_MOST_CELLS = 1 << 28, SCORES_MOST_SIDE = 1 << 16 };

struct score_map {
    int n; /* values */
    char name[SCORES_MOST][SCORES_NAME];
    double low[SCORES_MOST], high[SCORES_MOST]; /* least and largest value; NaN: there is none */
    int64_t width, height, cell, cols, rows;
    int64_t patches, bad;      /* used; left out */
    int64_t smallest, largest; /* px of a patch */
    char missing[160];         /* why the map is partial; "": it is not */
    struct score_cells *cells; /* owned */
};

/* Free with score_map_free(), also after a failure. A map without cells has cols = rows = 0. */
int score_map_make(const struct score_map_setup *o, struct score_map *m, struct err *e);
void score_map_free(struct score_map *m);
/* Row `row` of value `value`: values[cols], NaN where there is none, and coverage[cols] (may be
 * NULL). */
int score_map_row(const struct score_map *m, int value, int64_t row, float *values, float *coverage,
                  struct err *e);
/* The ends of the colours: 0 and 1 for values between them, else the least and largest value. */
void score_map_range(const struct score_map *m, int value, double *low, double *high);

#endif
