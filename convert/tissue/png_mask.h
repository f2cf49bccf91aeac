/*
 * png_mask.h - a PNG picture of a whole slide as a map of its cells.
 *
 * A pixel of the picture is set unless it is black or wholly transparent; so masks of 0 and 255, of
 * 0 and 1, and coloured ones all work. The picture covers the whole slide, in any size of the same
 * shape. A cell is set if at least half of the picture's pixels whose centres lie in it are; in a
 * coarse picture, where none does, if the pixel over the cell's centre is.
 *
 * The picture is read row by row, so its size does not matter. Interlaced pictures are rejected.
 */
#ifndef WSI_PNG_MASK_H
#define WSI_PNG_MASK_H

#include "common/base/err.h"

#include <stdint.h>

/* Reads the mask of a slide of width x height px into cells [rows][cols] of `cell` px, 1 = set.
 * Messages do not name the file. */
int png_mask_read(const char *path, int64_t width, int64_t height, int64_t cell, uint8_t *cells,
                  struct err *e);

#endif
