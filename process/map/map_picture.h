/*
 * map_picture.h - a map as a PNG picture, drawn from top to bottom in little memory.
 *
 * map_picture_draw: one pixel per place, from the picture's upper left corner on: pixel (i, j) is
 * window (i, j), or cell (i, j) of a blended map. A place of a small map is z x z pixels, with the
 * largest z that fits 348 x 320. To the right of the map is the colour bar with its numbers; below
 * it are the slide's name, the feature, and how many windows have which values. Places without a
 * value are hatched.
 *
 * map_picture_overlay: a picture with the slide's aspect, to be laid over the slide. Pixel (x, y)
 * of w x h shows the place that covers the slide's point ((x + 1/2) W/w, (y + 1/2) H/h), so no
 * rounding accumulates. Where the map has no place or no value it is transparent, the latter with
 * the hatching's strokes.
 */
#ifndef WSI_MAP_PICTURE_H
#define WSI_MAP_PICTURE_H

#include "process/map/map_source.h"

#include <stdio.h>

struct map_picture_setup {
    int map;          /* a feature (map_source.h) */
    double low, high; /* ends of the colours */
    int64_t width;    /* of an overlay, px; at most (map_overlay_size) */
    int opacity;      /* of an overlay, 0 to 255 */
};

int map_picture_draw(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                     struct err *e);
int map_picture_overlay(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                        struct err *e);
/* The size of an overlay: of the widths from 7/8 of `most` to `most` that with which the aspect is
 * the slide's best, the largest of several; but not larger than the slide. */
void map_overlay_size(int64_t slide_width, int64_t slide_height, int64_t most, int64_t *width,
                      int64_t *height);

#endif
