/*
 * j2k.h - JPEG 2000: codestreams to pixels, and tiles as chunks.
 */
#ifndef WSI_J2K_H
#define WSI_J2K_H

#include "common/base/err.h"
#include "common/codec/jpeg_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * JPEG 2000 codestreams to pixels, through OpenJPEG: the one decoder of both
 * programs.
 *
 * A codestream has three components of 8 bits, or one: gray. The second and third may have half the
 * width or height, and each of their values then stands for two pixels. YCbCr is BT.601 full range,
 * rounded. Every warning of OpenJPEG is damage. Streams are hostile input.
 *
 * A decoder belongs to one thread. A build without OpenJPEG (J2K=0) has these functions, but
 * j2k_decoder_create() fails.
 */

/* The properties that the stream must have. */
struct j2k_picture {
    int64_t cols, rows; /* px */
    bool ycbcr;         /* its components are Y, Cb and Cr, not R, G and B */
    bool gray;          /* it has one component */
};

struct j2k_decoder;
/* NULL if there is no memory or no OpenJPEG. */
struct j2k_decoder *j2k_decoder_create(struct err *e);
void j2k_decoder_free(struct j2k_decoder *d); /* NULL is allowed */

enum { J2K_DAMAGED = -1, J2K_NO_MEMORY = -2 }; /* -1 is what err_set returns */

/* Decodes n bytes into out u8 [rows][cols][3], RGB, or of gray [rows][cols]. 0, J2K_DAMAGED or
 * J2K_NO_MEMORY. */
int j2k_decode(struct j2k_decoder *d, const struct j2k_picture *p, const uint8_t *bytes, size_t n,
               uint8_t *out, struct err *e);
/* The same without pixels, in less time: all headers are read, and the coefficients of the coarse
 * resolutions. */
int j2k_check(struct j2k_decoder *d, const struct j2k_picture *p, const uint8_t *bytes, size_t n,
              struct err *e);

/* The same of the headers alone: would the stream be decoded at all? 0 or J2K_DAMAGED. */
int j2k_check_headers(const struct j2k_picture *p, const uint8_t *bytes, size_t n, struct err *e);

/* The size that a codestream states. False: it does not begin as one. */
bool j2k_stream_size(const uint8_t *bytes, size_t n, int64_t *cols, int64_t *rows);

/* "OpenJPEG 2.5.0", or NULL without it */
const char *j2k_library(void);

/*
 * A JPEG 2000 tile as a chunk of codec j2k: one whole JP2 file (common/FORMAT.md).
 *
 * A codestream does not state its colours. The file's boxes do: signature; file type `jp2 `; header
 * with size, three components of 8 bits, and colour space 16, sRGB, or 18, sYCC. They are the same
 * J2K_HEAD bytes for every chunk of one size and colours but for one length. Comments of the
 * codestream's main header and bytes after its end are left out, as they could carry texts that
 * identify a patient.
 *
 * No pixel is decoded and no library is needed. Streams are hostile input.
 */

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
