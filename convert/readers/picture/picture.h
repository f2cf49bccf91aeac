/*
 * picture.h - serves a picture without tiles, or with very large ones, in tiles of PICTURE_TILE px.
 *
 * A picture consists of segments: strips, large tiles, or a single one. When the first tile is read,
 * one thread decodes all segments, row by row, and writes the samples to an unlinked file in the
 * folder TMPDIR. Tiles are then read from that file, by any thread in any order. So memory does not
 * depend on the size of the picture.
 */
#ifndef CONVERT_READERS_PICTURE_H
#define CONVERT_READERS_PICTURE_H

#include "common/base/err.h"
#include "common/codec/jpeg_rows.h"
#include "common/store/store.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/tile/tile_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PICTURE_TILE = 256 };

/* Results of decoders besides 0 and -1, which may pass (slide_file.h). */
enum {
    PICTURE_MISSING = 1,  /* the file does not have the segment */
    PICTURE_DAMAGED = -2, /* e says why; rows that were put before are valid */
    PICTURE_OTHER = -3,   /* at opening: a kind that is not decoded; e says which */
};

/* Bytes of memory that one segment may need, where its kind cannot be decoded row by row. */
#define PICTURE_MOST_BYTES ((uint64_t)1 << 30)

struct picture;

struct picture_segment {
    int plane;
    int64_t col, row;   /* among the segments */
    int64_t cols, rows; /* px that lie in the picture */
};

struct picture_form {
    int64_t width, height;     /* px */
    int64_t cols, rows;        /* of a segment, px; those at the edges may reach beyond */
    int64_t bytes;             /* of the samples that the file has */
    int planes;                /* 1, or one per sample */
    struct tile_format format; /* what the samples are; `samples` is set */
    uint8_t background[3];     /* R, G, B of missing and damaged tiles */
    double mpp_x, mpp_y;       /* um per px that a file of its own states; NaN: none */
    const char *conflict;      /* how the file contradicts itself about its colours, or NULL */
    bool *shown;               /* by a mask: tiles [row][col], or NULL: all are; owned */
    uint8_t *icc;              /* the ICC profile, or NULL; owned */
    size_t icc_bytes;
    /* Passes the rows of a segment to picture_put(). Called once per segment, plane by plane, from
     * the top. 0, PICTURE_MISSING, PICTURE_DAMAGED or -1. */
    int (*decode)(void *ctx, const struct picture_segment *s, struct picture *p, struct err *e);
    void (*close)(void *ctx); /* NULL: nothing is to be freed; `ctx` may be NULL */
    void *ctx;
};

/* The picture owns what the form has. */
struct picture *picture_open(const struct picture_form *f);
void picture_close(struct picture *p); /* NULL is allowed */

/* As read of struct slide_reader. */
int picture_read(struct picture *p, int64_t col, int64_t row, int channels, uint8_t *out,
                 enum store_status *status, struct err *e);
/* The message of a decoder on the first segment that it rejected, or "". Not while threads read. */
const char *picture_refusal(const struct picture *p);
/* How the file contradicts itself about its colours; NULL: it does not. Not while threads read. */
const char *picture_conflict(const struct picture *p);
/* As icc of struct slide_reader. */
int picture_icc(const struct picture *p, uint8_t **profile, size_t *bytes, struct err *e);
/* The whole picture, [height][width][3] u8, to be free()d. NULL: damaged, or errno may pass. */
uint8_t *picture_rgb(struct picture *p, struct err *e);

/* A decoded row from pixel (x, y) on: n pixels of a plane, or NULL: they are damaged. */
typedef void picture_row(void *ctx, int64_t x, int64_t y, int64_t n, const uint8_t *row);
/* Decodes the picture without a temporary file; after that only picture_close() may be called. Skips
 * missing rows. 0 or -1. */
int picture_scan(struct picture *p, picture_row *row, void *ctx, struct err *e);

/* For decode: the next row of the segment, [cols][samples of a plane] u8, of which the px beyond
 * the picture are not read. 0, or -1: end with that. */
int picture_put(struct picture *p, const uint8_t *row, struct err *e);
/* Of the rows that were put only the first `rows` are valid. */
void picture_keep(struct picture *p, int64_t rows);
/* Records a contradiction that was found while decoding. */
void picture_note(struct picture *p, const char *conflict);

/* Decodes a segment from a JPEG stream; `line` has room for a row, [cols][3] u8. Returns as decode. */
int picture_put_jpeg(struct picture *p, const struct picture_segment *s, struct jpeg_rows *rows,
                     uint8_t *line, struct err *e);
/* Turns a result of jpeg_rows.h into that of a decoder. */
int picture_from_jpeg(int r);

/* --- pictures that are files of their own --- */

/* The form of a picture in one segment, without its decoder: gray or RGB, with alpha if it has an
 * even number of samples. */
struct picture_form picture_form_of(int64_t width, int64_t height, int samples);
/* Frees a form that was not passed to picture_open(). */
void picture_form_free(struct picture_form *f);

/* Opens a PNG or a JPEG file of 8 bits; nothing is decoded yet. 0, PICTURE_OTHER, PICTURE_DAMAGED
 * or -1; free *f in any case. */
int picture_open_png(struct picture_form *f, const struct slide_file *file, struct err *e);
int picture_open_jpeg(struct picture_form *f, const struct slide_file *file, struct err *e);

#endif
