/*
 * bands.h - a picture of large segments as tiles.
 *
 * The segments of a picture are its large tiles or its strips, or the picture is one segment. Each
 * is decoded once, from the top to the bottom (rows.h), and cut into tiles of BANDS_TILE px a side.
 * Segments that lie one below the other are a column. Threads decode different columns at once. A
 * column keeps the few bands of BANDS_TILE rows that the threads can be at work on, so memory does
 * not depend on the height of picture or segments. Who reads in another order than row by row waits
 * until the segment is decoded anew.
 */
#ifndef WSI_BANDS_H
#define WSI_BANDS_H

#include "common/store/store.h"
#include "convert/readers/picture/rows.h"

#include <stdint.h>

enum { BANDS_TILE = 256 };

struct bands_picture {
    int64_t width, height; /* px */
    int64_t cols, rows;    /* of a segment, px; those at the edges may reach beyond the picture */
    int channels;          /* of the rows: 3 = RGB or 1 = gray */
    uint8_t background[3]; /* R, G, B of missing and damaged tiles */
    uint64_t whole_bytes;  /* memory that decoding one segment needs besides */
    /* Begins with a segment. 0, and *r is NULL if the file does not have it; ROWS_DAMAGED or -1.
     * Different threads may call it at once. */
    int (*begin)(const void *ctx, int64_t col, int64_t row, struct rows **r, struct err *e);
    const void *ctx;
};

struct bands;

/* NULL on failure; ROWS_MOST_BYTES bound the memory. `threads` threads will read. */
struct bands *bands_open(const struct bands_picture *p, int threads, struct err *e);
void bands_close(struct bands *b); /* NULL is allowed */

/* As read of struct slide_reader. */
int bands_read(struct bands *b, int64_t col, int64_t row, int channels, uint8_t *out,
               enum store_status *status, struct err *e);
/* The message of a decoder on the first segment that it rejected, or "". Not while threads read. */
const char *bands_refusal(const struct bands *b);

#endif
