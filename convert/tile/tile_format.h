/*
 * tile_format.h - what the directory of a TIFF file, or a DICOM file, states of its tiles.
 */
#ifndef CONVERT_TILE_TILE_FORMAT_H
#define CONVERT_TILE_TILE_FORMAT_H

#include "common/codec/jpeg_decoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TILE_NONE = 1, /* TIFF's compression tags */
    TILE_JPEG = 7,
    TILE_J2K_YCBCR = 33003,
    TILE_J2K_RGB = 33005,
    TILE_PHOTOMETRIC_WHITE = 0, /* gray, 0 is white; this, palettes and CMYK in lossless tiles */
    TILE_PHOTOMETRIC_GRAY = 1,
    TILE_PHOTOMETRIC_RGB = 2,
    TILE_PHOTOMETRIC_PALETTE = 3,
    TILE_PHOTOMETRIC_CMYK = 5,
    TILE_PHOTOMETRIC_YCBCR = 6,
};

/* TIFF's compressions. To read one more that libtiff decodes, add a row. */
struct tile_compression {
    uint64_t number;
    const char *name;
    bool through_libtiff; /* which decodes it here (strip.h) */
};
/* NULL if no row has the number. */
const struct tile_compression *tile_compression(uint64_t number);

struct tile_format {
    int compression, photometric;
    int predictor;          /* TIFF's tag, for lossless tiles: 1 none, 2 differences along rows */
    bool stream_decides;    /* DICOM: a stream that states its colours is right */
    bool transformed;       /* DICOM: JPEG 2000 streams should have a transform of their own */
    int64_t cols, rows;     /* px */
    int samples;            /* per pixel of a lossless tile; 0: as many as its colours have */
    int alpha_at;           /* which of them is alpha, from 0; 0: none */
    bool is_multiplied;     /* the colours are multiplied by alpha */
    const uint8_t *palette; /* [256][3], NULL without; must outlive the decoder */
    const uint8_t *tables;  /* JPEGTables, NULL without; must outlive the decoder */
    size_t tables_bytes;
};

/* Is it a JPEG that a chunk of codec jpeg can hold: RGB, YCbCr or gray? */
bool tile_may_be_kept(const struct tile_format *f);
/* Samples of a pixel that are colours. */
int tile_colours(const struct tile_format *f);
/* Samples of a pixel: colours, alpha and others. */
int tile_samples(const struct tile_format *f);
/* Is it gray? */
bool tile_is_gray(const struct tile_format *f);
/* Is it a JPEG 2000 stream, which a chunk of codec j2k can hold? */
bool tile_is_j2k(const struct tile_format *f);

/* What decoding a tile gives, besides 0. */
enum {
    TILE_DAMAGED = JPEG_DAMAGED,
    TILE_NO_MEMORY = JPEG_NO_MEMORY,
    TILE_OTHER = 1,
    TILE_EMPTY = 2
};

#endif
