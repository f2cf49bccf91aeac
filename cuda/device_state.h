/*
 * device_state.h - what the files of device.h share: device.cu (opening, memory, failures),
 * device_send.cu (pixels onto the device), device_slab.cu (slabs and bands).
 */
#ifndef WSI_DEVICE_STATE_H
#define WSI_DEVICE_STATE_H

#include "cuda/buffers.h"
#include "cuda/check.h"
#include "cuda/copies.h"
#include "cuda/device.h"
#include "cuda/reads.h"
#include "cuda/smooth.h"
#include "cuda/sums.h"
#include "cuda/unpack.h"
#include "cuda/windows.h"

struct device {
    struct check_device check;
    size_t shared_bytes; /* of memory that a block can have, */
    size_t shared_each;  /* and that a multiprocessor has */
    int multiprocessors;
    struct result_params params;
    struct counts_bins bins;
    /* Weights of the Gaussian; `down` is for gray of scale 1. */
    float down[SPECTRUM_MAX_RADIUS + 1], across[SPECTRUM_MAX_RADIUS + 1];
    cudaStream_t compute;
    struct copies *copies;
    struct reads *reads; /* NULL: it reads no files */
    int staging;         /* staging buffers of the host; the next ones are those of `reads` */
    struct buffers buffers;
    struct unpack unpacks[BUFFERS_SLABS]; /* one per buffer */
    struct sums_set sums;
    struct windows *windows; /* NULL: the fused kernel computes them */
    bool has_had_room;       /* for a band at least */
    bool failed, has_why;    /* atomic */
    struct err why;

    /* progress in the present band */
    int64_t batch; /* rows of windows at a time */
    int64_t ring_rows;
    int64_t next_wy;  /* first row of windows not yet computed */
    int64_t next_row; /* first row not yet smoothed */
    struct smooth_slab above;
    struct buffer *above_buffer;
};

/* Every function that uses the device calls this first. */
int device_enter(struct device *d, struct err *e);
/* So many chunks of the slab are on their way. */
int device_arrived(struct device *d, const struct spectrum_slab *s, int64_t chunks, struct err *e);
size_t device_stored_bytes(const struct store_chunk *chunks, int64_t n);
/* The device has failed for good. The first message is kept. Returns -1. */
int device_give_up(struct device *d, const struct err *e);

#endif
