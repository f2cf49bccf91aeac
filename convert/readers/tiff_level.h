/*
 * tiff_level.h - one level of an Aperio SVS file: what its TIFF directory says, and where in the
 * file each tile lies.
 */
#ifndef WSI_TIFF_LEVEL_H
#define WSI_TIFF_LEVEL_H

#include "common/base/err.h"
#include "convert/readers/svs_thumbnail.h"
#include "convert/readers/tile_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIFF_LEVELS = 32 };

struct tiff_level {
    int64_t width, height;     /* px */
    double downsample;         /* against level 0 */
    struct tile_format format; /* of its tiles; format.tables points to `tables` */
    int64_t cols, rows;        /* tiles */
    struct tile_place *places; /* [rows][cols] */
    uint8_t *tables;           /* JPEGTables, NULL without */
    char *description;         /* of the slide */
    uint8_t *icc;              /* the slide's ICC profile, NULL without */
    size_t icc_bytes;
    bool lost_icc;               /* the file states a profile that cannot be read */
    bool has_thumbnail;          /* the file's second picture is the thumbnail, not the label */
    struct svs_strips thumbnail; /* its strips, if they are JPEG streams */
    int64_t levels;              /* of the slide; entries of downsamples[] */
    double downsamples[TIFF_LEVELS];
};

/* 1: *l is filled; tiff_level_free it. 0: not an Aperio file, or tiles of a kind that tile.h does
 * not decode. -1: an Aperio file that is damaged. */
int tiff_level_read(struct tiff_level *l, const char *path, int64_t level, struct err *e);
/* The thumbnail of a slide whose level has_thumbnail: *rgb is [*height][*width][3] u8, to be
 * free()d. False when it cannot be read. */
bool tiff_level_thumbnail(const char *path, uint8_t **rgb, int64_t *width, int64_t *height);
/* Frees what is in *l; a zeroed one is allowed. */
void tiff_level_free(struct tiff_level *l);

#endif
