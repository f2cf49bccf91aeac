/*
 * j2k_decoder.h - JPEG 2000 codestreams to pixels, through OpenJPEG: the one decoder of both
 * programs.
 *
 * A codestream has three components of 8 bits, or one: gray. The second and third may have half the
 * width or height, and each of their values then stands for two pixels. YCbCr is BT.601 full range,
 * rounded. Every warning of OpenJPEG is damage. Streams are hostile input.
 *
 * A decoder belongs to one thread. A build without OpenJPEG (J2K=0) has these functions, but
 * j2k_decoder_create() fails.
 */
#ifndef WSI_J2K_DECODER_H
#define WSI_J2K_DECODER_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the stream must be. */
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

/* "OpenJPEG 2.5.0", or NULL without it */
const char *j2k_library(void);

#endif
