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
 *   counts   From the registers into the block's histogram in shared memory. What the threads have
 *            of a window's other sums is added up there by lane; after the next barrier one warp
 *            per sum adds up the lanes (fused_counts.cuh).
 *
 * Two blocks share a multiprocessor where its memory suffices: while one loads rows, the other
 * computes. A thread that may have more registers transforms two columns at a time instead.
 *
 * Subtracting each row's mean before its transform keeps float accurate; only column 0 depends on
 * it, and with Hann's taper column 1. The mean of these means is subtracted before the transform of
 * that column, too, and returns as bin (0, 0), with the taper as three bins.
 *
 * Exchanges have no bank conflicts: lines are padded, or indices are XORed with numbers that differ
 * between lanes.
 */
#include "cuda/fused_counts.cuh"
#include "cuda/fused_rows.cuh"

namespace
{

/* Blocks that a multiprocessor is meant to compute at a time: registers are limited for them. */
#if defined FUSED_RESIDENT /* in measurements of what a smaller GPU would do */
enum { RESIDENT = FUSED_RESIDENT };
#elif defined __CUDA_ARCH__ && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
enum { RESIDENT = 1 };
#else
enum { RESIDENT = 2 };
#endif

enum {
    TOGETHER = RESIDENT == 1 ? 2 : 1, /* columns that a thread transforms at a time */
    ROUNDS = COLUMNS / TEAMS / TOGETHER
};

/* The tasks of a kernel besides counting bins. */
enum { CLAMP = 1, HANN = 2, WAYS = 4 };

/* --- histograms --- */

__device__ __forceinline__ unsigned *histogram_of(struct shared &s)
{
    return (unsigned *)(&s + 1);
}

/* Bytes behind struct shared. */
__host__ __device__ constexpr size_t histogram_bytes(int bins)
{
    return sizeof(unsigned) * (size_t)(bins + 2);
}

/* --- a barrier that is passed later than it is reached --- */

/* One lane arrives for its warp. Tools that look for races follow this only if each does. */
#ifdef FUSED_EACH_LANE_ARRIVES
enum { LANES_THAT_ARRIVE = 32 };
#else
enum { LANES_THAT_ARRIVE = 1 };
#endif

/* Its phases are numbered from 0. */
__device__ __forceinline__ void barrier_init(unsigned long long *b)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)),
                 "r"(THREADS / 32 * LANES_THAT_ARRIVE)
                 : "memory");
}

__device__ __forceinline__ void barrier_reach(unsigned long long *b)
{
    __syncwarp();
    if ((threadIdx.x & 31) < LANES_THAT_ARRIVE)
        asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(
                         shared_address(b))
                     : "memory");
}

/* Waits until all warps have reached phase number `phase`, the present one or the one before. */
__device__ __forceinline__ void barrier_pass(unsigned long long *b, int phase)
{
    unsigned passed;
    do
        asm volatile("{ .reg .pred p;\n\t"
                     "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(passed)
                     : "r"(shared_address(b)), "r"(phase & 1)
                     : "memory");
    while (!passed);
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

/* Does column k need the means of rows? */
template <int WAY> __device__ __forceinline__ bool has_means(int kind, int k)
{
    return k == 0 && (kind == 0 || (WAY & HANN && kind == 2));
}

/* Returns to such a column the rows' means, except their mean. Returns that as bin 0 of the column.
 * The spectra are doubled, the means four times as large, and the taper's bins are 128 and -64. */
template <int WAY>
__device__ __forceinline__ float add_means(const struct shared &s, int kind, int top, int u, c32 *v)
{
    const float factor = !(WAY & HANN) ? 128 : kind ? -32 : 64;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 16; j++)
        sum += s.mean[j < 8 ? top : top ^ 1][u + 16 * (j & 7)];
#pragma unroll
    for (int lanes = 1; lanes < 16; lanes *= 2)
        sum += __shfl_xor_sync(0xffffu << (threadIdx.x & 16), sum, lanes, 16);
    const float mean = sum / 256;
#pragma unroll
    for (int j = 0; j < 16; j++)
        v[j].x += factor * (s.mean[j < 8 ? top : top ^ 1][u + 16 * (j & 7)] - mean);
    return factor * (WAY & HANN ? 128 : 256) * mean;
}

/* The mean gray of a window from what add_means() returned for column 0. */
template <int WAY> __device__ __forceinline__ unsigned gray_of(float mean)
{
    return features_gray(mean * (WAY & HANN ? 1.0f / (4 * 64 * 128) : 1.0f / (4 * 128 * 256)));
}

/* Adds to value u + 16 p of a column what add_means() returned, where it belongs. */
template <int WAY> __device__ __forceinline__ void return_mean(float mean, int u, int p, c32 *z)
{
    if (p == 0)
        z->x += u == 0 ? mean : WAY & HANN && u == 1 ? -0.5f * mean : 0;
    if (WAY & HANN && p == 15)
        z->x += u == 15 ? -0.5f * mean : 0;
}

/* Multiplies a column by the taper. */
__device__ __forceinline__ void taper_column(const struct shared &s, int u, c32 *v)
{
#pragma unroll
    for (int j = 0; j < 16; j++) {
        const float w = fmaf(-0.5f, s.cosine[u + 16 * j], 0.5f);
        v[j] = {w * v[j].x, w * v[j].y};
    }
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

__device__ __forceinline__ void transform_columns(struct shared &s, int team, int u, c32 (*v)[16])
{
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        dft16(v[i]);
        twiddle_column(s, u, v[i]);
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        exchange(s.exchange[team >> 1] + SECOND * (team & 1), u, v[i]);
        dft16(v[i]);
    }
}

/* The counts of a thread over a window. */
struct counters {
    struct tally tally;
    struct discs discs; /* of the columns of a round */
    unsigned outer;     /* of the last octave but the corners, the only one in all rounds */
    unsigned sample;    /* that the window belongs to, or 0 */
};

/* Columns 0 and 128, both of real values: their transforms from the one of column 0 + i column 128,
 * V: F0[y] = (V[y] + conj V[-y]) / 2, F128[y] = (V[y] - conj V[-y]) / 2i. u holds V[u + 16 p]. */
template <int WAY>
__device__ __forceinline__ void count_real_columns(struct shared &s, const struct fused_args &a,
                                                   const c32 *v, int u, float mean,
                                                   unsigned histogram, struct counters *to)
{
    const unsigned lanes = 0xffffu;
    unsigned *spectrum = spectrum_of(a.sums.features, to->sample);
    struct tally once = {};
    int bins[16];
#pragma unroll
    for (int p = 0; p < 16; p++) {
        c32 m = {__shfl_sync(lanes, v[15 - p].x, (16 - u) & 15, 16),
                 __shfl_sync(lanes, v[15 - p].y, (16 - u) & 15, 16)};
        if (u == 0)
            m = v[(16 - p) & 15];
        c32 zero = {0.5f * (v[p].x + m.x), 0.5f * (v[p].y - m.y)};
        const c32 last = {0.5f * (v[p].y + m.y), 0.5f * (m.x - v[p].x)};
        return_mean<WAY>(mean, u, p, &zero);
        bins[p] = count<1, WAY & CLAMP>(histogram, a.bins, zero, &once);
        const int far = count<1, WAY & CLAMP>(histogram, a.bins, last, &once);
        if (spectrum)
            atomicAdd(&spectrum[HALF * FUSED_WINDOW + u + 16 * p], (unsigned)far);
    }
    tally_weigh(&to->tally, 1, once);
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

template <int WAY>
__device__ __forceinline__ void load_ahead(struct rows_ahead *next, int kind, int pitch)
{
    if (next->rows)
        next->share = load_share<WAY & HANN>(next->rows, pitch, kind, 0);
}

template <int WAY>
__device__ __forceinline__ void count_column(const struct shared &s, const struct fused_args &a,
                                             const c32 *v, int kind, int k, int u, float mean,
                                             unsigned histogram, struct counters *to)
{
    struct tally twice = {};
    int bins[16];
#pragma unroll
    for (int p = 0; p < 16; p++) {
        c32 z = v[p];
        if (WAY & HANN)
            return_mean<WAY>(mean, u, p, &z);
        bins[p] = count<2, WAY & CLAMP>(histogram, a.bins, z, &twice);
    }
    tally_weigh(&to->tally, 2, twice);
    add_features(s, a, bins, kind, k, u, to);
}

/* The octaves of a round of columns. Only the first round reaches all discs but the largest, so no
 * sum of the smaller ones takes a register during the next transform. */
__device__ __forceinline__ void put_octaves(const struct discs &d, int round, unsigned *outer,
                                            struct window_sums *to)
{
    const int lane = (int)threadIdx.x & 31;
    if (round == 0) {
        atomicAdd(&to->octaves[FEATURE_CORNERS][lane], d.sum[0]);
#pragma unroll
        for (int o = 0; o + 1 < FEATURE_CORNERS; o++)
            atomicAdd(&to->octaves[o][lane], d.sum[o + 1] - d.sum[o]);
    }
    *outer += d.sum[FEATURE_CORNERS] - d.sum[FEATURE_CORNERS - 1];
    if (round + 1 == ROUNDS)
        atomicAdd(&to->octaves[FEATURE_CORNERS - 1][lane], *outer);
}

/* Loads the columns of a round. Returns what add_means() does, or 0. */
template <int WAY>
__device__ __forceinline__ float load_columns(const struct shared &s, int kind, int top, int round,
                                              c32 (*v)[16])
{
    const int team = (int)threadIdx.x / 16, u = (int)threadIdx.x & 15;
    float mean = 0;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        load_column(s, top, column_of(kind, team, round * TOGETHER + i), u, v[i]);
    if (has_means<WAY>(kind, column_of(kind, team, round * TOGETHER)))
        mean = add_means<WAY>(s, kind, top, u, v[0]);
    if (WAY & HANN)
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            taper_column(s, u, v[i]);
    return mean;
}

/* Counts all columns of a window whose upper half is half `top` of the ring. */
template <int WAY>
__device__ __forceinline__ void count_window(struct shared &s, const struct fused_args &a, int kind,
                                             int window, int top, struct rows_ahead *next)
{
    const int team = (int)threadIdx.x / 16, u = (int)threadIdx.x & 15;
    const unsigned histogram = histogram_address(histogram_of(s));
    struct counters c = {};
    c.sample = a.sums.features.d_sample[window] & FEATURES_KIND;
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++) {
        c32 v[TOGETHER][16];
        const float mean = load_columns<WAY>(s, kind, top, round, v);
        if (round + 1 == ROUNDS) {
            load_ahead<WAY>(next, kind, (int)a.pitch);
            barrier_reach(&s.loaded); /* when all have, the upper half may be overwritten */
        }
        transform_columns(s, team, u, v);
        c.discs = {};
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int k = column_of(kind, team, round * TOGETHER + i);
            if (i == 0 && kind == 0 && k == 0) {
                if (u == 0)
                    s.sums[top].gray = gray_of<WAY>(mean);
                count_real_columns<WAY>(s, a, v[i], u, mean, histogram, &c);
            } else
                count_column<WAY>(s, a, v[i], kind, k, u, i ? 0 : mean, histogram, &c);
        }
        __syncwarp();
        put_octaves(c.discs, round, &c.outer, &s.sums[top]);
    }
    tally_put<WAY & CLAMP>(c.tally, &s.sums[top]);
}

/* --- a strip of windows --- */

__device__ __forceinline__ void fill_row_twiddles(struct shared &s, int kind, int u)
{
    if (u < 64 &&
        kind < 2) { /* [residue][n]: w128^((2 residue + kind) n), and what radix 4 left out */
        const int n = u & 15, r = u >> 4;
        s.row_twiddle[u] =
            root(n * (2 * r + kind) + (r & 1) * (kind ? 48 : 32) + (r == 3) * 64, 128);
    }
    if (u < 32 && kind >= 2) { /* of points n, n + 1 at [n / 2][frequency] */
        const int n = u >> 2 << 1 | u & 1, k = (kind == 2 ? 1 : 5) + 8 * (u >> 1 & 1);
        s.row_twiddle[u] = root(n * k, 256);
    }
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
    s.cosine[u] = root(u, 256).x;
    for (int k = u; k < bins + 2; k += THREADS)
        histogram_of(s)[k] = 0;
    for (int k = u; k < (int)(sizeof s.sums / sizeof(unsigned)); k += THREADS)
        ((unsigned *)s.sums)[k] = 0;
    if (u < COLUMNS)
        s.reaches[u] = disc_reaches(frequency_of(kind, u));
    if (u == 0)
        barrier_init(&s.loaded);
    __syncthreads();
}

/* Adds what a block has counted of a window to the window's sums, after a barrier. One warp has the
 * tallies, each of the others an octave, whose sum over the block's windows it keeps. */
template <int WAY>
__device__ __forceinline__ void add_window(const struct fused_args &a, struct window_sums *s,
                                           int window, unsigned *octave)
{
    const int warp = (int)threadIdx.x / 32;
    if (warp == FEATURES_OCTAVES)
        add_tally<WAY & CLAMP>(s, a.sums.d_windows + 2 * window);
    else {
        const unsigned sum = __reduce_add_sync(~0u, take(s->octaves[warp]));
        unsigned *ring = counts_ring(&a.sums.features, window, warp);
        if (ring && warp < FEATURE_CORNERS && (threadIdx.x & 31) == 0)
            atomicAdd(ring, sum);
        *octave += sum;
    }
}

/* Counts the windows of a piece. Returns the warp's sum over its octave. Halves are counted from
 * the first window's upper one.
 *
 *   half           0       1       2       3
 *   rows           half 0  half 1  half 2  half 3
 *   columns of             window  window  window   that ends with the half
 *   sums added of                  window  window   that ended with the half before
 */
template <int WAY>
__device__ __forceinline__ unsigned strip(struct shared &s, const struct fused_args &a, int kind,
                                          const struct fused_piece &p)
{
    const int nx = (int)a.windows.nx, down = nx * a.steps, pitch = (int)a.pitch,
              ring_rows = (int)a.ring_rows, stride = FUSED_STRIDE / a.steps;
    const uint8_t *wanted = a.windows.d_wanted;
    const float *column = a.d_smooth + p.wx % a.steps * a.apart + p.wx * stride;
    struct rows_ahead ahead = {};
    unsigned octave = 0;
    int phases = 0;                                           /* of s.loaded */
    int window = (p.wy - (int)a.windows.band_wy) * nx + p.wx; /* that begins with the half */
    int row = (int)((int64_t)p.wy * stride % ring_rows);
    bool before = false, last = false; /* is the window wanted that ended with the half before, */
    for (int half = 0;; half++, window += down) { /* that ends with this half, that begins? */
        const bool next = half < p.n && (!wanted || wanted[window]);
        if (last || next) {
            if (!ahead.rows) {
                ahead.rows = column + (int64_t)row * pitch;
                load_ahead<WAY>(&ahead, kind, pitch);
            }
            if (phases)
                barrier_pass(&s.loaded, phases - 1);
            transform_rows<WAY & HANN>(s, kind, ahead.rows, pitch, half & 1, ahead.share);
        }
        __syncthreads();
        if (before)
            add_window<WAY>(a, &s.sums[half & 1], window - 2 * down, &octave);
        row += FUSED_STRIDE;
        row -= row >= ring_rows ? ring_rows : 0;
        ahead.rows = next ? column + (int64_t)row * pitch : NULL;
        if (last) {
            count_window<WAY>(s, a, kind, window - down, half & 1 ^ 1, &ahead);
            phases++;
        } else
            load_ahead<WAY>(&ahead, kind, pitch);
        before = last;
        last = next;
        if (half >= p.n)
            break;
    }
    __syncthreads();
    if (before)
        add_window<WAY>(a, &s.sums[p.n & 1 ^ 1], window - down, &octave);
    return octave;
}

/* A warp's sum over its octave to the band's; `all` is what the thread has of the sum of all bin
 * numbers of the block, of which the corners have the rest. */
__device__ __forceinline__ void add_octaves(unsigned octave, unsigned long long all,
                                            unsigned long long *d_octaves)
{
    const int warp = (int)threadIdx.x / 32;
    for (int lanes = 16; lanes > 0; lanes /= 2)
        all += __shfl_xor_sync(~0u, all, lanes);
    if ((threadIdx.x & 31) != 0)
        return;
    atomicAdd(&d_octaves[FEATURE_CORNERS], all - octave);
    if (warp < FEATURE_CORNERS)
        atomicAdd(&d_octaves[warp], (unsigned long long)octave);
}

template <int WAY>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    fused_kernel(const __grid_constant__ struct fused_args a, struct fused_cut cut)
{
    extern __shared__ __align__(2048) unsigned char memory[];
    struct shared &s = *(struct shared *)memory;
    const int kind = (int)blockIdx.x % KINDS, bins = a.bins.bins;
    fill_tables(s, kind, bins);
    const unsigned octave =
        strip<WAY>(s, a, kind, fused_piece_of(a.windows, a.steps, cut, (int)blockIdx.x / KINDS));
    unsigned long long all = 0;
    for (int k = (int)threadIdx.x; k < bins + 2; k += THREADS) {
        const unsigned sum = histogram_of(s)[k];
        all += (unsigned long long)sum * (unsigned)min(max(k - 1, 0), bins - 1);
        if (sum)
            atomicAdd(&a.sums.d_histogram[k], (unsigned long long)sum);
    }
    add_octaves(octave, all, a.sums.features.d_octaves);
}

} // namespace

static_assert(sizeof(struct shared) + histogram_bytes(FUSED_MOST_BINS) <= 99 * 1024,
              "more than compute capability 8.6 gives a block");

size_t fused_shared_bytes(int bins)
{
    return sizeof(struct shared) + histogram_bytes(bins);
}

typedef void kernel(struct fused_args, struct fused_cut);
static kernel *const kernels[WAYS] = {fused_kernel<0>, fused_kernel<1>, fused_kernel<2>,
                                      fused_kernel<3>};

/* Shared memory of each block that the runtime reserves. */
enum { RESERVED = 1024, MOST_BLOCKS = 2 };

/* Blocks that a multiprocessor computes at a time. */
static int blocks_of(const struct fused_args *a, size_t bytes)
{
    const size_t n = a->shared_each / (bytes + RESERVED);
    return n < 1 || a->unused ? 1 : n < MOST_BLOCKS ? (int)n : MOST_BLOCKS;
}

/* Allows a kernel its shared memory. The rest of the multiprocessor's memory remains its level 1
 * cache. */
static void allow(kernel *f, const struct fused_args *a, size_t bytes)
{
    const size_t all = (size_t)blocks_of(a, bytes) * (bytes + RESERVED);
    const int share = a->shared_each > all ? (int)(100 * all / a->shared_each) : 100;
    cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, share);
}

void fused_windows(const struct fused_args *a, cudaStream_t stream)
{
    const int columns = fused_columns(a->windows, a->steps);
    const size_t bytes = fused_shared_bytes(a->bins.bins) + a->unused;
    const struct fused_cut cut = fused_cut_of(columns, fused_most(a->windows, a->steps),
                                              a->multiprocessors * blocks_of(a, bytes) / KINDS);
    const int way = (a->bins.all_inside ? 0 : CLAMP) | (a->hann ? HANN : 0);
    allow(kernels[way], a, bytes);
    kernels[way]<<<KINDS * fused_pieces(columns, cut), THREADS, bytes, stream>>>(*a, cut);
}
