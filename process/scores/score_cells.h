/*
 * score_cells.h - the cells of a map of scores (score_map.h), band by band, and the temporary file
 * that they go to.
 */
#ifndef WSI_SCORE_CELLS_H
#define WSI_SCORE_CELLS_H

#include "process/scores/score_map.h"

struct score_cells;
/* For m's slide, cells and values. A band takes `memory` bytes, or one row of cells. NULL on
 * failure. */
struct score_cells *score_cells_create(const struct score_map *m, enum weights weights,
                                       int64_t memory, struct err *e);
void score_cells_free(struct score_cells *c); /* NULL is fine */
/* Begins the next band; false: all rows are made. */
bool score_cells_begin_band(struct score_cells *c);
/* Adds a patch, of which any part may lie in the band. */
int score_cells_add(struct score_cells *c, const struct score_patch *p, struct err *e);
int score_cells_end_band(struct score_cells *c, struct err *e);
/* As score_map_row(). */
int score_cells_row(const struct score_cells *c, int value, int64_t row, float *values,
                    float *coverage, struct err *e);

#endif
