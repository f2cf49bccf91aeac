/*
 * tile_file.h - the compressed tiles of one level, in one file or in several.
 *
 * A reader says where each tile lies. Tiles are read with pread from one descriptor per file, and
 * each thread decodes them (tile.h) straight into the chunk that is stored. Readers of formats
 * whose tiles are whole streams share this module.
 */
#ifndef WSI_TILE_FILE_H
#define WSI_TILE_FILE_H

#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/slide_reader.h"
#include "convert/tile/tile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a tile's bytes lie. 0 bytes: the slide does not have the tile. The bits of an offset from
 * TILE_FILE_BITS on are the number of its file. */
struct tile_place {
    uint64_t offset, bytes;
};
enum { TILE_FILE_BITS = 48, TILE_FILES = 256 }; /* at most so many files */

/* A buffer that grows: n bytes of `size`. Starts as {0}. free() bytes. */
struct tile_bytes {
    uint8_t *bytes;
    size_t n, size;
};
/* Makes room for n bytes, and forgets what is in the buffer if that moves it. */
int tile_bytes_grow(struct tile_bytes *b, size_t n, struct err *e);

/* The tiles of a level. Belongs to the reader and must outlive the tile_file. */
struct tile_grid {
    struct tile_format format;
    int64_t cols, rows;              /* tiles */
    int64_t width, height;           /* px of the picture: streams at its edges may end where it
                                        does (tile_may_end_at); 0: they are whole tiles */
    const struct tile_place *places; /* [rows][cols]; NULL with `gather` */
    bool in_planes; /* R, G and B of a tile lie apart: `places` is [3][rows][cols], and each is a
                       gray tile of this format. Not with read_eighth and read_kept */
    const struct slide_file *const *others; /* [n_others]: files 1, 2, ...; only for opening */
    int n_others;
    /* Makes the stream of a tile whose bytes lie in several places. Different threads may call it
     * at once. 0; 1: the bytes are damaged or not in the file; -1. NULL: there are `places`. */
    int (*gather)(const void *ctx, int64_t col, int64_t row, struct tile_bytes *out, struct err *e);
    const void *ctx; /* of gather */
    /* Turns the bytes of a place into a tile of *n bytes at bytes[0]; false: they are damaged.
     * NULL: they are the tile. */
    bool (*unwrap)(uint8_t *bytes, size_t *n);
    uint8_t background[3]; /* R, G, B of missing and damaged tiles */
};

struct tile_file;

/* `threads` threads will read. The files must outlive it. */
struct tile_file *tile_file_open(const struct slide_file *file, const struct tile_grid *g,
                                 int threads);
/* NULL is allowed. */
void tile_file_close(struct tile_file *t);

/* The first member of a slide whose tiles are read here. */
struct tiled_slide {
    struct slide slide;
    struct tile_file *tiles; /* owned by the reader */
};

/* For the tables of such readers, as the members of struct slide_reader.
 * tile_file_colour_conflict() also says which of the two was used (tile.h). */
int tile_file_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                   uint8_t *out, enum store_status *status, struct err *e);
int tile_file_read_eighth(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                          enum store_status *status, struct err *e);
int tile_file_read_kept(struct slide *s, int thread, int64_t col, int64_t row,
                        struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                        struct err *e);
bool tile_file_is_missing(const struct slide *s, int64_t col, int64_t row);
const char *tile_file_colour_conflict(const struct slide *s);
const char *tile_file_refusal(const struct slide *s);
void tile_file_prefetch(struct slide *s, int64_t row, int64_t rows);

#endif
