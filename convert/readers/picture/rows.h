/*
 * rows.h - a picture, or a large tile or strip of one, that is decoded from the top to the bottom.
 *
 * What is too large to be decoded at once is decoded row by row (bands.h). A kind of rows is a
 * small const struct. One thread at a time.
 */
#ifndef WSI_ROWS_H
#define WSI_ROWS_H
#include "common/base/err.h"
#include "common/codec/jpeg_rows.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/tile/tile.h"

#include <stddef.h>
#include <stdint.h>

enum {
    ROWS_DAMAGED = -2, /* this row and those that follow; e says why. -1 may pass (slide_file.h) */
    ROWS_OTHER = -3,   /* at opening: a kind that is not decoded; e says which */
};

/* Bytes that one picture may need as a whole, where its kind cannot be decoded in bands. */
#define ROWS_MOST_BYTES ((uint64_t)1 << 30)

struct rows;

struct rows_kind {
    /* The next row as [cols][channels] u8. 0, ROWS_DAMAGED or -1; then only close. */
    int (*next)(struct rows *r, uint8_t *out, struct err *e);
    void (*close)(struct rows *r);
};

/* The first member of every kind's own struct. */
struct rows {
    const struct rows_kind *kind;
    const uint8_t *alpha; /* of the last row, [cols] u8; NULL: all pixels are opaque */
};

/* NULL is allowed. */
static inline void rows_close(struct rows *r)
{
    if (r)
        r->kind->close(r);
}

/* A picture that is a file, not a part of one. */
struct rows_picture {
    int64_t cols, rows; /* px */
    int channels;       /* 3 = RGB or 1 = gray */
    enum tile_conflict conflict;
};

/* Opens a PNG or a JPEG picture of 8 bits. Alpha is composed over white. 0, ROWS_OTHER,
 * ROWS_DAMAGED or -1. */
int png_rows_open(struct rows **r, const struct slide_file *file, struct rows_picture *p,
                  struct err *e);
int jpeg_picture_open(struct rows **r, const struct slide_file *file, struct rows_picture *p,
                      struct err *e);
/* The same for a JPEG stream within a file. */
int jpeg_stream_open(struct rows **r, const struct jpeg_rows_input *in, struct rows_picture *p,
                     struct err *e);
/* The ICC profile of such a file, to be free()d. 1; 0: none, or none that is whole; -1. */
int png_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e);
int jpeg_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e);

#endif
