/*
 * fused_rows.cuh - the first half of the fused kernel (fused.cu): its shared memory, and from
 * smoothed rows to the spectra of rows.
 *
 * A warp owns 16 rows of a half: no other warp touches their part of the ring before the barrier
 * at the end. Eight threads load a row, 128 bytes at a time. What they load are sums and
 * differences of quarters (smooth.h): of a window's quarters a to d, a + b and a - b in its left
 * half, c + d and c - d in its right half. So kinds 0 and 1 load half of the row.
 *
 * Hann's taper is w[n] = (1 - cos 2 pi n / 256) / 2. With C and S, cosine and sine of n < 64, the
 * quarters of a tapered row are a (1 - C) / 2, b (1 + S) / 2, c (1 + C) / 2 and d (1 - S) / 2.
 */
#ifndef WSI_FUSED_ROWS_CUH
#define WSI_FUSED_ROWS_CUH

#include "cuda/feature_discs.cuh"
#include "cuda/fused.h"

#include "cuda/dft.h"

namespace
{

enum {
    THREADS = 256,
    KINDS = 4,            /* of blocks */
    HALF = 128,           /* rows of a half */
    COLUMNS = 32,         /* spectral columns of a kind */
    TEAMS = THREADS / 16, /* each with a column */
    LINE = 20,            /* floats between the lines of an exchange: no bank conflicts */
    SECOND = 336,         /* where the second team's area of a warp begins */
};

struct alignas(16) pair {
    c32 a, b;
};

/* What the threads of a block have counted of a window, added up by lane. In the place of the
 * corners is what lies below octave 0. Everything wraps around on the way. */
struct window_sums {
    unsigned samples[32], sum[32], squares[32], octaves[FEATURES_OCTAVES][32];
    unsigned gray; /* of the block that has column 0; 0 in the others */
};

/* Behind it: the histogram of weights, [bins + 2]. */
struct shared {
    c32 ring[2][HALF][COLUMNS]; /* twice the row spectra: point k of row r at k ^ (r & 15) */
    float exchange[TEAMS / 2][SECOND + 15 * LINE + 16];
    pair column_twiddle[3][16]; /* at [.][u]: w256^u, its 2nd; 3rd, 4th; 8th, 12th powers */
    c32 row_twiddle[64];        /* see fill_tables() in fused.cu */
    float mean[2][HALF];        /* four times the means of rows: kind 0; with a taper also 2 */
    struct window_sums sums[2]; /* of this window and of the one before, in turn */
    uint2 reaches[COLUMNS];     /* of discs */
    unsigned long long loaded;  /* how many warps have loaded their columns: see barrier_reach() */
    float cosine[256]; /* with a taper: cos 2 pi n / 256; the sine of n < 64 is at n + 192 */
};

/* exp(-2 pi i k / n) */
__device__ __forceinline__ c32 root(int k, int n)
{
    c32 w;
    sincospif(-2 * (float)k / (float)n, &w.y, &w.x);
    return w;
}

/* What a thread loads at a time, four neighbours each at n and n + 32, in both halves of the
 * window: of one row sums, then differences, or of two rows one of these. */
struct share {
    float4 v[8];
};

/* The row of round i. Rows 2 p and 2 p + 1 make one complex row of the kinds that pack them. */
template <bool PACKED> __device__ __forceinline__ int row_of(int i)
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x >> 3 & 3;
    return 16 * warp + (PACKED ? 8 * (i >> 1) + 2 * g + (i & 1) : 4 * i + g);
}

/* The share of round i: of two rounds if they pack rows, without a taper. */
template <bool HANN>
__device__ __forceinline__ struct share load_share(const float *rows, int pitch, int kind, int i)
{
    const bool packed = kind < 2, both = HANN || !packed;
    const int row = packed ? row_of<true>(i) : row_of<false>(i);
    const float *near = rows + row * pitch + 4 * ((int)threadIdx.x & 7) + (both ? 0 : 64 * kind),
                *far = near + (both ? 64 : pitch);
    struct share s;
#pragma unroll
    for (int m = 0; m < 4; m++) {
        s.v[m] = *(const float4 *)(near + 32 * (m & 1) + 128 * (m >> 1));
        s.v[m + 4] = *(const float4 *)(far + 32 * (m & 1) + 128 * (m >> 1));
    }
    return s;
}

/* --- columns 4 k and 4 k + 2: 64 complex points of two rows --- */

/* Sum over the eight threads of a row. */
__device__ __forceinline__ float sum8(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    return v + __shfl_xor_sync(~0u, v, 4);
}

__device__ __forceinline__ float4 plus(float4 a, float4 b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

__device__ __forceinline__ float4 minus(float4 a, float4 b)
{
    return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w};
}

/* Four times the mean of a row, from the eight threads' sums of all quarters. */
__device__ __forceinline__ float mean_of(const float *v)
{
    float sum = v[0];
#pragma unroll
    for (int k = 1; k < 8; k++)
        sum += v[k];
    return sum8(sum) / 64;
}

/* Points 4 t .. and 32 + 4 t .. of a row: its quarters a + b + c + d, or a - b + c - d. */
struct folded {
    float v[8];
};

__device__ __forceinline__ struct folded folded_of(float4 near, float4 far)
{
    return {{near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w}};
}

/* v: sums, or differences. The first kind is less the row's mean. */
template <int KIND>
__device__ __forceinline__ struct folded fold_quarters(struct shared &s, const float4 *v, int half,
                                                       int row)
{
    struct folded f = folded_of(plus(v[0], v[2]), plus(v[1], v[3]));
    if (KIND)
        return f;
    const float mean = mean_of(f.v);
    if ((threadIdx.x & 7) == 0)
        s.mean[half][row] = mean;
#pragma unroll
    for (int k = 0; k < 8; k++)
        f.v[k] -= mean;
    return f;
}

/* The quarters of a point after the taper. */
struct tapered {
    float sum, difference; /* a + b + c + d, a - b + c - d */
    float s, d;            /* a + b - c - d, a - b - c + d */
};

/* The same before it, and four times the row's mean, which is taken off. */
__device__ __forceinline__ struct tapered taper_point(const struct tapered &x, float mean,
                                                      float cosine, float sine)
{
    const float ac = cosine * (x.s + x.d), bd = sine * (x.s - x.d), both = x.sum - mean,
                ac2 = cosine * (both + x.difference), bd2 = sine * (both - x.difference);
    return {fmaf(0.5f, both, 0.25f * (bd - ac)), fmaf(0.5f, x.difference, -0.25f * (bd + ac)),
            fmaf(0.5f, x.s, 0.25f * (bd2 - ac2)), fmaf(0.5f, x.d, -0.25f * (bd2 + ac2))};
}

/* Tapers the points 4 t .. and 32 + 4 t .. of a row, whose mean is kept for kinds 0 and 2. */
template <int KIND>
__device__ __forceinline__ void taper_row(struct shared &s, const struct share &x, int half,
                                          int row, struct tapered *out)
{
    const int t = (int)threadIdx.x & 7;
    const struct folded sum = folded_of(plus(x.v[0], x.v[2]), plus(x.v[1], x.v[3])),
                        difference = folded_of(plus(x.v[4], x.v[6]), plus(x.v[5], x.v[7])),
                        left = folded_of(minus(x.v[0], x.v[2]), minus(x.v[1], x.v[3])),
                        right = folded_of(minus(x.v[4], x.v[6]), minus(x.v[5], x.v[7]));
    const float mean = KIND == 1 ? 0 : mean_of(sum.v);
    if (KIND % 2 == 0 && t == 0)
        s.mean[half][row] = mean;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const float *c = s.cosine + 4 * t + 8 * (k & 4) + (k & 3);
        out[k] =
            taper_point({sum.v[k], difference.v[k], left.v[k], right.v[k]}, mean, c[0], c[192]);
    }
}

template <int KIND>
__device__ __forceinline__ struct folded fold_tapered(struct shared &s, const struct share &x,
                                                      int half, int row)
{
    struct tapered p[8];
    struct folded f;
    taper_row<KIND>(s, x, half, row, p);
#pragma unroll
    for (int k = 0; k < 8; k++)
        f.v[k] = KIND ? p[k].difference : p[k].sum;
    return f;
}

/* a + s b */
__device__ __forceinline__ c32 add_scaled(c32 a, float s, c32 b)
{
    return {fmaf(s, b.x, a.x), fmaf(s, b.y, a.y)};
}

/* a + w b */
__device__ __forceinline__ c32 butterfly(c32 a, c32 w, c32 b)
{
    return {fmaf(w.x, b.x, fmaf(-w.y, b.y, a.x)), fmaf(w.x, b.y, fmaf(w.y, b.x, a.y))};
}

/* Where points 2 m and 2 m + 1 of residue r are in the two rows of a pair, which `row` begins. */
__device__ __forceinline__ int pair_at(int row, int r, int m)
{
    return 8 * r + (m ^ r ^ (row & 4));
}

/* Radix 4 over the points n, n + 16, n + 32, n + 48 of a pair of rows, z = a + i b. Thread t < 4 of
 * eight has n and n + 32 for four n, thread t + 4 has n + 16 and n + 48. Each keeps one of sum and
 * difference and sends the other; then the first has residues 0 and 2, the second 1 and 3. */
template <int KIND>
__device__ __forceinline__ void put_points(const struct shared &s, c32 *rows, int row,
                                           const struct folded &a, const struct folded &b)
{
    const float h = 0.70710678118654752f;
    const int t = (int)threadIdx.x & 7, second = t >> 2;
    const float sign = second ? -1.0f : 1.0f;
    const c32 w = KIND == 0 ? (second ? c32{0, 1} : c32{1, 0}) : (second ? c32{-h, h} : c32{h, -h});
    c32 first[4], last[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const c32 near = {a.v[i], b.v[i]}, beyond = {a.v[i + 4], b.v[i + 4]},
                  far = KIND ? minus_i(beyond) : beyond;
        const c32 keep = add_scaled(near, sign, far), send = add_scaled(near, -sign, far);
        const c32 got = {__shfl_xor_sync(~0u, send.x, 4), __shfl_xor_sync(~0u, send.y, 4)};
        first[i] = butterfly(keep, w, got);
        last[i] = butterfly(keep, {-w.x, -w.y}, got);
    }
    pair *to = (pair *)rows;
    const pair *twiddle = (const pair *)s.row_twiddle + 8 * second + 2 * (t & 3);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const pair u = twiddle[m], v = twiddle[m + 16];
        to[pair_at(row, second, 2 * (t & 3) + m)] = {first[2 * m] * u.a, first[2 * m + 1] * u.b};
        to[pair_at(row, second + 2, 2 * (t & 3) + m)] = {last[2 * m] * v.a, last[2 * m + 1] * v.b};
    }
}

/* Row spectra of a pair of rows from its points: value k of thread t is at 4 k + t. */
template <int KIND>
__device__ __forceinline__ void separate(c32 *rows, int row, int t, const c32 *v)
{
    const int from = KIND ? 3 - t : 4 - t & 3;
#pragma unroll
    for (int p = 0; p < 8; p++) {
        c32 m = {__shfl_sync(~0u, v[15 - p].x, from, 4), __shfl_sync(~0u, v[15 - p].y, from, 4)};
        if (KIND == 0 && t == 0)
            m = v[16 - p & 15];
        c32 upper = {v[p].x + m.x, v[p].y - m.y}, lower = {v[p].y + m.y, m.x - v[p].x};
        if (KIND == 0 && p == 0 && t == 0) { /* column 0 + i column 128 */
            upper = {2 * v[0].x, 2 * v[8].x};
            lower = {2 * v[0].y, 2 * v[8].y};
        }
        const int at = 4 * p + t ^ row & 15;
        rows[at] = upper;
        rows[COLUMNS + (at ^ 1)] = lower;
    }
}

/* Loads two rows and writes their points. `ahead` is the first share of the half. */
template <int KIND, bool HANN>
__device__ __forceinline__ void put_pair(struct shared &s, const float *rows, int pitch, int half,
                                         int i, const struct share &ahead)
{
    const int row = row_of<true>(2 * i);
    const struct share x = i ? load_share<HANN>(rows, pitch, KIND, 2 * i) : ahead;
    struct folded a, b;
    if (HANN) {
        a = fold_tapered<KIND>(s, x, half, row);
        b = fold_tapered<KIND>(s, load_share<HANN>(rows, pitch, KIND, 2 * i + 1), half, row + 1);
    } else {
        a = fold_quarters<KIND>(s, x.v, half, row);
        b = fold_quarters<KIND>(s, x.v + 4, half, row + 1);
    }
    put_points<KIND>(s, s.ring[half][row], row, a, b);
}

template <int KIND, bool HANN>
__device__ __forceinline__ void packed_rows(struct shared &s, const float *rows, int pitch,
                                            int half, const struct share &ahead)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
    put_pair<KIND, HANN>(s, rows, pitch, half, 0, ahead);
    put_pair<KIND, HANN>(s, rows, pitch, half, 1, ahead);
    __syncwarp();
    const int t = lane & 3, row = 16 * warp + 4 * (lane >> 2 & 3) + 2 * (lane >> 4);
    c32 *points = s.ring[half][row];
    c32 v[16];
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const pair z = ((const pair *)points)[pair_at(row, t, m)];
        v[2 * m] = z.a;
        v[2 * m + 1] = z.b;
    }
    __syncwarp();
    dft16(v);
    separate<KIND>(points, row, t, v);
}

/* --- columns 8 k + 1 and 8 k + 5: 32 complex points of one row --- */

/* Twice the sum over m < 8 of x[n + 32 m] w8^(m c), c = 1 or 5, from the differences between the
 * window's halves of sums s and differences d of quarters, at n and at n + 32. */
template <int KIND>
__device__ __forceinline__ c32 fold_eighths(float s, float s32, float d, float d32)
{
    const float r = KIND == 2 ? 1.41421356237309505f : -1.41421356237309505f;
    return {fmaf(r, d32, d + s), fmaf(-r, s32, d - s)};
}

template <int KIND, bool HANN>
__device__ __forceinline__ void put_row(struct shared &s, const struct share &x, int half, int row)
{
    struct folded sum = folded_of(minus(x.v[0], x.v[2]), minus(x.v[1], x.v[3])),
                  difference = folded_of(minus(x.v[4], x.v[6]), minus(x.v[5], x.v[7]));
    if (HANN) {
        struct tapered p[8];
        taper_row<KIND>(s, x, half, row, p);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            sum.v[k] = p[k].s;
            difference.v[k] = p[k].d;
        }
    }
    c32 z[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        z[k] = fold_eighths<KIND>(sum.v[k], sum.v[k + 4], difference.v[k], difference.v[k + 4]);
    const int t = (int)threadIdx.x & 7, at = 2 * t ^ (t >> 2) ^ (row & 7);
    pair *out = (pair *)s.ring[half][row];
    out[at] = {z[0], z[1]};
    out[at ^ 1] = {z[2], z[3]};
}

template <int KIND, bool HANN>
__device__ __forceinline__ void single_rows(struct shared &s, const float *rows, int pitch,
                                            int half, const struct share &ahead)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const struct share x = i ? load_share<HANN>(rows, pitch, KIND, i) : ahead;
        put_row<KIND, HANN>(s, x, half, row_of<false>(i));
    }
    __syncwarp();
    const float c = 0.92387953251128674f, sine = 0.38268343236508977f;
    const int t = lane & 1, r = 2 * (lane >> 1 & 7) + (lane >> 4);
    c32 *out = s.ring[half][16 * warp + r];
    const pair *in = (const pair *)out, *twiddle = (const pair *)s.row_twiddle;
    c32 w = KIND == 2 ? c32{c, -sine} : c32{-sine, -c}; /* w16^1, w16^5 */
    if (t)
        w = {-w.x, -w.y};
    c32 v[16];
#pragma unroll
    for (int p = 0; p < 8; p++) {
        const pair x = in[p ^ (r & 7)], y = in[8 + (p ^ 1 ^ (r & 7))], z = twiddle[2 * p + t];
        v[2 * p] = butterfly(x.a, w, y.a) * z.a;
        v[2 * p + 1] = butterfly(x.b, w, y.b) * z.b;
    }
    __syncwarp();
    dft16(v);
#pragma unroll
    for (int p = 0; p < 16; p++)
        out[t ^ r ^ 2 * p] = v[p];
}

/* Transforms the 128 rows at `rows` into half number `half` of the ring. The share of round 0 has
 * been loaded. */
template <bool HANN>
__device__ __forceinline__ void transform_rows(struct shared &s, int kind, const float *rows,
                                               int pitch, int half, const struct share &ahead)
{
    if (kind == 0)
        packed_rows<0, HANN>(s, rows, pitch, half, ahead);
    else if (kind == 1)
        packed_rows<1, HANN>(s, rows, pitch, half, ahead);
    else if (kind == 2)
        single_rows<2, HANN>(s, rows, pitch, half, ahead);
    else
        single_rows<3, HANN>(s, rows, pitch, half, ahead);
}

} // namespace

#endif
