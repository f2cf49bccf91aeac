/*
 * tiff_rows.h - one segment of a TIFF picture, a strip or a tile of any size, as rows of samples.
 */
#ifndef WSI_TIFF_ROWS_H
#define WSI_TIFF_ROWS_H

#include "common/base/err.h"
#include "convert/readers/frame/tile_file.h"
#include "convert/readers/picture/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIFF_MOST_SAMPLES = 16 };

struct tiff_picture {
    const struct slide_file *file;
    int64_t width, height; /* px */
    int64_t cols, rows;    /* of a segment, px */
    int64_t across, down;  /* segments */
    bool in_strips;        /* the last strip ends with the picture */
    int compression, photometric, predictor, fill_order;
    int samples;               /* of a pixel */
    int planes;                /* 1, or one per sample */
    int channels;              /* of the decoded rows: 3 = RGB or 1 = gray */
    int alpha_at;              /* which of the samples is alpha, from 0; 0: none */
    int n_left_out;            /* samples beside the colours and alpha */
    bool is_multiplied;        /* the others are multiplied by it */
    uint8_t palette[256][3];   /* R, G, B */
    struct tile_place *places; /* [planes][down][across] */
    uint8_t *tables;           /* JPEGTables, NULL without */
    size_t tables_bytes;
    _Atomic int
        *conflict; /* of the streams that were opened: enum tile_conflict, the last of several */
};

/* Can libtiff decode this compression here? */
bool tiff_rows_know(int compression);
/* Begins with a segment of a plane, as samples: [cols][samples] u8, or of a plane [cols]; for JPEG
 * [cols][3 or 1]. 0, ROWS_DAMAGED or -1. */
int tiff_rows_open(struct rows **r, const struct tiff_picture *p, const struct tile_place *place,
                   int64_t rows, struct err *e);

#endif
