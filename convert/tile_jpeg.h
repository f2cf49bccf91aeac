/*
 * tile_jpeg.h - JPEG tiles, through libjpeg. Used by tile.c only; see tile.h for the rules.
 */
#ifndef WSI_TILE_JPEG_H
#define WSI_TILE_JPEG_H

#include "convert/tile.h"

struct tile_jpeg;

/* Loads the slide's tables, if it has any. NULL when out of memory or the tables are damaged. `f`
 * must outlive it. */
struct tile_jpeg *tile_jpeg_create(const struct tile_format *f, struct err *e);
/* NULL is allowed. */
void tile_jpeg_free(struct tile_jpeg *j);

/* Decodes n bytes at 1/scale (1 or 8) into lines of `pitch` bytes; channels 3 = RGB, or 1 = luma,
 * for YCbCr only. */
int tile_jpeg_decode(struct tile_jpeg *j, const uint8_t *bytes, size_t n, int channels,
                     unsigned scale, uint8_t *out, size_t pitch, struct err *e);

/* "libjpeg-turbo 2.1.5" */
const char *tile_jpeg_library(void);

#endif
