/*
 * fused.cu - see fused.h.
 *
 * A block owns one column of windows and one parity of spectral columns, and marches down
 * consecutive windows. With the row x[n] of a window cut into halves a, b, its even columns X[2k]
 * are the 128-point transform of a + b and its odd ones X[2k + 1] that of (a - b) w^n (decimation
 * in frequency; Cooley & Tukey 1965). So the row spectra of a block take 128 KB of shared memory
 * instead of 264 KB. They are kept in a ring of two halves of 128 rows. The next window down needs
 * one new half only, so every row segment is transformed once.
 *
 *   rows     Per half, 64 transforms of 128 complex points: rows r and r + 64 are the real and the
 *            imaginary part. 8 threads per transform, 16 points per thread: radix 16, exchange,
 *            radix 8.
 *   columns  Per window, 64 transforms of 256 points. The symmetry of a real row's spectrum
 *            separates the two rows. 16 threads per transform, 16 points per thread: radix 16,
 *            exchange, radix 16. Columns 0 and 128 are both real and are transformed as one.
 *   counts   From the registers into the block's histogram in shared memory. Columns 1 to 127 count
 *            twice.
 *
 * All exchanges go through shared memory without bank conflicts: an element's index is XORed with a
 * number that differs between the lanes of a half warp.
 *
 * Subtracting each row segment's mean before its transform keeps float accurate; odd columns do not
 * depend on it. The mean of these means is subtracted before the transform of column 0 and returns
 * as bin (0, 0).
 */
#include "cuda/feature_discs.cuh"
#include "cuda/fused.h"

#include "cuda/dft.h"

namespace
{

enum {
    THREADS = 512,
    HALF = 128,        /* rows of a half, and points of a row's transform */
    PACKED = HALF / 2, /* complex rows of a half */
    COLUMNS = 64,      /* spectral columns of a parity */
    AT_ONCE = THREADS / 16,
    MAGIC =
        0x4b400000, /* bits of 1.5 * 2^23: adding it rounds a float to an integer in the low bits */
};

struct alignas(16) pair {
    c32 a, b;
};

struct shared {
    c32 ring[2][PACKED][HALF]; /* row spectra: point k of packed row r at k ^ (r & 15) */
    c32 exchange[AT_ONCE][256];
    pair column_twiddle[3][16]; /* at [.][u]: w256^u, its 2nd; 3rd, 4th; 8th, 12th powers */
    pair odd_twiddle[16];       /* w256^n, n < 32 */
    float2 mean[2][PACKED];     /* twice the means of rows r, r + 64 */
    unsigned twice[FUSED_MOST_BINS + 2], once[FUSED_MOST_BINS + 2]; /* histograms by weight */
    unsigned within[FEATURE_DISCS]; /* of all windows of the block */
};

/* v times w8^k, 0 <= k < 4 */
__device__ __forceinline__ c32 eighth(c32 v, int k)
{
    const float h = 0.70710678118654752f;
    return k == 0   ? v
           : k == 1 ? c32{h * (v.x + v.y), h * (v.y - v.x)}
           : k == 2 ? minus_i(v)
                    : c32{h * (v.y - v.x), -h * (v.x + v.y)};
}

/* exp(-2 pi i k / n) */
__device__ __forceinline__ c32 root(int k, int n)
{
    c32 w;
    sincospif(-2 * (float)k / (float)n, &w.y, &w.x);
    return w;
}

/* w128^k, 0 <= k < 8, k known at compile time */
__device__ __forceinline__ c32 root128(int k)
{
    constexpr float x[8] = {1.000000000f, 0.998795456f, 0.995184727f, 0.989176510f,
                            0.980785280f, 0.970031253f, 0.956940336f, 0.941544065f};
    constexpr float y[8] = {-0.000000000f, -0.049067674f, -0.098017140f, -0.146730474f,
                            -0.195090322f, -0.242980180f, -0.290284677f, -0.336889853f};
    return {x[k], y[k]};
}

/* --- rows --- */

/* The packed row of the half that this thread works on. The two of a half warp differ in bit 3. */
__device__ __forceinline__ int packed_row(int thread)
{
    const int warp = thread / 32, lane = thread % 32;
    return (warp & 7) | (lane & 8) | (lane & 16) | (warp & 8) << 2;
}

/* Sum over the eight threads of a row. */
__device__ __forceinline__ float sum8(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    return v + __shfl_xor_sync(~0u, v, 4);
}

/* Subtracts the rows' means. Returns twice the means. */
__device__ __forceinline__ float2 take_mean(c32 *v)
{
    c32 sum = v[0];
#pragma unroll
    for (int j = 1; j < 16; j++)
        sum = sum + v[j];
    const float2 mean = {sum8(sum.x) / HALF, sum8(sum.y) / HALF};
#pragma unroll
    for (int j = 0; j < 16; j++)
        v[j] = v[j] - c32{mean.x, mean.y};
    return mean;
}

/* Transforms the 128 rows at `rows` into half number `half` of the ring. */
template <int ODD>
__device__ __forceinline__ void transform_rows(struct shared &s, const float *rows, int64_t pitch,
                                               int half)
{
    const int r = packed_row((int)threadIdx.x), t = (int)threadIdx.x & 7;
    const float4 *above = (const float4 *)(rows + r * pitch) + t,
                 *below = (const float4 *)(rows + (r + PACKED) * pitch) + t;
    c32 v[16]; /* first points 2 t + 16 j, then 2 t + 1 + 16 j */
    c32 *out = s.ring[half][r];
    pair *pairs = (pair *)out;
    const pair w0 = s.odd_twiddle[2 * t], w1 = s.odd_twiddle[2 * t + 1];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float4 a = above[8 * j], b = above[8 * j + HALF / 4], c = below[8 * j],
                     d = below[8 * j + HALF / 4];
        pair z0, z1;
        if (ODD) {
            z0 = {eighth(c32{a.x - b.x, c.x - d.x}, j) * w0.a,
                  eighth(c32{a.y - b.y, c.y - d.y}, j) * w0.b};
            z1 = {eighth(c32{a.z - b.z, c.z - d.z}, j) * w1.a,
                  eighth(c32{a.w - b.w, c.w - d.w}, j) * w1.b};
        } else {
            z0 = {{a.x + b.x, c.x + d.x}, {a.y + b.y, c.y + d.y}};
            z1 = {{a.z + b.z, c.z + d.z}, {a.w + b.w, c.w + d.w}};
        }
        pairs[16 * j + 2 * t + (t >> 2 & 1)] = z0;
        pairs[16 * j + 2 * t + (t >> 2 & 1 ^ 1)] = z1;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const pair z = pairs[8 * j + t ^ (j & 1)];
        v[j] = z.a;
        v[j + 8] = z.b;
    }
    __syncwarp();
    if (!ODD) {
        const float2 mean = take_mean(v);
        if (t == 0)
            s.mean[half][r] = mean;
    }
    dft8(v);
    dft8(v + 8);
    /* point k of residue 2 t takes w128^(2 t k), that of 2 t + 1 also w128^k */
    c32 w[8] = {{1, 0}, w0.a};
    pairs[t] = {v[0], v[8]};
#pragma unroll
    for (int k = 1; k < 8; k++) {
        if (k > 1)
            w[k] = k % 2 ? w[k - 1] * w[1] : w[k / 2] * w[k / 2];
        pairs[k * 8 + (t ^ k)] = {v[k] * w[k], v[k + 8] * (w[k] * root128(k))};
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < 8; p++) {
        const pair z = pairs[t * 8 + (t ^ p)];
        v[2 * p] = z.a;
        v[2 * p + 1] = z.b;
    }
    __syncwarp();
    dft16(v);
#pragma unroll
    for (int p = 0; p < 16; p++)
        out[(t ^ (r & 15)) ^ 8 * p] = v[p];
}

/* --- columns --- */

/* What a thread has counted of one window, for values of one weight. */
struct tally {
    unsigned samples, sum, squares; /* in bins; their bin numbers */
};

/* Counts a value whose squared magnitude is a quarter of that of z, and returns the nearest bin.
 * Without CLAMP it relies on lg2.approx(x) >= 0 for x >= 1, which tests/gpu_log2.cu checks. */
template <bool CLAMP>
__device__ __forceinline__ int count(unsigned *histogram, const struct counts_bins &b, c32 z,
                                      struct tally *t)
{
    float magnitude, octave;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(magnitude) : "f"(fmaf(z.x, z.x, z.y * z.y)));
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(octave) : "f"(fmaf(magnitude, 0.5f, b.offset)));
    int bin = __float_as_int(
        __fmaf_rd(CLAMP ? octave + b.start : octave, b.slope, __int_as_float(MAGIC)));
    int nearest;
    if (CLAMP) {
        bin = min(max(bin, MAGIC - 1), MAGIC + b.bins) - MAGIC;
        atomicAdd(&histogram[bin + 1], 1);
        const bool inside = (unsigned)bin < (unsigned)b.bins;
        nearest = min(max(bin, 0), b.bins - 1);
        bin = inside ? bin : 0;
        t->samples += inside;
    } else {
        bin &= 0xffff;
        atomicAdd(&histogram[bin + 1], 1);
        t->samples++;
        nearest = bin;
    }
    t->sum += (unsigned)bin;
    t->squares += (unsigned)(bin * bin);
    return nearest;
}

/* Columns 0 and 128, both of real values: their transforms from the one of column 0 + i column 128,
 * V: F0[y] = (V[y] + conj V[-y]) / 2, F128[y] = (V[y] - conj V[-y]) / 2i. 16 threads; u holds V[u +
 * 16 p]. */
template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_real_columns(struct shared &s, const struct counts_bins &b,
                                                   const c32 *v, int u, float mean,
                                                   struct tally *t, unsigned *spectrum,
                                                   struct discs *d)
{
    const unsigned lanes = 0xffffu;
    int bins[16];
#pragma unroll
    for (int p = 0; p < 16; p++) {
        c32 m = {__shfl_sync(lanes, v[15 - p].x, (16 - u) & 15, 16),
                 __shfl_sync(lanes, v[15 - p].y, (16 - u) & 15, 16)};
        if (u == 0)
            m = v[(16 - p) & 15];
        c32 zero = {0.5f * (v[p].x + m.x), 0.5f * (v[p].y - m.y)};
        const c32 last = {0.5f * (v[p].y + m.y), 0.5f * (m.x - v[p].x)};
        if (u == 0 && p == 0)
            zero.x += mean;
        bins[p] = count<CLAMP>(s.once, b, zero, t);
        const int far = count<CLAMP>(s.once, b, last, t);
        if (FEATURES && spectrum)
            atomicAdd(&spectrum[HALF * FUSED_WINDOW + u + 16 * p], (unsigned)far);
    }
    if (FEATURES)
        discs_add<1>(d, spectrum, bins, u, 0); /* column 128 lies in no disc */
}

/* The 256 values of a column in the order of the transform, rows u + 16 j: twice the spectra. */
template <int ODD>
__device__ __forceinline__ void load_column(const struct shared &s, int top, int k, int u, c32 *v)
{
    const int mirror = ODD ? HALF - 1 - k : (HALF - k) & (HALF - 1);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const c32 a = s.ring[top][u + 16 * j][k ^ u], b = s.ring[top][u + 16 * j][mirror ^ u];
        const c32 c = s.ring[top ^ 1][u + 16 * j][k ^ u],
                  d = s.ring[top ^ 1][u + 16 * j][mirror ^ u];
        v[j] = {a.x + b.x, a.y - b.y};
        v[j + 4] = {a.y + b.y, b.x - a.x};
        v[j + 8] = {c.x + d.x, c.y - d.y};
        v[j + 12] = {c.y + d.y, d.x - c.x};
    }
}

/* The same for column 0 + i column 128. Returns bin (0, 0): what was subtracted from column 0. */
__device__ __forceinline__ float load_real_columns(const struct shared &s, int top, int u, c32 *v)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int half = j < 4 ? top : top ^ 1, r = u + 16 * (j & 3), at = (j & 3) + (j & 4) * 2;
        const c32 a = s.ring[half][r][u], b = s.ring[half][r][64 ^ u];
        const float2 m = s.mean[half][r];
        v[at] = {2 * a.x, 2 * b.x};
        v[at + 4] = {2 * a.y, 2 * b.y};
        sum += m.x + m.y;
    }
#pragma unroll
    for (int lanes = 1; lanes < 16; lanes *= 2)
        sum += __shfl_xor_sync(0xffffu, sum, lanes, 16);
    const float mean = sum / 256;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int half = j < 4 ? top : top ^ 1, at = (j & 3) + (j & 4) * 2;
        const float2 m = s.mean[half][u + 16 * (j & 3)];
        v[at].x += 256 * (m.x - mean);
        v[at + 4].x += 256 * (m.y - mean);
    }
    return 256 * 256 * mean;
}

__device__ __forceinline__ void transform_column(struct shared &s, int team, int u, c32 *v)
{
    dft16(v);
    c32 *out = s.exchange[team];
    const pair *pairs = (const pair *)out;
    const pair t0 = s.column_twiddle[0][u], t1 = s.column_twiddle[1][u],
               t2 = s.column_twiddle[2][u];
    const c32 ones[4] = {{1, 0}, t0.a, t0.b, t1.a}, fours[4] = {{1, 0}, t1.b, t2.a, t2.b};
#pragma unroll
    for (int q = 0; q < 16; q++) {
        const c32 w = q % 4 == 0 ? fours[q / 4] : q < 4 ? ones[q] : fours[q / 4] * ones[q % 4];
        out[(u ^ 2 * (q & 7)) + 16 * q] = q ? v[q] * w : v[0];
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < 8; p++) {
        const pair z = pairs[u * 8 + ((u & 7) ^ p)];
        v[2 * p] = z.a;
        v[2 * p + 1] = z.b;
    }
    __syncwarp();
    dft16(v);
}

/* Counts all columns of a window whose upper half is half `top` of the ring. */
template <int ODD, bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_columns(struct shared &s, const struct counts_bins &b,
                                              int top, struct tally *twice, struct tally *once,
                                              unsigned *spectrum, struct discs *d)
{
    const int team = (int)threadIdx.x / 16, u = (int)threadIdx.x & 15;
#pragma unroll 1
    for (int k = team; k < COLUMNS; k += AT_ONCE) {
        c32 v[16];
        float mean = 0;
        if (!ODD && k == 0)
            mean = load_real_columns(s, top, u, v);
        else
            load_column<ODD>(s, top, k, u, v);
        if (k + AT_ONCE < COLUMNS)
            __syncwarp();
        else
            __syncthreads(); /* now the upper half may be overwritten */
        transform_column(s, team, u, v);
        if (!ODD && k == 0) {
            count_real_columns<CLAMP, FEATURES>(s, b, v, u, mean, once, spectrum, d);
            continue;
        }
        int bins[16];
#pragma unroll
        for (int p = 0; p < 16; p++)
            bins[p] = count<CLAMP>(s.twice, b, v[p], twice);
        if (FEATURES)
            discs_add<2>(d, spectrum, bins, u, 2 * k + ODD);
    }
}

/* --- a strip of windows --- */

__device__ __forceinline__ void fill_tables(struct shared &s)
{
    const int u = (int)threadIdx.x;
    if (u < 16) {
        s.column_twiddle[0][u] = {root(u, 256), root(2 * u, 256)};
        s.column_twiddle[1][u] = {root(3 * u, 256), root(4 * u, 256)};
        s.column_twiddle[2][u] = {root(8 * u, 256), root(12 * u, 256)};
        s.odd_twiddle[u] = {root(2 * u, 256), root(2 * u + 1, 256)};
    }
    for (int k = (int)threadIdx.x; k < FUSED_MOST_BINS + 2; k += THREADS)
        s.twice[k] = s.once[k] = 0;
    if (u < FEATURE_DISCS)
        s.within[u] = 0;
    __syncthreads();
}

/* Sum over the warp of values below 2^30. */
__device__ __forceinline__ unsigned long long warp_sum(unsigned v)
{
    return ((unsigned long long)__reduce_add_sync(~0u, v >> 8) << 8) +
           __reduce_add_sync(~0u, v & 0xff);
}

__device__ __forceinline__ void add_window(const struct tally &twice, const struct tally &once,
                                           unsigned long long *sums)
{
    const unsigned long long samples = __reduce_add_sync(~0u, 2 * twice.samples + once.samples);
    const unsigned long long sum = __reduce_add_sync(~0u, 2 * twice.sum + once.sum);
    const unsigned long long squares = warp_sum(2 * twice.squares + once.squares);
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(&sums[0], samples << COUNTS_SHIFT | sum);
        atomicAdd(&sums[1], squares);
    }
}

/* The spectrum that window number k of the band is added to, or NULL. */
__device__ __forceinline__ unsigned *spectrum_of(const struct counts_features &f, int64_t k)
{
    const unsigned sample = f.d_sample[k];
    return sample ? f.d_spectra + (sample - 1) * f.spectrum : NULL;
}

template <int ODD, bool CLAMP, bool FEATURES>
__device__ __forceinline__ void strip(struct shared &s, const struct fused_args &a, int64_t wx,
                                      int64_t wy, int64_t end_wy)
{
    const uint8_t *wanted = a.windows.d_wanted ? a.windows.d_wanted + wx : NULL;
    const int64_t nx = a.windows.nx, band = a.windows.band_wy;
    for (int64_t half = wy; half <= end_wy; half++) {
        const bool last = half > wy && (!wanted || wanted[(half - 1 - band) * nx]);
        const bool next = half < end_wy && (!wanted || wanted[(half - band) * nx]);
        if (last || next)
            transform_rows<ODD>(
                s, a.d_smooth + half * FUSED_STRIDE % a.ring_rows * a.pitch + wx * FUSED_STRIDE,
                a.pitch, (int)(half & 1));
        __syncthreads();
        if (!last)
            continue;
        const int64_t window = (half - 1 - band) * nx + wx;
        struct tally twice = {0, 0, 0}, once = {0, 0, 0};
        struct discs discs = {};
        unsigned *spectrum = FEATURES ? spectrum_of(a.sums.features, window) : NULL;
        count_columns<ODD, CLAMP, FEATURES>(s, a.bins, (int)(half & 1) ^ 1, &twice, &once,
                                            spectrum, &discs);
        add_window(twice, once, a.sums.d_windows + 2 * window);
        if (FEATURES)
            discs_put(discs, s.within, a.sums.features.d_rings + window);
    }
}

template <bool CLAMP, bool FEATURES>
__global__ void __launch_bounds__(THREADS, 1)
    fused_kernel(const __grid_constant__ struct fused_args a)
{
    extern __shared__ __align__(2048) unsigned char memory[];
    struct shared &s = *(struct shared *)memory;
    const int64_t n = a.windows.end_wy - a.windows.first_wy;
    const int64_t wy = a.windows.first_wy + n * blockIdx.y / gridDim.y;
    const int64_t end_wy = a.windows.first_wy + n * (blockIdx.y + 1) / gridDim.y;
    fill_tables(s);
    if (blockIdx.x & 1)
        strip<1, CLAMP, FEATURES>(s, a, blockIdx.x / 2, wy, end_wy);
    else
        strip<0, CLAMP, FEATURES>(s, a, blockIdx.x / 2, wy, end_wy);
    __syncthreads();
    for (int k = (int)threadIdx.x; k < a.bins.bins + 2; k += THREADS)
        if (s.twice[k] | s.once[k])
            atomicAdd(&a.sums.d_histogram[k], 2ull * s.twice[k] + s.once[k]);
    if (FEATURES && threadIdx.x < FEATURES_OCTAVES)
        atomicAdd(&a.sums.features.d_octaves[threadIdx.x],
                  (unsigned long long)(s.within[threadIdx.x + 1] - s.within[threadIdx.x]));
}

} // namespace

size_t fused_shared_bytes(void)
{
    return sizeof(struct shared);
}

/* A kernel for each way of counting. */
typedef void kernel(struct fused_args);
static kernel *const kernels[2][2] = {{fused_kernel<false, false>, fused_kernel<false, true>},
                                      {fused_kernel<true, false>, fused_kernel<true, true>}};

cudaError_t fused_prepare(void)
{
    cudaError_t e = cudaSuccess;
    for (int k = 0; k < 4 && e == cudaSuccess; k++)
        e = cudaFuncSetAttribute((const void *)kernels[k / 2][k % 2],
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)sizeof(struct shared));
    return e;
}

void fused_windows(const struct fused_args *a, cudaStream_t stream)
{
    const int64_t rows = a->windows.end_wy - a->windows.first_wy;
    const dim3 grid((unsigned)(2 * a->windows.nx), (unsigned)((rows + 15) / 16));
    kernel *const k = kernels[!a->bins.all_inside][a->sums.features.d_octaves != NULL];
    k<<<grid, THREADS, sizeof(struct shared), stream>>>(*a);
}
