/*
 * tiff_segment.h - one segment of a TIFF picture, a strip or a tile of any size, row by row.
 */
#ifndef CONVERT_READERS_TIFF_TIFF_SEGMENT_H
#define CONVERT_READERS_TIFF_TIFF_SEGMENT_H

#include "common/base/err.h"
#include "convert/readers/frame/tile_file.h"
#include "convert/readers/picture/picture.h"

#include <stdbool.h>
#include <stdint.h>

struct tiff_picture {
    const struct slide_file *file;
    struct tile_format format; /* as the directory states it: of a segment, in a plane of it */
    int fill_order;
    bool in_strips; /* the last strip ends with the picture */
    int planes;
    int64_t across, down;        /* segments */
    struct tile_place *places;   /* [planes][down][across] */
    uint8_t *palette, *tables;   /* owned, NULL without */
    uint8_t *line;               /* a row of a segment */
    enum tile_conflict conflict; /* of the streams that were opened, the last of several */
};

/* Decodes a segment, whose bytes lie at a place. As decode of struct picture_form. */
int tiff_segment_decode(struct tiff_picture *t, const struct picture_segment *s,
                        const struct tile_place *place, struct picture *p, struct err *e);

#endif
