/*
 * feature_discs.cuh - sums of bin numbers over octaves for the fused kernel (fused.cu): windows of
 * 256 px, of which a thread holds 16 values of a column at a time, vertical frequencies t + 16 p.
 *
 * An octave is the difference of two discs of frequencies: those within 2, 4, ... 128 of frequency
 * zero. A column cuts each disc in an interval around vertical frequency 0, so a value takes one
 * comparison and one addition per disc that reaches that far; most values take one or two.
 */
#ifndef WSI_FEATURE_DISCS_CUH
#define WSI_FEATURE_DISCS_CUH

#include "cuda/counts.h"

#include <stdint.h>

enum { FEATURE_DISCS = FEATURES_OCTAVES + 1 };

/* What a thread has summed of one window; disc k has the radius 2 << k. */
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

/* Adds the bins whose vertical frequency is less than `reach`, at most 16 ROWS. */
template <int ROWS>
__device__ __forceinline__ unsigned sum_within(const int *bins, int t, int reach)
{
    unsigned sum = 0;
#pragma unroll
    for (int p = 0; p < ROWS; p++) {
        sum += t - reach < -16 * p ? (unsigned)bins[p] : 0;
        sum += t + reach > 16 * (p + 1) ? (unsigned)bins[15 - p] : 0;
    }
    return sum;
}

template <int DISC, int WEIGHT>
__device__ __forceinline__ void disc_add(struct discs *d, const int *bins, int t, int u)
{
    constexpr int radius = 2 << DISC, rows = radius < 16 ? 1 : radius / 16;
    if (u < radius)
        d->sum[DISC] += WEIGHT * sum_within<rows>(bins, t, disc_reach(radius, u));
}

/* Adds a column of bins to the discs and, unless it is NULL, to the spectrum [u][v: 256]. */
template <int WEIGHT>
__device__ __forceinline__ void discs_add(struct discs *d, unsigned *spectrum, const int *bins,
                                          int t, int u)
{
    disc_add<6, WEIGHT>(d, bins, t, u);
    disc_add<5, WEIGHT>(d, bins, t, u);
    if (u < 32) {
        disc_add<4, WEIGHT>(d, bins, t, u);
        disc_add<3, WEIGHT>(d, bins, t, u);
        disc_add<2, WEIGHT>(d, bins, t, u);
        disc_add<1, WEIGHT>(d, bins, t, u);
        disc_add<0, WEIGHT>(d, bins, t, u);
    }
    if (!spectrum)
        return;
#pragma unroll
    for (int p = 0; p < 16; p++)
        atomicAdd(&spectrum[u * 256 + t + 16 * p], (unsigned)bins[p]);
}

/* Adds the warp's sums: of all discs to within[] (shared), of two octaves to *rings of the window.
 */
__device__ __forceinline__ void discs_put(const struct discs &d, unsigned *within,
                                          unsigned long long *rings)
{
    unsigned sum[FEATURE_DISCS];
#pragma unroll
    for (int k = 0; k < FEATURE_DISCS; k++) /* columns below 32 belong to the first eight warps */
        sum[k] = k >= 5 || threadIdx.x < 256 ? __reduce_add_sync(~0u, d.sum[k]) : 0;
    if ((threadIdx.x & 31) != 0)
        return;
#pragma unroll
    for (int k = 0; k < FEATURE_DISCS; k++)
        if (sum[k])
            atomicAdd(&within[k], sum[k]);
    const unsigned fine = sum[FEATURES_FINE + 1] - sum[FEATURES_FINE],
                   coarse = sum[FEATURES_COARSE + 1] - sum[FEATURES_COARSE];
    if (fine | coarse)
        atomicAdd(rings, (unsigned long long)fine << COUNTS_COARSE_BITS | coarse);
}

#endif
