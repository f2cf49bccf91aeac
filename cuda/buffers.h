/*
 * buffers.h - the memory of one device for pixels: the buffers of slabs, and a ring of smoothed
 * rows.
 *
 * It is allocated when the first band needs it and grows between bands only. When the device is
 * short of memory, less is computed at a time: buffers_halve().
 *
 * Functions return 0, or -1 with the device, the call and CUDA's own message.
 */
#ifndef WSI_BUFFERS_H
#define WSI_BUFFERS_H

#include "cuda/check.h"
#include "cuda/staging.h"
#include "process/spectrum/spectrum.h"

/* Buffers of a device. Some slabs are computed, the others are copied and unpacked. */
enum { BUFFERS_SLABS = SPECTRUM_MOST_BUFFERS };

/* A slab on the device. */
struct buffer {
    uint8_t *d_pixels;
    struct copies_guard guard; /* free when no kernel needs the pixels any more */
    cudaEvent_t copied;        /* all pixels have arrived */
    cudaEvent_t begins, ends;  /* around the kernels of its slab */
    /* 1 + the number of the sums that lack this slab's time, or 0; atomic */
    int unreported;
};

struct buffers {
    struct check_device *device;
    const struct result_params *params;
    struct buffer slabs[BUFFERS_SLABS];
    float *d_ring; /* [steps][ring rows and repeated ones][pitch]: smoothed rows, see fused.h */
    int steps;     /* of the fused kernel; 1 for cuFFT */
    int n;         /* slabs that have memory */
    size_t slab_bytes, ring_bytes;
    int halved; /* how often memory was short */
};

int buffers_open(struct buffers *b, struct check_device *d, const struct result_params *p,
                 struct err *e);
void buffers_close(struct buffers *b);

/* How a band uses the ring. */
struct buffers_ring {
    int64_t pitch; /* floats from one row to the next */
    int64_t batch; /* rows of windows that are computed at a time */
    int64_t rows;  /* of the ring */
    int64_t apart; /* floats from the ring of one step to that of the next */
};
struct buffers_ring buffers_ring(const struct buffers *b, const struct spectrum_band *d);

bool buffers_fit(const struct buffers *b, const struct spectrum_band *d, size_t slab_bytes);
int buffers_reserve_slabs(struct buffers *b, const struct spectrum_band *d, size_t slab_bytes,
                          struct err *e);
int buffers_reserve_ring(struct buffers *b, const struct spectrum_band *d, struct err *e);
void buffers_release_slabs(struct buffers *b);
void buffers_release_ring(struct buffers *b);
/* Can fewer rows of windows be computed at a time? */
bool buffers_may_halve(const struct buffers *b);

#endif
