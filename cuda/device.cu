/* device.cu - see device.h. */
#include "cuda/device.h"

#include "common/base/memory.h"
#include "cuda/buffers.h"
#include "cuda/fused.h"
#include "cuda/loader.h"
#include "cuda/smooth.h"
#include "cuda/sums.h"
#include "cuda/windows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under --device auto a device with less free memory is left out. */
static const size_t LEAST_MEMORY = 256 << 20;

struct spectrum {
    struct check_device check;
    size_t shared_bytes; /* of memory that a block can have, */
    size_t shared_each;  /* and that a multiprocessor has */
    int multiprocessors;
    struct result_params params;
    struct counts_bins bins;
    /* Weights of the Gaussian; `down` is for gray of scale 1. */
    float down[SPECTRUM_MAX_RADIUS + 1], across[SPECTRUM_MAX_RADIUS + 1];
    cudaStream_t compute;
    struct loader loader;
    struct buffers buffers;
    struct sums_set sums;
    struct windows *windows; /* NULL: the fused kernel computes them */
    bool has_had_room;       /* for a band at least */

    /* progress in the present band */
    struct buffers_ring ring;
    int64_t next_wy;  /* first row of windows not yet computed */
    int64_t next_row; /* first row not yet smoothed */
    struct smooth_slab above;
    struct buffer *above_buffer;
};

/* --- opening and closing --- */

/* There is no driver, or it is too old for the toolkit that built the program. CUDA writes 12020
 * for 12.2. */
static int old_driver(struct err *e)
{
    int has = 0, needs = 0;
    cudaDriverGetVersion(&has);
    cudaRuntimeGetVersion(&needs);
    if (has == 0)
        return err_set(e, "this machine has no GPU driver");
    return err_set(e,
                   "the GPU driver of this machine supports CUDA %d.%d, and this program was built "
                   "with CUDA %d.%d: install a newer driver, or build with an older toolkit",
                   has / 1000, has % 1000 / 10, needs / 1000, needs % 1000 / 10);
}

/* The reasons why the GPUs of a machine with a driver are hidden. */
static const char *hidden(void)
{
    int has = 0;
    return cudaDriverGetVersion(&has) == cudaSuccess && has > 0
               ? "; there is a driver: CUDA_VISIBLE_DEVICES, a container without GPUs or MIG "
                 "without slices may hide its GPUs"
               : "";
}

int device_count(struct err *e)
{
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code == cudaSuccess && n > 0)
        return n;
    if (code == cudaErrorInsufficientDriver)
        old_driver(e);
    else
        err_set(e, "this machine has no CUDA device that can be used (CUDA: %s)%s",
                code == cudaSuccess ? "none found" : cudaGetErrorString(code), hidden());
    return 0;
}

bool device_available(struct err *e)
{
    return device_count(e) > 0;
}

bool device_alive(const struct spectrum *d)
{
    return check_alive(&d->check);
}

struct spectrum_label device_label(const struct spectrum *d)
{
    struct spectrum_label l = {"", d->check.number};
    memcpy(l.name, d->check.name, sizeof l.name);
    return l;
}

const char *device_kernel(const struct spectrum *d)
{
    return d->windows ? "cuFFT" : "fused";
}

/* Numbers that follow from the parameters. */
static void set_numbers(struct spectrum *d)
{
    const struct result_params *p = &d->params;
    const double octave_db = 20 * log10(2.0), n = (double)p->window;
    double weights[SPECTRUM_MAX_RADIUS + 1];
    spectrum_gauss(p, weights);
    for (int64_t k = 0; k <= p->radius; k++)
        d->down[k] = d->across[k] = (float)weights[k];
    d->bins.offset = (float)p->offset;
    d->bins.start = (float)(-p->low_db / octave_db);
    d->bins.slope = (float)(octave_db * (double)p->bins / (p->high_db - p->low_db));
    d->bins.bins = (int)p->bins;
    d->bins.all_inside =
        p->low_db == 0 && p->offset >= 1 && p->high_db > 20 * log10(256 * n * n + p->offset);
}

static int check_kernels(struct spectrum *d, const cudaDeviceProp *p, struct err *e)
{
    char text[160];
    const cudaError_t r = smooth_check();
    if (r != cudaErrorNoKernelImageForDevice && r != cudaErrorInvalidDeviceFunction &&
        r != cudaErrorUnsupportedPtxVersion)
        return check_result(&d->check, r, "cudaFuncGetAttributes", e);
    snprintf(text, sizeof text, "this build has no kernels for compute capability %d.%d (%.80s)",
             p->major, p->minor, cudaGetErrorString(r));
    return check_failed(&d->check, r, "cudaFuncGetAttributes", text, e);
}

static int read_properties(struct spectrum *d, struct err *e)
{
    cudaDeviceProp p;
    if (CU(&d->check, cudaGetDeviceProperties(&p, d->check.number), e))
        return -1;
    snprintf(d->check.name, sizeof d->check.name, "%.63s", p.name);
    d->shared_bytes = p.sharedMemPerBlockOptin;
    d->shared_each = p.sharedMemPerMultiprocessor;
    d->multiprocessors = p.multiProcessorCount;
    return CU(&d->check, cudaSetDevice(d->check.number), e) ? -1 : check_kernels(d, &p, e);
}

static int open_all(struct spectrum *d, const struct spectrum_setup *s, struct staging *staging,
                    struct err *e)
{
    return read_properties(d, e) ||
                   loader_open(&d->loader, &d->check, staging, s, d->shared_bytes, e) ||
                   CU(&d->check, cudaStreamCreateWithFlags(&d->compute, cudaStreamNonBlocking),
                      e) ||
                   buffers_open(&d->buffers, &d->check, &d->params, e) ||
                   sums_open(&d->sums, &d->check, &d->params, e)
               ? -1
               : 0;
}

int device_open(struct spectrum **out, int number, const struct spectrum_setup *s,
                struct staging *staging, struct err *e)
{
    struct spectrum *d = *out = (struct spectrum *)memory_need(1, sizeof *d);
    d->check.number = number;
    snprintf(d->check.name, sizeof d->check.name, "a CUDA device");
    d->params = s->params;
    set_numbers(d);
    return open_all(d, s, staging, e) ? check_give_up(&d->check, e) : 0;
}

int device_check_memory(struct spectrum *d, struct err *e)
{
    size_t free_bytes = 0, all = 0;
    if (check_enter(&d->check, e))
        return -1;
    if (CU(&d->check, cudaMemGetInfo(&free_bytes, &all), e))
        return check_give_up(&d->check, e);
    if (free_bytes >= LEAST_MEMORY)
        return 0;
    return err_blame(e, ERR_TROUBLE, "%s (cuda:%d): only %zu of its %zu MiB of memory are free",
                     d->check.name, d->check.number, free_bytes >> 20, all >> 20);
}

bool device_can_fuse(const struct spectrum *d)
{
    const struct result_params *p = &d->params;
    return p->window == FUSED_WINDOW && fused_steps(p->stride) > 0 && p->bins <= FUSED_MOST_BINS &&
           d->shared_bytes >= fused_shared_bytes((int)p->bins);
}

int device_choose_kernel(struct spectrum *d, bool fused, struct err *e)
{
    d->buffers.steps = fused ? fused_steps(d->params.stride) : 1;
    if (fused)
        return 0;
    if (check_enter(&d->check, e))
        return -1;
    d->windows = windows_create(&d->check, &d->params, d->compute, e);
    return d->windows ? 0 : check_give_up(&d->check, e);
}

/* The return values of the calls do not matter any more. */
void device_close(struct spectrum *d)
{
    if (!d)
        return;
    cudaSetDevice(d->check.number);
    if (d->compute) {
        copies_end(d->loader.copies);
        cudaStreamSynchronize(d->compute);
    }
    loader_close(&d->loader);
    buffers_close(&d->buffers);
    sums_close(&d->sums);
    windows_free(d->windows);
    if (d->compute)
        cudaStreamDestroy(d->compute);
    free(d);
}

/* --- memory --- */

static bool has_room(const struct spectrum *d, const struct spectrum_band *b, size_t buffer_bytes)
{
    return loader_fits(&d->loader, b, d->buffers.halved) &&
           buffers_fit(&d->buffers, b, buffer_bytes) && sums_fit(&d->sums, b) &&
           (!d->windows || windows_ready(d->windows));
}

static void release_most(struct spectrum *d)
{
    loader_release_unpacks(&d->loader);
    buffers_release_ring(&d->buffers);
    if (d->windows)
        windows_release(d->windows);
}

/* After a failure: is memory short, and can less be computed at a time? Then everything that can
 * shrink is released, so that each part gets its share. */
static bool may_halve(struct spectrum *d)
{
    if (d->check.last != cudaErrorMemoryAllocation)
        return false;
    if (!buffers_may_halve(&d->buffers) &&
        !(d->windows && windows_may_halve(d->windows, d->buffers.halved)))
        return false;
    cudaGetLastError();
    release_most(d);
    d->buffers.halved++;
    return true;
}

/* A device that has had room for other bands lacks it for this one only. A device that never had
 * room, not even for a few of the lowest slabs, as somebody else uses it, is of no use. */
static int no_room(struct spectrum *d, const struct spectrum_band *b, int halved, struct err *e)
{
    if (d->check.last != cudaErrorMemoryAllocation)
        return check_give_up(&d->check, e);
    if (b->lowest && b->buffers == SPECTRUM_BUFFERS && !d->has_had_room) {
        check_give_up(&d->check, e);
        return SPECTRUM_NO_ROOM;
    }
    cudaGetLastError();
    buffers_release_slabs(&d->buffers);
    sums_release(&d->sums);
    release_most(d);
    d->buffers.halved = halved;
    return SPECTRUM_NO_ROOM;
}

static int reserve_all(struct spectrum *d, const struct spectrum_band *b, size_t buffer_bytes,
                       struct err *e)
{
    d->check.last = cudaSuccess;
    if (buffers_reserve_slabs(&d->buffers, b, buffer_bytes, e) || sums_reserve(&d->sums, b, e) ||
        buffers_reserve_ring(&d->buffers, b, e) ||
        loader_reserve_unpacks(&d->loader, b, d->buffers.halved, e))
        return -1;
    return d->windows ? windows_reserve(d->windows, d->buffers.halved, e) : 0;
}

int device_reserve(struct spectrum *d, const struct spectrum_band *b, size_t buffer_bytes,
                   bool drained, struct err *e)
{
    if (has_room(d, b, buffer_bytes))
        return 0;
    if (!drained)
        return SPECTRUM_DRAIN;
    if (loader_reserve_staging(&d->loader, b, e) || check_enter(&d->check, e))
        return -1;
    const int halved = d->buffers.halved;
    while (reserve_all(d, b, buffer_bytes, e))
        if (!may_halve(d))
            return no_room(d, b, halved, e);
    d->has_had_room = true;
    return 0;
}

bool device_buffer_free(const struct spectrum *d, int k)
{
    return !device_alive(d) || copies_is_free(&d->buffers.slabs[k].guard);
}

/* --- loading --- */

int device_load(struct spectrum *d, const struct spectrum_slab *s, struct chunks_extent x,
                struct spectrum_thread *t, struct err *e)
{
    return loader_load(&d->loader, &d->buffers.slabs[s->buffer], s, x, t, e);
}

/* --- the times of kernels --- */

/* Adds the time of a buffer's slab to the sums of its band, once. `number`: what `unreported` was.
 * Several threads may try, and the one that sets `unreported` to 0 adds the time. It must have read
 * the time before: as soon as `unreported` is 0, the next slab in the buffer may record its own
 * events. */
static int add_time(struct spectrum *d, struct buffer *b, int number, struct err *e)
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

static int begin_band(struct spectrum *d, const struct spectrum_band *b, struct err *e)
{
    d->ring = buffers_ring(&d->buffers, b);
    d->next_wy = b->first_wy;
    d->next_row = b->first_wy * d->params.stride;
    return sums_begin(&d->sums, b, d->compute, e);
}

/* Waits until the slab that was in the buffer before has been computed. Lets the kernels wait for
 * this one's copies. */
static int begin_slab(struct spectrum *d, struct buffer *b, struct err *e)
{
    const int number = __atomic_load_n(&b->unreported, __ATOMIC_ACQUIRE);
    if (b->guard.used &&
        (CU(&d->check, cudaEventSynchronize(b->ends), e) || add_time(d, b, number, e)))
        return -1;
    if (copies_come_first(d->loader.copies, b->copied, d->compute, e))
        return -1;
    return CU(&d->check, cudaEventRecord(b->begins, d->compute), e);
}

static struct smooth_args smooth_args_of(const struct spectrum *d, const struct spectrum_band *b)
{
    struct smooth_args a = {};
    a.width = b->width;
    a.height = b->height;
    a.layout = spectrum_band_layout(b);
    a.ring_rows = d->ring.rows;
    a.pitch = d->ring.pitch;
    a.folded = !d->windows;
    a.radius = (int)d->params.radius;
    memcpy(a.across, d->across, sizeof a.across);
    for (int k = 0; k <= a.radius; k++)
        a.down[k] = (float)((double)d->down[k] / (double)b->scale);
    return a;
}

/* Repeats behind a ring what was smoothed of its first rows. */
static int repeat_rows(struct spectrum *d, const struct smooth_args *a, struct err *e)
{
    const int64_t most = fused_repeated(d->buffers.steps), at = a->first % a->ring_rows,
                  end = at + a->end - a->first, wrapped = end - a->ring_rows,
                  first = wrapped > 0 ? 0 : at, last = wrapped > 0 ? wrapped : end,
                  rows = (last < most ? last : most) - first;
    const size_t pitch = (size_t)a->pitch * sizeof(float),
                 columns = (size_t)(a->width - a->begin) / FUSED_STRIDE * FUSED_STRIDE;
    float *from = a->d_smooth + first * a->pitch + a->begin;
    if (rows <= 0)
        return 0;
    return CU(&d->check,
              cudaMemcpy2DAsync(from + a->ring_rows * a->pitch, pitch, from, pitch,
                                columns * sizeof(float), (size_t)rows, cudaMemcpyDeviceToDevice,
                                d->compute),
              e);
}

/* Smooths rows into the rings. */
static int fill_rings(struct spectrum *d, struct smooth_args *a, struct err *e)
{
    for (int k = 0; k < d->buffers.steps; k++) {
        a->d_smooth = d->buffers.d_ring + k * d->ring.apart;
        a->begin = k * FUSED_STRIDE / d->buffers.steps;
        smooth_rows(a, d->compute);
        if (repeat_rows(d, a, e))
            return -1;
    }
    return 0;
}

/* Finds the steps of the windows that end in the slab. */
static void queue_steps(struct spectrum *d, const struct spectrum_slab *s,
                        const struct smooth_args *pixels)
{
    const struct result_params *p = &d->params;
    struct steps_args a = {};
    a.pixels = *pixels;
    a.windows = sums_windows(&d->sums, s->band, s->wy, s->end_wy);
    a.d_sample = sums_of(&d->sums, s->band)->features.d_sample;
    a.d_steps = sums_of(&d->sums, s->band)->features.d_steps;
    a.window = (int)p->window;
    a.stride = (int)p->stride;
    a.steps = (int)features_steps(p->window, p->stride);
    if (s->end_wy > s->wy)
        smooth_steps(&a, d->compute);
}

/* Smooths the rows whose neighbours have all arrived. */
static int queue_smoothing(struct spectrum *d, const struct spectrum_slab *s, struct err *e)
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
        if (fill_rings(d, &a, e))
            return -1;
        d->next_row = a.end;
    }
    queue_steps(d, s, &a);
    if (CU(&d->check, cudaGetLastError(), e) ||
        copies_free_later(d->loader.copies, &buffer->guard, d->compute, e))
        return -1;
    return above == buffer ? 0 : copies_free_later(d->loader.copies, &above->guard, d->compute, e);
}

/* Computes the windows that are complete, if they are enough for a batch or the last ones. */
static int queue_windows(struct spectrum *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *b = s->band;
    const int64_t n = s->end_wy - d->next_wy;
    if (n <= 0 || (n < d->ring.batch && s->end_wy < b->end_wy))
        return 0;
    struct fused_args a = {};
    a.multiprocessors = d->multiprocessors;
    a.shared_each = d->shared_each;
    a.d_smooth = d->buffers.d_ring;
    a.ring_rows = d->ring.rows;
    a.pitch = d->ring.pitch;
    a.apart = d->ring.apart;
    a.steps = d->buffers.steps;
    a.windows = sums_windows(&d->sums, b, d->next_wy, s->end_wy);
    a.bins = d->bins;
    a.sums = sums_counters(&d->sums, b);
    a.hann = !strcmp(d->params.taper, "hann");
    d->next_wy = s->end_wy;
    if (d->windows)
        return windows_count(d->windows, &a, e);
    fused_windows(&a, d->compute);
    return CU(&d->check, cudaGetLastError(), e);
}

int64_t device_units(const struct spectrum *d, const struct spectrum_slab *s)
{
    (void)d, (void)s;
    return 1; /* a slab that completes no window must reach the device, too */
}

static int queue_slab(struct spectrum *d, const struct spectrum_slab *s, struct buffer *buffer,
                      struct err *e)
{
    const struct spectrum_band *b = s->band;
    if ((s->row == b->first_row && begin_band(d, b, e)) || begin_slab(d, buffer, e) ||
        queue_smoothing(d, s, e) || queue_windows(d, s, e) ||
        CU(&d->check, cudaEventRecord(buffer->ends, d->compute), e))
        return -1;
    return s->row + s->rows >= b->end_row ? sums_fetch(&d->sums, b, d->compute, e) : 0;
}

int device_compute(struct spectrum *d, const struct spectrum_slab *s, int64_t k,
                   struct spectrum_thread *t, struct result_counts *counts, struct err *e)
{
    struct buffer *buffer = &d->buffers.slabs[s->buffer];
    (void)k, (void)counts; /* the device counts; device_finish() reports */
    const int r = loader_complete(&d->loader, buffer, s, t, e);
    if (r)
        return r;
    if (check_enter(&d->check, e))
        return -1;
    if (queue_slab(d, s, buffer, e))
        return check_give_up(&d->check, e);
    __atomic_store_n(&buffer->unreported, sums_number(s->band) + 1, __ATOMIC_RELEASE);
    return 0;
}

/* --- the end of a band --- */

static int report_times(struct spectrum *d, const struct spectrum_band *b,
                        struct spectrum_times *times, struct err *e)
{
    const int number = sums_number(b) + 1;
    for (struct buffer &s : d->buffers.slabs)
        if (add_time(d, &s, number, e))
            return -1;
    const int64_t us = __atomic_load_n(&sums_of(&d->sums, b)->kernels_us, __ATOMIC_RELAXED);
    times->kernels += (double)us * 1e-6;
    return loader_report(&d->loader, b, times, e);
}

int device_finish(struct spectrum *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e)
{
    struct spectrum_times own = {};
    if (check_enter(&d->check, e))
        return -1;
    if (sums_wait(&d->sums, b, e) || report_times(d, b, &own, e) ||
        sums_take(&d->sums, b, counts, e))
        return check_give_up(&d->check, e);
    times->copy += own.copy;
    times->kernels += own.kernels;
    times->unpack += own.unpack;
    return 0;
}
