/*
 * tile.h - one compressed tile of a TIFF file to pixels in the caller's buffer.
 *
 * A decoder belongs to one thread and one level of a slide. The JPEG tables are loaded once; every
 * tile is then decoded by the same libjpeg object straight into the chunk that is stored.
 *
 * JPEG: files often describe themselves wrongly, so these rules apply. The colour space is that of
 * the file's photometric interpretation. A stream can state another one itself
 * (jpeg_header_colours): in DICOM it is right then, as for libjpeg-turbo, Pillow and pydicom, in
 * TIFF it is wrong, as for libtiff and OpenSlide. A stream with subsampled chroma is YCbCr,
 * whatever the two state. Full decodes, decodes at 1/8 and kept tiles ask
 * one function, so they agree. The subsampling and the size are those of the stream, and the size
 * must be the tile's. With libjpeg's defaults the pixels are identical to OpenSlide's
 * (jpeg_decoder.h).
 *
 * JPEG 2000 (compression 33003: YCbCr without a transform in the stream; 33005: RGB, or gray by the
 * photometric interpretation): codestreams, as j2k.h says. In DICOM a stream with a
 * transform of its own is RGB, whatever the file states; without one its components are what the
 * file states.
 *
 * Uncompressed, LZW, deflate, PackBits, LZMA, Zstandard and WebP, through libtiff: RGB, gray, also
 * with 0 for white, palettes and CMYK. Alpha shows white below it; other samples are left out.
 */
#ifndef WSI_TILE_H
#define WSI_TILE_H

#include "common/base/err.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_stream.h"

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

/* TIFF's compressions. To read one more that libtiff decodes, add a row (tile.c). */
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

/* Can a tile of this format be decoded here? */
bool tile_is_known(const struct tile_format *f);
/* Is it a JPEG that a chunk of codec jpeg can hold: RGB, YCbCr or gray? */
bool tile_may_be_kept(const struct tile_format *f);
/* Samples of a pixel that are colours. */
int tile_colours(const struct tile_format *f);
/* Is it gray? */
bool tile_is_gray(const struct tile_format *f);
/* Is it a JPEG 2000 stream, which a chunk of codec j2k can hold? */
bool tile_is_j2k(const struct tile_format *f);

/* n pixels of decoded samples, [n][samples] u8, to gray (channels 1) or RGB (3), over white where
 * alpha is. False: all are transparent. */
bool tile_take_pixels(const struct tile_format *f, const uint8_t *samples, size_t n, int channels,
                      uint8_t *out);

/* Stops libtiff from printing. Our own messages name the damage of a tile. Call it once, at the
 * start of a program. */
void tile_silence_library(void);

struct tile_decoder;
/* NULL when out of memory or the tables are damaged. */
struct tile_decoder *tile_create(const struct tile_format *f, struct err *e);
void tile_free(struct tile_decoder *d);

enum {
    TILE_DAMAGED = JPEG_DAMAGED,
    TILE_NO_MEMORY = JPEG_NO_MEMORY,
    TILE_OTHER = 1,
    TILE_EMPTY = 2
};

/*
 * Decodes n bytes into out [rows][cols][channels] u8. channels: 3 = RGB, or 1 = gray: the tile's
 * own gray, the luma of a YCbCr JPEG in a YCbCr file (chroma is not decoded then), else from RGB.
 * 0, TILE_NO_MEMORY, or TILE_DAMAGED: the tile is damaged, or is not what the format says; out is
 * undefined then, and the next tile is not affected. TILE_EMPTY: all of it is transparent.
 */
int tile_decode(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                struct err *e);

/* JPEG 2000 only: would tile_decode() try this stream, by its headers? 0 or TILE_DAMAGED. */
int tile_check_headers(const struct tile_format *f, const uint8_t *bytes, size_t n, struct err *e);

/* JPEG only. Decodes at 1/8, the mean of each 8 x 8 block: out [ceil(rows/8)][ceil(cols/8)][3]. */
int tile_decode_eighth(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                       struct err *e);

/*
 * JPEG and JPEG 2000. Makes the chunk of codec jpeg or j2k, and checks it. JPEG: decodes it as
 * tile_decode_eighth does, if `eighth` is not NULL. 0, TILE_NO_MEMORY, TILE_DAMAGED (JPEG: exactly
 * when tile_decode finds damage; JPEG 2000: in headers, and in the coefficients of coarse
 * resolutions), or TILE_OTHER: the tile is whole, but of a kind that a chunk cannot hold; e says
 * which.
 */
int tile_keep(struct tile_decoder *d, const uint8_t *bytes, size_t n, struct jpeg_chunk *chunk,
              uint8_t *eighth, struct err *e);

/* How the whole tiles contradict what the file states of their colours; of several the last. */
enum tile_conflict {
    TILE_AGREES,
    TILE_STATES_OTHER, /* a stream states others */
    TILE_SUBSAMPLED    /* RGB is stated, and a stream has the chroma of YCbCr */
};
enum tile_conflict tile_conflict(const struct tile_decoder *d);

/* "libjpeg-turbo 2.1.5, OpenJPEG 2.5.0" */
const char *tile_libraries(void);

#endif
