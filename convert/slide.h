/*
 * slide.h - what a slide is to the converter, and the table of readers.
 *
 * A reader is a small const struct. slide_open asks the readers in the order of the table; the first
 * that knows the file takes it. One level of the slide is open; it is read tile by tile, where a tile
 * is the slide's own where it has tiles, so that no compressed tile is decoded twice.
 */
#ifndef WSI_SLIDE_H
#define WSI_SLIDE_H

#include "common/err.h"
#include "common/store.h"

#include <stddef.h>
#include <stdint.h>

enum { SLIDE_LEVELS = 32 };

struct slide_info {
    const char *reader;              /* name of the reader that has it */
    char vendor[64];                 /* OpenSlide's name of the format */
    char quickhash[80];              /* OpenSlide's quickhash-1, "" when there is none */
    int64_t level;                   /* the open one */
    double downsample;               /* of that level */
    int64_t levels;                  /* of which downsamples[] tells; SLIDE_LEVELS at most */
    double downsamples[SLIDE_LEVELS];
    int has_eighth;                  /* read_eighth works */
    int has_thumbnail;               /* what `thumbnail` gives is one for sure, not the label */
    int64_t width, height;           /* of that level, px */
    int64_t tile_cols, tile_rows;    /* px; the grid starts at (0, 0) */
    double mpp_x, mpp_y;             /* um per level-0 px; NaN when unknown */
    double objective_power;          /* NaN when unknown */
    uint8_t background[3];           /* R, G, B of what the slide leaves empty */
    char problem[256];               /* what is wrong with the file beside its tiles; "" for nothing */
};

struct slide; /* a reader's state */

struct slide_reader {
    const char *name;
    /* 1: *s is open and *info filled. 0: not a slide that this reader knows. -1: it knows the file,
     * but it cannot be read (e says why). `threads` will call read. */
    int (*open)(struct slide **s, const char *path, int64_t level, int threads,
                struct slide_info *info, struct err *e);
    /* Tile (col, row) as [tile_rows][tile_cols][channels], 3 RGB or 1 gray; what lies beyond the
     * slide's edge is left to the caller. *status: STORE_WHOLE; or STORE_MISSING, STORE_DAMAGED with
     * the tile filled with the background. -1: reading as a whole is impossible. Different threads at
     * once. */
    int (*read)(struct slide *s, int thread, int64_t col, int64_t row, int channels, uint8_t *out,
                enum store_status *status, struct err *e);
    /* The same at 1/8, RGB: [tile_rows / 8][tile_cols / 8][3]; tiles that cannot be had are background.
     * Only where info says so; both sides are multiples of 8 then. */
    int (*read_eighth)(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                       struct err *e);
    /* Soon these rows of tiles will be read, from one thread at a time. NULL when it makes no
     * difference. */
    void (*prefetch)(struct slide *s, int64_t row, int64_t rows);
    /* Calls put for each property until it returns non-zero, and returns that. */
    int (*properties)(struct slide *s, int (*put)(void *ctx, const char *key, const char *value),
                      void *ctx);
    /* 1: *rgb (free()) is [*height][*width][3]; 0: there is none. */
    int (*thumbnail)(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height);
    /* 1: *profile (free()) has *bytes bytes; 0: there is none. */
    int (*icc)(struct slide *s, uint8_t **profile, size_t *bytes);
    void (*close)(struct slide *s);
};

/* Opens a level of a slide with the first reader that knows it. NULL with a message that names the
 * file otherwise. */
const struct slide_reader *slide_open(struct slide **s, const char *path, int64_t level, int threads,
                                      struct slide_info *info, struct err *e);
/* Does this property identify a person, a time, an operator or a scanner? */
int slide_identifies(const char *key);
/* Does the file's name end like a slide's? For searching folders. */
int slide_has_name(const char *path);
/* "OpenSlide 3.4.1 ...": the libraries behind the readers. */
const char *slide_libraries(void);

#endif
