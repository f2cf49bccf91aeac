/*
 * windows.cu - see windows.h.
 *
 * In both kernels a block handles one window. A thread stays in its columns and goes down the rows,
 * so that the loops contain neither division nor modulo.
 */
#include "cuda/windows.h"

#include "common/base/memory.h"
#include "cuda/cufft.h"

#include <stdio.h>
#include <stdlib.h>

namespace
{

enum {
    THREADS = 256,
    SHARED_BINS = 8192,
    SUMMED = 8,           /* so many pixels are summed in float, their sums in double */
    BATCH_BYTES = 1 << 28 /* of gathered windows that cuFFT transforms at a time */
};

/* The first window of a batch. */
struct batch {
    int64_t wy;
    unsigned wx;
    unsigned ring_row; /* of its first row of pixels */
};

struct place {
    unsigned row, wx; /* of windows, relative to the first one's */
    bool wanted;
};

__device__ __forceinline__ int64_t window_number(const struct windows_args &a,
                                                 const struct batch &b, const struct place &w)
{
    return (b.wy - a.windows.band_wy + w.row) * a.windows.nx + w.wx;
}

__device__ __forceinline__ struct place window_at(const struct windows_args &a,
                                                  const struct batch &b, unsigned k)
{
    const unsigned nx = (unsigned)a.windows.nx, x = b.wx + k;
    struct place w = {x / nx, x % nx, true};
    w.wanted = !a.windows.d_wanted || a.windows.d_wanted[window_number(a, b, w)];
    return w;
}

/* Sum over the block, in a fixed order; every thread gets it. */
template <typename T> __device__ T block_sum(T v)
{
    __shared__ T part[THREADS / 32];
    for (int lanes = 16; lanes > 0; lanes /= 2)
        v += __shfl_xor_sync(~0u, v, lanes);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    T sum = 0;
    for (int k = 0; k < THREADS / 32; k++)
        sum += part[k];
    return sum;
}

/* One column of the window, row by row. */
struct column {
    const float *p;
    unsigned row, rows; /* of the ring */
    int64_t pitch;

    __device__ float next(unsigned step)
    {
        const float v = p[row * pitch];
        row += step;
        row -= row >= rows ? rows : 0;
        return v;
    }
};

__device__ __forceinline__ struct column
column_at(const struct windows_args &a, const struct batch &b, const struct place &w, int x, int y)
{
    const unsigned rows = (unsigned)a.ring_rows;
    const unsigned row = (b.ring_row + w.row * (unsigned)a.stride) % rows + (unsigned)y;
    return {a.d_smooth + (int64_t)w.wx * a.stride + x, row - (row >= rows ? rows : 0), rows,
            a.pitch};
}

/* Copies the window minus its mean, times the taper. */
__global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ struct windows_args a,
                  const __grid_constant__ struct batch b)
{
    const struct place w = window_at(a, b, blockIdx.x);
    const int n = a.window, across = n < THREADS ? n : THREADS, step = THREADS / across;
    const int x0 = (int)threadIdx.x % across, y0 = (int)threadIdx.x / across;
    double sum = 0;
    if (!w.wanted)
        return;
    for (int x = x0; x < n; x += across) {
        struct column c = column_at(a, b, w, x, y0);
        for (int y = y0; y < n; y += SUMMED * step) {
            float some = 0;
#pragma unroll
            for (int k = 0; k < SUMMED; k++)
                some += c.next((unsigned)step);
            sum += (double)some;
        }
    }
    const float mean = (float)(block_sum(sum) / ((double)n * n));
    for (int x = x0; x < n; x += across) {
        struct column c = column_at(a, b, w, x, y0);
        float *out = a.d_gathered + ((int64_t)blockIdx.x * n + y0) * n + x;
        const float taper = a.d_taper ? a.d_taper[x] : 1;
#pragma unroll 8
        for (int y = y0; y < n; y += step, out += step * n) {
            const float v = c.next((unsigned)step) - mean;
            *out = a.d_taper ? v * (a.d_taper[y] * taper) : v;
        }
    }
    if (threadIdx.x == 0)
        a.d_mean[blockIdx.x] = mean;
}

/* Sums of bin numbers over octaves. A thread goes down a column, so the octave seldom changes. */
struct octave {
    int now;
    unsigned long long sum;

    __device__ __forceinline__ void flush(unsigned long long *octaves)
    {
        if (now >= 0 && now < FEATURES_OCTAVES)
            atomicAdd(&octaves[now], sum);
        sum = 0;
    }
};

/* The octave of frequency (y, x), as of features_octave(); octave 0 begins at 2^-7 window. */
__device__ __forceinline__ int octave_at(int window, int y, int x)
{
    const int v = y < window - y ? y : window - y, square = v * v + x * x;
    return square ? 7 - (31 - __clz(window)) + ((31 - __clz(square)) >> 1) : -1;
}

/* The counts of one thread: at most 4,100 samples, of bins below 2^16. */
struct tally {
    unsigned samples, sum;
    unsigned long long squares;
};

/* Returns the nearest bin. */
template <bool SHARED>
__device__ __forceinline__ unsigned count(const struct windows_args &a, unsigned *histogram,
                                          float2 z, unsigned weight, struct tally *t)
{
    const int c = counts_class(a.bins, fmaf(z.x, z.x, z.y * z.y));
    if (SHARED)
        atomicAdd(&histogram[c], weight);
    else
        atomicAdd(&a.sums.d_histogram[c], (unsigned long long)weight);
    const unsigned nearest = (unsigned)min(max(c - 1, 0), a.bins.bins - 1);
    if (c >= 1 && c <= a.bins.bins) {
        const unsigned bin = (unsigned)c - 1, weighted = weight * bin;
        t->samples += weight;
        t->sum += weighted;
        t->squares += (unsigned long long)weighted * bin;
    }
    return nearest;
}

/* Where the features of a block's window are summed. */
struct features {
    unsigned long long *octaves; /* shared [FEATURES_OCTAVES] */
    unsigned *spectrum;          /* [u][v] of the window's kind; NULL: not in the sample */
};

__device__ __forceinline__ void add_features(const struct windows_args &a, const struct features &f,
                                             int y, int x, unsigned bin, unsigned weight,
                                             struct octave *o)
{
    const int octave = octave_at(a.window, y, x);
    if (octave != o->now) {
        o->flush(f.octaves);
        o->now = octave;
    }
    o->sum += weight * bin;
    if (f.spectrum)
        atomicAdd(&f.spectrum[x * a.window + y], bin);
}

/* Writes the sums of a block's window. */
__device__ __forceinline__ void put_features(const struct windows_args &a, const struct features &f,
                                             int64_t window)
{
    const int o = (int)threadIdx.x;
    __syncthreads();
    if (o >= FEATURES_OCTAVES)
        return;
    atomicAdd(&a.sums.features.d_octaves[o], f.octaves[o]);
    unsigned *ring = counts_ring(&a.sums.features, window, o);
    for (unsigned k = 0; ring && k < a.sums.features.words; k++)
        ring[k] = (unsigned)(f.octaves[o] >> 32 * k);
}

__device__ __forceinline__ struct features features_of(const struct windows_args &a, int64_t window,
                                                       unsigned long long *octaves)
{
    const struct counts_features &c = a.sums.features;
    struct features f = {octaves, NULL};
    const unsigned sample = c.d_sample[window] & FEATURES_KIND;
    if (threadIdx.x < FEATURES_OCTAVES)
        octaves[threadIdx.x] = 0;
    f.spectrum = sample ? c.d_spectra + (sample - 1) * c.spectrum : NULL;
    return f;
}

template <bool SHARED>
__global__ void __launch_bounds__(THREADS)
    count_kernel(const __grid_constant__ struct windows_args a,
                 const __grid_constant__ struct batch b)
{
    extern __shared__ unsigned histogram[];
    __shared__ unsigned long long octaves[FEATURES_OCTAVES];
    const struct place w = window_at(a, b, blockIdx.x);
    const int n = a.window, half = n / 2, columns = half + 1;
    const int across = half < THREADS ? half : THREADS, step = THREADS / across;
    const int x0 = (int)threadIdx.x % across, y0 = (int)threadIdx.x / across;
    const float2 *in = a.d_spectra + (int64_t)blockIdx.x * n * columns;
    struct tally t = {0, 0, 0};
    if (!w.wanted)
        return;
    const float mean = a.d_mean[blockIdx.x];
    const struct features f = features_of(a, window_number(a, b, w), octaves);
    struct octave o = {-1, 0};
    for (int k = (int)threadIdx.x; SHARED && k < a.bins.bins + 2; k += THREADS)
        histogram[k] = 0;
    __syncthreads();
    for (int x = x0; x < half; x += across) {
        const unsigned weight = x == 0 ? 1 : 2;
        /* Subtracting the mean has removed this from the taper's few bins. */
        const float taken = x <= 1 ? mean * a.taper_dft[x] : 0;
#pragma unroll 4
        for (int y = y0; y < n; y += step) {
            float2 z = in[y * columns + x];
            if (y <= 1 || y == n - 1)
                z.x += taken * a.taper_dft[y != 0];
            const unsigned bin = count<SHARED>(a, histogram, z, weight, &t);
            add_features(a, f, y, x, bin, weight, &o);
        }
    }
    for (int y = (int)threadIdx.x; y < n; y += THREADS) {
        const unsigned bin = count<SHARED>(a, histogram, in[y * columns + half], 1, &t);
        add_features(a, f, y, half, bin, 1, &o);
    }
    o.flush(f.octaves);
    put_features(a, f, window_number(a, b, w));
    const unsigned long long samples =
        block_sum((unsigned long long)t.samples << COUNTS_SHIFT | t.sum);
    const unsigned long long squares = block_sum(t.squares);
    if (threadIdx.x == 0) {
        unsigned long long *out = a.sums.d_windows + 2 * window_number(a, b, w);
        out[0] = samples;
        out[1] = (unsigned long long)features_gray(mean) << COUNTS_GRAY_SHIFT | squares;
    }
    for (int k = (int)threadIdx.x; SHARED && k < a.bins.bins + 2; k += THREADS)
        if (histogram[k])
            atomicAdd(&a.sums.d_histogram[k], (unsigned long long)histogram[k]);
}

struct batch batch_of(const struct windows_args &a)
{
    const int64_t wy = a.windows.first_wy + a.first / a.windows.nx;
    return {wy, (unsigned)(a.first % a.windows.nx), (unsigned)(wy * a.stride % a.ring_rows)};
}

} // namespace

struct windows {
    struct check_device *device;
    const struct result_params *params;
    cudaStream_t stream;
    const struct cufft *fft;
    cufftHandle plan;
    bool planned;
    int64_t batch; /* windows */
    float *d_gathered, *d_mean, *d_taper;
    float2 *d_spectra;
    void *d_work;
    double taper_dft[2];
};

static int check_fft(struct check_device *d, cufftResult result, const char *call, struct err *e)
{
    char text[32];
    const bool memory = result == CUFFT_ALLOC_FAILED;
    if (result == CUFFT_SUCCESS)
        return 0;
    snprintf(text, sizeof text, "cuFFT error %d", (int)result);
    return check_failed(d, memory ? cudaErrorMemoryAllocation : cudaErrorUnknown, call, text, e);
}

#define FFT(d, call, e) check_fft((d), (call), #call, (e))

/* --- opening and closing --- */

static int upload_taper(struct windows *w, struct err *e)
{
    float taper[1024];
    const size_t bytes = (size_t)w->params->window * sizeof *taper;
    spectrum_taper(w->params, taper, w->taper_dft);
    if (w->taper_dft[1] == 0)
        return 0;
    if (CU(w->device, cudaMalloc((void **)&w->d_taper, bytes), e))
        return -1;
    return CU(w->device, cudaMemcpy(w->d_taper, taper, bytes, cudaMemcpyHostToDevice), e);
}

struct windows *windows_create(struct check_device *d, const struct result_params *p,
                               cudaStream_t stream, struct err *e)
{
    struct err missing = {};
    struct windows *w = (struct windows *)memory_need(1, sizeof *w);
    w->device = d;
    w->params = p;
    w->stream = stream;
    w->fft = cufft_load(&missing);
    if (!w->fft)
        err_blame(e, ERR_TROUBLE, "%s (cuda:%d): %.900s", d->name, d->number, missing.msg);
    else if (upload_taper(w, e) == 0)
        return w;
    windows_free(w);
    return NULL;
}

void windows_free(struct windows *w)
{
    if (!w)
        return;
    windows_release(w);
    cudaFree(w->d_taper);
    free(w);
}

/* --- memory --- */

static int64_t most_windows(const struct windows *w, int halved)
{
    const int64_t bytes = w->params->window * w->params->window * (int64_t)sizeof(float);
    const int64_t most = (BATCH_BYTES >> halved) / bytes;
    return most > 1 ? most : 1;
}

bool windows_may_halve(const struct windows *w, int halved)
{
    return most_windows(w, halved) > 1;
}

bool windows_ready(const struct windows *w)
{
    return w->planned;
}

void windows_release(struct windows *w)
{
    if (w->planned)
        w->fft->destroy(w->plan);
    cudaFree(w->d_gathered);
    cudaFree(w->d_spectra);
    cudaFree(w->d_mean);
    cudaFree(w->d_work);
    w->d_gathered = w->d_mean = NULL;
    w->d_spectra = NULL;
    w->d_work = NULL;
    w->planned = false;
}

static int make_plan(struct windows *w, struct err *e)
{
    struct check_device *d = w->device;
    int n[2] = {(int)w->params->window, (int)w->params->window};
    const int pixels = n[0] * n[0], half = n[0] * (n[0] / 2 + 1);
    size_t work = 0;
    if (FFT(d, w->fft->create(&w->plan), e))
        return -1;
    w->planned = true;
    if (FFT(d, w->fft->set_auto_allocation(w->plan, 0), e) ||
        FFT(d,
            w->fft->make_plan_many(w->plan, 2, n, NULL, 1, pixels, NULL, 1, half, CUFFT_R2C,
                                   (int)w->batch, &work),
            e) ||
        CU(d, cudaMalloc(&w->d_work, work ? work : 1), e) ||
        FFT(d, w->fft->set_work_area(w->plan, w->d_work), e))
        return -1;
    return FFT(d, w->fft->set_stream(w->plan, w->stream), e);
}

int windows_reserve(struct windows *w, int halved, struct err *e)
{
    const size_t n = (size_t)w->params->window;
    if (w->planned)
        return 0;
    w->batch = most_windows(w, halved);
    if (make_plan(w, e))
        return -1;
    const size_t pixels = (size_t)w->batch * n * n, half = (size_t)w->batch * n * (n / 2 + 1);
    if (CU(w->device, cudaMalloc((void **)&w->d_gathered, pixels * sizeof(float)), e) ||
        CU(w->device, cudaMalloc((void **)&w->d_spectra, half * sizeof(float2)), e))
        return -1;
    /* cuFFT transforms whole batches. The last one of a band has fewer windows; what was never
     * written is transformed with them, and not counted. */
    if (CU(w->device, cudaMemsetAsync(w->d_gathered, 0, pixels * sizeof(float), w->stream), e))
        return -1;
    return CU(w->device, cudaMalloc((void **)&w->d_mean, (size_t)w->batch * sizeof(float)), e);
}

/* --- counting --- */

static struct windows_args batch_args(const struct windows *w, const struct fused_args *f,
                                      int64_t first, int64_t n)
{
    struct windows_args a = {};
    a.d_smooth = f->d_smooth;
    a.ring_rows = f->ring_rows;
    a.pitch = f->pitch;
    a.window = (int)w->params->window;
    a.stride = (int)w->params->stride;
    a.windows = f->windows;
    a.bins = f->bins;
    a.sums = f->sums;
    a.d_taper = w->d_taper;
    a.taper_dft[0] = (float)w->taper_dft[0];
    a.taper_dft[1] = (float)w->taper_dft[1];
    a.first = first;
    a.n = n;
    a.d_gathered = w->d_gathered;
    a.d_spectra = w->d_spectra;
    a.d_mean = w->d_mean;
    return a;
}

static void launch_gather(const struct windows_args &a, cudaStream_t stream)
{
    gather_kernel<<<(unsigned)a.n, THREADS, 0, stream>>>(a, batch_of(a));
}

static void launch_count(const struct windows_args &a, cudaStream_t stream)
{
    const size_t shared = (size_t)(a.bins.bins + 2) * sizeof(unsigned);
    if (a.bins.bins <= SHARED_BINS)
        count_kernel<true><<<(unsigned)a.n, THREADS, shared, stream>>>(a, batch_of(a));
    else
        count_kernel<false><<<(unsigned)a.n, THREADS, 0, stream>>>(a, batch_of(a));
}

int windows_count(struct windows *w, const struct fused_args *f, struct err *e)
{
    const int64_t all = (f->windows.end_wy - f->windows.first_wy) * f->windows.nx;
    for (int64_t k = 0; k < all; k += w->batch) {
        const struct windows_args a = batch_args(w, f, k, all - k < w->batch ? all - k : w->batch);
        launch_gather(a, w->stream);
        if (CU(w->device, cudaGetLastError(), e) ||
            FFT(w->device, w->fft->exec_r2c(w->plan, w->d_gathered, (cufftComplex *)w->d_spectra),
                e))
            return -1;
        launch_count(a, w->stream);
    }
    return CU(w->device, cudaGetLastError(), e);
}
