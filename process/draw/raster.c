/* raster.c - see raster.h. */
#include "process/draw/raster.h"

#include "common/result/features.h"

#include <math.h>

enum { TABLE_STEP = 5, HATCH_STEP = 6 };

/* Every fifth of cividis's 256 colours. */
static const uint32_t cividis[] = {
    0x00224e, 0x002656, 0x002a5f, 0x002d68, 0x003070, 0x083370, 0x163770, 0x203a6f, 0x273e6e,
    0x2e416d, 0x34456c, 0x3a486c, 0x3f4c6c, 0x444f6c, 0x49536c, 0x4e566c, 0x535a6d, 0x575d6d,
    0x5c616e, 0x60646f, 0x656870, 0x696b71, 0x6d6f72, 0x727274, 0x767676, 0x7a7a78, 0x7e7d78,
    0x838179, 0x888578, 0x8d8878, 0x928c78, 0x969077, 0x9b9476, 0xa09875, 0xa59c74, 0xaaa073,
    0xafa471, 0xb5a86f, 0xbaac6d, 0xbfb06b, 0xc4b468, 0xc9b965, 0xcfbd62, 0xd4c15f, 0xdac65b,
    0xdfca57, 0xe5cf52, 0xead34c, 0xf0d846, 0xf6dd3f, 0xfce236, 0xfee838};

uint32_t colours_rgb(int k)
{
    const int at = k / TABLE_STEP, part = k % TABLE_STEP;
    const uint32_t a = cividis[at], b = cividis[part ? at + 1 : at];
    uint32_t rgb = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const int from = (int)(a >> shift & 255), to = (int)(b >> shift & 255);
        const int value = ((TABLE_STEP - part) * from + part * to + TABLE_STEP / 2) / TABLE_STEP;
        rgb |= (uint32_t)value << shift;
    }
    return rgb;
}

int colours_number(double value, double low, double high, int n)
{
    if (isnan(value))
        return -1;
    const double t = (value - low) / (high - low);
    return (int)(fmin(fmax(t, 0), 1) * (n - 1) + 0.5);
}

void colours_palette(uint32_t *out, int opacity)
{
    const uint32_t alpha = (uint32_t)opacity;
    for (int k = 0; k < COLOURS_MAP; k++) {
        const int nearest = (k * (COLOURS - 1) + (COLOURS_MAP - 1) / 2) / (COLOURS_MAP - 1);
        out[k] = colours_rgb(nearest) << 8 | alpha;
    }
    out[COLOURS_PAPER] = 0xffffffff;
    out[COLOURS_INK] = 0x222222ff;
    out[COLOURS_GROUND] = 0xe4e4e4ff;
    out[COLOURS_STROKE] = 0x8a8a8a00 | alpha;
    out[COLOURS_CLEAR] = 0xffffff00;
}

int colours_hatch(int64_t x, int64_t y)
{
    return (x + y) % HATCH_STEP == 0 ? COLOURS_STROKE : COLOURS_GROUND;
}

/* --- fewer pixels --- */

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
