/* colours.c - see colours.h. */
#include "process/draw/colours.h"

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
