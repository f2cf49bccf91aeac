/*
 * tile_file.h - the compressed tiles of one level, in one file or in several.
 *
 * A reader says where each tile lies. Tiles are read with pread from one descriptor per file, and
 * each thread decodes them (tile.h) straight into the chunk that is stored. Readers of formats
 * whose tiles are whole streams share this module.
 */
#ifndef WSI_TILE_FILE_H
#define WSI_TILE_FILE_H

#include "common/base/err.h"
#include "common/codec/jpeg_chunk.h"
#include "common/store/store.h"
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
    const struct tile_place *places; /* [rows][cols]; NULL with `gather` */
    bool in_planes; /* R, G and B of a tile lie apart: `places` is [3][rows][cols], and each is a
                       gray tile of this format. Not with read_eighth and read_kept */
    const char *const *others; /* [n_others]: paths of files 1, 2, ...; only for opening */
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

/* NULL on failure. `threads` threads will read. */
struct tile_file *tile_file_open(const char *path, const struct tile_grid *g, int threads,
                                 struct err *e);
/* NULL is allowed. */
void tile_file_close(struct tile_file *t);

/* As the functions of the same names in struct slide_reader. */
int tile_file_read(struct tile_file *t, int thread, int64_t col, int64_t row, int channels,
                   uint8_t *out, enum store_status *status, struct err *e);
int tile_file_read_eighth(struct tile_file *t, int thread, int64_t col, int64_t row, uint8_t *rgb,
                          enum store_status *status, struct err *e);
int tile_file_read_kept(struct tile_file *t, int thread, int64_t col, int64_t row,
                        struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                        struct err *e);
bool tile_file_is_missing(const struct tile_file *t, int64_t col, int64_t row);
/* In which way the tiles that have been read contradict the file's header, and which of the
 * two was right (tile.h). NULL: in none. Not while threads read. */
const char *tile_file_contradiction(const struct tile_file *t);
void tile_file_prefetch(const struct tile_file *t, int64_t row, int64_t rows);

#endif
