/*
 * feature_discs.cuh - sums of bin numbers over octaves for the fused kernel (fused.cu): windows of
 * 256 px, of which a thread holds 16 values of a column at a time, vertical frequencies t + 16 p.
 *
 * An octave is the difference of two discs of frequencies: those within 2, 4, ... 128 of frequency
 * zero. The last octave, the corners, is what is left of all values; it is summed per block, from
 * the histogram. A column cuts each disc in an interval around vertical frequency 0, so a value
 * takes one comparison and one addition per disc that reaches that far; most values take one or
 * two. How far the discs reach in each column is computed once per block. After each window the
 * sums of its threads are added up.
 */
#ifndef WSI_FEATURE_DISCS_CUH
#define WSI_FEATURE_DISCS_CUH

#include "cuda/counts.h"

#include <stdint.h>

enum {
    FEATURE_DISCS = FEATURES_OCTAVES,
    FEATURE_CORNERS = FEATURES_OCTAVES - 1, /* the last octave, in whose place is the first disc */
};

/* The sums of a thread over a window; disc k has the radius 2 << k. */
struct discs {
    unsigned sum[FEATURE_DISCS];
};

/* The smallest b >= 0 with b^2 + u^2 >= radius^2: frequencies v with |v| < b lie within. */
__device__ __forceinline__ int disc_reach(int radius, int u)
{
    const int square = radius * radius - u * u;
    if (square <= 0)
        return 0;
    int b = (int)sqrtf((float)square);
    b += b * b < square;
    return b;
}

/* How far the discs reach in column u: a byte per disc. */
__device__ __forceinline__ uint2 disc_reaches(int u)
{
    unsigned reach[FEATURE_DISCS];
#pragma unroll
    for (int disc = 0; disc < FEATURE_DISCS; disc++)
        reach[disc] = (unsigned)disc_reach(2 << disc, u);
    return {reach[0] | reach[1] << 8 | reach[2] << 16 | reach[3] << 24,
            reach[4] | reach[5] << 8 | reach[6] << 16};
}

/* Adds the bins whose vertical frequency is less than the disc's reach: at least 16 SURE. */
template <int DISC, int WEIGHT, int SURE = 0>
__device__ __forceinline__ void disc_add(struct discs *d, const int *bins, int t, uint2 reaches)
{
    constexpr int radius = 2 << DISC, rows = radius < 16 ? 1 : radius / 16;
    const int reach = (int)((DISC < 4 ? reaches.x : reaches.y) >> DISC % 4 * 8 & 255);
    const int below = reach - t, above = reach + t; /* v = t + 16 p, and 16 (p + 1) - t */
    unsigned sum = 0;
#pragma unroll
    for (int p = 0; p < rows; p++) {
        sum += p < SURE || below > 16 * p ? (unsigned)bins[p] : 0;
        sum += p < SURE || above > 16 * (p + 1) ? (unsigned)bins[15 - p] : 0;
    }
    d->sum[DISC] += WEIGHT * sum;
}

/* Adds a column of bins to the discs and, unless it is NULL, to the spectrum [u][v: 256]. */
template <int WEIGHT>
__device__ __forceinline__ void discs_add(struct discs *d, unsigned *spectrum, const int *bins,
                                          int t, int u, uint2 reaches)
{
    if (u < 64) {
        disc_add<6, WEIGHT, 6>(d, bins, t, reaches); /* it reaches 110 and more */
        disc_add<5, WEIGHT>(d, bins, t, reaches);
    } else if (u < 96)
        disc_add<6, WEIGHT, 5>(d, bins, t, reaches); /* 84 and more */
    else
        disc_add<6, WEIGHT>(d, bins, t, reaches);
    if (u < 32) {
        disc_add<4, WEIGHT>(d, bins, t, reaches);
        disc_add<3, WEIGHT>(d, bins, t, reaches);
        disc_add<2, WEIGHT>(d, bins, t, reaches);
        disc_add<1, WEIGHT>(d, bins, t, reaches);
        disc_add<0, WEIGHT>(d, bins, t, reaches);
    }
    if (!spectrum)
        return;
#pragma unroll
    for (int p = 0; p < 16; p++)
        atomicAdd(&spectrum[u * 256 + t + 16 * p], (unsigned)bins[p]);
}

#endif
