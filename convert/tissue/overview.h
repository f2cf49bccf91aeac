/*
 * overview.h - a tissue map from as few pixels of a slide as possible.
 */
#ifndef WSI_OVERVIEW_H
#define WSI_OVERVIEW_H

#include "common/base/err.h"
#include "convert/readers/slide.h"
#include "convert/tissue/tissue.h"

#include <stdbool.h>

/*
 * Fills t (tissue_create()d for the open level of s) from the coarsest level that still has a pixel
 * for every cell. If there is none and `must` is set, it takes the open level itself, decoded at
 * 1/8 where the reader can. Uses `threads` threads; nothing else may read s meanwhile. 1: done; 0:
 * there is no coarse level, and t is unchanged; -1.
 *
 * Cells over damaged tiles count as tissue, and so do cells over tiles that are empty in the coarse
 * level only. *problem says which tiles of a coarser level are damaged, "" for none. Damaged tiles
 * of the open level are not reported: whoever converts it meets them.
 */
int overview_tissue(const struct slide_file *file, struct slide *s, const struct slide_info *info,
                    int threads, bool must, struct tissue *t, struct err *problem, struct err *e);

#endif
