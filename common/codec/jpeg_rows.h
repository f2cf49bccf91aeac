/*
 * jpeg_rows.h - a JPEG stream in a file, decoded row by row: pictures that are too large to be
 * decoded at once.
 *
 * The pixels are those of jpeg_decoder.h. Memory is a few rows, or of a progressive stream all its
 * coefficients. Every warning of libjpeg is damage, of all rows that follow. Streams are hostile
 * input. One thread at a time.
 */
#ifndef WSI_JPEG_ROWS_H
#define WSI_JPEG_ROWS_H

#include "common/codec/jpeg_decoder.h"

/* Where the stream is, and what it is. */
struct jpeg_rows_input {
    int fd;
    uint64_t at, bytes;
    const uint8_t *tables; /* TIFF's JPEGTables, NULL without; only for opening */
    size_t tables_bytes;
    enum jpeg_colours colours; /* JPEG_FILE: libjpeg decides; not JPEG_MARKED */
    uint64_t most_bytes;       /* of memory for a progressive stream */
};

/* What a stream is, and how it contradicts `colours`, or itself. */
struct jpeg_rows_picture {
    int64_t cols, rows; /* px */
    int channels;       /* 3 = RGB or 1 = gray */
    bool is_other;      /* it states other colours; JPEG_FILE: RGB as well as YCbCr */
    bool is_subsampled; /* RGB is stated, and it has the chroma of YCbCr */
    double um_x, um_y;  /* um per px by JFIF's density; NaN: it states none */
};

struct jpeg_rows;

enum {
    JPEG_ROWS_OTHER = 1,    /* whole, but of a kind that is not decoded; e says which */
    JPEG_ROWS_TROUBLE = -3, /* the file cannot be read now; errno and e say why */
};

/* 0, and *p is that of the stream. Otherwise JPEG_DAMAGED, JPEG_NO_MEMORY or one of the above, and
 * *r is NULL. */
int jpeg_rows_open(struct jpeg_rows **r, const struct jpeg_rows_input *input,
                   struct jpeg_rows_picture *p, struct err *e);
/* The next row as [cols][channels] u8. 0, JPEG_DAMAGED, JPEG_NO_MEMORY or JPEG_ROWS_TROUBLE; after
 * a failure only jpeg_rows_close(). */
int jpeg_rows_next(struct jpeg_rows *r, uint8_t *out, struct err *e);
/* Reads the stream to its end, after the last row that the caller needs, and so finds damage that
 * shows only there. A file that ends early is no damage here. `line` has room for a row. 0, or as
 * jpeg_rows_next(). */
int jpeg_rows_end(struct jpeg_rows *r, uint8_t *line, struct err *e);
/* Did the file end before the stream? Then all rows that were returned are valid. */
bool jpeg_rows_are_cut(const struct jpeg_rows *r);
void jpeg_rows_close(struct jpeg_rows *r); /* NULL is allowed */

#endif
