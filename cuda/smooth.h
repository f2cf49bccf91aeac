/*
 * smooth.h - from the stored pixels of a slide to smoothed gray rows, on the device, and to the
 * steps of features.h.
 */
#ifndef WSI_SMOOTH_H
#define WSI_SMOOTH_H

#include "common/store/layout.h"
#include "cuda/counts.h"
#include "process/spectrum/spectrum.h"

#include <cuda_runtime.h>

/* A slab on the device. */
struct smooth_slab {
    const uint8_t *d_chunks; /* as layout.h describes them */
    int64_t row, rows;       /* of the slide */
};

struct smooth_args {
    struct smooth_slab above; /* the slab before: its last 2 radius rows are used */
    struct smooth_slab slab;
    int64_t width, height; /* of the slide, px */
    struct layout layout;
    int64_t first, end; /* rows to smooth */
    /* [ring_rows][pitch] gray levels: row y of the slide is row y mod ring_rows */
    float *d_smooth;
    /* Of columns begin + 128 i + n and begin + 128 i + 64 + n, n < 64, their sum and their
     * difference are stored instead, for whole 128 columns only: what the fused kernel reads. */
    bool folded;
    int begin; /* the first column to store, a multiple of 16 */
    int64_t ring_rows, pitch;
    int radius;
    float down[SPECTRUM_MAX_RADIUS + 1]; /* weights of the vertical pass, over the scale of gray */
    float across[SPECTRUM_MAX_RADIUS + 1]; /* of the horizontal one */
};

/* Can the current device run this build's kernels? */
cudaError_t smooth_check(void);
/* Queues it on the stream. Errors are reported by cudaGetLastError(). */
void smooth_rows(const struct smooth_args *a, cudaStream_t stream);

/* Windows that end in a slab. The slab above must hold the other rows of their steps. */
struct steps_args {
    struct smooth_args pixels; /* where they are; nothing is smoothed */
    struct counts_windows windows;
    const uint8_t *d_sample;   /* of struct counts_features */
    uint16_t *d_steps;         /* the same */
    int window, stride, steps; /* features_steps() */
};
/* The same. */
void smooth_steps(const struct steps_args *a, cudaStream_t stream);

#endif
