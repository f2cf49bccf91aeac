/*
 * j2k_chunk.h - a JPEG 2000 tile as a chunk of codec j2k: one whole JP2 file (common/FORMAT.md).
 *
 * A codestream does not state its colours. The file's boxes do: sRGB or sYCC. They are the same
 * J2K_HEAD bytes for every chunk of one size and colours but for one length. Comments of the
 * codestream's main header and bytes after its end are left out, as they could carry texts that
 * identify a patient.
 *
 * No pixel is decoded and no library is needed. Streams are hostile input.
 */
#ifndef WSI_J2K_CHUNK_H
#define WSI_J2K_CHUNK_H

#include "common/base/err.h"
#include "common/codec/j2k_decoder.h"
#include "common/codec/jpeg_chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { J2K_HEAD = 85, J2K_CHUNK_OTHER = 1 };

/* Fills *c with the chunk. 0; J2K_NO_MEMORY; or J2K_CHUNK_OTHER, and e says why: the segments and
 * parts of the stream do not follow each other to its end, or a part has a comment. A 0 does not
 * mean that it can be decoded. */
int j2k_chunk_make(struct jpeg_chunk *c, const struct j2k_picture *p, const uint8_t *bytes,
                   size_t n, struct err *e);

/* What a codestream's main header states of its coding; zeros if it states nothing. */
struct j2k_coding {
    bool transformed; /* its components go through its own transform, so they decode to R, G, B */
    unsigned decompositions;
};
struct j2k_coding j2k_chunk_coding(const uint8_t *bytes, size_t n);

/* Are the first J2K_HEAD of n bytes those of a chunk of this size? Fills *p then; the codestream
 * follows them. */
bool j2k_chunk_read(struct j2k_picture *p, int64_t cols, int64_t rows, const uint8_t *bytes,
                    size_t n);

#endif
