/*
 * fused.cu - see fused.h.
 *
 * A block owns one column of windows and one of four kinds of spectral columns, and marches down
 * consecutive windows. Of a window's columns 0 to 128 each kind has 32 (0 and 128 are one):
 *
 *   kind  columns  a row's transform, x the row, a to d its quarters
 *   0     4 k      64 points of a + b + c + d; two rows are the real and the imaginary part
 *   1     4 k + 2  64 points of (a - b + c - d) w128^n; two rows likewise
 *   2     8 k + 1  32 points of w256^n sum over m < 8 of x[n + 32 m] w8^m; one row
 *   3     8 k + 5  32 points of w256^(5 n) sum over m < 8 of x[n + 32 m] w8^(5 m); one row
 *
 * The mirrors of columns beyond 128 of kinds 2 and 3 are those of 8 k - 1 and 8 k - 5, and
 * |F(v, u)| = |F(-v, -u)|. So the row spectra of a block take 64 KB of shared memory:
 *
 *            ring: two halves of 128 rows x 32 columns
 *            +----------------+
 *   half 0   | rows 0..127    |  <- the window's upper half: replaced by rows 256..383 for the next
 *            +----------------+
 *   half 1   | rows 128..255  |  <- its lower half: the next window's upper one
 *            +----------------+
 *
 *   rows     Once per half (fused_rows.cuh).
 *   columns  Per window, 32 transforms of 256 points: 16 threads each, 16 points per thread: radix
 *            16, exchange, radix 16. The exchange passes real parts, then imaginary ones.
 *   counts   From the registers into the block's histograms in shared memory.
 *
 * Subtracting each row's mean before its transform keeps float accurate; only column 0 depends on
 * it. The mean of these means is subtracted before the transform of column 0 and returns as bin
 * (0, 0).
 *
 * Exchanges have no bank conflicts: lines are padded, or indices are XORed with numbers that differ
 * between lanes.
 */
#include "cuda/fused_counts.cuh"
#include "cuda/fused_rows.cuh"

namespace
{

/* Blocks that a multiprocessor is meant to compute at a time: registers are limited for them. */
#if defined __CUDA_ARCH__ && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
enum { RESIDENT = 1 };
#else
enum { RESIDENT = 2 };
#endif

/* --- histograms --- */

__device__ __forceinline__ unsigned *twice_of(struct shared &s)
{
    return (unsigned *)(&s + 1);
}

__device__ __forceinline__ unsigned *once_of(struct shared &s, int bins)
{
    return twice_of(s) + bins + 2;
}

/* Bytes behind struct shared. */
__host__ __device__ constexpr size_t histogram_bytes(int bins)
{
    return sizeof(unsigned) * (size_t)(bins + 2 + (bins + 3) / 2);
}

/* Counts a value once: class k is the k-th half of a word from `histogram` on. */
template <bool CLAMP>
__device__ __forceinline__ int count_once(unsigned histogram, const struct counts_bins &b, c32 z,
                                          struct tally *t)
{
    const int bin = bin_of<CLAMP>(b, z), at = bin - MAGIC + 1;
    add(histogram + (at >> 1 << 2), at & 1 ? 0x10000u : 1u);
    return tally_add<CLAMP>(b, bin, t);
}

/* --- columns --- */

/* The column of a kind that a team computes in round `it`. The first round has all columns that
 * reach into the second largest disc of features. */
__device__ __forceinline__ int column_of(int kind, int team, int it)
{
    if (kind < 2)
        return team + TEAMS * it;
    return it ? team + TEAMS / 2 : team < TEAMS / 2 ? team : team + TEAMS;
}

/* The horizontal frequency of column k, not negative. */
__device__ __forceinline__ int frequency_of(int kind, int k)
{
    const int u = kind < 2 ? 4 * k + 2 * kind : 8 * k + (kind == 2 ? 1 : 5);
    return u > 128 ? 256 - u : u;
}

/* The 256 values of a column in the order of the transform, rows u + 16 j. */
__device__ __forceinline__ void load_column(const struct shared &s, int top, int k, int u, c32 *v)
{
    const c32 *upper = &s.ring[top][u][k ^ u], *lower = &s.ring[top ^ 1][u][k ^ u];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        v[j] = upper[16 * COLUMNS * j];
        v[j + 8] = lower[16 * COLUMNS * j];
    }
}

/* Returns to column 0 the rows' means, except their mean. Returns that as bin (0, 0). */
__device__ __forceinline__ float add_means(const struct shared &s, int top, int u, c32 *v)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 16; j++)
        sum += s.mean[j < 8 ? top : top ^ 1][u + 16 * (j & 7)];
#pragma unroll
    for (int lanes = 1; lanes < 16; lanes *= 2)
        sum += __shfl_xor_sync(0xffffu, sum, lanes, 16);
    const float mean = sum / 256;
#pragma unroll
    for (int j = 0; j < 16; j++)
        v[j].x += 128 * (s.mean[j < 8 ? top : top ^ 1][u + 16 * (j & 7)] - mean);
    return 2 * 64 * 256 * mean;
}

__device__ __forceinline__ void twiddle_column(const struct shared &s, int u, c32 *v)
{
    const pair t0 = s.column_twiddle[0][u], t1 = s.column_twiddle[1][u],
               t2 = s.column_twiddle[2][u];
    const c32 ones[4] = {{1, 0}, t0.a, t0.b, t1.a}, fours[4] = {{1, 0}, t1.b, t2.a, t2.b};
#pragma unroll
    for (int q = 1; q < 16; q++)
        v[q] = v[q] * (q % 4 == 0 ? fours[q / 4] : q < 4 ? ones[q] : fours[q / 4] * ones[q % 4]);
}

/* Value q of thread u becomes value u of thread q. */
__device__ __forceinline__ void exchange(float *area, int u, c32 *v)
{
    const float4 *in = (const float4 *)(area + LINE * u);
#pragma unroll
    for (int part = 0; part < 2; part++) {
#pragma unroll
        for (int q = 0; q < 16; q++)
            area[LINE * q + u] = part ? v[q].y : v[q].x;
        __syncwarp();
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float4 z = in[c];
            const float four[4] = {z.x, z.y, z.z, z.w};
#pragma unroll
            for (int k = 0; k < 4; k++)
                (part ? v[4 * c + k].y : v[4 * c + k].x) = four[k];
        }
        __syncwarp();
    }
}

__device__ __forceinline__ void transform_column(struct shared &s, int team, int u, c32 *v)
{
    dft16(v);
    twiddle_column(s, u, v);
    exchange(s.exchange[team >> 1] + SECOND * (team & 1), u, v);
    dft16(v);
}

/* What a thread counts of a window. */
struct counters {
    struct tally twice, once;
    struct discs discs; /* of the columns of a round */
    unsigned largest;   /* the sum over the largest disc */
    int window;
    unsigned sample; /* that the window belongs to, or 0 */
};

/* Columns 0 and 128, both of real values: their transforms from the one of column 0 + i column 128,
 * V: F0[y] = (V[y] + conj V[-y]) / 2, F128[y] = (V[y] - conj V[-y]) / 2i. u holds V[u + 16 p]. */
template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_real_columns(struct shared &s, const struct fused_args &a,
                                                   const c32 *v, int u, float mean,
                                                   struct counters *to)
{
    const unsigned lanes = 0xffffu;
    const unsigned histogram = (unsigned)__cvta_generic_to_shared(once_of(s, a.bins.bins));
    unsigned *spectrum = FEATURES ? spectrum_of(a.sums.features, to->sample) : NULL;
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
        bins[p] = count_once<CLAMP>(histogram, a.bins, zero, &to->once);
        const int far = count_once<CLAMP>(histogram, a.bins, last, &to->once);
        if (FEATURES && spectrum)
            atomicAdd(&spectrum[HALF * FUSED_WINDOW + u + 16 * p], (unsigned)far);
    }
    if (FEATURES)
        discs_add<1>(&to->discs, spectrum, bins, u, 0, s.reaches[0]);
}

/* A column's bins to the discs and to the spectrum of its sample. */
__device__ __forceinline__ void add_features(const struct shared &s, const struct fused_args &a,
                                             const int *bins, int kind, int k, int u,
                                             struct counters *to)
{
    const int frequency = frequency_of(kind, k);
    discs_add<2>(&to->discs, NULL, bins, u, frequency, s.reaches[k]);
    if (!to->sample)
        return;
    unsigned *spectrum = spectrum_of(a.sums.features, to->sample) + frequency * FUSED_WINDOW;
    const bool mirrored = kind >= 2 && k >= COLUMNS / 2;
#pragma unroll
    for (int p = 0; p < 16; p++) {
        const int v = u + 16 * p;
        atomicAdd(&spectrum[mirrored ? -v & FUSED_WINDOW - 1 : v], (unsigned)bins[p]);
    }
}

/* The next half. */
struct rows_ahead {
    const float *rows; /* NULL: not needed */
    struct share share;
};

__device__ __forceinline__ void load_ahead(struct rows_ahead *next, int kind, int pitch)
{
    if (next->rows)
        next->share = load_share(next->rows, pitch, kind < 2 ? row_of<true>(0) : row_of<false>(0));
}

template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_column(const struct shared &s, const struct fused_args &a,
                                             const c32 *v, int kind, int k, int u,
                                             unsigned histogram, struct counters *to)
{
    int bins[16];
#pragma unroll
    for (int p = 0; p < 16; p++)
        bins[p] = count<CLAMP>(histogram, a.bins, v[p], &to->twice);
    if (FEATURES)
        add_features(s, a, bins, kind, k, u, to);
}

/* The discs of a round of columns: only the first round reaches all of them, so no sum of the
 * smaller ones takes a register during the next transform. */
__device__ __forceinline__ void put_round(struct shared &s, const struct fused_args &a, bool first,
                                          struct counters *to)
{
    __syncwarp();
    if (first)
        discs_put(to->discs, s.octaves, a.sums.features, to->window);
    to->largest += to->discs.sum[FEATURE_DISCS - 1];
}

/* Counts all columns of a window whose upper half is half `top` of the ring. */
template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_columns(struct shared &s, const struct fused_args &a,
                                              int kind, int top, struct counters *to,
                                              struct rows_ahead *next)
{
    const int team = (int)threadIdx.x / 16, u = (int)threadIdx.x & 15;
    const unsigned histogram = histogram_address(twice_of(s));
#pragma unroll 1
    for (int it = 0; it < COLUMNS / TEAMS; it++) {
        const int k = column_of(kind, team, it);
        c32 v[16];
        float mean = 0;
        load_column(s, top, k, u, v);
        if (kind == 0 && k == 0)
            mean = add_means(s, top, u, v);
        if (it + 1 == COLUMNS / TEAMS) {
            load_ahead(next, kind, (int)a.pitch);
            __syncthreads(); /* now the upper half may be overwritten */
        }
        transform_column(s, team, u, v);
        to->discs = {};
        if (kind == 0 && k == 0)
            count_real_columns<CLAMP, FEATURES>(s, a, v, u, mean, to);
        else
            count_column<CLAMP, FEATURES>(s, a, v, kind, k, u, histogram, to);
        if (FEATURES)
            put_round(s, a, it == 0, to);
    }
}

/* --- a strip of windows --- */

__device__ __forceinline__ void fill_row_twiddles(struct shared &s, int kind, int u)
{
    if (u < 64 && kind < 2)
        s.row_twiddle[u] = root((u >> 2) * (u & 3), 64);
    if (u < 32 && kind >= 2) { /* of points n, n + 1 at [n / 2][frequency]; the spectra double */
        const int n = u >> 2 << 1 | u & 1, k = (kind == 2 ? 1 : 5) + 8 * (u >> 1 & 1);
        const c32 w = root(n * k, 256);
        s.row_twiddle[u] = {2 * w.x, 2 * w.y};
    }
    if (u < 32)
        s.shift[u] = root(u, 128);
}

__device__ __forceinline__ void fill_tables(struct shared &s, int kind, int bins)
{
    const int u = (int)threadIdx.x;
    if (u < 16) {
        s.column_twiddle[0][u] = {root(u, 256), root(2 * u, 256)};
        s.column_twiddle[1][u] = {root(3 * u, 256), root(4 * u, 256)};
        s.column_twiddle[2][u] = {root(8 * u, 256), root(12 * u, 256)};
    }
    fill_row_twiddles(s, kind, u);
    for (int k = u; k < (int)(histogram_bytes(bins) / sizeof(unsigned)); k += THREADS)
        twice_of(s)[k] = 0;
    if (u < FEATURES_OCTAVES)
        s.octaves[u] = 0;
    if (u < COLUMNS)
        s.reaches[u] = disc_reaches(frequency_of(kind, u));
    __syncthreads();
}

template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void count_window(struct shared &s, const struct fused_args &a, int kind,
                                             int window, int top, struct rows_ahead *next)
{
    struct counters c = {};
    c.window = window;
    if (FEATURES)
        c.sample = a.sums.features.d_sample[window];
    count_columns<CLAMP, FEATURES>(s, a, kind, top, &c, next);
    add_window<CLAMP>(c.twice, c.once, a.sums.d_windows + 2 * window);
    if (FEATURES)
        discs_put_largest(c.largest, s.octaves, a.sums.features, window);
}

/* Windows wy to end_wy - 1 of column wx. */
template <bool CLAMP, bool FEATURES>
__device__ __forceinline__ void strip(struct shared &s, const struct fused_args &a, int kind,
                                      int wx, int wy, int end_wy)
{
    const int nx = (int)a.windows.nx, pitch = (int)a.pitch;
    const uint8_t *wanted = a.windows.d_wanted;
    const float *column = a.d_smooth + wx * FUSED_STRIDE;
    struct rows_ahead ahead = {};
    bool last = false; /* is a window wanted that ends with this half, */
    int window = (wy - (int)a.windows.band_wy) * nx + wx; /* and this one, which begins with it? */
    int row = (int)((int64_t)wy * FUSED_STRIDE % a.ring_rows);
    for (int half = wy;; half++, window += nx) {
        const bool next = half < end_wy && (!wanted || wanted[window]);
        if (last || next) {
            if (!ahead.rows) {
                ahead.rows = column + (int64_t)row * pitch;
                load_ahead(&ahead, kind, pitch);
            }
            transform_rows(s, kind, ahead.rows, pitch, half & 1, ahead.share);
        }
        __syncthreads();
        row = row + FUSED_STRIDE == (int)a.ring_rows ? 0 : row + FUSED_STRIDE;
        ahead.rows = next ? column + (int64_t)row * pitch : NULL;
        if (last)
            count_window<CLAMP, FEATURES>(s, a, kind, window - nx, half & 1 ^ 1, &ahead);
        else
            load_ahead(&ahead, kind, pitch);
        if (half == end_wy)
            return;
        last = next;
    }
}

template <bool CLAMP, bool FEATURES>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    fused_kernel(const __grid_constant__ struct fused_args a, struct fused_cut cut)
{
    extern __shared__ __align__(2048) unsigned char memory[];
    struct shared &s = *(struct shared *)memory;
    const int kind = (int)blockIdx.x % KINDS, bins = a.bins.bins;
    const struct fused_piece p = fused_piece_of(a.windows, cut, (int)blockIdx.x / KINDS);
    fill_tables(s, kind, bins);
    strip<CLAMP, FEATURES>(s, a, kind, p.wx, p.wy, p.end_wy);
    __syncthreads();
    const unsigned *twice = twice_of(s), *once = once_of(s, bins);
    unsigned long long all = 0;
    for (int k = (int)threadIdx.x; k < bins + 2; k += THREADS) {
        const unsigned sum = 2 * twice[k] + (once[k / 2] >> 16 * (k & 1) & 0xffff);
        all += (unsigned long long)sum * (unsigned)min(max(k - 1, 0), bins - 1);
        if (sum)
            atomicAdd(&a.sums.d_histogram[k], (unsigned long long)sum);
    }
    if (FEATURES)
        discs_flush(s.octaves, all, a.sums.features.d_octaves);
}

} // namespace

static_assert(sizeof(struct shared) + histogram_bytes(FUSED_MOST_BINS) <= 99 * 1024,
              "more than compute capability 8.6 gives a block");

size_t fused_shared_bytes(int bins)
{
    return sizeof(struct shared) + histogram_bytes(bins);
}

/* A kernel for each way of counting. */
typedef void kernel(struct fused_args, struct fused_cut);
static kernel *const kernels[2][2] = {{fused_kernel<false, false>, fused_kernel<false, true>},
                                      {fused_kernel<true, false>, fused_kernel<true, true>}};

/* What the runtime keeps of each block's shared memory for itself. */
enum { RESERVED = 1024, MOST_BLOCKS = 2 };

int fused_blocks(size_t shared_bytes, int bins)
{
    const size_t n = shared_bytes / (fused_shared_bytes(bins) + RESERVED);
    return n < 1 ? 1 : n < MOST_BLOCKS ? (int)n : MOST_BLOCKS;
}

/* The rest of the multiprocessor's memory remains its level 1 cache. */
cudaError_t fused_prepare(size_t shared_bytes, int bins, size_t unused)
{
    const size_t bytes = fused_shared_bytes(bins) + unused,
                 n = unused ? 1 : (size_t)fused_blocks(shared_bytes, bins),
                 all = n * (bytes + RESERVED);
    const int share = shared_bytes > all ? (int)(100 * all / shared_bytes) : 100;
    cudaError_t e = cudaSuccess;
    for (int k = 0; k < 4 && e == cudaSuccess; k++) {
        const void *f = (const void *)kernels[k / 2][k % 2];
        e = cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (e == cudaSuccess)
            e = cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, share);
    }
    return e;
}

void fused_windows(const struct fused_args *a, cudaStream_t stream)
{
    const int nx = (int)a->windows.nx, n = (int)(a->windows.end_wy - a->windows.first_wy);
    const struct fused_cut cut = fused_cut_of(nx, n, a->multiprocessors * a->blocks / KINDS);
    kernel *const k = kernels[!a->bins.all_inside][a->sums.features.d_octaves != NULL];
    const size_t bytes = fused_shared_bytes(a->bins.bins) + a->unused;
    k<<<KINDS * fused_pieces(nx, cut), THREADS, bytes, stream>>>(*a, cut);
}
