/*
 * windows.cu - see windows.h. A block a window in both kernels. A thread stays in its columns and goes down
 * the rows, so that neither division nor modulo is left in the loops.
 */
#include "cuda/windows.h"

namespace {

enum {
    THREADS = 256,
    SHARED_BINS = 8192,
    SUMMED = 8 /* pixels in float; their sums in double */
};

/* The first window of a batch. */
struct batch {
    int64_t wy;
    unsigned wx;
    unsigned ring_row; /* that its first row of pixels lies in */
};

struct place {
    unsigned row, wx; /* of windows, from the first one's */
    bool wanted;
};

__device__ __forceinline__ int64_t window_number(const struct windows_args &a, const struct batch &b,
                                                 const struct place &w)
{
    return (b.wy + w.row) * a.windows.nx + w.wx;
}

__device__ __forceinline__ struct place window_at(const struct windows_args &a, const struct batch &b, unsigned k)
{
    const unsigned nx = (unsigned)a.windows.nx, x = b.wx + k;
    struct place w = {x / nx, x % nx, true};
    w.wanted = !a.windows.d_wanted || a.windows.d_wanted[window_number(a, b, w)];
    return w;
}

/* Sum over the block, the same in every thread, always in the same order. */
template <typename T>
__device__ T block_sum(T v)
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

/* Rows of the window in one column of it, one after the other. */
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

__device__ __forceinline__ struct column column_at(const struct windows_args &a, const struct batch &b,
                                                   const struct place &w, int x, int y)
{
    const unsigned rows = (unsigned)a.ring_rows;
    const unsigned row = (b.ring_row + w.row * (unsigned)a.stride) % rows + (unsigned)y;
    return {a.d_smooth + (int64_t)w.wx * a.stride + x, row - (row >= rows ? rows : 0), rows, a.pitch};
}

/* Copies the window less its mean, times the taper. */
__global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ struct windows_args a, const __grid_constant__ struct batch b)
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

/* Of a thread: it has at most 4,100 samples, of bins below 2^16. */
struct tally {
    unsigned samples, sum;
    unsigned long long squares;
};

template <bool SHARED>
__device__ __forceinline__ void count(const struct windows_args &a, unsigned *histogram, float2 z, unsigned weight,
                                      struct tally *t)
{
    const int c = counts_class(a.bins, fmaf(z.x, z.x, z.y * z.y));
    if (SHARED)
        atomicAdd(&histogram[c], weight);
    else
        atomicAdd(&a.sums.d_histogram[c], (unsigned long long)weight);
    if (c >= 1 && c <= a.bins.bins) {
        const unsigned bin = (unsigned)c - 1, weighted = weight * bin;
        t->samples += weight;
        t->sum += weighted;
        t->squares += (unsigned long long)weighted * bin;
    }
}

template <bool SHARED>
__global__ void __launch_bounds__(THREADS)
    count_kernel(const __grid_constant__ struct windows_args a, const __grid_constant__ struct batch b)
{
    extern __shared__ unsigned histogram[];
    const struct place w = window_at(a, b, blockIdx.x);
    const int n = a.window, half = n / 2, columns = half + 1;
    const int across = half < THREADS ? half : THREADS, step = THREADS / across;
    const int x0 = (int)threadIdx.x % across, y0 = (int)threadIdx.x / across;
    const float2 *in = a.d_spectra + (int64_t)blockIdx.x * n * columns;
    struct tally t = {0, 0, 0};
    if (!w.wanted)
        return;
    const float mean = a.d_mean[blockIdx.x];
    for (int k = (int)threadIdx.x; SHARED && k < a.bins.bins + 2; k += THREADS)
        histogram[k] = 0;
    __syncthreads();
    for (int x = x0; x < half; x += across) {
        const unsigned weight = x == 0 ? 1 : 2;
        /* taking the mean off has taken this out of the taper's few bins */
        const float taken = x <= 1 ? mean * a.taper_dft[x] : 0;
#pragma unroll 4
        for (int y = y0; y < n; y += step) {
            float2 z = in[y * columns + x];
            if (y <= 1 || y == n - 1)
                z.x += taken * a.taper_dft[y != 0];
            count<SHARED>(a, histogram, z, weight, &t);
        }
    }
    for (int y = (int)threadIdx.x; y < n; y += THREADS)
        count<SHARED>(a, histogram, in[y * columns + half], 1, &t);
    const unsigned long long samples = block_sum((unsigned long long)t.samples << COUNTS_SHIFT | t.sum);
    const unsigned long long squares = block_sum(t.squares);
    if (threadIdx.x == 0) {
        unsigned long long *out = a.sums.d_windows + 2 * window_number(a, b, w);
        out[0] = samples;
        out[1] = squares;
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

void windows_gather(const struct windows_args *a, cudaStream_t stream)
{
    gather_kernel<<<(unsigned)a->n, THREADS, 0, stream>>>(*a, batch_of(*a));
}

void windows_count(const struct windows_args *a, cudaStream_t stream)
{
    if (a->bins.bins <= SHARED_BINS)
        count_kernel<true>
            <<<(unsigned)a->n, THREADS, (size_t)(a->bins.bins + 2) * sizeof(unsigned), stream>>>(*a, batch_of(*a));
    else
        count_kernel<false><<<(unsigned)a->n, THREADS, 0, stream>>>(*a, batch_of(*a));
}
