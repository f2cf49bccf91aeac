/*
 * jpeg_encoder.h - pixels to JPEG files in memory, with libjpeg-turbo. Any thread. In a build
 * without libjpeg both functions fail.
 */
#ifndef WSI_JPEG_ENCODER_H
#define WSI_JPEG_ENCODER_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Encodes u8 [height][width][channels], RGB or gray, at this quality (1 to 100). `small`: with
 * Huffman tables of its own, a few percent smaller, in 1.5 times the time. Returns the bytes, to be
 * free()d, and their number in *n; NULL if memory is short. */
uint8_t *jpeg_encode(const uint8_t *pixels, int width, int height, int channels, int quality,
                     bool small, size_t *n);
/* A file as of JPEG_MARKED (jpeg_decoder.h) that decodes to exactly one colour: colour[channels],
 * RGB or gray. *bytes is to be free()d. */
int jpeg_encode_flat(int64_t cols, int64_t rows, const uint8_t *colour, int channels,
                     uint8_t **bytes, size_t *n, struct err *e);

#endif
