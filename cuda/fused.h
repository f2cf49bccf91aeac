/*
 * fused.h - windows of 256 x 256 at stride 128 or 64: from smoothed rows to counts in one kernel.
 */
#ifndef WSI_FUSED_H
#define WSI_FUSED_H

#include "cuda/counts.h"

#include <cuda_runtime.h>

struct fused_args {
    /* One ring per step, `apart` floats from each other: [ring_rows][pitch], folded from column 0
     * or, the second one of stride 64, 64 on (smooth.h). ring_rows is a multiple of 128. Behind a
     * ring are its first fused_repeated() rows once more. */
    const float *d_smooth;
    int64_t ring_rows, pitch, apart;
    int steps; /* fused_steps() of the stride */
    struct counts_windows windows;
    struct counts_bins bins; /* at most FUSED_MOST_BINS of them */
    struct counts_sums sums;
    bool hann; /* Hann's taper instead of none */
    /* Of the device, and shared memory of each in bytes. Results do not depend on them. */
    int multiprocessors;
    size_t shared_each;
    /* Bytes of shared memory that a block has and does not use, so that a multiprocessor computes
     * one: 0, except in measurements of what a smaller GPU would do. */
    size_t unused;
};

enum { FUSED_WINDOW = 256, FUSED_STRIDE = 128, FUSED_MOST_BINS = 2046 };

/* Every how many windows, across and down, there is one at FUSED_STRIDE: 1, or 2 for stride 64. 0:
 * the kernel does not have the stride. */
static inline int fused_steps(int64_t stride)
{
    return stride == FUSED_STRIDE ? 1 : stride == FUSED_STRIDE / 2 ? 2 : 0;
}

static inline int fused_repeated(int steps)
{
    return FUSED_STRIDE - FUSED_STRIDE / steps;
}

/* Shared memory that a block needs: at most 99 KB, which every device since 8.0 has. */
size_t fused_shared_bytes(int bins);
/* Queues it on the stream. Errors are reported by cudaGetLastError(). */
void fused_windows(const struct fused_args *a, cudaStream_t stream);

#endif
