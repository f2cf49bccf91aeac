/*
 * counts.h - the arrays that kernels count into.
 *
 * Everything is a sum of integers, added with atomics: the result does not depend on the order.
 */
#ifndef WSI_COUNTS_H
#define WSI_COUNTS_H

#include "common/result/features.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Windows of a band. */
struct counts_windows {
    int64_t nx;               /* windows in a row */
    int64_t first_wy, end_wy; /* rows of windows to compute */
    int64_t band_wy;          /* the band's first row of windows */
    const uint8_t *d_wanted;  /* [wy - band_wy][nx], 1 where a window is to be counted; NULL: all
                                 are */
};

/* bin = floor((log2(|F| + offset) + start) * slope), class = bin + 1: 0 underflow, bins + 1
 * overflow. */
struct counts_bins {
    float offset, start, slope;
    int bins;
    bool all_inside; /* start is 0, and no pixels lead to a value outside the bins */
};

/* For features. */
struct counts_features {
    /* [FEATURES_OCTAVES]: over the octaves of common/result/features.h, all windows */
    unsigned long long *d_octaves;
    /* [wy - band_wy][nx][rings][words]: over those that maps need, per window. A sum has one word,
     * or a low and a high one. */
    unsigned *d_rings;
    unsigned rings, words;
    unsigned slots;          /* 4 bits per octave: its place among the rings, or COUNTS_NO_RING */
    unsigned *d_spectra;     /* [kind][u: window / 2 + 1][v: window] */
    const uint8_t *d_sample; /* [wy - band_wy][nx]: kind and FEATURES_STEPPED (features.h) */
    unsigned spectrum;       /* sums of one kind of d_spectra */
    /* [wy - band_wy][nx]: row step << 8 | column step of the windows that are looked at and count;
     * each is stored once */
    uint16_t *d_steps;
};

struct counts_sums {
    unsigned long long *d_histogram; /* [bins + 2], by class */
    unsigned long long *d_windows;   /* [wy - band_wy][nx][2]: samples in bins << 40 | sum of their
                                        bin numbers; gray << 56 | sum of the squares of these */
    struct counts_features features;
};

/* At most 2^20 samples of bins below 2^16 have squares below 2^52. */
enum { COUNTS_SHIFT = 40, COUNTS_GRAY_SHIFT = 56, COUNTS_STEP_SHIFT = 8, COUNTS_NO_RING = 15 };

/* Where the sum over an octave is kept for a window, or NULL. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline unsigned *
    counts_ring(const struct counts_features *f, int64_t window, int octave)
{
    const unsigned slot = f->slots >> 4 * octave & 15;
    return slot == COUNTS_NO_RING ? NULL : f->d_rings + (window * f->rings + slot) * f->words;
}

#ifdef __CUDACC__
/* Class of a squared magnitude, by the special function unit. Its error of about 1e-6 octave
 * moves a value to the next bin only when it is that close to an edge. */
__device__ __forceinline__ int counts_class(const struct counts_bins &b, float squared)
{
    float magnitude, octave;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(magnitude) : "f"(squared));
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(octave) : "f"(magnitude + b.offset));
    return __float2int_rd(fminf(fmaxf((octave + b.start) * b.slope, -1.0f), (float)b.bins)) + 1;
}
#endif

#endif
