/*
 * shrink.h - smaller copies of pictures.
 */
#ifndef WSI_SHRINK_H
#define WSI_SHRINK_H

#include <stdint.h>

/* out [h][w][3] from in [height][width][3]: each pixel is the rounded mean of the box of pixels
 * that it stands for. 1 <= w <= width, 1 <= h <= height. */
void shrink_rgb(const uint8_t *in, int64_t width, int64_t height, uint8_t *out, int64_t w,
                int64_t h);

#endif
