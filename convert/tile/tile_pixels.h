/*
 * tile_pixels.h - decoded samples to pixels, as libtiff makes them: RGB, gray, also with 0 for
 * white, palettes and CMYK. Alpha shows white below it; other samples are left out. Any thread.
 */
#ifndef CONVERT_TILE_TILE_PIXELS_H
#define CONVERT_TILE_TILE_PIXELS_H

#include "convert/tile/tile_format.h"

/* n pixels of decoded samples, [n][samples] u8, to gray (channels 1) or RGB (3), over white where
 * alpha is. False: all are transparent. */
bool tile_take_pixels(const struct tile_format *f, const uint8_t *samples, size_t n, int channels,
                      uint8_t *out);
/* Are the samples such pixels as they are, with as many channels as samples? */
bool tile_pixels_are_plain(const struct tile_format *f);

#endif
