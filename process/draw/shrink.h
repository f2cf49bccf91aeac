/*
 * shrink.h - pictures and maps in fewer pixels.
 */
#ifndef WSI_SHRINK_H
#define WSI_SHRINK_H

#include "common/result/result.h"

#include <stdint.h>

/* out [h][w][3] from in [height][width][3]: each pixel is the rounded mean of the box of pixels
 * that it stands for. 1 <= w <= width, 1 <= h <= height. */
void shrink_rgb(const uint8_t *in, int64_t width, int64_t height, uint8_t *out, int64_t w,
                int64_t h);
/* Mean of map `map` of s, a map of float32 or int16, over windows (x * block, y * block) to
 * (x * block + block - 1, y * block + block - 1), in the map's unit. Windows without a value and
 * beyond the slide are left out, and for sharpness those of which less than half is tissue, if the
 * map of tissue is loaded; NaN if none is left. */
double shrink_map(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block);

#endif
