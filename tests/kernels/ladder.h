/*
 * ladder.h - the steps that led to cuda/fused.cu and cuda/smooth.cu, slowest first. Times: all windows of a slide of
 * 65,000 x 43,000 px on one H200, ms, from tests/bench_kernels.cu; in brackets what was expected of the step beforehand.
 *
 *   unfused   gather, cuFFT, count                                              184
 *   1         two parities, ring of halves, exchanges without bank conflicts    32.8   (20, from the sketch's 40)
 *   2         rows loaded by pairs, exchanges by pairs, a floor by rounding     27.0   (-19 % instructions)
 *   3         rows loaded by quads, passed on through the ring                  24.1   (-10 %)
 *   -         the barrier before the last columns are transformed               24.1   (-10 %: nothing; the shared memory
 *                                                                                      is what all wait for; part of the last)
 *   -         and the next half prefetched into L2                              24.2   (-5 %: nothing; not kept)
 *   fused     few twiddles loaded, the others products; counts of one           22.6   (-10 %)
 *
 * Of cuda/smooth.cu, RGB, in the same way: a pixel's place computed anew 14.9; walking down 10.5; sums of four
 * neighbours from shared memory 8.2; from the next lanes 8.4; loads of four rows together, stores of 16 bytes 6.1. The
 * bytes alone take 4.6.
 */
#ifndef WSI_LADDER_H
#define WSI_LADDER_H

#include "cuda/fused.h"

#define LADDER \
    RUNG(1, "1: no bank conflicts") \
    RUNG(2, "2: pairs") \
    RUNG(3, "3: quads")

#define RUNG(name, text)                  \
    cudaError_t fused_prepare_##name(void); \
    void fused_windows_##name(const struct fused_args *a, cudaStream_t stream);
LADDER
#undef RUNG

#endif
