/*
 * windows.h - windows of any size, stride and taper, in batches: gathered, transformed by cuFFT,
 * and counted.
 *
 * Functions return 0, or -1 with the device, the call and CUDA's or cuFFT's own message.
 */
#ifndef WSI_WINDOWS_H
#define WSI_WINDOWS_H

#include "cuda/check.h"
#include "cuda/counts.h"
#include "cuda/fused.h"
#include "process/spectrum/spectrum.h"

#include <cuda_runtime.h>

/* Arguments of both kernels. */
struct windows_args {
    const float *d_smooth; /* [ring_rows][pitch], as in smooth.h */
    int64_t ring_rows, pitch;
    int window, stride;
    struct counts_windows windows;
    struct counts_bins bins;
    struct counts_sums sums;
    const float *d_taper; /* [window]; NULL: rectangular */
    float taper_dft[2];   /* its bins 0 and 1, as of spectrum_taper() */
    int64_t first, n;     /* the batch: windows first .. first + n - 1, counted row by row from
                             (first_wy, 0) */
    float *d_gathered;    /* [n][window][window] */
    float2 *d_spectra;    /* [n][window][window / 2 + 1] */
    float *d_mean;        /* [n] */
};

struct windows;

/* For the current device; all work is queued on the stream. NULL with the error set. */
struct windows *windows_create(struct check_device *d, const struct result_params *p,
                               cudaStream_t stream, struct err *e);
/* NULL is fine. */
void windows_free(struct windows *w);

/* Memory for a batch, smaller by a factor of two for each of `halved`. */
int windows_reserve(struct windows *w, int halved, struct err *e);
void windows_release(struct windows *w);
bool windows_ready(const struct windows *w);
/* Can a batch be smaller yet? */
bool windows_may_halve(const struct windows *w, int halved);

/* Queues all windows of a->windows. */
int windows_count(struct windows *w, const struct fused_args *a, struct err *e);

#endif
