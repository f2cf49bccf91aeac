/*
 * tiff_mask.h - the chunks of a picture that its mask hides altogether: those were never scanned.
 */
#ifndef CONVERT_READERS_TIFF_TIFF_MASK_H
#define CONVERT_READERS_TIFF_TIFF_MASK_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads the mask of a picture `width` px wide: the directory at an offset, which has its size, in
 * strips or tiles of any size, with 1 bit or 8 bits per pixel, of which 0 hides. *shown becomes an
 * array [row][col] of chunks of tile_cols x tile_rows px, to be free()d: is any pixel of it shown?
 * Damage of the mask hides nothing. 0, with NULL if the mask is of a kind that is not read or `at`
 * is 0; or -1.
 */
int tiff_mask_read(const struct slide_file *file, uint64_t at, int64_t width, int64_t tile_cols,
                   int64_t tile_rows, bool **shown, struct err *e);

#endif
