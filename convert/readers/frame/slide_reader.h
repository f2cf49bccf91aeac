/*
 * slide_reader.h - what a reader of a format of slides offers, and the names of all readers.
 *
 * One level of the slide is open. It is read tile by tile. The tiles are the slide's own where it
 * has tiles, so no compressed tile is decoded twice.
 */
#ifndef WSI_SLIDE_READER_H
#define WSI_SLIDE_READER_H

#include "common/base/err.h"
#include "common/codec/jpeg_stream.h"
#include "common/store/store.h"
#include "convert/readers/frame/slide_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* read_kept: the tile is whole, but a chunk cannot hold its kind; e says which. */
enum { SLIDE_OTHER = 1 };

struct slide_reader {
    const char *name;
    /* 1: *s is open and *info is filled. 0: this reader does not know the format, or not this kind
     * of it; e may say which. -1: it knows the format but cannot read the file. `threads` threads
     * will call read. `file` must outlive *s. */
    int (*open)(struct slide **s, const struct slide_file *file, int64_t level, int threads,
                struct slide_info *info, struct err *e);
    /* Tile (col, row) as [tile_rows][tile_cols][channels] u8, 3 = RGB or 1 = gray. Pixels beyond
     * the slide's edge are undefined. *status is STORE_WHOLE, or STORE_MISSING or STORE_DAMAGED
     * with the tile filled with the background. -1: the slide as a whole can no longer be read.
     * Different threads may read at once. */
    int (*read)(struct slide *s, int thread, int64_t col, int64_t row, int channels, uint8_t *out,
                enum store_status *status, struct err *e);
    /* The same at 1/8, RGB: [tile_rows / 8][tile_cols / 8][3] u8. Only if info->has_eighth; both
     * sides are multiples of 8 then. */
    int (*read_eighth)(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                       enum store_status *status, struct err *e);
    /* The tile as a chunk of codec jpeg, and at 1/8 (sides rounded up; NULL: not wanted, which
     * takes less time); with info->is_j2k as one of codec j2k, and nothing at 1/8. Undefined if
     * *status is not STORE_WHOLE. Only if info->no_jpeg is "" or info->is_j2k. May be NULL. */
    int (*read_kept)(struct slide *s, int thread, int64_t col, int64_t row,
                     struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                     struct err *e);
    /* Does the file have no bytes for the tile, so that it reads as STORE_MISSING? NULL: never. */
    bool (*is_missing)(const struct slide *s, int64_t col, int64_t row);
    /* How the tiles that have been read contradict the file's header about their colours, and what
     * was used; NULL: they do not. Not while threads read. May be NULL. */
    const char *(*colour_conflict)(const struct slide *s);
    /* The message of the decoder on the first tile that it rejected, "" for none; other damage does
     * not count. Not while threads read. May be NULL. */
    const char *(*refusal)(const struct slide *s);
    /* Announces rows of tiles that will be read soon. One thread at a time. May be NULL. */
    void (*prefetch)(struct slide *s, int64_t row, int64_t rows);
    /* Calls put for each file of the slide until it returns non-zero, and returns that; -1 and e: a
     * file cannot be opened. NULL: the slide is one file. */
    int (*files)(struct slide *s, int (*put)(void *ctx, const struct slide_file *file), void *ctx,
                 struct err *e);
    /* Calls put for each property until it returns non-zero, and returns that. NULL: none. */
    int (*properties)(struct slide *s, int (*put)(void *ctx, const char *key, const char *value),
                      void *ctx);
    /* Only if info->has_thumbnail. 1: *rgb is [*height][*width][3] u8, to be free()d. 0: there is
     * none. SLIDE_DAMAGED, or -1. */
    int (*thumbnail)(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                     struct err *e);
    /* The thumbnail as it is in the slide: 1; 0: it cannot be kept, ask for its pixels; -1. May be
     * NULL. */
    int (*thumbnail_jpeg)(struct slide *s, struct jpeg_strips *out, struct err *e);
    /* 1: *profile has *bytes bytes, to be free()d. 0: there is none, as with NULL for the function.
     * SLIDE_DAMAGED, or -1. */
    int (*icc)(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e);
    void (*close)(struct slide *s);
};

extern const struct slide_reader slide_svs, slide_dicom, slide_ndpi, slide_tiff, slide_openslide,
    slide_picture;

/* The property under which readers record TIFF's tag Orientation, which no reader applies. */
#define SLIDE_ORIENTATION "tiff.Orientation"
/* The number of focal planes, of which the store has the main one. */
#define SLIDE_FOCAL_PLANES "wsi2h5.focal-planes"

#endif
