/*
 * fused_rows.cuh - the first half of the fused kernel (fused.cu): its shared memory, and from
 * smoothed rows to the spectra of rows.
 */
#ifndef WSI_FUSED_ROWS_CUH
#define WSI_FUSED_ROWS_CUH

#include "cuda/feature_discs.cuh"
#include "cuda/fused.h"

#include "cuda/dft.h"

namespace
{

enum {
    THREADS = 512,
    HALF = 128,           /* rows of a half, and points of a row's transform */
    PACKED = HALF / 2,    /* complex rows of a half */
    COLUMNS = 64,         /* spectral columns of a parity */
    TEAMS = THREADS / 16, /* each with a column */
    AHEAD = 1, /* quarters of a half that are loaded while the window before is counted */
};

struct alignas(16) pair {
    c32 a, b;
};

struct shared {
    c32 ring[2][PACKED][HALF]; /* row spectra: point k of packed row r at k ^ (r & 15) */
    c32 exchange[TEAMS][256];
    pair column_twiddle[3][16]; /* at [.][u]: w256^u, its 2nd; 3rd, 4th; 8th, 12th powers */
    pair odd_twiddle[16];       /* w256^n, n < 32 */
    float2 mean[2][PACKED];     /* twice the means of rows r, r + 64 */
    unsigned twice[FUSED_MOST_BINS + 2], once[FUSED_MOST_BINS + 2]; /* histograms by weight */
    unsigned within[FEATURE_DISCS]; /* of all windows of the block */
    uint2 reaches[COLUMNS];         /* of discs */
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

/* A quarter of what a thread loads of a half: points 4 t + 32 j .. + 3 of rows r and r + 64 (a, c),
 * and those 128 further on (b, d). */
struct quads {
    float4 a, b, c, d;
};

__device__ __forceinline__ struct quads load_quads(const float *rows, int64_t pitch, int j)
{
    const int r = packed_row((int)threadIdx.x), t = (int)threadIdx.x & 7;
    const float4 *above = (const float4 *)(rows + r * pitch) + t,
                 *below = (const float4 *)(rows + (r + PACKED) * pitch) + t;
    return {above[8 * j], above[8 * j + HALF / 4], below[8 * j], below[8 * j + HALF / 4]};
}

/* Transforms the 128 rows at `rows` into half number `half` of the ring. The first AHEAD quarters
 * have been loaded. */
template <int ODD>
__device__ __forceinline__ void transform_rows(struct shared &s, const float *rows, int64_t pitch,
                                               int half, const struct quads *ahead)
{
    const int r = packed_row((int)threadIdx.x), t = (int)threadIdx.x & 7;
    c32 v[16]; /* first points 2 t + 16 j, then 2 t + 1 + 16 j */
    c32 *out = s.ring[half][r];
    pair *pairs = (pair *)out;
    const pair w0 = s.odd_twiddle[2 * t], w1 = s.odd_twiddle[2 * t + 1];
    struct quads all[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        all[j] = j < AHEAD ? ahead[j] : load_quads(rows, pitch, j);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float4 a = all[j].a, b = all[j].b, c = all[j].c, d = all[j].d;
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

} // namespace

#endif
