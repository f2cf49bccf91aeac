/*
 * tiff_level.h - one level of a slide in a tiled TIFF file: what its directory says, and where in
 * the file each tile lies.
 *
 * Which directories are levels follows OpenSlide, so that both show the same pyramid:
 *
 *   Aperio    the tiled directories, in the order of the file
 *   Philips   the same, marked as reduced (NewSubfileType, bit 0); the downsamples are the rounded
 *             ratios of the pixel spacings in the XML of the first directory
 *   others    the same, with or without OME-XML, from the widest to the narrowest. A first
 *             directory without such companions can name its levels in tag 330 (SubIFDs), as
 *             OME-TIFF does; OpenSlide does not see those
 *
 * Leica, Ventana and Trestle files are not read here: their tiles overlap or lie in several areas.
 */
#ifndef WSI_TIFF_LEVEL_H
#define WSI_TIFF_LEVEL_H

#include "common/base/err.h"
#include "convert/readers/svs_thumbnail.h"
#include "convert/readers/tiff_xml.h"
#include "convert/readers/tile_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIFF_LEVELS = TIFF_XML_LEVELS };

enum tiff_kind { TIFF_APERIO, TIFF_PHILIPS, TIFF_OME, TIFF_GENERIC };

struct tiff_level {
    enum tiff_kind kind;
    struct tiff_xml xml;       /* of the description */
    int image, others;         /* OME: the slide's number in the XML; pictures that come with it */
    int64_t width, height;     /* px */
    double downsample;         /* against level 0 */
    struct tile_format format; /* of its tiles; format.tables points to `tables` */
    int64_t cols, rows;        /* tiles */
    bool in_planes;            /* R, G and B of a tile lie apart; `format` is that of one of them */
    struct tile_place *places; /* [rows][cols], in_planes [3][rows][cols] */
    uint8_t *tables;           /* JPEGTables, NULL without */
    char *description;         /* of the slide */
    uint8_t *icc;              /* the slide's ICC profile, NULL without */
    size_t icc_bytes;
    bool lost_icc;               /* the file states a profile that cannot be read */
    bool has_thumbnail;          /* the file's second picture is the thumbnail, not the label */
    struct svs_strips thumbnail; /* its strips, if they are JPEG streams */
    double mpp_x, mpp_y;         /* of level 0 by its own XML or tags, NaN without; not Aperio's */
    bool is_jfif;                /* OME: its tiles are JFIF, so YCbCr, though its tag states RGB */
    int64_t levels;              /* of the slide; entries of downsamples[] and at[] */
    int64_t visible;             /* of them, those that OpenSlide sees */
    double downsamples[TIFF_LEVELS];
    uint64_t at[TIFF_LEVELS]; /* offsets of their directories */
};

/* Reads a level of an Aperio file, or with `aperio` false of any other. 1: *l is filled;
 * tiff_level_free it. 0: another file, or tiles of a kind that is not read here; e may say which.
 * -1: the file is damaged, holds more than one picture, or does not have the level. */
int tiff_level_read(struct tiff_level *l, const struct slide_file *file, int64_t level, bool aperio,
                    struct err *e);
/* The thumbnail of a slide whose level has_thumbnail: *rgb is [*height][*width][3] u8, to be
 * free()d. False when it cannot be read. */
bool tiff_level_thumbnail(const struct slide_file *file, uint8_t **rgb, int64_t *width,
                          int64_t *height);
/* Frees what is in *l; a zeroed one is allowed. */
void tiff_level_free(struct tiff_level *l);

#endif
