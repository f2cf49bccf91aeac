/*
 * windows.cu - see windows.h. A block a window in both kernels.
 */
#include "cuda/windows.h"

namespace {

enum { THREADS = 256, SHARED_BINS = 8192 };

struct place {
    int64_t wx, wy;
    bool counts;
};

__device__ __forceinline__ struct place window_at(const struct windows_args &a, int64_t k)
{
    const int64_t wy = a.windows.first_wy + (a.first + k) / a.windows.nx, wx = (a.first + k) % a.windows.nx;
    return {wx, wy, !a.windows.d_counts || a.windows.d_counts[wy * a.windows.nx + wx]};
}

__device__ __forceinline__ const float *row_of(const struct windows_args &a, const struct place &w, int y)
{
    return a.d_smooth + (w.wy * a.stride + y) % a.ring_rows * a.pitch + w.wx * a.stride;
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

/* Copies the window less its mean, times the taper. */
__global__ void __launch_bounds__(THREADS) gather_kernel(const __grid_constant__ struct windows_args a)
{
    const struct place w = window_at(a, blockIdx.x);
    const int n = a.window;
    double sum = 0;
    if (!w.counts)
        return;
    for (int k = (int)threadIdx.x; k < n * n; k += THREADS)
        sum += (double)row_of(a, w, k / n)[k % n];
    const float mean = (float)(block_sum(sum) / ((double)n * n));
    float *out = a.d_gathered + (int64_t)blockIdx.x * n * n;
    for (int k = (int)threadIdx.x; k < n * n; k += THREADS) {
        const float v = row_of(a, w, k / n)[k % n] - mean;
        out[k] = a.d_taper ? v * (a.d_taper[k / n] * a.d_taper[k % n]) : v;
    }
    if (threadIdx.x == 0)
        a.d_mean[blockIdx.x] = mean;
}

/* What taking the mean off has taken out of bin (y, x): the taper's few bins. */
__device__ __forceinline__ float taken(const struct windows_args &a, int y, int x, float mean)
{
    const bool near_y = y <= 1 || y == a.window - 1;
    return near_y && x <= 1 ? mean * a.taper_dft[y != 0] * a.taper_dft[x] : 0;
}

template <bool SHARED>
__global__ void __launch_bounds__(THREADS) count_kernel(const __grid_constant__ struct windows_args a)
{
    extern __shared__ unsigned histogram[];
    const struct place w = window_at(a, blockIdx.x);
    const int n = a.window, columns = n / 2 + 1;
    const float2 *in = a.d_spectra + (int64_t)blockIdx.x * n * columns;
    unsigned long long samples = 0, sum = 0, squares = 0;
    if (!w.counts)
        return;
    const float mean = a.d_mean[blockIdx.x];
    for (int k = (int)threadIdx.x; SHARED && k < a.bins.bins + 2; k += THREADS)
        histogram[k] = 0;
    __syncthreads();
    for (int k = (int)threadIdx.x; k < n * columns; k += THREADS) {
        const int y = k / columns, x = k - y * columns, weight = x == 0 || x == n / 2 ? 1 : 2;
        float2 z = in[k];
        z.x += taken(a, y, x, mean);
        const int c = counts_class(a.bins, fmaf(z.x, z.x, z.y * z.y));
        if (SHARED)
            atomicAdd(&histogram[c], (unsigned)weight);
        else
            atomicAdd(&a.sums.d_histogram[c], (unsigned long long)weight);
        if (c >= 1 && c <= a.bins.bins) {
            const unsigned long long bin = (unsigned)c - 1;
            samples += (unsigned)weight;
            sum += (unsigned)weight * bin;
            squares += (unsigned)weight * bin * bin;
        }
    }
    samples = block_sum(samples << COUNTS_SHIFT | sum);
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        unsigned long long *out = a.sums.d_windows + 2 * (w.wy * a.windows.nx + w.wx);
        out[0] = samples;
        out[1] = squares;
    }
    for (int k = (int)threadIdx.x; SHARED && k < a.bins.bins + 2; k += THREADS)
        if (histogram[k])
            atomicAdd(&a.sums.d_histogram[k], (unsigned long long)histogram[k]);
}

} // namespace

void windows_gather(const struct windows_args *a, cudaStream_t stream)
{
    gather_kernel<<<(unsigned)a->n, THREADS, 0, stream>>>(*a);
}

void windows_count(const struct windows_args *a, cudaStream_t stream)
{
    if (a->bins.bins <= SHARED_BINS)
        count_kernel<true>
            <<<(unsigned)a->n, THREADS, (size_t)(a->bins.bins + 2) * sizeof(unsigned), stream>>>(*a);
    else
        count_kernel<false><<<(unsigned)a->n, THREADS, 0, stream>>>(*a);
}
