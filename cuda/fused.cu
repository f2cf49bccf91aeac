/*
 * fused.cu - see fused.h.
 *
 * A block owns one column of windows and one parity of spectral columns, and marches down
 * consecutive windows. With the row x[n] of a window cut into halves a, b, its even columns X[2k]
 * are the 128-point transform of a + b and its odd ones X[2k + 1] that of (a - b) w^n (decimation
 * in frequency; Cooley & Tukey 1965). So the row spectra of a block take 128 KB of shared memory
 * instead of 264 KB. They are kept in a ring of two halves of 128 rows. The next window down needs
 * one new half only, so every row segment is transformed once. A quarter of its pixels are loaded
 * into registers while the window before is counted.
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
#include "cuda/fused_rows.cuh"

namespace
{

/* bits of 1.5 * 2^23: adding it rounds a float to an integer in the low bits */
enum { MAGIC = 0x4b400000 };

/* What a thread has counted of one window, modulo 2^32. Without CLAMP, `sum` and `squares` are of
 * MAGIC + bin: bins_of() takes MAGIC off. */
struct tally {
    unsigned samples, sum, squares; /* in bins; their bin numbers */
};

/* MAGIC^2 is a multiple of 2^32. */
template <bool CLAMP> __device__ __forceinline__ struct tally bins_of(const struct tally &t)
{
    if (CLAMP)
        return t;
    const unsigned sum = t.sum - t.samples * (unsigned)MAGIC;
    return {t.samples, sum, t.squares - 2 * (unsigned)MAGIC * sum};
}

/* Shared memory is addressed by 32 bits: bin k of a histogram is at k + 1, and that of MAGIC + k at
 * the same place, as 4 MAGIC wraps around. */
__device__ __forceinline__ unsigned histogram_address(const unsigned *histogram)
{
    return (unsigned)__cvta_generic_to_shared(histogram) + 4 - ((unsigned)MAGIC << 2);
}

__device__ __forceinline__ void increment(unsigned address)
{
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address));
}

/* Counts a value whose squared magnitude is a quarter of that of z, and returns the nearest bin.
 * Without CLAMP it relies on lg2.approx(x) >= 0 for x >= 1, which tests/gpu_log2.cu checks. */
template <bool CLAMP>
__device__ __forceinline__ int count(unsigned histogram, const struct counts_bins &b, c32 z,
                                     struct tally *t)
{
    float magnitude, octave;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(magnitude) : "f"(fmaf(z.x, z.x, z.y * z.y)));
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(octave) : "f"(fmaf(magnitude, 0.5f, b.offset)));
    int bin = __float_as_int(
        __fmaf_rd(CLAMP ? octave + b.start : octave, b.slope, __int_as_float(MAGIC)));
    int nearest;
    if (CLAMP)
        bin = min(max(bin, MAGIC - 1), MAGIC + b.bins);
    increment(histogram + ((unsigned)bin << 2));
    if (CLAMP) {
        bin -= MAGIC;
        const bool inside = (unsigned)bin < (unsigned)b.bins;
        nearest = min(max(bin, 0), b.bins - 1);
        bin = inside ? bin : 0;
        t->samples += inside;
    } else {
        t->samples++;
        nearest = bin & 0xffff;
    }
    t->sum += (unsigned)bin;
    t->squares += (unsigned)bin * (unsigned)bin;
    return nearest;
}

/* Columns 0 and 128, both of real values: their transforms from the one of column 0 + i column 128,
 * V: F0[y] = (V[y] + conj V[-y]) / 2, F128[y] = (V[y] - conj V[-y]) / 2i. 16 threads; u holds V[u +
 * 16 p]. */
template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_real_columns(struct shared &s, const struct counts_bins &b,
                                                   const c32 *v, int u, float mean, struct tally *t,
                                                   unsigned *spectrum, struct discs *d)
{
    const unsigned lanes = 0xffffu, histogram = histogram_address(s.once);
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
        bins[p] = count<CLAMP>(histogram, b, zero, t);
        const int far = count<CLAMP>(histogram, b, last, t);
        if (FEATURES && spectrum)
            atomicAdd(&spectrum[HALF * FUSED_WINDOW + u + 16 * p], (unsigned)far);
    }
    if (FEATURES)
        discs_add<1>(d, spectrum, bins, u, 0, s.reaches[0]); /* column 128 lies in no disc */
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

/* What a thread counts. */
struct counters {
    struct tally twice, once; /* of one window */
    struct discs discs;       /* of all windows */
    unsigned *spectrum;       /* that the window is added to, or NULL */
};

/* The next half. */
struct rows_ahead {
    const float *rows; /* NULL: not needed */
    struct quads quads[AHEAD];
};

__device__ __forceinline__ void load_ahead(struct rows_ahead *next, int64_t pitch)
{
    if (next->rows)
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            next->quads[j] = load_quads(next->rows, pitch, j);
}

/* Counts all columns of a window whose upper half is half `top` of the ring. */
template <int ODD, bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_columns(struct shared &s, const struct counts_bins &b,
                                              int top, struct counters *to, struct rows_ahead *next,
                                              int64_t pitch)
{
    const int team = (int)threadIdx.x / 16, u = (int)threadIdx.x & 15;
    const unsigned histogram = histogram_address(s.twice);
#pragma unroll 1
    for (int k = team; k < COLUMNS; k += TEAMS) {
        c32 v[16];
        float mean = 0;
        if (!ODD && k == 0)
            mean = load_real_columns(s, top, u, v);
        else
            load_column<ODD>(s, top, k, u, v);
        if (k + TEAMS < COLUMNS)
            __syncwarp();
        else {
            load_ahead(next, pitch);
            __syncthreads(); /* now the upper half may be overwritten */
        }
        transform_column(s, team, u, v);
        if (!ODD && k == 0) {
            count_real_columns<CLAMP, FEATURES>(s, b, v, u, mean, &to->once, to->spectrum,
                                                &to->discs);
            continue;
        }
        int bins[16];
#pragma unroll
        for (int p = 0; p < 16; p++)
            bins[p] = count<CLAMP>(histogram, b, v[p], &to->twice);
        if (FEATURES)
            discs_add<2>(&to->discs, to->spectrum, bins, u, 2 * k + ODD, s.reaches[k]);
    }
}

/* --- a strip of windows --- */

__device__ __forceinline__ void fill_tables(struct shared &s, int odd)
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
    if (u < COLUMNS)
        s.reaches[u] = disc_reaches(2 * u + odd);
    __syncthreads();
}

/* Sum over the warp of values below 2^30. */
__device__ __forceinline__ unsigned long long warp_sum(unsigned v)
{
    return ((unsigned long long)__reduce_add_sync(~0u, v >> 8) << 8) +
           __reduce_add_sync(~0u, v & 0xff);
}

template <bool CLAMP>
__device__ __forceinline__ void add_window(const struct counters &c, unsigned long long *sums)
{
    const struct tally twice = bins_of<CLAMP>(c.twice), once = bins_of<CLAMP>(c.once);
    const unsigned long long samples = __reduce_add_sync(~0u, 2 * twice.samples + once.samples);
    const unsigned long long sum = __reduce_add_sync(~0u, 2 * twice.sum + once.sum);
    const unsigned long long squares = warp_sum(2 * twice.squares + once.squares);
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(&sums[0], samples << COUNTS_SHIFT | sum);
        atomicAdd(&sums[1], squares);
    }
}

/* The spectrum that a window is added to, or NULL. */
__device__ __forceinline__ unsigned *spectrum_of(const struct counts_features &f, unsigned sample)
{
    return sample ? f.d_spectra + (sample - 1) * f.spectrum : NULL;
}

/* Windows wy to end_wy - 1 of column wx. */
template <int ODD, bool CLAMP, bool FEATURES>
__device__ __forceinline__ void strip(struct shared &s, const struct fused_args &a, int wx, int wy,
                                      int end_wy, struct counters *c)
{
    const int nx = (int)a.windows.nx;
    const uint8_t *wanted = a.windows.d_wanted;
    const float *column = a.d_smooth + wx * FUSED_STRIDE;
    struct rings rings = {};
    struct rows_ahead ahead = {};
    bool last = false; /* is a window wanted that ends with this half, */
    int window = (wy - (int)a.windows.band_wy) * nx + wx; /* and this one, which begins with it? */
    for (int half = wy;; half++, window += nx) {
        const bool next = half < end_wy && (!wanted || wanted[window]);
        if (last || next) {
            if (!ahead.rows) {
                ahead.rows = column + (int64_t)half * FUSED_STRIDE % a.ring_rows * a.pitch;
                load_ahead(&ahead, a.pitch);
            }
            transform_rows<ODD>(s, ahead.rows, a.pitch, half & 1, ahead.quads);
        }
        __syncthreads();
        ahead.rows =
            next ? column + (int64_t)(half + 1) * FUSED_STRIDE % a.ring_rows * a.pitch : NULL;
        if (last) {
            const int above = window - nx;
            c->twice = c->once = {0, 0, 0};
            if (FEATURES)
                c->spectrum = spectrum_of(a.sums.features, a.sums.features.d_sample[above]);
            count_columns<ODD, CLAMP, FEATURES>(s, a.bins, half & 1 ^ 1, c, &ahead, a.pitch);
            add_window<CLAMP>(*c, a.sums.d_windows + 2 * above);
            if (FEATURES)
                rings_put(c->discs, &rings, a.sums.features.d_rings + above);
        } else
            load_ahead(&ahead, a.pitch);
        if (half == end_wy)
            return;
        last = next;
    }
}

/* How the windows are cut: the first `whole` columns are a piece each for either parity, the others
 * are cut in `parts`, so that all multiprocessors end at about the same time. */
struct cut {
    int whole, parts;
};

template <bool CLAMP, bool FEATURES>
__global__ void __launch_bounds__(THREADS, 1)
    fused_kernel(const __grid_constant__ struct fused_args a, struct cut cut)
{
    extern __shared__ __align__(2048) unsigned char memory[];
    struct shared &s = *(struct shared *)memory;
    const int n = (int)(a.windows.end_wy - a.windows.first_wy), odd = blockIdx.x & 1;
    int wx = (int)blockIdx.x / 2, wy = (int)a.windows.first_wy, end_wy = wy + n;
    if (wx >= cut.whole) {
        const int r = wx - cut.whole, rest = (int)a.windows.nx - cut.whole, part = r / rest;
        wx = cut.whole + r - part * rest;
        end_wy = wy + n * (part + 1) / cut.parts;
        wy += n * part / cut.parts;
    }
    struct counters c = {};
    fill_tables(s, odd);
    if (odd)
        strip<1, CLAMP, FEATURES>(s, a, wx, wy, end_wy, &c);
    else
        strip<0, CLAMP, FEATURES>(s, a, wx, wy, end_wy, &c);
    if (FEATURES)
        discs_put(c.discs, s.within);
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
typedef void kernel(struct fused_args, struct cut);
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

/* A piece takes as long as its windows and one third of a window: the half that it begins with.
 * Threads sum up a piece modulo 2^32, so it has at most 32 windows. */
static struct cut cut_of(int nx, int n, int multiprocessors)
{
    const int at_once = multiprocessors > 1 ? multiprocessors / 2 : 1; /* columns */
    const int most = 32, least_parts = (n + most - 1) / most;
    struct cut best = {n <= most ? nx - nx % at_once : 0, least_parts};
    const int rest = nx - best.whole;
    double least = 1e30;
    for (int parts = least_parts; rest > 0 && parts <= n; parts++) {
        const int rounds = (rest * parts + at_once - 1) / at_once;
        const double time = rounds * ((n + parts - 1) / parts + 1.0 / 3);
        if (time < least) {
            least = time;
            best.parts = parts;
        }
    }
    return best;
}

void fused_windows(const struct fused_args *a, cudaStream_t stream)
{
    const int nx = (int)a->windows.nx, n = (int)(a->windows.end_wy - a->windows.first_wy);
    const struct cut cut = cut_of(nx, n, a->multiprocessors);
    const unsigned blocks = 2 * (unsigned)(cut.whole + (nx - cut.whole) * cut.parts);
    kernel *const k = kernels[!a->bins.all_inside][a->sums.features.d_octaves != NULL];
    k<<<blocks, THREADS, sizeof(struct shared), stream>>>(*a, cut);
}
