/* block_mean.c - see block_mean.h. */
#include "process/draw/block_mean.h"

#include "common/result/features.h"

#include <math.h>

/* Sharpness says nothing about windows of glass. */
static bool is_glass(const struct result_slide *s, int map, int64_t k)
{
    const uint8_t *tissue = s->maps[RESULT_TISSUE].values;
    return result_is_sharpness(map) && tissue && !features_is_tissue(tissue[k]);
}

double block_mean(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t j = y * block; j < s->ny && j < (y + 1) * block; j++)
        for (int64_t i = x * block; i < s->nx && i < (x + 1) * block; i++) {
            const int64_t k = j * s->nx + i;
            const double v = is_glass(s, map, k) ? NAN : result_map_value(&s->maps[map], k);
            sum += isnan(v) ? 0 : v;
            n += !isnan(v);
        }
    return n ? sum / (double)n : NAN;
}
