/* device.cu - see device.h. */
#include "cuda/device.h"

#include "cuda/check.h"
#include "cuda/copies.h"
#include "cuda/fused.h"
#include "cuda/smooth.h"
#include "cuda/windows.h"

#include <cufft.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    RING_STEP = 128,      /* rows of the ring of smoothed rows: a multiple, as fused.h wants it */
    BATCH_ROWS = 3072,    /* rows of pixels whose windows are computed at once */
    BATCH_BYTES = 1 << 28 /* of gathered windows that cuFFT transforms at once */
};

/* A slab on the device. */
struct buffer {
    uint8_t *d_pixels;
    struct copies_guard guard; /* free when no kernel needs it any more */
    cudaEvent_t copied;       /* all of it is here */
    cudaEvent_t compute_begins, compute_ends;
    int to_be_told; /* 1 + the sums that its times belong to and are not in yet, or 0; atomic */
};

/* What the kernels count for one band. */
struct sums {
    unsigned long long *d_histogram, *histogram; /* [bins + 2]; page-locked copy */
    unsigned long long *d_windows, *windows;     /* [ny][nx][2] */
    uint8_t *d_wanted;                           /* [ny][nx] */
    cudaEvent_t done;
    struct copies_times copied;
    int64_t kernels_us; /* atomic */
};

struct device {
    struct check_device check;
    struct result_params params;
    struct counts_bins bins;
    float down[SPECTRUM_MAX_RADIUS + 1], across[SPECTRUM_MAX_RADIUS + 1]; /* `down` for gray of scale 1 */
    bool fused;
    cudaStream_t compute;
    struct buffer buffers[SPECTRUM_BUFFERS];
    struct sums sums[SPECTRUM_SUMS];
    struct copies *copies;
    float *d_smooth;
    size_t buffer_bytes, ring_bytes, windows_bytes;
    int64_t ring_rows, batch_wy; /* of the band under way */
    int halved;                  /* how often memory was short */
    bool has_had_room;           /* for a band at least */
    bool failed, why_is_there;   /* atomic */
    struct err why;

    /* windows by cuFFT */
    cufftHandle plan;
    bool planned;
    int64_t batch;
    float *d_gathered, *d_mean, *d_taper;
    float2 *d_spectra;
    void *d_work;
    double taper_dft[2];

    /* where the band under way is */
    int64_t next_wy; /* first row of windows not yet computed */
    int64_t next_row; /* first row not yet smoothed */
    struct smooth_slab above;
    struct buffer *above_buffer;
};

static int sums_number(const struct spectrum_band *s)
{
    return (int)(s->assigned.number % SPECTRUM_SUMS);
}

static struct sums *sums_of(struct device *d, const struct spectrum_band *s)
{
    return &d->sums[sums_number(s)];
}

/* --- errors --- */

static int check_code(struct check_device *d, cudaError_t code, const char *call, const char *words,
                      struct err *e)
{
    __atomic_store_n(&d->last, code, __ATOMIC_RELAXED); /* any thread */
    return err_set(e, "%s (cuda:%d): %s: %s", d->name, d->number, call, words);
}

int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e)
{
    return result == cudaSuccess ? 0 : check_code(d, result, call, cudaGetErrorString(result), e);
}

static int check_fft(struct check_device *d, cufftResult result, const char *call, struct err *e)
{
    char words[32];
    if (result == CUFFT_SUCCESS)
        return 0;
    snprintf(words, sizeof words, "cuFFT error %d", (int)result);
    return check_code(d, result == CUFFT_ALLOC_FAILED ? cudaErrorMemoryAllocation : cudaErrorUnknown, call,
                      words, e);
}

#define FFT(d, call, e) check_fft((d), (call), #call, (e))

/* The device has failed for good; the first says why. */
static int give_up(struct device *d, const struct err *e)
{
    if (!__atomic_exchange_n(&d->failed, true, __ATOMIC_ACQ_REL)) {
        d->why = *e;
        __atomic_store_n(&d->why_is_there, true, __ATOMIC_RELEASE);
    }
    return -1;
}

bool device_alive(const struct device *d)
{
    return !__atomic_load_n(&d->failed, __ATOMIC_ACQUIRE);
}

/* Every thread that asks something of the device comes through here. */
static int enter(struct device *d, struct err *e)
{
    if (!device_alive(d))
        return __atomic_load_n(&d->why_is_there, __ATOMIC_ACQUIRE)
                   ? (*e = d->why, -1)
                   : err_set(e, "%s (cuda:%d): has failed", d->check.name, d->check.number);
    cudaGetLastError(); /* what another device has left behind in this thread */
    return CU(&d->check, cudaSetDevice(d->check.number), e) ? give_up(d, e) : 0;
}

/* --- open and close --- */

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

const char *device_name(const struct device *d)
{
    return d->check.name;
}

const char *device_kernel(const struct device *d)
{
    return d->fused ? "fused" : "cuFFT";
}

static int open_buffers(struct device *d, struct err *e)
{
    const unsigned timed = cudaEventBlockingSync;
    for (struct buffer *s = d->buffers; s < d->buffers + SPECTRUM_BUFFERS; s++)
        if (CU(&d->check, cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming), e) ||
            CU(&d->check, cudaEventCreateWithFlags(&s->guard.free, cudaEventDisableTiming), e) ||
            CU(&d->check, cudaEventCreateWithFlags(&s->compute_begins, timed), e) ||
            CU(&d->check, cudaEventCreateWithFlags(&s->compute_ends, timed), e))
            return -1;
    return 0;
}

static int open_sums(struct device *d, struct err *e)
{
    const size_t bytes = (size_t)(d->params.bins + 2) * sizeof(unsigned long long);
    for (struct sums *s = d->sums; s < d->sums + SPECTRUM_SUMS; s++)
        if (CU(&d->check, cudaMalloc((void **)&s->d_histogram, bytes), e) ||
            CU(&d->check, cudaMallocHost((void **)&s->histogram, bytes), e) ||
            CU(&d->check,
               cudaEventCreateWithFlags(&s->done, cudaEventBlockingSync | cudaEventDisableTiming), e))
            return -1;
    return 0;
}

static int open_taper(struct device *d, struct err *e)
{
    float taper[1024];
    const size_t bytes = (size_t)d->params.window * sizeof *taper;
    spectrum_taper(&d->params, taper, d->taper_dft);
    if (d->taper_dft[1] == 0)
        return 0;
    return CU(&d->check, cudaMalloc((void **)&d->d_taper, bytes), e) ||
                   CU(&d->check, cudaMemcpy(d->d_taper, taper, bytes, cudaMemcpyHostToDevice), e)
               ? -1
               : 0;
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
    d->bins.all_inside = p->low_db == 0 && p->offset >= 1 && p->high_db > 20 * log10(256 * n * n + p->offset);
}

static int choose_kernel(struct device *d, struct err *e)
{
    const struct result_params *p = &d->params;
    int most = 0;
    if (CU(&d->check,
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->check.number), e))
        return -1;
    d->fused = p->window == FUSED_WINDOW && p->stride == FUSED_STRIDE && p->bins <= FUSED_MOST_BINS &&
               !strcmp(p->taper, "rectangular") && (size_t)most >= fused_shared_bytes();
    return d->fused ? CU(&d->check, fused_prepare(), e) : open_taper(d, e);
}

int device_open(struct device **out, int number, const struct result_params *p, int staging, struct err *e)
{
    cudaDeviceProp properties;
    struct device *d = *out = (struct device *)calloc(1, sizeof *d);
    if (!d)
        return err_set(e, "out of memory");
    d->check.number = number;
    snprintf(d->check.name, sizeof d->check.name, "a CUDA device");
    d->params = *p;
    set_numbers(d);
    if (CU(&d->check, cudaGetDeviceProperties(&properties, number), e) ||
        CU(&d->check, cudaSetDevice(number), e))
        return give_up(d, e);
    snprintf(d->check.name, sizeof d->check.name, "%.63s", properties.name);
    if (!(d->copies = copies_create(&d->check, staging, e)) ||
        CU(&d->check, cudaStreamCreateWithFlags(&d->compute, cudaStreamNonBlocking), e) ||
        choose_kernel(d, e) || open_buffers(d, e) || open_sums(d, e))
        return give_up(d, e);
    return 0;
}

static void release_pixels(struct device *d)
{
    for (struct buffer *s = d->buffers; s < d->buffers + SPECTRUM_BUFFERS; s++) {
        cudaFree(s->d_pixels);
        s->d_pixels = NULL;
    }
    d->buffer_bytes = 0;
}

static void release_windows(struct device *d)
{
    for (struct sums *s = d->sums; s < d->sums + SPECTRUM_SUMS; s++) {
        cudaFree(s->d_windows);
        cudaFree(s->d_wanted);
        cudaFreeHost(s->windows);
        s->d_windows = s->windows = NULL;
        s->d_wanted = NULL;
    }
    d->windows_bytes = 0;
}

static void release_ring(struct device *d)
{
    cudaFree(d->d_smooth);
    d->d_smooth = NULL;
    d->ring_bytes = 0;
}

static void release_plan(struct device *d)
{
    if (d->planned)
        cufftDestroy(d->plan);
    cudaFree(d->d_gathered);
    cudaFree(d->d_spectra);
    cudaFree(d->d_mean);
    cudaFree(d->d_work);
    d->d_gathered = d->d_mean = NULL;
    d->d_spectra = NULL;
    d->d_work = NULL;
    d->planned = false;
}

static void destroy_event(cudaEvent_t event)
{
    if (event)
        cudaEventDestroy(event);
}

/* Results of the calls do not matter any more. */
void device_close(struct device *d)
{
    if (!d)
        return;
    cudaSetDevice(d->check.number);
    if (d->compute) {
        cudaStreamSynchronize(copies_stream(d->copies));
        cudaStreamSynchronize(d->compute);
    }
    release_pixels(d);
    release_windows(d);
    release_ring(d);
    release_plan(d);
    cudaFree(d->d_taper);
    for (struct sums *s = d->sums; s < d->sums + SPECTRUM_SUMS; s++) {
        cudaFree(s->d_histogram);
        cudaFreeHost(s->histogram);
        destroy_event(s->done);
    }
    for (struct buffer *s = d->buffers; s < d->buffers + SPECTRUM_BUFFERS; s++) {
        destroy_event(s->copied);
        destroy_event(s->guard.free);
        destroy_event(s->compute_begins);
        destroy_event(s->compute_ends);
    }
    copies_free(d->copies);
    if (d->compute)
        cudaStreamDestroy(d->compute);
    free(d);
}

/* --- buffers --- */

static int64_t ring_pitch(const struct spectrum_band *s)
{
    return (s->width + 31) / 32 * 32;
}

/* Rows of the ring when windows of `batch_wy` rows of them are computed at once. */
static int64_t ring_rows(const struct device *d, const struct spectrum_band *s, int64_t batch_wy)
{
    const struct result_params *p = &d->params;
    const int64_t rows = batch_wy * p->stride + p->window + s->slab_rows + 2 * p->radius;
    const int64_t all = s->end_row - s->first_row + RING_STEP;
    return ((rows < all ? rows : all) + RING_STEP - 1) / RING_STEP * RING_STEP;
}

/* Rows of windows at once, and windows that cuFFT transforms at once; fewer each time that memory was short. */
static int64_t most_batch_wy(const struct device *d)
{
    const int64_t most = (BATCH_ROWS >> d->halved) / d->params.stride;
    return most > 1 ? most : 1;
}

static int64_t most_batch(const struct device *d)
{
    const int64_t most =
        (BATCH_BYTES >> d->halved) / (d->params.window * d->params.window * (int64_t)sizeof(float));
    return most > 1 ? most : 1;
}

static size_t ring_bytes(const struct device *d, const struct spectrum_band *s, int64_t batch_wy)
{
    return (size_t)(ring_rows(d, s, batch_wy) * ring_pitch(s)) * sizeof(float);
}

static size_t windows_bytes(const struct spectrum_band *s)
{
    return (size_t)(s->nx * s->ny) * 2 * sizeof(unsigned long long);
}

/* The most rows of windows at once that the ring has room for; 0: not even one. */
static int64_t batch_that_fits(const struct device *d, const struct spectrum_band *s)
{
    int64_t batch_wy = most_batch_wy(d);
    while (batch_wy > 0 && ring_bytes(d, s, batch_wy) > d->ring_bytes)
        batch_wy /= 2;
    return batch_wy;
}

bool device_fits(const struct device *d, const struct spectrum_band *s, size_t buffer_bytes)
{
    return buffer_bytes <= d->buffer_bytes && windows_bytes(s) <= d->windows_bytes && batch_that_fits(d, s) > 0 &&
           (d->fused || d->planned);
}

static int reserve_pixels(struct device *d, size_t buffer_bytes, struct err *e)
{
    if (buffer_bytes <= d->buffer_bytes)
        return 0;
    release_pixels(d);
    for (struct buffer *s = d->buffers; s < d->buffers + SPECTRUM_BUFFERS; s++)
        if (CU(&d->check, cudaMalloc((void **)&s->d_pixels, buffer_bytes), e))
            return -1;
    d->buffer_bytes = buffer_bytes;
    return 0;
}

static int reserve_windows(struct device *d, const struct spectrum_band *s, struct err *e)
{
    const size_t bytes = windows_bytes(s);
    if (bytes <= d->windows_bytes)
        return 0;
    release_windows(d);
    for (struct sums *t = d->sums; t < d->sums + SPECTRUM_SUMS; t++)
        if (CU(&d->check, cudaMalloc((void **)&t->d_windows, bytes), e) ||
            CU(&d->check, cudaMallocHost((void **)&t->windows, bytes), e) ||
            (d->params.tissue_only && CU(&d->check, cudaMalloc((void **)&t->d_wanted, bytes / 16), e)))
            return -1;
    d->windows_bytes = bytes;
    return 0;
}

static int reserve_ring(struct device *d, const struct spectrum_band *s, struct err *e)
{
    const size_t bytes = ring_bytes(d, s, most_batch_wy(d));
    if (batch_that_fits(d, s) > 0)
        return 0;
    release_ring(d);
    if (CU(&d->check, cudaMalloc((void **)&d->d_smooth, bytes), e))
        return -1;
    d->ring_bytes = bytes;
    return 0;
}

static int make_plan(struct device *d, struct err *e)
{
    int n[2] = {(int)d->params.window, (int)d->params.window};
    const int64_t pixels = d->params.window * d->params.window,
                  half = d->params.window * (d->params.window / 2 + 1);
    size_t work = 0;
    if (FFT(&d->check, cufftCreate(&d->plan), e))
        return -1;
    d->planned = true;
    return FFT(&d->check, cufftSetAutoAllocation(d->plan, 0), e) ||
                   FFT(&d->check,
                       cufftMakePlanMany(d->plan, 2, n, NULL, 1, (int)pixels, NULL, 1, (int)half, CUFFT_R2C,
                                         (int)d->batch, &work),
                       e) ||
                   CU(&d->check, cudaMalloc(&d->d_work, work ? work : 1), e) ||
                   FFT(&d->check, cufftSetWorkArea(d->plan, d->d_work), e) ||
                   FFT(&d->check, cufftSetStream(d->plan, d->compute), e) ||
                   CU(&d->check,
                      cudaMalloc((void **)&d->d_gathered, (size_t)(d->batch * pixels) * sizeof(float)),
                      e) ||
                   CU(&d->check,
                      cudaMalloc((void **)&d->d_spectra, (size_t)(d->batch * half) * sizeof(float2)), e) ||
                   CU(&d->check, cudaMalloc((void **)&d->d_mean, (size_t)d->batch * sizeof(float)), e)
               ? -1
               : 0;
}

static int reserve_plan(struct device *d, struct err *e)
{
    if (d->fused || d->planned)
        return 0;
    d->batch = most_batch(d);
    return make_plan(d, e);
}

/* Out of memory: may less at a time do? Then all that can be smaller goes, so that each gets its share. */
static bool may_halve(struct device *d)
{
    if (d->check.last != cudaErrorMemoryAllocation ||
        (most_batch_wy(d) == 1 && (d->fused || most_batch(d) == 1)))
        return false;
    cudaGetLastError();
    release_ring(d);
    release_plan(d);
    d->halved++;
    return true;
}

/* A device that has had room for other slides has none for this one only; others, such as one that somebody else
 * uses, are of no use. */
static int no_room(struct device *d, int halved, struct err *e)
{
    if (d->check.last != cudaErrorMemoryAllocation || !d->has_had_room)
        return give_up(d, e);
    release_pixels(d);
    release_windows(d);
    release_ring(d);
    release_plan(d);
    d->halved = halved;
    return -1;
}

int device_reserve(struct device *d, const struct spectrum_band *s, size_t buffer_bytes, struct err *e)
{
    if (enter(d, e))
        return -1;
    const int halved = d->halved;
    d->check.last = cudaSuccess;
    while (reserve_pixels(d, buffer_bytes, e) || reserve_windows(d, s, e) || reserve_ring(d, s, e) ||
           reserve_plan(d, e)) {
        if (!may_halve(d))
            return no_room(d, halved, e);
        d->check.last = cudaSuccess;
    }
    d->has_had_room = true;
    return 0;
}

/* --- buffers and their times --- */

/* Adds the times of a buffer's slab to those of its band, once. `told` is what to_be_told was. Whoever claims
 * them has asked before, as then the events may begin anew. */
static int tell_times(struct device *d, struct buffer *s, int told, struct err *e)
{
    float kernels = 0;
    if (told == 0 || __atomic_load_n(&s->to_be_told, __ATOMIC_ACQUIRE) != told)
        return 0;
    const cudaError_t asked = cudaEventElapsedTime(&kernels, s->compute_begins, s->compute_ends);
    if (!__atomic_compare_exchange_n(&s->to_be_told, &told, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return 0;
    if (check_result(&d->check, asked, "cudaEventElapsedTime(&kernels, s->compute_begins, s->compute_ends)", e))
        return -1;
    __atomic_fetch_add(&d->sums[told - 1].kernels_us, (int64_t)(kernels * 1000), __ATOMIC_RELAXED);
    return 0;
}

bool device_buffer_free(const struct device *d, int k)
{
    return !device_alive(d) || copies_is_free(&d->buffers[k].guard);
}

/* --- staging buffers --- */

int device_lock_pages(struct device *d, size_t bytes, uint8_t **out, struct err *e)
{
    const size_t page = 2 << 20; /* locking takes a time a page: large ones, where they can be had */
    bytes = (bytes + page - 1) / page * page;
    uint8_t *p = (uint8_t *)aligned_alloc(page, bytes);
    if (!p)
        return err_set(e, "out of memory: cannot have %zu MiB; take a smaller --memory", bytes >> 20);
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
        free(p); /* else some device may still read it */
}

void device_end_copies(struct device *d)
{
    cudaSetDevice(d->check.number);
    cudaStreamSynchronize(copies_stream(d->copies));
}

int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from, size_t offset,
                size_t bytes, struct err *e)
{
    struct buffer *buffer = &d->buffers[s->buffer];
    if (enter(d, e))
        return -1;
    return copies_send(d->copies, staging, from, buffer->d_pixels + offset, bytes, &buffer->guard,
                       &sums_of(d, s->band)->copied, s->band->assigned.number, e)
               ? give_up(d, e)
               : 0;
}

void device_wait(struct device *d, int staging)
{
    struct err e;
    if (enter(d, &e) == 0 && copies_wait(d->copies, staging, &e))
        give_up(d, &e); /* its own work will tell */
}

/* --- a slab --- */

static int begin_band(struct device *d, const struct spectrum_band *s, struct err *e)
{
    struct sums *t = sums_of(d, s);
    d->batch_wy = batch_that_fits(d, s);
    d->ring_rows = ring_rows(d, s, d->batch_wy);
    d->next_wy = s->first_wy;
    d->next_row = s->first_wy * d->params.stride;
    t->kernels_us = 0;
    if (CU(&d->check,
           cudaMemsetAsync(t->d_histogram, 0, (size_t)(d->params.bins + 2) * sizeof *t->d_histogram,
                           d->compute),
           e) ||
        CU(&d->check, cudaMemsetAsync(t->d_windows, 0, windows_bytes(s), d->compute), e))
        return -1;
    return s->wanted ? CU(&d->check,
                          cudaMemcpyAsync(t->d_wanted, s->wanted, (size_t)(s->nx * s->ny),
                                          cudaMemcpyHostToDevice, d->compute),
                          e)
                     : 0;
}

/* Waits until the slab that was in the buffer has been computed, and lets the kernels wait for this one's copies. */
static int begin_slab(struct device *d, struct buffer *buffer, struct err *e)
{
    return (buffer->guard.used && (CU(&d->check, cudaEventSynchronize(buffer->compute_ends), e) ||
                                 tell_times(d, buffer, __atomic_load_n(&buffer->to_be_told, __ATOMIC_ACQUIRE), e))) ||
                   CU(&d->check, cudaEventRecord(buffer->copied, copies_stream(d->copies)), e) ||
                   CU(&d->check, cudaStreamWaitEvent(d->compute, buffer->copied, 0), e) ||
                   CU(&d->check, cudaEventRecord(buffer->compute_begins, d->compute), e)
               ? -1
               : 0;
}

/* Smooths the rows that have all their neighbours now. */
static int queue_smoothing(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *i = s->band;
    struct buffer *buffer = &d->buffers[s->buffer];
    const struct smooth_slab slab = {buffer->d_pixels, s->row, s->rows};
    const int64_t end = s->row + s->rows >= i->height ? i->height : s->row + s->rows - d->params.radius;
    struct smooth_args a = {};
    struct buffer *above = s->row == i->first_row ? buffer : d->above_buffer;
    a.above = s->row == i->first_row ? slab : d->above;
    a.slab = d->above = slab;
    d->above_buffer = buffer;
    a.width = i->width;
    a.height = i->height;
    a.chunk_rows = (int)i->chunk_rows;
    a.chunk_cols = (int)i->chunk_cols;
    a.channels = (int)i->channels;
    a.chunk_columns = (i->width + i->chunk_cols - 1) / i->chunk_cols;
    a.first = d->next_row;
    a.end = end;
    a.d_smooth = d->d_smooth;
    a.ring_rows = d->ring_rows;
    a.pitch = ring_pitch(i);
    a.radius = (int)d->params.radius;
    memcpy(a.across, d->across, sizeof a.across);
    for (int k = 0; k <= a.radius; k++)
        a.down[k] = (float)((double)d->down[k] / (double)i->scale);
    if (end > d->next_row) {
        smooth_rows(&a, d->compute);
        d->next_row = end;
    }
    return CU(&d->check, cudaGetLastError(), e) ||
                   copies_free_later(d->copies, &buffer->guard, d->compute, e) ||
                   (above != buffer && copies_free_later(d->copies, &above->guard, d->compute, e))
               ? -1
               : 0;
}

static int queue_cufft(struct device *d, const struct fused_args *f, struct err *e)
{
    const int64_t all = (f->windows.end_wy - f->windows.first_wy) * f->windows.nx;
    for (int64_t k = 0; k < all; k += d->batch) {
        const struct windows_args a = {f->d_smooth,
                                       f->ring_rows,
                                       f->pitch,
                                       (int)d->params.window,
                                       (int)d->params.stride,
                                       f->windows,
                                       f->bins,
                                       f->sums,
                                       d->d_taper,
                                       {(float)d->taper_dft[0], (float)d->taper_dft[1]},
                                       k,
                                       all - k < d->batch ? all - k : d->batch,
                                       d->d_gathered,
                                       d->d_spectra,
                                       d->d_mean};
        windows_gather(&a, d->compute);
        if (CU(&d->check, cudaGetLastError(), e) ||
            FFT(&d->check, cufftExecR2C(d->plan, d->d_gathered, (cufftComplex *)d->d_spectra), e))
            return -1;
        windows_count(&a, d->compute);
    }
    return 0;
}

/* Computes the windows that are there, when they are enough for a batch or the last ones. */
static int queue_windows(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *i = s->band;
    struct sums *t = sums_of(d, i);
    if (s->end_wy <= d->next_wy || (s->end_wy - d->next_wy < d->batch_wy && s->end_wy < i->end_wy))
        return 0;
    const struct fused_args a = {
        d->d_smooth,   d->ring_rows,
        ring_pitch(i), {i->nx, d->next_wy, s->end_wy, i->wanted ? t->d_wanted : NULL},
        d->bins,       {t->d_histogram, t->d_windows}};
    if (d->fused)
        fused_windows(&a, d->compute);
    else if (queue_cufft(d, &a, e))
        return -1;
    d->next_wy = s->end_wy;
    return CU(&d->check, cudaGetLastError(), e);
}

static int queue_sums(struct device *d, const struct spectrum_band *i, struct err *e)
{
    struct sums *t = sums_of(d, i);
    const size_t first = (size_t)(i->first_wy * i->nx) * 2, n = (size_t)((i->end_wy - i->first_wy) * i->nx) * 2;
    return CU(&d->check,
              cudaMemcpyAsync(t->histogram, t->d_histogram,
                              (size_t)(d->params.bins + 2) * sizeof *t->histogram, cudaMemcpyDeviceToHost,
                              d->compute),
              e) ||
                   CU(&d->check,
                      cudaMemcpyAsync(t->windows + first, t->d_windows + first, n * sizeof *t->windows,
                                      cudaMemcpyDeviceToHost, d->compute),
                      e) ||
                   CU(&d->check, cudaEventRecord(t->done, d->compute), e)
               ? -1
               : 0;
}

int device_compute(struct device *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *i = s->band;
    struct buffer *buffer = &d->buffers[s->buffer];
    if (enter(d, e))
        return -1;
    if ((s->row == i->first_row && begin_band(d, i, e)) || begin_slab(d, buffer, e) || queue_smoothing(d, s, e) ||
        queue_windows(d, s, e) || CU(&d->check, cudaEventRecord(buffer->compute_ends, d->compute), e) ||
        (s->row + s->rows >= i->end_row && queue_sums(d, i, e)))
        return give_up(d, e);
    __atomic_store_n(&buffer->to_be_told, sums_number(i) + 1, __ATOMIC_RELEASE);
    return 0;
}

/* --- a band's end --- */

/* Windows that should have been counted. */
static int64_t windows_expected(const struct spectrum_band *s)
{
    int64_t n = 0;
    if (!s->wanted)
        return (s->end_wy - s->first_wy) * s->nx;
    for (int64_t k = s->first_wy * s->nx; k < s->end_wy * s->nx; k++)
        n += s->wanted[k];
    return n;
}

static void fill_maps(const struct device *d, const struct spectrum_band *s, const struct sums *t)
{
    for (int64_t k = s->first_wy * s->nx; k < s->end_wy * s->nx; k++) {
        const unsigned long long n = t->windows[2 * k] >> COUNTS_SHIFT;
        if (!s->wanted || s->wanted[k])
            spectrum_window_moments(&d->params, n, t->windows[2 * k] & ((1ull << COUNTS_SHIFT) - 1),
                                    t->windows[2 * k + 1], &s->mean_db[k], &s->std_db[k]);
    }
}

/* Every value of every window must have been counted, and as often in the windows as in the histogram. */
static int check_sums(struct device *d, const struct spectrum_band *s, const struct sums *t, struct err *e)
{
    const uint64_t samples = (uint64_t)(d->params.window * d->params.window);
    uint64_t all = 0, in_windows = 0;
    for (int64_t k = 0; k < d->params.bins + 2; k++)
        all += t->histogram[k];
    for (int64_t k = s->first_wy * s->nx; k < s->end_wy * s->nx; k++)
        in_windows += t->windows[2 * k] >> COUNTS_SHIFT;
    if (all == (uint64_t)windows_expected(s) * samples &&
        in_windows == all - t->histogram[0] - t->histogram[d->params.bins + 1])
        return 0;
    return err_set(e, "%s (cuda:%d): has counted %llu values of %llu: it does not compute as it should",
                   d->check.name, d->check.number, (unsigned long long)all,
                   (unsigned long long)((uint64_t)windows_expected(s) * samples));
}

int device_finish(struct device *d, const struct spectrum_band *s, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e)
{
    struct sums *t = sums_of(d, s);
    double copy = 0;
    if (enter(d, e))
        return -1;
    if (CU(&d->check, cudaEventSynchronize(t->done), e))
        return give_up(d, e);
    for (struct buffer *buffer = d->buffers; buffer < d->buffers + SPECTRUM_BUFFERS; buffer++)
        if (tell_times(d, buffer, sums_number(s) + 1, e))
            return give_up(d, e);
    if (copies_report(d->copies, &t->copied, s->assigned.number, &copy, e))
        return give_up(d, e);
    if (check_sums(d, s, t, e))
        return give_up(d, e);
    counts->windows += windows_expected(s);
    counts->underflow += t->histogram[0];
    counts->overflow += t->histogram[d->params.bins + 1];
    for (int64_t k = 0; k < d->params.bins; k++)
        counts->histogram[k] += t->histogram[k + 1];
    fill_maps(d, s, t);
    times->copy += copy;
    times->kernels += (double)__atomic_load_n(&t->kernels_us, __ATOMIC_RELAXED) * 1e-6;
    return 0;
}
