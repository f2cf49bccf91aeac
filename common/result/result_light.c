/* result_light.c - see result_light.h. */
#include "common/result/result_light.h"

#include "common/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, EVEN = 4, COLOURED = 40, SATURATED = 252, LEAST_PART = 50 };

/* --- glass --- */

/* The greatest channel of all pixels. */
static int white_of(const struct result_picture *t)
{
    int white = 0;
    for (int64_t k = 0; k < t->width * t->height; k++)
        white = result_greatest(t->rgb + 3 * k) > white ? result_greatest(t->rgb + 3 * k) : white;
    return white;
}

/* Do the 3 x 3 pixels round pixel k differ by at most EVEN? */
static bool is_even(const struct result_picture *t, int64_t k)
{
    for (int c = 0; c < CHANNELS; c++) {
        int low = 255, high = 0;
        for (int64_t y = -1; y <= 1; y++)
            for (int64_t x = -1; x <= 1; x++) {
                const int v = t->rgb[3 * (k + y * t->width + x) + c];
                low = v < low ? v : low;
                high = v > high ? v : high;
            }
        if (high - low > EVEN)
            return false;
    }
    return true;
}

static bool is_glass(const struct result_picture *t, int64_t x, int64_t y, int white)
{
    const int64_t k = y * t->width + x;
    const uint8_t *rgb = t->rgb + 3 * k;
    return x > 0 && y > 0 && x < t->width - 1 && y < t->height - 1 &&
           4 * result_greatest(rgb) >= 3 * white &&
           result_greatest(rgb) - result_least(rgb) < COLOURED && result_least(rgb) < SATURATED &&
           is_even(t, k);
}

/* --- one side of a line --- */

struct side {
    int64_t n, count[CHANNELS][256];
    int darkest; /* no pixel has a lower channel */
};

static void add(struct side *s, const uint8_t *rgb, int sign)
{
    s->n += sign;
    for (int c = 0; c < CHANNELS; c++)
        s->count[c][rgb[c]] += sign;
}

/* The 10th, 50th and 90th percentile of a channel. */
struct levels {
    int low, middle, high;
};

static struct levels find_levels(const struct side *s, int channel)
{
    const double parts[] = {0.1, 0.5, 0.9};
    int at[3], k = s->darkest;
    int64_t below = 0; /* pixels of less than k */
    for (int q = 0; q < 3; q++) {
        const int64_t rest = (int64_t)(parts[q] * (double)(s->n - 1));
        while (k < 255 && below + s->count[channel][k] <= rest)
            below += s->count[channel][k++];
        at[q] = k;
    }
    return (struct levels){at[0], at[1], at[2]};
}

/* How far the pixels are from the median, in sum. */
static int64_t deviation(const struct side *s)
{
    int64_t sum = 0;
    for (int c = 0; c < CHANNELS; c++) {
        const int middle = find_levels(s, c).middle;
        for (int k = 0; k < 256; k++)
            sum += s->count[c][k] * abs(k - middle);
    }
    return sum;
}

/* --- lines --- */

/* Glass, and how a line goes through it: along the columns, or along the rows. */
struct cuts {
    const struct result_picture *t;
    const uint8_t *glass; /* [height][width] */
    int darkest;          /* the least channel of all glass */
    bool across;          /* along the rows: y is cut */
};

/* Moves line `at` of pixels out of one side (sign -1) or into it (1). */
static void move(const struct cuts *k, int64_t at, struct side *s, int sign)
{
    const int64_t n = k->across ? k->t->width : k->t->height;
    for (int64_t j = 0; j < n; j++) {
        const int64_t pixel = k->across ? at * k->t->width + j : j * k->t->width + at;
        if (k->glass[pixel])
            add(s, k->t->rgb + 3 * pixel, sign);
    }
}

/* How clear the step between both sides is, in levels; 0: there is none. */
static int clearness(const struct side side[2], int step[CHANNELS])
{
    int most = 0, wide = 0;
    for (int c = 0; c < CHANNELS; c++) {
        const struct levels a = find_levels(&side[0], c), b = find_levels(&side[1], c);
        step[c] = b.middle - a.middle;
        most = abs(step[c]) > most ? abs(step[c]) : most;
        wide = a.high - a.low > wide ? a.high - a.low : wide;
        wide = b.high - b.low > wide ? b.high - b.low : wide;
    }
    return most >= 2 * wide ? most - wide : 0;
}

/* The clearest step so far; of equal ones the one whose sides are most even. */
struct best {
    int clear;
    int64_t deviation;
};

/* The clearest step behind any line; the two lines of pixels at the step count for neither side. */
static void cut(const struct cuts *k, struct best *best, struct result_light *out)
{
    const int64_t n = k->across ? k->t->height : k->t->width;
    const int64_t enough = k->t->width * k->t->height / LEAST_PART + 1;
    struct side *side = memory_need(2, sizeof *side);
    side[0].darkest = side[1].darkest = k->darkest;
    for (int64_t at = 0; at < n; at++)
        move(k, at, &side[1], 1);
    for (int64_t at = 1; at < n; at++) { /* between at - 1 and at */
        int step[CHANNELS];
        if (at >= 2)
            move(k, at - 2, &side[0], 1);
        if (at == 1)
            move(k, 0, &side[1], -1);
        move(k, at, &side[1], -1);
        if (side[0].n < enough || side[1].n < enough)
            continue;
        const int clear = clearness(side, step);
        for (int c = 0; c < CHANNELS && isnan(out->step[c]); c++)
            out->step[c] = 0;
        const int64_t off = clear > 0 ? deviation(&side[0]) + deviation(&side[1]) : 0;
        if (clear < best->clear || clear == 0 || (clear == best->clear && off >= best->deviation))
            continue;
        *best = (struct best){clear, off};
        for (int c = 0; c < CHANNELS; c++)
            out->step[c] = step[c];
        out->at[k->across] = (double)at / (double)n;
        out->at[!k->across] = NAN;
    }
    free(side);
}

void result_find_light(const struct result_picture *t, struct result_light *out)
{
    *out = (struct result_light){{NAN, NAN, NAN}, {NAN, NAN}};
    if (!t->rgb)
        return;
    uint8_t *glass = memory_need((size_t)(t->width * t->height), 1);
    const int white = white_of(t);
    struct best best = {0, 0};
    int darkest = 255;
    for (int64_t k = 0; k < t->width * t->height; k++) {
        glass[k] = is_glass(t, k % t->width, k / t->width, white);
        if (glass[k] && result_least(t->rgb + 3 * k) < darkest)
            darkest = result_least(t->rgb + 3 * k);
    }
    for (int across = 0; across < 2; across++)
        cut(&(struct cuts){t, glass, darkest, across}, &best, out);
    free(glass);
}
