/*
 * block_mean.h - a map of windows in fewer pixels: the means of square blocks of windows.
 */
#ifndef WSI_BLOCK_MEAN_H
#define WSI_BLOCK_MEAN_H

#include "common/result/result.h"

/* Mean of map `map` of s, a map of float32 or int16, over windows (x * block, y * block) to
 * (x * block + block - 1, y * block + block - 1), in the map's unit. Windows without a value and
 * beyond the slide are left out, and for sharpness those of which less than half is tissue, if the
 * map of tissue is loaded; NaN if none is left. */
double block_mean(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block);

#endif
