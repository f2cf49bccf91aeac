/*
 * tissue_mask.h - a tissue map from outside: a PNG or GeoJSON file, or a folder with one per slide.
 *
 *   NAME.png      a picture of the whole slide in any size (png_mask.h)
 *   NAME.geojson  polygons in level-0 pixels (geojson.h), also NAME.json: a cell is tissue
 *                 if at least half of its pixels lie inside
 *
 * In a folder, NAME is the slide's file name, with or without its ending.
 */
#ifndef WSI_TISSUE_MASK_H
#define WSI_TISSUE_MASK_H

#include "common/base/err.h"
#include "common/store/store.h"

#include <stdint.h>

/* Reads the mask of the slide at `slide`, of which the store *i is to be made, and sets
 * i->tissue_rule. NULL on failure; the message names slide and mask. Returns u8 [rows][cols] of
 * cells, ceil(height / STORE_CELL) x ceil(width / STORE_CELL), 1 = tissue, to be free()d. */
uint8_t *tissue_mask_read(const char *from, const char *slide, struct store_info *i, struct err *e);

#endif
