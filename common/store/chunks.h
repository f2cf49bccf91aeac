/*
 * chunks.h - reads the chunks of a store: from their places in the file to their pixels.
 *
 * store_map_group() lists the place, size and CRC-32 of each chunk. This module joins chunks that
 * lie one after the other in the file to extents, reads an extent through the page cache or past it
 * (store_read_directly()), checks each chunk's CRC-32 before anything decodes it, and unpacks it. A
 * caller takes the pixels of one chunk after the other (chunks_visit), the pixels of an extent in
 * memory of its own (chunks_load), or the stored bytes (chunks_load_stored).
 *
 * A chunk is addressed by its row and column in `struct chunks`, in chunks. Its pixels are u8
 * [chunk_rows][chunk_cols][channels]. A chunk that was left out has no stored bytes; its pixels are
 * 255. A packed chunk may have any length.
 *
 * Threads: a `struct chunks` is only read; each thread has its own scratch. Errors: every message
 * names the file. Messages name a chunk by its row and column within its group, which are its
 * indices in the group's tables tile_status and tile_crc32. No HDF5 here.
 */
#ifndef WSI_CHUNKS_H
#define WSI_CHUNKS_H

#include "common/base/err.h"
#include "common/codec/codec.h"
#include "common/store/store_read.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Some rows of chunks of a store: chunks_of(). All pointers are the caller's. */
struct chunks {
    const struct store *store;
    const struct store_chunk *list; /* [rows][columns] */
    struct codec_params params;     /* of each chunk */
    int64_t columns;                /* store_chunk_columns() */
    int64_t first_row;              /* row of chunks in the slide at which list[0] begins */
};

struct chunks chunks_of(const struct store *s, const struct store_chunk *list, int64_t first_row);

/* Chunks of one row that lie one after the other in the file, or that were all left out. */
struct chunks_extent {
    int64_t row, col, n;
};

/* Memory and contexts of one thread. Starts as {0}. */
struct chunks_scratch {
    unsigned char *stored, *pixels;
    size_t stored_size, pixels_size;
    struct codec_work *codec;
    double read_seconds, unpack_seconds; /* time spent here; the caller may reset it */
};
void chunks_scratch_free(struct chunks_scratch *s); /* what it owns, not s */

enum {
    CHUNKS_MARGIN = 2 * STORE_PAGE, /* bytes that reading past the page cache needs more */
    CHUNKS_DAMAGED = -2,            /* as -1, but the chunk itself is damaged */
};

/* The extent that begins at (row, col): at most `most` chunks, at least one. */
struct chunks_extent chunks_extent_at(const struct chunks *c, int64_t row, int64_t col,
                                      int64_t most);
/* How many of an extent's first chunks, at least one, have at most `bytes` stored bytes together.
 */
int64_t chunks_that_fit(const struct chunks *c, struct chunks_extent x, size_t bytes);
/* Stored bytes of an extent. */
size_t chunks_stored_bytes(const struct chunks *c, struct chunks_extent x);

/* Calls visit for each chunk of the extent in turn. `pixels` are valid until visit returns. */
int chunks_visit(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                 void (*visit)(void *ctx, int64_t col, const uint8_t *pixels), void *ctx,
                 struct err *e);
/* Puts the pixels of all chunks of the extent into `memory`, one after the other; *pixels is where
 * they begin. `memory` begins on a page and has CHUNKS_MARGIN bytes more than the pixels. */
int chunks_load(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                uint8_t *memory, const uint8_t **pixels, struct err *e);
/* As chunks_load, with the stored bytes instead of the pixels: CRCs checked, nothing unpacked.
 * `memory` has CHUNKS_MARGIN bytes more than chunks_stored_bytes(). */
int chunks_load_stored(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                       uint8_t *memory, const uint8_t **stored, struct err *e);

/* The three steps of the above, for callers that go on after a damaged chunk. Reads the stored
 * bytes of an extent into the scratch, unchecked; *stored is valid until the next call. */
int chunks_read(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                const uint8_t **stored, struct err *e);
/* Compares the CRC-32. 0 or CHUNKS_DAMAGED. */
int chunks_check(const struct chunks *c, int64_t row, int64_t col, const uint8_t *stored,
                 struct err *e);
/* The message for a chunk whose CRC-32 is another one, as a device has found. CHUNKS_DAMAGED. */
int chunks_mismatch(const struct chunks *c, int64_t row, int64_t col, struct err *e);
/* Unpacks a checked chunk to the scratch; *pixels are valid until the next call. 0, -1 or
 * CHUNKS_DAMAGED. */
int chunks_unpack(const struct chunks *c, struct chunks_scratch *s, int64_t row, int64_t col,
                  const uint8_t *stored, const uint8_t **pixels, struct err *e);

/* The part of the file that holds the stored bytes of `rows` rows. False if they have none. */
bool chunks_range(const struct chunks *c, int64_t row, int64_t rows, uint64_t *offset,
                  uint64_t *bytes);
/* Asks the kernel to read them ahead; never fails. */
void chunks_prefetch(const struct chunks *c, int64_t row, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
