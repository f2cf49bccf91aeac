/*
 * strip.h - one strip or tile for libtiff's decoders.
 *
 * libtiff needs a file with a directory. It gets one of our own in memory, a BigTIFF of one strip,
 * and behind it the bytes of the strip. So nothing else of the slide's file reaches libtiff, and
 * each thread can have its own. One thread at a time.
 */
#ifndef CONVERT_TILE_STRIP_H
#define CONVERT_TILE_STRIP_H

#include "convert/tile/tile_format.h"

#include <stdbool.h>
#include <stdint.h>
#include <tiffio.h>

struct strip {
    TIFF *tiff;         /* NULL: not opened */
    uint8_t head[288];  /* the directory */
    int fd;             /* the file that has the bytes */
    uint64_t at, bytes; /* where they are */
    uint64_t position;  /* where libtiff reads, directory and bytes together */
    int trouble;        /* errno of a failed read, or 0 */
};

/* Can libtiff decode this compression here? */
bool strip_is_known(uint64_t compression);
/* Opens a strip of so many rows: f states its columns, samples (at least 1), compression and
 * predictor. fill_order as TIFF's tag. With fd -1 the bytes come by TIFFReadFromUserBuffer(). *s
 * stays where it is. -1: out of memory. */
int strip_open(struct strip *s, const struct tile_format *f, int64_t rows, int fill_order, int fd,
               uint64_t at, uint64_t bytes);
void strip_close(struct strip *s); /* one that was not opened is allowed */

#endif
