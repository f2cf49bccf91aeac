/*
 * jpeg_decoder.h - JPEG streams to pixels: the one decoder of both programs.
 *
 * Pixels are what libjpeg-turbo gives with its defaults (accurate integer DCT, fancy upsampling). A
 * stream has the size that the caller expects, or it is rejected. libjpeg only warns of a stream
 * that ends early and fills the rest with gray: here every warning is damage. Streams are hostile
 * input.
 *
 * A decoder belongs to one thread. A build without libjpeg (JPEG=0) has these functions, but
 * jpeg_decoder_create() fails and says what is missing.
 */
#ifndef WSI_JPEG_DECODER_H
#define WSI_JPEG_DECODER_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the colours of a stream come from. */
enum jpeg_colours {
    JPEG_RGB, /* the caller says so */
    JPEG_YCBCR,
    JPEG_SINGLE, /* the same; it has one component */
    JPEG_MARKED, /* the stream is a whole file and its APP14 marker says so. It must be baseline
                    with one scan and have that marker and all tables, and nothing may follow its
                    end */
    JPEG_FILE,   /* the same, but without the marker libjpeg decides: files of other programs */
};

struct jpeg_stream {
    const uint8_t *tables; /* TIFF's JPEGTables, NULL without. The decoder keeps them loaded as long
                              as the pointer is the same, so the bytes must not change */
    size_t tables_bytes;
    const uint8_t *bytes;
    size_t n;
};

/* A rectangle of a picture, in px. */
struct jpeg_part {
    int64_t x, y, cols, rows; /* inside the picture, at least 1 x 1 px */
    size_t pitch;             /* bytes from row to row of out, at least cols * channels */
};

/* What the stream must be, and what is wanted of it. */
struct jpeg_picture {
    int64_t cols, rows; /* px, at most 65,500 */
    enum jpeg_colours colours;
    int channels; /* 3: RGB. 1: gray, the luma of a YCbCr stream, or of a whole file that
                     must have one component. Otherwise the stream has three components */
    bool eighth;  /* at 1/8, the mean of each block of 8 x 8: ceil(cols/8) x ceil(rows/8) px */
    const struct jpeg_part *part; /* only these pixels are wanted, and damage elsewhere may not be
                                     found; NULL: all. Not with `eighth` */
};

struct jpeg_decoder;
/* NULL if there is no memory or no libjpeg that can be used. */
struct jpeg_decoder *jpeg_decoder_create(struct err *e);
void jpeg_decoder_free(struct jpeg_decoder *d); /* NULL is allowed */

enum { JPEG_DAMAGED = -1, JPEG_NO_MEMORY = -2 }; /* -1 is what err_set returns */

/* Decodes into out u8 [rows][cols][channels], without padding (with `part`: of that). 0,
 * JPEG_DAMAGED or JPEG_NO_MEMORY. After a failure out is undefined, and the next stream is not
 * affected. With `eighth` out may be NULL: the stream is only checked for damage, in less time. */
int jpeg_decode(struct jpeg_decoder *d, const struct jpeg_picture *p, const struct jpeg_stream *s,
                uint8_t *out, struct err *e);
/* How often each quantised coefficient of luma occurs. */
enum { JPEG_LOW = 9, JPEG_LEVELS = 64 };
struct jpeg_counts {
    uint32_t n[JPEG_LOW][JPEG_LEVELS + 1]; /* [z - 1][k]: blocks whose coefficient z, in zigzag
                                              order, is k or -k. Larger ones are left out */
};
/* Of a block of 8 x 8 px, in units of a thousandth of a gray level: the sum of its gray; the sum of
 * each row and of each column, less the mean of these; and the squares of what is left of the
 * pixels, which depends on both. */
enum { JPEG_BLOCK_UNIT = 1000, JPEG_BLOCK_SIDE = 8 };
struct jpeg_block {
    double sum, rows[JPEG_BLOCK_SIDE], columns[JPEG_BLOCK_SIDE], rest;
};
/* Starts as {0}; free() `of`. */
struct jpeg_blocks {
    int64_t cols, rows, room; /* 0: the colours of the file are none that have a gray */
    struct jpeg_block *of;    /* [rows][cols]; room for `room` */
};
/* Adds the blocks that lie wholly in the first cols x rows px of a whole file (JPEG_MARKED) that
 * jpeg_decode finds whole, and describes all blocks if b is not NULL. 0, JPEG_DAMAGED or
 * JPEG_NO_MEMORY; then some may have been added. */
int jpeg_count(struct jpeg_decoder *d, const uint8_t *bytes, size_t n, int64_t cols, int64_t rows,
               struct jpeg_counts *c, struct jpeg_blocks *b, struct err *e);
/* Do these bytes hold tables that can be loaded? 0, JPEG_DAMAGED or JPEG_NO_MEMORY. */
int jpeg_check_tables(struct jpeg_decoder *d, const uint8_t *tables, size_t n, struct err *e);

/* Does this build have a libjpeg that can be used? If not, e says why: in libjpeg's own words if
 * the library that was loaded rejects the program, because it has another ABI. */
bool jpeg_is_available(struct err *e);
/* "libjpeg-turbo 2.1.5", or "without libjpeg" */
const char *jpeg_library(void);

#endif
