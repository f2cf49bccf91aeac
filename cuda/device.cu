/* device.cu - opening a device, its memory and its failures; see device.h. */
#include "cuda/device_state.h"

#include "cuda/fused.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under --device auto a device with less free memory is left out. */
static const size_t LEAST_MEMORY = 256 << 20;

/* --- errors --- */

int device_give_up(struct device *d, const struct err *e)
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

int device_enter(struct device *d, struct err *e)
{
    if (!device_alive(d))
        return say_why(d, e);
    cudaGetLastError(); /* forgets what another device has left in this thread */
    return CU(&d->check, cudaSetDevice(d->check.number), e) ? device_give_up(d, e) : 0;
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

static int open_all(struct device *d, int readers, struct err *e)
{
    cudaDeviceProp p;
    if (CU(&d->check, cudaGetDeviceProperties(&p, d->check.number), e))
        return -1;
    snprintf(d->check.name, sizeof d->check.name, "%.63s", p.name);
    d->shared_bytes = p.sharedMemPerBlockOptin;
    d->shared_each = p.sharedMemPerMultiprocessor;
    d->multiprocessors = p.multiProcessorCount;
    if (CU(&d->check, cudaSetDevice(d->check.number), e) || check_kernels(d, &p, e) ||
        !(d->copies = copies_create(&d->check, d->staging + readers, e)) ||
        (readers > 0 && !(d->reads = reads_create(&d->check, readers, e))) ||
        CU(&d->check, cudaStreamCreateWithFlags(&d->compute, cudaStreamNonBlocking), e))
        return -1;
    for (int k = 0; k < BUFFERS_SLABS; k++)
        if (unpack_open(&d->unpacks[k], &d->check, e))
            return -1;
    return buffers_open(&d->buffers, &d->check, &d->params, e) ||
                   sums_open(&d->sums, &d->check, &d->params, e)
               ? -1
               : 0;
}

int device_open(struct device **out, int number, const struct result_params *p, int staging,
                int readers, struct err *e)
{
    struct device *d = *out = (struct device *)calloc(1, sizeof *d);
    if (!d)
        return err_set(e, "out of memory");
    d->check.number = number;
    snprintf(d->check.name, sizeof d->check.name, "a CUDA device");
    d->params = *p;
    d->staging = staging;
    set_numbers(d);
    return open_all(d, readers, e) ? device_give_up(d, e) : 0;
}

int device_check_memory(struct device *d, struct err *e)
{
    size_t free_bytes = 0, all = 0;
    if (device_enter(d, e))
        return -1;
    if (CU(&d->check, cudaMemGetInfo(&free_bytes, &all), e))
        return device_give_up(d, e);
    if (free_bytes >= LEAST_MEMORY)
        return 0;
    return err_set(e, "%s (cuda:%d): only %zu of its %zu MiB of memory are free", d->check.name,
                   d->check.number, free_bytes >> 20, all >> 20);
}

bool device_can_fuse(const struct device *d)
{
    const struct result_params *p = &d->params;
    return p->window == FUSED_WINDOW && p->stride == FUSED_STRIDE && p->bins <= FUSED_MOST_BINS &&
           !strcmp(p->taper, "rectangular") && d->shared_bytes >= fused_shared_bytes((int)p->bins);
}

int device_choose_kernel(struct device *d, bool fused, struct err *e)
{
    if (device_enter(d, e))
        return -1;
    if (fused)
        return CU(&d->check, fused_prepare(d->shared_each, (int)d->params.bins, 0), e)
                   ? device_give_up(d, e)
                   : 0;
    d->windows = windows_create(&d->check, &d->params, d->compute, e);
    return d->windows ? 0 : device_give_up(d, e);
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
    for (int k = 0; k < BUFFERS_SLABS; k++)
        unpack_close(&d->unpacks[k]);
    reads_free(d->reads);
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
    for (int k = 0; k < BUFFERS_SLABS; k++)
        if (!unpack_fits(&d->unpacks[k], b, d->buffers.halved))
            return false;
    return buffers_fit(&d->buffers, b, buffer_bytes) && sums_fit(&d->sums, b) &&
           (!d->windows || windows_ready(d->windows));
}

static void release_most(struct device *d)
{
    for (int k = 0; k < BUFFERS_SLABS; k++)
        unpack_release(&d->unpacks[k]);
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
    release_most(d);
    d->buffers.halved++;
    return true;
}

/* A device that has had room for other bands lacks it for this one only. A device that never had
 * room, such as one that somebody else uses, is of no use. */
static int no_room(struct device *d, int halved, struct err *e)
{
    if (d->check.last != cudaErrorMemoryAllocation || !d->has_had_room)
        return device_give_up(d, e);
    buffers_release_slabs(&d->buffers);
    sums_release(&d->sums);
    release_most(d);
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
    for (int k = 0; k < BUFFERS_SLABS; k++)
        if (unpack_reserve(&d->unpacks[k], b, d->buffers.halved, e))
            return -1;
    return d->windows ? windows_reserve(d->windows, d->buffers.halved, e) : 0;
}

int device_reserve(struct device *d, const struct spectrum_band *b, size_t buffer_bytes,
                   struct err *e)
{
    if (device_enter(d, e))
        return -1;
    const int halved = d->buffers.halved;
    while (reserve_all(d, b, buffer_bytes, e))
        if (!may_halve(d))
            return no_room(d, halved, e);
    d->has_had_room = true;
    return 0;
}
