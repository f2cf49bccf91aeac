/*
 * tissue_mask.h - a tissue map of the user: a PNG or GeoJSON file, or a folder with one per slide.
 *
 *   NAME.png      a picture of the whole slide in any size
 *   NAME.geojson  polygons in level-0 pixels (geojson.h), also NAME.json: a cell is tissue
 *                 if at least half of its pixels lie inside
 *
 * In a folder, NAME is the slide's file name, with or without its ending.
 */
#ifndef WSI_TISSUE_MASK_H
#define WSI_TISSUE_MASK_H

#include "common/base/err.h"
#include "common/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * --- PNG ---
 *
 * A PNG picture of a whole slide as a map of its cells.
 *
 * A pixel of the picture is set unless it is black or wholly transparent; so masks of 0 and 255,
 * of 0 and 1, and coloured ones all work. The picture covers the whole slide, in any size of the
 * same shape. A cell is set if at least half of the picture's pixels whose centres lie in it are;
 * in a coarse picture, where none does, if the pixel over the cell's centre is.
 *
 * The picture is read row by row, so its size does not matter. Interlaced pictures are rejected.
 */

/* Reads the mask of a slide of width x height px into cells [rows][cols] of `cell` px, 1 = set.
 * Messages do not name the file. */
int png_mask_read(const char *path, int64_t width, int64_t height, int64_t cell, uint8_t *cells,
                  struct err *e);

/* Reads the mask of the slide at `slide`, of which the store *i is to be made, and sets
 * i->tissue_rule. *moves: are polygons counted from the slide's bounds? It becomes false if they
 * are not, as there are none. NULL on failure; the message names slide and mask. Returns u8 [rows][cols] of
 * cells, ceil(height / STORE_CELL) x ceil(width / STORE_CELL), 1 = tissue, to be free()d. */
uint8_t *tissue_mask_read(const char *from, const char *slide, struct store_info *i, bool *moves,
                          struct err *e);

#endif
