/* block_mean.c - see block_mean.h. */
#include "process/draw/block_mean.h"

#include <math.h>

double block_mean(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t j = y * block; j < s->ny && j < (y + 1) * block; j++)
        for (int64_t i = x * block; i < s->nx && i < (x + 1) * block; i++) {
            const double v = result_map_value(&s->maps[map], j * s->nx + i);
            sum += isnan(v) ? 0 : v;
            n += !isnan(v);
        }
    return n ? sum / (double)n : NAN;
}
