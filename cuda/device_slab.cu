/* device_slab.cu - the kernels of a slab, and the end of a band; see device.h. */
#include "cuda/device_state.h"

#include "cuda/fused.h"

#include <string.h>

/* --- the times of kernels --- */

/* Adds the time of a buffer's slab to the sums of its band, once. `number`: what `unreported` was.
 * Several threads may try. Each reads the time first, and the one that then sets `unreported` to 0
 * adds it: from then on the buffer may serve another slab, which records its events anew. */
static int add_time(struct device *d, struct buffer *b, int number, struct err *e)
{
    float ms = 0;
    if (number == 0 || __atomic_load_n(&b->unreported, __ATOMIC_ACQUIRE) != number)
        return 0;
    const cudaError_t r = cudaEventElapsedTime(&ms, b->begins, b->ends);
    int expected = number;
    if (!__atomic_compare_exchange_n(&b->unreported, &expected, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return 0;
    if (check_result(&d->check, r, "cudaEventElapsedTime(&ms, b->begins, b->ends)", e))
        return -1;
    __atomic_fetch_add(&d->sums.sums[number - 1].kernels_us, (int64_t)(ms * 1000),
                       __ATOMIC_RELAXED);
    return 0;
}

/* --- a slab --- */

static int begin_band(struct device *d, const struct spectrum_band *b, struct err *e)
{
    d->batch = buffers_batch(&d->buffers, b);
    d->ring_rows = buffers_ring_rows(&d->buffers, b, d->batch);
    d->next_wy = b->first_wy;
    d->next_row = b->first_wy * d->params.stride;
    return sums_begin(&d->sums, b, d->compute, e);
}

/* Waits until the slab that was in the buffer before has been computed. Lets the kernels wait for
 * this one's copies. */
static int begin_slab(struct device *d, struct buffer *b, struct err *e)
{
    const int number = __atomic_load_n(&b->unreported, __ATOMIC_ACQUIRE);
    if (b->guard.used &&
        (CU(&d->check, cudaEventSynchronize(b->ends), e) || add_time(d, b, number, e)))
        return -1;
    if (CU(&d->check, cudaEventRecord(b->copied, copies_stream(d->copies)), e) ||
        CU(&d->check, cudaStreamWaitEvent(d->compute, b->copied, 0), e))
        return -1;
    return CU(&d->check, cudaEventRecord(b->begins, d->compute), e);
}

static struct smooth_args smooth_args_of(const struct device *d, const struct spectrum_band *b)
{
    struct smooth_args a = {};
    a.width = b->width;
    a.height = b->height;
    a.layout = spectrum_band_layout(b);
    a.d_smooth = d->buffers.d_ring;
    a.ring_rows = d->ring_rows;
    a.pitch = buffers_pitch(b);
    a.radius = (int)d->params.radius;
    memcpy(a.across, d->across, sizeof a.across);
    for (int k = 0; k <= a.radius; k++)
        a.down[k] = (float)((double)d->down[k] / (double)b->scale);
    return a;
}

/* Smooths the rows whose neighbours have all arrived. */
static int queue_smoothing(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *b = s->band;
    struct buffer *buffer = &d->buffers.slabs[s->buffer];
    const bool first = s->row == b->first_row;
    struct buffer *above = first ? buffer : d->above_buffer;
    const int64_t end = s->row + s->rows;
    struct smooth_args a = smooth_args_of(d, b);
    a.slab = {buffer->d_pixels, s->row, s->rows};
    a.above = first ? a.slab : d->above;
    a.first = d->next_row;
    a.end = end >= b->height ? b->height : end - d->params.radius;
    d->above = a.slab;
    d->above_buffer = buffer;
    if (a.end > d->next_row) {
        smooth_rows(&a, d->compute);
        d->next_row = a.end;
    }
    if (CU(&d->check, cudaGetLastError(), e) ||
        copies_free_later(d->copies, &buffer->guard, d->compute, e))
        return -1;
    return above == buffer ? 0 : copies_free_later(d->copies, &above->guard, d->compute, e);
}

/* Computes the windows that are complete, if they are enough for a batch or the last ones. */
static int queue_windows(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *b = s->band;
    const int64_t n = s->end_wy - d->next_wy;
    if (n <= 0 || (n < d->batch && s->end_wy < b->end_wy))
        return 0;
    struct fused_args a = {};
    a.multiprocessors = d->multiprocessors;
    a.blocks = fused_blocks(d->shared_each, d->bins.bins);
    a.d_smooth = d->buffers.d_ring;
    a.ring_rows = d->ring_rows;
    a.pitch = buffers_pitch(b);
    a.windows = sums_windows(&d->sums, b, d->next_wy, s->end_wy);
    a.bins = d->bins;
    a.sums = sums_counters(&d->sums, b);
    d->next_wy = s->end_wy;
    if (d->windows)
        return windows_count(d->windows, &a, e);
    fused_windows(&a, d->compute);
    return CU(&d->check, cudaGetLastError(), e);
}

int device_compute(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *b = s->band;
    struct buffer *buffer = &d->buffers.slabs[s->buffer];
    if (device_enter(d, e))
        return -1;
    if ((s->row == b->first_row && begin_band(d, b, e)) || begin_slab(d, buffer, e) ||
        queue_smoothing(d, s, e) || queue_windows(d, s, e) ||
        CU(&d->check, cudaEventRecord(buffer->ends, d->compute), e) ||
        (s->row + s->rows >= b->end_row && sums_fetch(&d->sums, b, d->compute, e)))
        return device_give_up(d, e);
    __atomic_store_n(&buffer->unreported, sums_number(b) + 1, __ATOMIC_RELEASE);
    return 0;
}

/* --- the end of a band --- */

static int report_times(struct device *d, const struct spectrum_band *b,
                        struct spectrum_times *times, struct err *e)
{
    struct sums *t = sums_of(&d->sums, b);
    double copy = 0;
    for (int k = 0; k < BUFFERS_SLABS; k++)
        if (add_time(d, &d->buffers.slabs[k], sums_number(b) + 1, e))
            return -1;
    if (copies_report(d->copies, &t->copied, b->assigned.number, &copy, e))
        return -1;
    times->copy += copy;
    times->kernels += (double)__atomic_load_n(&t->kernels_us, __ATOMIC_RELAXED) * 1e-6;
    times->unpack += (b->packed_bytes ? (double)t->unpack_us * 1e-6 : 0);
    return 0;
}

int device_finish(struct device *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e)
{
    struct spectrum_times own = {};
    if (device_enter(d, e))
        return -1;
    if (sums_wait(&d->sums, b, e) || report_times(d, b, &own, e) ||
        sums_take(&d->sums, b, counts, e))
        return device_give_up(d, e);
    times->copy += own.copy;
    times->kernels += own.kernels;
    times->unpack += own.unpack;
    return 0;
}
