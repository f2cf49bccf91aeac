/*
 * map_tiff.h - maps as OME-TIFF: float32, one channel per feature, tiles, a pyramid.
 *
 * The first directory is channel 0 and so on; the lower resolutions of each are its SubIFDs, each
 * half as large as the one before, until it fits one tile: a pixel is the mean of the places below
 * it that have a value. NaN is "no value". PhysicalSize is the distance of two places,
 * PositionX and Y the corner of the map on the slide, in um if the slide's resolution is known,
 * else in px. Deflate has no predictor, because several readers know none for floats. Without
 * libtiff, map_tiff_none.c takes the place of map_tiff.c.
 */
#ifndef WSI_MAP_TIFF_H
#define WSI_MAP_TIFF_H

#include "process/map/map_source.h"

#include <stdbool.h>

/* Is OME-TIFF part of this build? */
bool map_tiff_available(void);
/* Writes the features maps[n] into the empty file `fd`, which stays open. */
int map_write_tiff(const struct map_slide *m, const int *maps, int n, int fd, struct err *e);
/* Is `path` a TIFF file that this program wrote? */
bool map_tiff_is_ours(const char *path);

#endif
