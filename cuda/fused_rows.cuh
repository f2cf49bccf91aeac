/*
 * fused_rows.cuh - the first half of the fused kernel (fused.cu): its shared memory, and from
 * smoothed rows to the spectra of rows.
 *
 * A warp owns 16 rows of a half: no other warp touches their part of the ring before the barrier at
 * the end. Eight threads load a row, 128 bytes at a time.
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
    ROUNDS = 4,           /* rows that a thread loads a share of, per half */
    LINE = 20,            /* floats between the lines of an exchange: no bank conflicts */
    SECOND = 336,         /* where the second team's area of a warp begins */
};

struct alignas(16) pair {
    c32 a, b;
};

/* Behind it: the histogram of values that count twice, [bins + 2], and that of values that count
 * once, two counts of 16 bits per word. */
struct shared {
    c32 ring[2][HALF][COLUMNS]; /* twice the row spectra: point k of row r at k ^ (r & 15) */
    float exchange[TEAMS / 2][SECOND + 15 * LINE + 16];
    pair column_twiddle[3][16]; /* at [.][u]: w256^u, its 2nd; 3rd, 4th; 8th, 12th powers */
    c32 row_twiddle[64];        /* see fill_tables() in fused.cu */
    union {
        c32 shift[32];       /* w128^n: the second kind */
        float mean[2][HALF]; /* four times the means of rows: the first kind */
    };
    unsigned octaves[FEATURES_OCTAVES]; /* sums over all windows of the block */
    uint2 reaches[COLUMNS];             /* of discs */
};

/* exp(-2 pi i k / n) */
__device__ __forceinline__ c32 root(int k, int n)
{
    c32 w;
    sincospif(-2 * (float)k / (float)n, &w.y, &w.x);
    return w;
}

/* A thread's share of a row: four pixels of each eighth of the 256. */
struct share {
    float4 eighth[8];
};

/* The row of round i. Rows 2 p and 2 p + 1 make one complex row of the kinds that pack them. */
template <bool PACKED> __device__ __forceinline__ int row_of(int i)
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x >> 3 & 3;
    return 16 * warp + (PACKED ? 8 * (i >> 1) + 2 * g + (i & 1) : 4 * i + g);
}

__device__ __forceinline__ struct share load_share(const float *rows, int pitch, int row)
{
    const float4 *p = (const float4 *)(rows + row * pitch) + (threadIdx.x & 7);
    struct share s;
#pragma unroll
    for (int m = 0; m < 8; m++)
        s.eighth[m] = p[8 * m];
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

/* Points 4 t .. and 32 + 4 t .. of a row: its quarters a + b + c + d, or a - b + c - d. */
struct folded {
    float v[8];
};

template <int KIND>
__device__ __forceinline__ struct folded fold_quarters(struct shared &s, const struct share &x,
                                                       int half, int row)
{
    const float4 *e = x.eighth;
    const float4 ac = plus(e[0], e[4]), bd = plus(e[2], e[6]), ac2 = plus(e[1], e[5]),
                 bd2 = plus(e[3], e[7]);
    const float4 near = KIND ? minus(ac, bd) : plus(ac, bd),
                 far = KIND ? minus(ac2, bd2) : plus(ac2, bd2);
    struct folded f = {{near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w}};
    if (KIND)
        return f;
    float sum = f.v[0];
#pragma unroll
    for (int k = 1; k < 8; k++)
        sum += f.v[k];
    const float mean = sum8(sum) / 64;
    if ((threadIdx.x & 7) == 0)
        s.mean[half][row] = mean;
#pragma unroll
    for (int k = 0; k < 8; k++)
        f.v[k] -= mean;
    return f;
}

/* Writes the points of a pair of rows, n = 4 j + residue at [residue][j]. */
template <int KIND>
__device__ __forceinline__ void put_points(const struct shared &s, c32 *work,
                                           const struct folded &a, const struct folded &b, int p)
{
    const int t = (int)threadIdx.x & 7;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        c32 near = {a.v[i], b.v[i]}, far = {a.v[i + 4], b.v[i + 4]};
        if (KIND) {
            const c32 w = s.shift[4 * t + i];
            near = near * w;
            far = minus_i(far * w);
        }
        const int at = 16 * i + (t ^ 2 * i ^ 8 * (p & 1));
        work[at] = near;
        work[at ^ 8] = far;
    }
}

/* Row spectra from the four transforms of 16 points: their k-th values at [k][residue]. */
template <int KIND> __device__ __forceinline__ void separate(struct shared &s, int half, int p)
{
    const int j = (int)threadIdx.x & 7, k = (KIND ? 15 : 16) - j, far = KIND || j ? k : 8;
    c32 *rows = s.ring[half][2 * p];
    const pair *near4 = (const pair *)rows + 2 * (j ^ (p & 3)),
               *far4 = (const pair *)rows + 2 * (far ^ (p & 3));
    const int n = j >> 2 & 1, f = far >> 2 & 1;
    const pair n0 = near4[n], n1 = near4[n ^ 1], f0 = far4[f], f1 = far4[f ^ 1];
    c32 a[4] = {n0.a, n0.b, n1.a, n1.b}, b[4] = {f0.a, f0.b, f1.a, f1.b};
    dft4(a[0], a[1], a[2], a[3]);         /* points j + 16 m */
    dft4(b[0], b[1], b[2], b[3]);         /* far + 16 m */
    const bool own = KIND == 0 && j == 0; /* points 0 and 8 are mirrored among themselves */
    const c32 mirror[4] = {b[3], own ? a[3] : b[2], own ? b[3] : a[3], own ? b[2] : a[2]};
    const c32 point[4] = {a[0], a[1], b[0], b[1]};
    const int even = 2 * p & 15;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const c32 z = point[c], m = mirror[c];
        c32 upper = {z.x + m.x, z.y - m.y}, lower = {z.y + m.y, m.x - z.x};
        if (own && c == 0) { /* column 0 + i column 128 */
            upper = {2 * a[0].x, 2 * a[2].x};
            lower = {2 * a[0].y, 2 * a[2].y};
        }
        const int column = (c < 2 ? j : far) + 16 * (c & 1);
        rows[column ^ even] = upper;
        rows[COLUMNS + (column ^ even ^ 1)] = lower;
    }
}

template <int KIND>
__device__ __forceinline__ void packed_rows(struct shared &s, const float *rows, int pitch,
                                            int half, const struct share &ahead)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < ROUNDS; i += 2) {
        const int row = row_of<true>(i);
        const struct folded a =
            fold_quarters<KIND>(s, i ? load_share(rows, pitch, row) : ahead, half, row);
        const struct folded b =
            fold_quarters<KIND>(s, load_share(rows, pitch, row + 1), half, row + 1);
        put_points<KIND>(s, s.ring[half][row], a, b, row >> 1);
    }
    __syncwarp();
    {
        const int t = lane & 3, q = lane >> 2, swap = q & 3;
        c32 *work = s.ring[half][16 * warp + 2 * q];
        const pair *in = (const pair *)work + 8 * t;
        c32 v[16];
#pragma unroll
        for (int c = 0; c < 8; c++) {
            const pair z = in[c ^ t ^ 4 * (q & 1)];
            v[2 * c] = z.a;
            v[2 * c + 1] = z.b;
        }
        __syncwarp();
        dft16(v);
#pragma unroll
        for (int k = 0; k < 16; k++)
            work[4 * (k ^ swap) + (t ^ 2 * (k >> 2 & 1))] =
                k ? v[k] * s.row_twiddle[4 * k + t] : v[0];
    }
    __syncwarp();
    const int g = lane >> 3; /* rows of a half warp differ in bit 3 */
#pragma unroll
    for (int i = 0; i < 2; i++)
        separate<KIND>(s, half, 8 * warp + 4 * (g & 1) + (g >> 1) + 2 * i);
}

/* --- columns 8 k + 1 and 8 k + 5: 32 complex points of one row --- */

/* Sum over m < 8 of x[n + 32 m] w8^(m c), c = 1 or 5, from the eighths of the row. */
template <int KIND>
__device__ __forceinline__ c32 fold_eighths(float x0, float x1, float x2, float x3, float x4,
                                            float x5, float x6, float x7)
{
    const float h = KIND == 2 ? 0.70710678118654752f : -0.70710678118654752f;
    const float r = x0 - x4, i = x2 - x6, r1 = x1 - x5, i1 = x3 - x7;
    return {fmaf(h, r1 - i1, r), fmaf(-h, r1 + i1, -i)};
}

template <int KIND> __device__ __forceinline__ void put_row(c32 *row, const struct share &x, int r)
{
    const float4 *e = x.eighth;
    const int t = (int)threadIdx.x & 7, at = 2 * t ^ (t >> 2) ^ (r & 7);
    pair *out = (pair *)row;
    out[at] = {fold_eighths<KIND>(e[0].x, e[1].x, e[2].x, e[3].x, e[4].x, e[5].x, e[6].x, e[7].x),
               fold_eighths<KIND>(e[0].y, e[1].y, e[2].y, e[3].y, e[4].y, e[5].y, e[6].y, e[7].y)};
    out[at ^ 1] = {
        fold_eighths<KIND>(e[0].z, e[1].z, e[2].z, e[3].z, e[4].z, e[5].z, e[6].z, e[7].z),
        fold_eighths<KIND>(e[0].w, e[1].w, e[2].w, e[3].w, e[4].w, e[5].w, e[6].w, e[7].w)};
}

/* a + w b */
__device__ __forceinline__ c32 butterfly(c32 a, c32 w, c32 b)
{
    return {fmaf(w.x, b.x, fmaf(-w.y, b.y, a.x)), fmaf(w.x, b.y, fmaf(w.y, b.x, a.y))};
}

template <int KIND>
__device__ __forceinline__ void single_rows(struct shared &s, const float *rows, int pitch,
                                            int half, const struct share &ahead)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const int row = row_of<false>(i);
        put_row<KIND>(s.ring[half][row], i ? load_share(rows, pitch, row) : ahead, row);
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
__device__ __forceinline__ void transform_rows(struct shared &s, int kind, const float *rows,
                                               int pitch, int half, const struct share &ahead)
{
    if (kind == 0)
        packed_rows<0>(s, rows, pitch, half, ahead);
    else if (kind == 1)
        packed_rows<1>(s, rows, pitch, half, ahead);
    else if (kind == 2)
        single_rows<2>(s, rows, pitch, half, ahead);
    else
        single_rows<3>(s, rows, pitch, half, ahead);
}

} // namespace

#endif
