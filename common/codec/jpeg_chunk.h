/*
 * jpeg_chunk.h - a TIFF tile as a chunk of codec jpeg: one whole baseline JPEG file
 * (common/FORMAT.md).
 *
 * TIFF files keep the tables of all tiles in one tag (347, JPEGTables) and the colour space in
 * another (262, Photometric). The chunk states both itself: SOI, an APP14 Adobe marker, the tables,
 * the tile's own tables and headers, its entropy-coded data, unchanged, and EOI. Comments,
 * application segments and bytes after EOI are left out, as they could carry texts that identify a
 * patient.
 *
 * No pixel is decoded and no library is needed. Streams are hostile input.
 */
#ifndef WSI_JPEG_CHUNK_H
#define WSI_JPEG_CHUNK_H

#include "common/base/err.h"
#include "common/codec/jpeg_decoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A buffer that grows; starts as {0}. free() bytes. */
struct jpeg_chunk {
    uint8_t *bytes;
    size_t n, room;
};

enum { JPEG_CHUNK_OTHER = 1 };

/*
 * Fills *c with the chunk. 0; JPEG_NO_MEMORY; or JPEG_CHUNK_OTHER, and e says why: the tile is
 * damaged, or a JPEG of a kind that a chunk cannot hold. A 0 does not mean that it can be decoded.
 */
int jpeg_chunk_make(struct jpeg_chunk *c, const struct jpeg_stream *s, bool ycbcr, struct err *e);

/*
 * A picture as chunks of codec jpeg, one for every `rows` rows. If the last strip has fewer rows
 * than that, its chunk is its pixels instead, filled up with zeros. Starts as {0}.
 */
struct jpeg_strips {
    int64_t width, height, rows; /* px; rows of a strip */
    int64_t n, room;             /* strips; `room` belongs to jpeg_strips_add */
    struct jpeg_chunk *list;     /* [n] */
};

/* Is strip k stored as pixels? */
bool jpeg_strips_is_raw(const struct jpeg_strips *s, int64_t k);
/* Appends a strip, and takes its bytes from *c. */
int jpeg_strips_add(struct jpeg_strips *s, struct jpeg_chunk *c, struct err *e);
void jpeg_strips_free(struct jpeg_strips *s);

#endif
