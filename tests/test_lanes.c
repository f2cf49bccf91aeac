/*
 * test_lanes - the variants of lanes.h that this processor can run give the same floats bit for bit,
 * so results do not depend on the machine. check_spectrum.py compares the best one with numpy.
 */
#include "process/spectrum/lanes.h"
#include "tests/unit.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 1024, RING = MOST + LANES_STRIP, BLOCK = RING * 2 * LANES, MOST_RADIUS = 30 };
enum { MOST_STEPS = 254, FLOATS = (MOST / 2 / LANES + 2) * BLOCK };

static _Alignas(LANES_ALIGN) float in[BLOCK], data[MOST * 2 * LANES], out[2][FLOATS],
    work[(MOST + LANES) * 2 * LANES], pixels[(MOST_STEPS + 1) * (MOST_STEPS + 1)];

static void fill(float *p, size_t n, uint32_t state)
{
    for (size_t k = 0; k < n; k++) {
        state = state * 1664525u + 1013904223u;
        p[k] = (float)(state >> 8) / 65536; /* 0 .. 256 */
    }
}

static const float *hann(int n)
{
    static float taper[MOST];
    for (int k = 0; k < n; k++)
        taper[k] = (float)(0.5 - 0.5 * cos(2 * M_PI * k / n));
    return taper;
}

/* Both transforms of n values, from a place of the ring at which they wrap around. */
static void transform(const struct lanes *lanes, int n, const float *taper, float *to)
{
    struct lanes_real r;
    struct lanes_plan p;
    const struct lanes_ring ring = {in, n - 7, n + LANES_STRIP, taper};
    lanes_real_create(&r, n, taper);
    lanes_plan_create(&p, n);
    memset(work, 0, sizeof work);
    lanes->columns(&r, in, work, to, to + LANES, LANES * 2 * LANES);
    lanes->power(&p, &ring, LANES, data, to + LANES + lanes_blocks(n) * LANES * 2 * LANES);
    lanes_real_free(&r);
    lanes_plan_free(&p);
}

static void smooth(const struct lanes *lanes, int radius, float *to)
{
    const float *rows[2 * MOST_RADIUS + 1] = {0};
    float weights[MOST_RADIUS + 1];
    fill(weights, MOST_RADIUS + 1, 4);
    for (int t = 0; t <= 2 * radius; t++)
        rows[t] = in + 1000 * t / (radius + 1) + t; /* nothing is aligned */
    lanes->smooth(rows, weights, radius, to, 5 * LANES);
}

static void steps(const struct lanes *lanes, size_t n, float *to)
{
    const float *rows[MOST_STEPS + 1] = {0};
    int32_t down[MOST_STEPS], across[MOST_STEPS];
    for (size_t k = 0; k <= n; k++)
        rows[k] = pixels + k * (MOST_STEPS + 1);
    lanes->steps(rows, (int)n, down, across);
    memcpy(to, down, n * sizeof *down);
    memcpy(to + n, across, n * sizeof *across);
}

/* Runs `what` in each variant. */
#define ALIKE(what, ...)                                                                           \
    for (int k = 0; lanes_variant(k); k++) {                                                       \
        memset(out[k > 0], 0, sizeof out[0]);                                                      \
        what(lanes_variant(k), __VA_ARGS__, out[k > 0]);                                           \
        EXPECT(!memcmp(out[0], out[k > 0], sizeof out[0]));                                        \
    }

static void test_variants_agree_to_the_bit(void)
{
    fill(in, BLOCK, 3);
    fill(pixels, sizeof pixels / sizeof *pixels, 5);
    for (size_t k = 0; k < sizeof pixels / sizeof *pixels; k++)
        pixels[k] = floorf(pixels[k]) * 996;
    for (int n = 64; n <= MOST; n *= 2) {
        ALIKE(transform, n, NULL);
        ALIKE(transform, n, hann(n));
    }
    for (int radius = 0; radius <= MOST_RADIUS; radius++)
        ALIKE(smooth, radius);
    for (size_t n = 64; n <= MOST_STEPS; n += 19)
        ALIKE(steps, n);
}

int main(void)
{
    return UNIT_RUN("lanes", UNIT(variants_agree_to_the_bit));
}
