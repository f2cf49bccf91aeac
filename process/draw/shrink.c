/* shrink.c - see shrink.h. */
#include "process/draw/shrink.h"

#include "common/result/features.h"

#include <math.h>

/* The mean of the box from (x0, y0) to before (x1, y1), per colour. */
static void mean_of_box(const uint8_t *in, int64_t width, int64_t x0, int64_t y0, int64_t x1,
                        int64_t y1, uint8_t out[3])
{
    const int64_t n = (x1 - x0) * (y1 - y0);
    int64_t sum[3] = {0};
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++)
            for (int c = 0; c < 3; c++)
                sum[c] += in[(y * width + x) * 3 + c];
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)((sum[c] + n / 2) / n);
}

void shrink_rgb(const uint8_t *in, int64_t width, int64_t height, uint8_t *out, int64_t w,
                int64_t h)
{
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            mean_of_box(in, width, x * width / w, y * height / h, (x + 1) * width / w,
                        (y + 1) * height / h, out + (y * w + x) * 3);
}

/* Sharpness says nothing about windows of glass. */
static bool is_glass(const struct result_slide *s, int map, int64_t k)
{
    const uint8_t *tissue = s->maps[RESULT_TISSUE].values;
    return result_is_sharpness(map) && tissue && !features_is_tissue(tissue[k]);
}

double shrink_map(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block)
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
