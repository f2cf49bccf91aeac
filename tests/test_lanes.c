/*
 * test_lanes - the transforms of lanes.h, every variant that this processor can run: against a DFT
 * in double, against each other bit for bit, and each lane for itself.
 */
#include "process/spectrum/lanes.h"
#include "tests/unit.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, RING = MOST + LANES_STRIP, BLOCK = RING * 2 * LANES, MOST_RADIUS = 30 };

static _Alignas(LANES_ALIGN) float in[BLOCK], data[MOST * 2 * LANES],
    out[2][(MOST / 2 / LANES + 1) * BLOCK], work[(MOST + LANES) * 2 * LANES], mean[2][LANES];

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 65536; /* 0 .. 256 */
}

static void fill(float *p, size_t n, uint32_t seed)
{
    for (size_t k = 0; k < n; k++)
        p[k] = noise(&seed);
}

static const float *hann(int n)
{
    static float taper[MOST];
    for (int k = 0; k < n; k++)
        taper[k] = (float)(0.5 - 0.5 * cos(2 * M_PI * k / n));
    return taper;
}

static complex double frequency(const complex double *v, int n, int f)
{
    complex double sum = 0;
    for (int k = 0; k < n; k++)
        sum += v[k] * cexp(-2 * M_PI * I * (double)((int64_t)k * f % n) / n);
    return sum;
}

/* --- columns --- */

/* Values around 1000, so that the mean matters: the error may only be that of what varies. */
static void check_column(const struct lanes_real *r, int c, size_t block)
{
    complex double v[MOST];
    const int n = r->n;
    for (int k = 0; k < n; k++)
        v[k] =
            ((double)in[k * LANES + c] - (double)mean[0][c]) * (r->taper ? (double)r->taper[k] : 1);
    for (int f = 0; f<n / 2 + LANES; f += n> 256 ? 5 : 1) {
        const float *z = out[0] + (size_t)(f / LANES) * block + c * 2 * LANES + f % LANES;
        const complex double want = f <= n / 2 ? frequency(v, n, f) : 0;
        if (f / LANES < lanes_blocks(n))
            EXPECT(cabs((double)z[0] + I * (double)z[LANES] - want) < 2e-6 * 256 * sqrt(n));
    }
}

static void test_columns(void)
{
    for (int k = 0; lanes_variant(k); k++)
        for (int n = 64; n <= MOST; n *= 2)
            for (int tapered = 0; tapered < 2; tapered++) {
                struct lanes_real r;
                const size_t block = LANES * 2 * LANES;
                lanes_real_create(&r, n, tapered ? hann(n) : NULL);
                fill(in, (size_t)n * LANES, (uint32_t)n);
                for (int x = 0; x < n * LANES; x++)
                    in[x] += 1000;
                memset(work, 0, sizeof work);
                lanes_variant(k)->columns(&r, in, work, mean[0], out[0], block);
                for (int c = 0; c < LANES; c += 5) {
                    double sum = 0;
                    for (int y = 0; y < n; y++)
                        sum += (double)in[y * LANES + c] / n;
                    EXPECT(fabs(sum - (double)mean[0][c]) < 0.01);
                    check_column(&r, c, block);
                }
                lanes_real_free(&r);
            }
}

/* --- power --- */

static void check_row(const struct lanes_plan *p, const struct lanes_ring *r, int l)
{
    complex double v[MOST];
    for (int k = 0; k < p->n; k++) {
        const float *z = r->values + (r->at + k) % r->length * 2 * LANES + l;
        v[k] = ((double)z[0] + I * (double)z[LANES]) * (r->taper ? (double)r->taper[k] : 1);
    }
    const double scale = 256 * 2 * sqrt(p->n);
    for (int f = 1; f<p->n; f += p->n> 256 ? 7 : 1) {
        const double want = cabs(frequency(v, p->n, f));
        EXPECT(fabs(sqrt((double)out[0][p->place[f] * LANES + l]) - want) < 2e-6 * scale);
    }
}

static void test_power(void)
{
    for (int k = 0; lanes_variant(k); k++)
        for (int n = 64; n <= MOST; n *= 2)
            for (int at = 0; at <= n; at += n / 4 + 3) { /* wrapped nowhere, and in every quarter */
                struct lanes_plan p;
                const struct lanes_ring r = {in, at, n + LANES_STRIP, at % 2 ? hann(n) : NULL};
                lanes_plan_create(&p, n);
                fill(in, (size_t)r.length * 2 * LANES, (uint32_t)at);
                for (int x = 0; x < r.length * 2 * LANES; x++)
                    in[x] -= 128;
                lanes_variant(k)->power(&p, &r, LANES, data, out[0]);
                for (int l = 0; l < LANES; l += 5)
                    check_row(&p, &r, l);
                lanes_plan_free(&p);
            }
}

static void test_places(void)
{
    for (int n = 4; n <= MOST; n *= 2) {
        struct lanes_plan p;
        bool seen[MOST] = {0};
        lanes_plan_create(&p, n);
        for (int k = 0; k < n; k++) {
            EXPECT(p.place[k] >= 0 && p.place[k] < n && !seen[p.place[k]]);
            seen[p.place[k]] = true;
        }
        lanes_plan_free(&p);
    }
}

/* --- smoothing --- */

static void test_smooth(void)
{
    float weights[MOST_RADIUS + 1];
    const float *rows[2 * MOST_RADIUS + 1];
    const size_t step = 5 * LANES;
    fill(in, BLOCK, 3);
    fill(weights, MOST_RADIUS + 1, 4);
    for (int radius = 0; radius <= MOST_RADIUS; radius++)
        for (int v = 0; lanes_variant(v); v++) {
            for (int t = 0; t <= 2 * radius; t++)
                rows[t] = in + t; /* as along a row: nothing is aligned */
            lanes_variant(v)->smooth(rows, weights, radius, out[0], step);
            for (int k = 0; k < LANES_STRIP; k++) {
                double want = (double)weights[0] * (double)rows[radius][k];
                for (int t = 1; t <= radius; t++)
                    want += (double)weights[t] *
                            ((double)rows[radius - t][k] + (double)rows[radius + t][k]);
                EXPECT(fabs((double)out[0][(size_t)(k / LANES) * step + (size_t)k % LANES] / want -
                            1) < 1e-6);
            }
        }
}

/* --- the same floats everywhere --- */

static void run_all(const struct lanes *lanes, int n, float *to, float *means)
{
    struct lanes_real r;
    struct lanes_plan p;
    const float *rows[] = {in, in + 3, in + 64, in + 5, in + 1000, in + 7, in + 4};
    const float weights[] = {0.4f, 0.24f, 0.05f, 0.004f};
    const struct lanes_ring ring = {in, n - 7, n + LANES_STRIP, hann(n)};
    lanes_real_create(&r, n, hann(n));
    lanes_plan_create(&p, n);
    memset(work, 0, sizeof work);
    lanes->columns(&r, in, work, means, to, LANES * 2 * LANES);
    to += lanes_blocks(n) * LANES * 2 * LANES;
    lanes->power(&p, &ring, LANES, data, to);
    lanes->smooth(rows, weights, 3, to + n * LANES, LANES);
    lanes_real_free(&r);
    lanes_plan_free(&p);
}

static void test_variants_agree_to_the_bit(void)
{
    for (int n = 64; n <= MOST; n *= 2) {
        const size_t floats = (size_t)(lanes_blocks(n) * 2 * LANES + n) * LANES + LANES_STRIP;
        fill(in, BLOCK, (uint32_t)n);
        run_all(lanes_variant(0), n, out[0], mean[0]);
        for (int k = 1; lanes_variant(k); k++) {
            memset(out[1], 0, floats * sizeof(float));
            run_all(lanes_variant(k), n, out[1], mean[1]);
            EXPECT(!memcmp(out[0], out[1], floats * sizeof(float)) &&
                   !memcmp(mean[0], mean[1], sizeof mean[0]));
        }
    }
}

/* What the other lanes hold must not change a lane: a column's partners depend on the part it lies
 * in. */
static void test_a_lane_depends_on_itself_alone(void)
{
    enum { N = 256, LANE = 6 };
    for (int k = 0; lanes_variant(k); k++) {
        for (int run = 0; run < 2; run++) {
            fill(in, BLOCK, (uint32_t)run);
            uint32_t state = 9;
            for (int x = 0; x < RING * 2; x++)
                in[x * LANES + LANE] = noise(&state);
            run_all(lanes_variant(k), N, out[run], mean[run]);
        }
        const int blocks = lanes_blocks(N);
        EXPECT(mean[0][LANE] == mean[1][LANE]);
        for (int b = 0; b < blocks; b++)
            EXPECT(!memcmp(out[0] + (b * LANES + LANE) * 2 * LANES,
                           out[1] + (b * LANES + LANE) * 2 * LANES, 2 * LANES * sizeof(float)));
        for (int x = 0; x < N; x++) {
            const int at = (blocks * 2 * LANES + x) * LANES + LANE;
            EXPECT(out[0][at] == out[1][at]);
        }
    }
}

static void test_the_best_is_the_last(void)
{
    int n = 0;
    while (lanes_variant(n))
        n++;
    EXPECT(n >= 1 && lanes_best() == lanes_variant(n - 1) &&
           !strcmp(lanes_variant(0)->name, "plain"));
}

int main(void)
{
    return UNIT_RUN("lanes", UNIT(places), UNIT(columns), UNIT(power), UNIT(smooth),
                    UNIT(variants_agree_to_the_bit), UNIT(a_lane_depends_on_itself_alone),
                    UNIT(the_best_is_the_last));
}
