/*
 * fused.h - windows of 256 x 256 at stride 128 without a taper: from smoothed rows to counts in one
 * kernel.
 */
#ifndef WSI_FUSED_H
#define WSI_FUSED_H

#include "cuda/counts.h"

#include <cuda_runtime.h>

struct fused_args {
    const float *d_smooth; /* [ring_rows][pitch], as in smooth.h; ring_rows a multiple of 128 */
    int64_t ring_rows, pitch;
    struct counts_windows windows;
    struct counts_bins bins; /* at most FUSED_MOST_BINS of them */
    struct counts_sums sums;
    int multiprocessors; /* of the device; results do not depend on it */
};

enum { FUSED_WINDOW = 256, FUSED_STRIDE = 128, FUSED_MOST_BINS = 2046 };

/* Shared memory that a block needs. Only devices that have it can run the kernel. */
size_t fused_shared_bytes(void);
/* Allows the kernel its shared memory. Once per device, before the first launch. */
cudaError_t fused_prepare(void);
/* Queues it on the stream. Errors are reported by cudaGetLastError(). */
void fused_windows(const struct fused_args *a, cudaStream_t stream);

#endif
