/* device.cu - see device.h. */
#include "cuda/device.h"

#include "cuda/buffers.h"
#include "cuda/check.h"
#include "cuda/copies.h"
#include "cuda/fused.h"
#include "cuda/smooth.h"
#include "cuda/sums.h"
#include "cuda/windows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Under --device auto a device with less free memory is left out. */
static const size_t LEAST_MEMORY = 256 << 20;

struct device {
    struct check_device check;
    size_t shared_bytes; /* of memory that a block can have */
    struct result_params params;
    struct counts_bins bins;
    /* Weights of the Gaussian; `down` is for gray of scale 1. */
    float down[SPECTRUM_MAX_RADIUS + 1], across[SPECTRUM_MAX_RADIUS + 1];
    cudaStream_t compute;
    struct copies *copies;
    struct buffers buffers;
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

/* --- errors --- */

/* The device has failed for good. The first message is kept. */
static int give_up(struct device *d, const struct err *e)
{
    if (!__atomic_exchange_n(&d->failed, true, __ATOMIC_ACQ_REL)) {
        d->why = *e;
        __atomic_store_n(&d->has_why, true, __ATOMIC_RELEASE);
    }
    return -1;
}

bool device_alive(const struct device *d)
{
    return !__atomic_load_n(&d->failed, __ATOMIC_ACQUIRE);
}

static int say_why(const struct device *d, struct err *e)
{
    if (!__atomic_load_n(&d->has_why, __ATOMIC_ACQUIRE))
        return err_set(e, "%s (cuda:%d): has failed", d->check.name, d->check.number);
    *e = d->why;
    return -1;
}

/* Every function that uses the device calls this first. */
static int enter(struct device *d, struct err *e)
{
    if (!device_alive(d))
        return say_why(d, e);
    cudaGetLastError(); /* forgets what another device has left in this thread */
    return CU(&d->check, cudaSetDevice(d->check.number), e) ? give_up(d, e) : 0;
}

/* --- opening and closing --- */

int device_count(struct err *e)
{
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code == cudaSuccess && n > 0)
        return n;
    err_set(e, "this machine has no CUDA device that can be used (CUDA: %s)",
            code == cudaSuccess ? "none found" : cudaGetErrorString(code));
    return 0;
}

int device_number(const struct device *d)
{
    return d->check.number;
}

const char *device_name(const struct device *d)
{
    return d->check.name;
}

const char *device_kernel(const struct device *d)
{
    return d->windows ? "cuFFT" : "fused";
}

/* Numbers that follow from the parameters. */
static void set_numbers(struct device *d)
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

static int check_kernels(struct device *d, const cudaDeviceProp *p, struct err *e)
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

static int open_all(struct device *d, int staging, struct err *e)
{
    cudaDeviceProp p;
    if (CU(&d->check, cudaGetDeviceProperties(&p, d->check.number), e))
        return -1;
    snprintf(d->check.name, sizeof d->check.name, "%.63s", p.name);
    d->shared_bytes = p.sharedMemPerBlockOptin;
    if (CU(&d->check, cudaSetDevice(d->check.number), e) || check_kernels(d, &p, e) ||
        !(d->copies = copies_create(&d->check, staging, e)) ||
        CU(&d->check, cudaStreamCreateWithFlags(&d->compute, cudaStreamNonBlocking), e))
        return -1;
    return buffers_open(&d->buffers, &d->check, &d->params, e) ||
                   sums_open(&d->sums, &d->check, &d->params, e)
               ? -1
               : 0;
}

int device_open(struct device **out, int number, const struct result_params *p, int staging,
                struct err *e)
{
    struct device *d = *out = (struct device *)calloc(1, sizeof *d);
    if (!d)
        return err_set(e, "out of memory");
    d->check.number = number;
    snprintf(d->check.name, sizeof d->check.name, "a CUDA device");
    d->params = *p;
    set_numbers(d);
    return open_all(d, staging, e) ? give_up(d, e) : 0;
}

int device_check_memory(struct device *d, struct err *e)
{
    size_t free_bytes = 0, all = 0;
    if (enter(d, e))
        return -1;
    if (CU(&d->check, cudaMemGetInfo(&free_bytes, &all), e))
        return give_up(d, e);
    if (free_bytes >= LEAST_MEMORY)
        return 0;
    return err_set(e, "%s (cuda:%d): only %zu of its %zu MiB of memory are free", d->check.name,
                   d->check.number, free_bytes >> 20, all >> 20);
}

bool device_can_fuse(const struct device *d)
{
    const struct result_params *p = &d->params;
    return p->window == FUSED_WINDOW && p->stride == FUSED_STRIDE && p->bins <= FUSED_MOST_BINS &&
           !strcmp(p->taper, "rectangular") && d->shared_bytes >= fused_shared_bytes();
}

int device_choose_kernel(struct device *d, bool fused, struct err *e)
{
    if (enter(d, e))
        return -1;
    if (fused)
        return CU(&d->check, fused_prepare(), e) ? give_up(d, e) : 0;
    d->windows = windows_create(&d->check, &d->params, d->compute, e);
    return d->windows ? 0 : give_up(d, e);
}

/* What the calls return does not matter any more. */
void device_close(struct device *d)
{
    if (!d)
        return;
    cudaSetDevice(d->check.number);
    if (d->compute) {
        cudaStreamSynchronize(copies_stream(d->copies));
        cudaStreamSynchronize(d->compute);
    }
    buffers_close(&d->buffers);
    sums_close(&d->sums);
    windows_free(d->windows);
    copies_free(d->copies);
    if (d->compute)
        cudaStreamDestroy(d->compute);
    free(d);
}

/* --- memory --- */

bool device_fits(const struct device *d, const struct spectrum_band *b, size_t buffer_bytes)
{
    return buffers_fit(&d->buffers, b, buffer_bytes) && sums_fit(&d->sums, b) &&
           (!d->windows || windows_ready(d->windows));
}

static void release_ring_and_windows(struct device *d)
{
    buffers_release_ring(&d->buffers);
    if (d->windows)
        windows_release(d->windows);
}

/* After a failure: is memory short, and can less be computed at a time? Then everything that can
 * shrink is released, so that each part gets its share. */
static bool may_halve(struct device *d)
{
    if (d->check.last != cudaErrorMemoryAllocation)
        return false;
    if (!buffers_may_halve(&d->buffers) &&
        !(d->windows && windows_may_halve(d->windows, d->buffers.halved)))
        return false;
    cudaGetLastError();
    release_ring_and_windows(d);
    d->buffers.halved++;
    return true;
}

/* A device that has had room for other bands lacks it for this one only. A device that never had
 * room, such as one that somebody else uses, is of no use. */
static int no_room(struct device *d, int halved, struct err *e)
{
    if (d->check.last != cudaErrorMemoryAllocation || !d->has_had_room)
        return give_up(d, e);
    buffers_release_slabs(&d->buffers);
    sums_release(&d->sums);
    release_ring_and_windows(d);
    d->buffers.halved = halved;
    return -1;
}

static int reserve_all(struct device *d, const struct spectrum_band *b, size_t buffer_bytes,
                       struct err *e)
{
    d->check.last = cudaSuccess;
    if (buffers_reserve_slabs(&d->buffers, buffer_bytes, e) || sums_reserve(&d->sums, b, e) ||
        buffers_reserve_ring(&d->buffers, b, e))
        return -1;
    return d->windows ? windows_reserve(d->windows, d->buffers.halved, e) : 0;
}

int device_reserve(struct device *d, const struct spectrum_band *b, size_t buffer_bytes,
                   struct err *e)
{
    if (enter(d, e))
        return -1;
    const int halved = d->buffers.halved;
    while (reserve_all(d, b, buffer_bytes, e))
        if (!may_halve(d))
            return no_room(d, halved, e);
    d->has_had_room = true;
    return 0;
}

/* --- the times of kernels --- */

/* Adds the time of a buffer's slab to the sums of its band, once. `number`: what `unreported` was.
 * Whoever claims the slab has read its time before that, because afterwards the events may be
 * recorded again. */
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

/* --- staging buffers --- */

bool device_buffer_free(const struct device *d, int k)
{
    return !device_alive(d) || copies_is_free(&d->buffers.slabs[k].guard);
}

int device_lock_pages(struct device *d, size_t bytes, uint8_t **out, struct err *e)
{
    const size_t page = 2 << 20; /* locking takes time per page; large pages where they exist */
    bytes = (bytes + page - 1) / page * page;
    uint8_t *p = (uint8_t *)aligned_alloc(page, bytes);
    if (!p)
        return err_set(e, "out of memory: cannot allocate %zu MiB; choose a smaller --memory",
                       bytes >> 20);
    madvise(p, bytes, MADV_HUGEPAGE);
    if (enter(d, e) || CU(&d->check, cudaHostRegister(p, bytes, cudaHostRegisterPortable), e)) {
        free(p);
        return give_up(d, e);
    }
    *out = p;
    return 0;
}

void device_unlock_pages(struct device *d, uint8_t *p)
{
    cudaSetDevice(d->check.number);
    if (cudaHostUnregister(p) == cudaSuccess)
        free(p); /* if not, a device may still read it */
}

void device_end_copies(struct device *d)
{
    cudaSetDevice(d->check.number);
    cudaStreamSynchronize(copies_stream(d->copies));
}

int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from,
                size_t offset, size_t bytes, struct err *e)
{
    struct buffer *to = &d->buffers.slabs[s->buffer];
    if (enter(d, e))
        return -1;
    return copies_send(d->copies, staging, from, to->d_pixels + offset, bytes, &to->guard,
                       &sums_of(&d->sums, s->band)->copied, s->band->assigned.number, e)
               ? give_up(d, e)
               : 0;
}

void device_wait(struct device *d, int staging)
{
    struct err e;
    if (enter(d, &e) == 0 && copies_wait(d->copies, staging, &e))
        give_up(d, &e); /* the next function that uses the device reports it */
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
    if (enter(d, e))
        return -1;
    if ((s->row == b->first_row && begin_band(d, b, e)) || begin_slab(d, buffer, e) ||
        queue_smoothing(d, s, e) || queue_windows(d, s, e) ||
        CU(&d->check, cudaEventRecord(buffer->ends, d->compute), e) ||
        (s->row + s->rows >= b->end_row && sums_fetch(&d->sums, b, d->compute, e)))
        return give_up(d, e);
    __atomic_store_n(&buffer->unreported, sums_number(b) + 1, __ATOMIC_RELEASE);
    return 0;
}

/* --- the end of a band --- */

static int report_times(struct device *d, const struct spectrum_band *b,
                        struct spectrum_times *times, struct err *e)
{
    struct sums *t = sums_of(&d->sums, b);
    double copy = 0;
    for (int k = 0; k < SPECTRUM_BUFFERS; k++)
        if (add_time(d, &d->buffers.slabs[k], sums_number(b) + 1, e))
            return -1;
    if (copies_report(d->copies, &t->copied, b->assigned.number, &copy, e))
        return -1;
    times->copy += copy;
    times->kernels += (double)__atomic_load_n(&t->kernels_us, __ATOMIC_RELAXED) * 1e-6;
    return 0;
}

int device_finish(struct device *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e)
{
    struct spectrum_times own = {0, 0};
    if (enter(d, e))
        return -1;
    if (sums_wait(&d->sums, b, e) || report_times(d, b, &own, e) ||
        sums_take(&d->sums, b, counts, e))
        return give_up(d, e);
    times->copy += own.copy;
    times->kernels += own.kernels;
    return 0;
}
