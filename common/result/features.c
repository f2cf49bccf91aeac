/* features.c - see features.h. */
#include "common/result/features.h"

#include "common/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- octaves --- */

int features_octave(int64_t window, int64_t v, int64_t u)
{
    const int64_t square = v * v + u * u;
    /* 2^-j <= f is window^2 <= square * 4^j */
    for (int o = FEATURES_OCTAVES - 1; o >= 0; o--)
        if (square << 2 * (7 - o) >= window * window)
            return square << 2 * (6 - o) < window * window ? o : FEATURES_NONE;
    return FEATURES_NONE;
}

static void count_values(int64_t window, int64_t values[FEATURES_OCTAVES])
{
    const int64_t half = window / 2; /* 0 and half have no partner of the other sign */
    memset(values, 0, FEATURES_OCTAVES * sizeof *values);
    for (int64_t v = 0; v <= half; v++)
        for (int64_t u = 0; u <= half; u++) {
            const int o = features_octave(window, v, u);
            if (o != FEATURES_NONE)
                values[o] += (v > 0 && v < half ? 2 : 1) * (u > 0 && u < half ? 2 : 1);
        }
}

/* Counting takes 0.1 ms, and windows of many slides have one size. */
void features_values(int64_t window, int64_t values[FEATURES_OCTAVES])
{
    static _Thread_local int64_t last, counted[FEATURES_OCTAVES];
    if (last != window)
        count_values(window, counted);
    last = window;
    memcpy(values, counted, sizeof counted);
}

double features_level(double low_db, double bin_width, uint64_t sum, uint64_t n)
{
    return n ? low_db + bin_width * ((double)sum / (double)n + 0.5) : NAN;
}

const double features_sharpness_weights[FEATURES_OCTAVES] = {
    [FEATURES_OCTAVE(3)] = 1, [FEATURES_OCTAVE(4)] = -0.75, [FEATURES_OCTAVE(6)] = -0.25};

double features_sharpness(const double levels[FEATURES_OCTAVES])
{
    double sum = 0;
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        if (features_sharpness_weights[o] != 0)
            sum += features_sharpness_weights[o] * levels[o];
    return sum;
}

int16_t features_hundredths(double db)
{
    const long long v = llround(100 * db);
    return (int16_t)(v > INT16_MAX ? INT16_MAX : v < -INT16_MAX ? -INT16_MAX : v);
}

/* The octaves j = 6..3 lie at equal distances on the axis of 20 log10 f. */
double features_slope(const double profile[FEATURES_OCTAVES])
{
    const double step = 20 * log10(2.0);
    return -(-1.5 * profile[1] - 0.5 * profile[2] + 0.5 * profile[3] + 1.5 * profile[4]) /
           (5 * step);
}

/* --- quantiles --- */

const double features_shares[FEATURES_QUANTILES] = {0.05, 0.5, 0.95};

/* The value of rank k, from 0. */
static double value_of_rank(const int64_t *counts, int64_t k)
{
    int64_t v = 0;
    for (int64_t before = counts[0]; before <= k; before += counts[v])
        v++;
    return (double)(v + INT16_MIN);
}

static double quantile(const int64_t *counts, int64_t n, double share)
{
    const double at = share * (double)(n - 1);
    const int64_t below = (int64_t)floor(at);
    const double a = value_of_rank(counts, below);
    const double b = below + 1 < n ? value_of_rank(counts, below + 1) : a;
    return a + (b - a) * (at - (double)below);
}

void features_quantiles(const struct features_values *v, const double *shares, int n_shares,
                        double *quantiles)
{
    int64_t *counts = memory_need(UINT16_MAX + 1, sizeof *counts), known = 0;
    for (int64_t k = 0; k < v->n; k++)
        if (v->values[k] != v->none && features_is_tissue(v->tissue[k])) {
            counts[v->values[k] - INT16_MIN]++;
            known++;
        }
    for (int q = 0; q < n_shares; q++)
        quantiles[q] = known ? quantile(counts, known, shares[q]) : NAN;
    free(counts);
}

/* --- tissue --- */

uint8_t features_percent(int64_t area, int64_t all)
{
    const int64_t percent = 100 * area / all;
    return (uint8_t)(percent == 0 && area > 0 ? 1 : percent);
}

/* --- steps --- */

/* A row of windows, or a column: `length` windows, `along` from one to the next. */
static void choose_of_line(const uint8_t *may, int64_t first, int64_t length, int64_t along,
                           int64_t line, uint8_t *sample)
{
    int64_t n = 0, number = 0;
    for (int64_t k = 0; k < length; k++)
        n += may[first + k * along];
    const int64_t every = n < 48 ? 1 : n / 24;
    for (int64_t k = 0; k < length; k++) {
        if (!may[first + k * along])
            continue;
        if ((number + line) % every == 0)
            sample[first + k * along] |= FEATURES_STEPPED;
        number++;
    }
}

void features_choose_steps(const uint8_t *percent, const uint8_t *inside, int64_t nx, int64_t ny,
                           uint8_t *sample)
{
    uint8_t *may = memory_need((size_t)(nx * ny) + 1, 1);
    for (int64_t k = 0; k < nx * ny; k++)
        may[k] = (!percent || features_shows_steps(percent[k])) && (!inside || inside[k]);
    for (int64_t j = 0; j < ny; j++)
        choose_of_line(may, j * nx, nx, 1, j, sample);
    for (int64_t i = 0; i < nx; i++)
        choose_of_line(may, i, ny, nx, i, sample);
    free(may);
}

/* --- the sample --- */

/* The number of windows to sample out of n of one kind: all up to FEATURES_LEAST, then one in
 * sixteen, at most FEATURES_MOST_TISSUE or FEATURES_MOST_GLASS. */
static int64_t sample_size(enum features_sample kind, int64_t n)
{
    const int64_t most = kind == FEATURES_TISSUE ? FEATURES_MOST_TISSUE : FEATURES_MOST_GLASS;
    const int64_t share = n / 16 > FEATURES_LEAST ? n / 16 : FEATURES_LEAST;
    const int64_t size = share < most ? share : most;
    return size < n ? size : n;
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
int64_t features_hash(int64_t i, int64_t j)
{
    uint64_t z = (uint64_t)j << 32 | (uint64_t)i;
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ z >> 31) >> 1);
}

enum { TOP_BITS = 16, TOP_SHIFT = 63 - TOP_BITS };

/* Hashes of the windows of one kind, first counted by their top bits, then listed if these are
 * `top`. */
struct hashes {
    int64_t *counts; /* [1 << TOP_BITS] */
    int64_t *list;   /* NULL: count */
    int64_t n, top;
};

static void add_hash(struct hashes *h, int64_t hash)
{
    const int64_t top = hash >> TOP_SHIFT;
    if (!h->list) {
        h->counts[top]++;
        h->n++;
    } else if (top == h->top)
        h->list[h->n++] = hash;
}

/* The windows of a slide, as of features_thresholds(). */
struct windows {
    const uint8_t *tissue, *inside;
    int64_t nx, ny;
};

static void add_hashes(struct hashes *h, enum features_sample kind, const struct windows *w)
{
    h->n = 0;
    for (int64_t j = 0; j < w->ny; j++)
        for (int64_t i = 0; i < w->nx; i++) {
            const int64_t k = j * w->nx + i;
            if ((!w->inside || w->inside[k]) &&
                (!w->tissue || w->tissue[k]) == (kind == FEATURES_TISSUE))
                add_hash(h, features_hash(i, j));
        }
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The smallest hash that is left out of the sample. */
static int64_t threshold_of(struct hashes *h, enum features_sample kind, const struct windows *w)
{
    memset(h->counts, 0, sizeof *h->counts << TOP_BITS);
    add_hashes(h, kind, w);
    int64_t rank = sample_size(kind, h->n);
    if (rank == h->n)
        return INT64_MAX;
    for (h->top = 0; rank >= h->counts[h->top]; h->top++)
        rank -= h->counts[h->top];
    h->list = memory_need((size_t)h->counts[h->top], sizeof *h->list);
    add_hashes(h, kind, w);
    qsort(h->list, (size_t)h->n, sizeof *h->list, by_value);
    const int64_t threshold = h->list[rank];
    free(h->list);
    h->list = NULL;
    return threshold;
}

void features_thresholds(const uint8_t *tissue, const uint8_t *inside, int64_t nx, int64_t ny,
                         int64_t thresholds[FEATURES_SAMPLES])
{
    const struct windows w = {tissue, inside, nx, ny};
    struct hashes h = {.counts = memory_need((size_t)1 << TOP_BITS, sizeof *h.counts)};
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        thresholds[k] = threshold_of(&h, (enum features_sample)k, &w);
    free(h.counts);
}
