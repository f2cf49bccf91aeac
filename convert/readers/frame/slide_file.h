/*
 * slide_file.h - a file of a slide, opened once.
 *
 * The path of a slide can lead to another file at any time, and an open can fail once. So a slide's
 * file is opened once, and all readers and checks read from that descriptor, at offsets. Libraries
 * that open the path themselves are followed by slide_file_confirm(). Any thread.
 */
#ifndef WSI_SLIDE_FILE_H
#define WSI_SLIDE_FILE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct slide_file {
    char *path;     /* owned; for messages, and for libraries */
    int fd;         /* for read_at() only: nobody moves its position */
    struct stat st; /* as it was opened */
    uint64_t bytes; /* its size then */
    struct slide_kept *kept;
};

/* NULL with a message that names the file, and errno: it cannot be opened, or is no regular file.
 */
struct slide_file *slide_file_open(const char *path, struct err *e);
/* NULL is allowed. */
void slide_file_close(const struct slide_file *f);

/* Does the path still lead to this file, and is it as it was opened? -1: it has changed, or nobody
 * can tell, and errno may pass. */
#define SLIDE_FILE_CHANGED "changed while it was read; run again"
int slide_file_confirm(const struct slide_file *f, struct err *e);

/* What a module has read of the file once and keeps until the file is closed, when `release` frees
 * it. A module is known by its `release`; NULL: it keeps nothing yet. One thread at a time. */
void slide_file_keep(const struct slide_file *f, void *what, void (*release)(void *what));
void *slide_file_kept(const struct slide_file *f, void (*release)(void *what));

/* --- damage of a slide, and errors that may pass --- */

/*
 * The file holds something that cannot be read, and e says what. This is damage of the slide. In
 * contrast -1 is an error that may pass: no memory, no descriptors, a failing disk. An error that
 * passes must never be recorded as damage.
 */
enum { SLIDE_DAMAGED = -2 };

/* Is this errno of a failed call an error that may pass, rather than damage? Set errno to 0 before
 * the call: OpenSlide and libtiff do not report the cause. */
bool slide_may_pass(int code);

/* --- what a reader finds out about a slide and its open level --- */

enum { SLIDE_LEVELS = 32 };

struct slide_info {
    const char *reader;  /* name of the reader that opened the slide */
    const char *library; /* that reads the tiles, such as "OpenSlide 3.4.1"; NULL: this program */
    char vendor[64];     /* OpenSlide's name of the format */
    char quickhash[80];  /* OpenSlide's quickhash-1, "" when there is none */
    int64_t level;       /* the open level */
    double downsample;   /* of the open level */
    int64_t levels;      /* entries of downsamples[] */
    double downsamples[SLIDE_LEVELS];
    bool has_eighth;              /* read_eighth works */
    bool gray_is_luma;            /* `read` gives the stored luma as gray; else gray of RGB */
    bool in_order;                /* tiles out of order cost much: what is above them is decoded */
    bool is_gray;                 /* its tiles are gray, so its store is */
    char no_jpeg[160];            /* why codec jpeg is not possible; "": it is */
    bool is_j2k;                  /* codec j2k is possible */
    char tile_compression[24];    /* of the file's tiles: "JPEG" ..., "no tiles"; "": not known */
    bool has_thumbnail;           /* `thumbnail` returns a thumbnail, never the label */
    int64_t width, height;        /* of the open level, px */
    int64_t tile_cols, tile_rows; /* px; the grid starts at (0, 0) */
    double mpp_x, mpp_y;          /* um per level-0 px; NaN when unknown */
    double objective_power;       /* NaN when unknown */
    int64_t bounds_x, bounds_y;   /* corner of what was scanned, level-0 px; 0: not stated */
    uint8_t background[3];        /* R, G, B of areas that the slide leaves empty */
    char note[256]; /* what its user should know although nothing is wrong; "" for nothing */
    char interpolated[128]; /* why pixels are not those of the level everywhere; "": they are */
    char problem[256];      /* what is wrong besides the level's tiles; "" for nothing */
};

/* An open slide: the first member of every reader's own struct. */
struct slide {
    const struct slide_reader *reader;
    struct slide_metadata *metadata; /* what OpenSlide knows of it: slide_metadata.h; or NULL */
};

/* um per px of level 0 that are believed. */
#define SLIDE_LEAST_MPP 0.02
#define SLIDE_MOST_MPP 50

/* Adds to the note. */
__attribute__((format(printf, 2, 3))) void slide_note(struct slide_info *i, const char *format,
                                                      ...);
/* um per pixel of every format: what no scanner has becomes unknown, what is doubtful stays, and
 * the note says so. */
void slide_check_mpp(struct slide_info *i);

/* The slide has so many levels, of which `level` is none. Returns -1. */
int slide_reject_level(int64_t levels, int64_t level, struct err *e);

#endif
