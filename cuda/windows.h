/*
 * windows.h - windows of any size, stride and taper: gathered one after the other, transformed by
 * cuFFT in batches, and counted.
 */
#ifndef WSI_WINDOWS_H
#define WSI_WINDOWS_H

#include "cuda/counts.h"

#include <cuda_runtime.h>

struct windows_args {
    const float *d_smooth; /* [ring_rows][pitch], as in smooth.h */
    int64_t ring_rows, pitch;
    int window, stride;
    struct counts_windows windows;
    struct counts_bins bins;
    struct counts_sums sums;
    const float *d_taper; /* [window]; NULL: rectangular */
    float taper_dft[2];   /* its bins 0 and 1, as of spectrum_taper() */
    int64_t first, n;     /* the batch: windows first .. first + n - 1, counted row by row from (first_wy, 0) */
    float *d_gathered;    /* [n][window][window] */
    float2 *d_spectra;    /* [n][window][window / 2 + 1] */
    float *d_mean;        /* [n] */
};

/* Both queue their work on the stream; cuFFT's from gathered to spectra belongs between them. Errors are
 * left for cudaGetLastError(). */
void windows_gather(const struct windows_args *a, cudaStream_t stream);
void windows_count(const struct windows_args *a, cudaStream_t stream);

#endif
