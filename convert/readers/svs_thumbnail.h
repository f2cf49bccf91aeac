/*
 * svs_thumbnail.h - the thumbnail of an Aperio SVS file as its own JPEG strips.
 *
 * The thumbnail is a picture in strips of whole rows, each a JPEG stream without its tables, as
 * tiles are. A store of codec jpeg keeps them as they are.
 */
#ifndef WSI_SVS_THUMBNAIL_H
#define WSI_SVS_THUMBNAIL_H

#include "common/base/err.h"
#include "common/codec/jpeg_stream.h"
#include "convert/readers/tile_file.h"

#include <stdint.h>

/* Where the strips lie. Starts as {0}. */
struct svs_strips {
    struct tile_format format; /* of a strip; format.tables points to `tables` */
    int64_t height;            /* of the thumbnail, px */
    int64_t n;                 /* strips; 0: they are no JPEG streams */
    struct tile_place *places; /* [n] */
    uint8_t *tables;           /* JPEGTables, NULL without */
};

void svs_strips_free(struct svs_strips *s);
/* Reads the strips. 1; 0: they cannot be kept, as they are damaged or of a kind that a chunk cannot
 * hold; -1: they cannot be read now. */
int svs_thumbnail_keep(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e);

#endif
