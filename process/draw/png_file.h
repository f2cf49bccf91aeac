/*
 * png_file.h - writing PNG pictures row by row, with libpng.
 *
 * Memory does not depend on the picture's height. Equal calls give equal bytes: no time is
 * written. A picture goes to a stream: a file, or memory (open_memstream). One thread per picture.
 */
#ifndef WSI_PNG_FILE_H
#define WSI_PNG_FILE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum png_file_kind {
    PNG_FILE_GRAY,    /* 1 byte per pixel */
    PNG_FILE_PALETTE, /* 1 byte per pixel: an entry of the palette */
    PNG_FILE_RGB,     /* 3 bytes */
};

/* A text in the picture's metadata, UTF-8: key "Title", "Software" ... in at most 79 bytes. */
struct png_file_text {
    const char *key, *value;
};

struct png_file_setup {
    int64_t width, height; /* px, at least 1 each */
    enum png_file_kind kind;
    const uint32_t *palette; /* [n_palette], 0xRRGGBBAA; at most 256 */
    int n_palette;
    bool rows_repeat; /* many rows equal the one above: smaller and faster if known */
    int level;        /* of deflate, 1 (fast) to 9 (small) */
    const struct png_file_text *texts; /* [n_texts] */
    int n_texts;
};

/* What PNG files of this program begin with, IHDR's numbers aside, so that it can tell its own. */
#define PNG_FILE_SOFTWARE "h5spec"

struct png_file;
/* Begins a picture. NULL on failure. `f` stays the caller's. */
struct png_file *png_file_begin(FILE *f, const struct png_file_setup *setup, struct err *e);
/* Writes the next row. After -1 only png_file_free() may follow. */
int png_file_row(struct png_file *p, const uint8_t *row, struct err *e);
/* Ends the picture, when `height` rows are written. It does not flush the stream. */
int png_file_end(struct png_file *p, struct err *e);
void png_file_free(struct png_file *p); /* NULL is fine */

/* A whole picture of one byte per pixel, u8 [height][width]: colours of raster.h, of which the
 * palette has the first `entries`. */
int png_file_colours(FILE *f, const uint8_t *pixels, int64_t width, int64_t height, int entries,
                     int level, struct err *e);

/* Is it a PNG picture of ours? */
bool png_file_is_ours(const char *path);

#endif
