/*
 * tiff_level.h - one level of a slide in a tiled TIFF file: what its directory says, and where in
 * the file each tile lies. tiff_pyramid.h says which directories are levels.
 */
#ifndef WSI_TIFF_LEVEL_H
#define WSI_TIFF_LEVEL_H

#include "common/base/err.h"
#include "common/codec/jpeg_stream.h"
#include "convert/readers/frame/tile_file.h"
#include "convert/readers/tiff/tiff_pyramid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- an Aperio slide's ImageDescription: "Aperio ...|key = value|key = value" --- */

/* The size of level 0 in "Aperio ...\n46920x33014 [0,100 46000x32914] ...", from the brackets.
 * False: it is not there. */
bool svs_description_size(const char *description, int64_t *width, int64_t *height);

/* The value of a key as a positive number, with a decimal point or comma. NaN without one. */
double svs_description_number(const char *description, const char *key);

/* Calls put for the description itself and for each of its keys, named as OpenSlide names them,
 * until it returns non-zero, and returns that. */
int svs_description_properties(const char *description,
                               int (*put)(void *ctx, const char *key, const char *value),
                               void *ctx);

/*
 * --- thumbnail ---
 *
 * The thumbnail of an Aperio SVS file as its own JPEG strips.
 *
 * The thumbnail is a picture in strips of whole rows, each a JPEG stream without its tables, as
 * tiles are. A store of codec jpeg keeps them as they are.
 */

/* Where the strips lie. Starts as {0}. */
struct svs_strips {
    struct tile_format format; /* of a strip; format.tables points to `tables` */
    int64_t height;            /* of the thumbnail, px */
    int64_t n;                 /* strips; 0: they are no JPEG streams */
    struct tile_place *places; /* [n] */
    uint8_t *tables;           /* JPEGTables, or the palette; NULL without */
};

/* Reads the strips. 1; 0: they cannot be kept, as they are damaged or of a kind that a chunk cannot
 * hold; -1: they cannot be read now. */
int svs_thumbnail_keep(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e);

struct tiff_level {
    const struct slide_file *file;
    const struct tiff_pyramid *pyramid; /* of the slide; owned by the file */
    int64_t width, height;              /* px */
    struct tile_format format;          /* of its tiles; format.tables points to `tables` */
    int64_t cols, rows;                 /* tiles */
    bool is_picture;                    /* its tiles are for tiff_picture.h, and `places` is NULL */
    bool in_strips;                     /* it has none, and is a picture */
    int orientation;                    /* by its tag, which changes no order */
    bool in_planes;            /* R, G and B of a tile lie apart; `format` is that of one of them */
    struct tile_place *places; /* [rows][cols], in_planes [3][rows][cols] */
    uint8_t *tables;           /* JPEGTables, or the palette; NULL without */
    uint8_t *icc;              /* the slide's ICC profile, NULL without */
    size_t icc_bytes;
    bool lost_icc;               /* the file states a profile that cannot be read */
    bool has_thumbnail;          /* the file's second picture is the thumbnail, not the label */
    struct svs_strips thumbnail; /* its strips, if they are JPEG streams */
    bool is_jfif;                /* OME: its tiles are JFIF, so YCbCr, though its tag states RGB */
};

/* Reads a level of an Aperio file, or with `aperio` false of any other. 1: *l is filled;
 * tiff_level_free it. 0: another file, or tiles of a kind that is not read here; e may say which.
 * -1: the file is damaged, holds more than one picture, or does not have the level; or its tiles
 * hold channels. */
int tiff_level_read(struct tiff_level *l, const struct slide_file *file, int64_t level, bool aperio,
                    struct err *e);
/* The thumbnail of a slide whose level has_thumbnail: *rgb is [*height][*width][3] u8, to be
 * free()d. False when it cannot be read. */
bool tiff_level_thumbnail(const struct slide_file *file, uint8_t **rgb, int64_t *width,
                          int64_t *height);
/* Frees what is in *l; a zeroed one is allowed. */
void tiff_level_free(struct tiff_level *l);

#endif
