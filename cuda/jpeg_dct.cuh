/*
 * jpeg_dct.cuh - dequantisation and inverse DCT of the kernels in jpeg_pixels.cu.
 *
 * The inverse DCT is libjpeg's "islow" (jidctint.c: Loeffler, Ligtenberg and Moschytz 1989,
 * constants of 13 bits): columns, a rounding shift by 11, rows, a rounding shift by 18. Between the
 * roundings it only adds and multiplies whole numbers, so a pass is a product with a fixed integer
 * matrix M, exactly. M and the samples are cut into two signed bytes each, M = 256 h + l, x = 256 y
 * + z, and
 *
 *     M x = 65536 h y + 256 (h z + l y) + l z
 *
 * is computed by the tensor cores (mma.m16n8k16, signed bytes, 32-bit sums). The fragments are
 * chosen so that a thread's results of the first pass are its operands of the second; no thread
 * needs another's.
 *
 * libjpeg-turbo's SIMD code works in 16 bits between the passes. It agrees with the matrix as long
 * as the absolute coefficients of a column add up to at most JPEG_COLUMN_SUM (then no sum reaches
 * 2^15). Every image of 8 bits is far below it, up to its quantisation error; tiles that exceed it
 * go to the host.
 */
#ifndef WSI_JPEG_DCT_CUH
#define WSI_JPEG_DCT_CUH

#include "cuda/jpeg_tables.h"

#include <stdint.h>

enum {
    THREADS = 128,
    BLOCK_WORDS = 36, /* of shared memory per block of samples: 64 coefficients, 8 column sums, 16
                         bits each */
    COEFFICIENT_BYTES = 24576, /* as many rows of MCUs at once as fit */
    JPEG_COLUMN_SUM = 2896,
    /* (2^17 + 128 * 2^18) / 2^13 more in column 0 of the second pass, times 2^11 / 2^13 */
    DC_EXTRA = (16 + 4096) / 4,
    FULL = 0xffffffff,
};

/* M[i][k]: sample i of a pass is the sum over k of M[i][k] x[k], with the constants of jidctint.c.
 */
__device__ __constant__ int16_t matrix[8][8] = {
    {8192, 11363, 10703, 9633, 8192, 6437, 4433, 2260},
    {8192, 9633, 4433, -2259, -8192, -11362, -10704, -6436},
    {8192, 6437, -4433, -11362, -8192, 2261, 10704, 9633},
    {8192, 2260, -10703, -6436, 8192, 9633, -4433, -11363},
    {8192, -2260, -10703, 6436, 8192, -9633, -4433, 11363},
    {8192, -6437, -4433, 11362, -8192, -2261, 10704, -9633},
    {8192, -9633, 4433, 2259, -8192, 11362, -10704, 6436},
    {8192, -11363, 10703, -9633, 8192, -6437, 4433, -2260},
};

/* The thread's parts of M: of row lane / 4, columns 2 (lane % 4) and the next. */
struct fragments {
    uint32_t middle, low, high; /* (h, h, l, l), (l, l, 0, 0), (0, 0, h, h) */
    int start[4];               /* of the first pass's sums: 0, 0, and its rounding twice */
};

/* A number that the compiler keeps in a register instead of making it anew for each use. */
__device__ __forceinline__ int kept(int x)
{
    asm volatile("mov.s32 %0, %0;" : "+r"(x));
    return x;
}

__device__ __forceinline__ fragments load_fragments(int lane)
{
    const int a = matrix[lane / 4][lane % 4 * 2], b = matrix[lane / 4][lane % 4 * 2 + 1];
    const int l0 = (int8_t)a, l1 = (int8_t)b, h0 = (a - l0) >> 8, h1 = (b - l1) >> 8;
    const uint32_t l = (uint32_t)(l0 & 255) | (uint32_t)(l1 & 255) << 8,
                   h = (uint32_t)(h0 & 255) | (uint32_t)(h1 & 255) << 8;
    return {h | l << 16, l, h << 16, {kept(0), kept(0), kept(1 << 10), kept(1 << 10)}};
}

/* D = A B + C: A [16][16] in a0 (rows 0-7), a1 (rows 8-15); B [16][8]; C, D [16][8]. */
__device__ __forceinline__ void mma(int d[4], uint32_t a0, uint32_t a1, uint32_t b, int c0, int c1,
                                    int c2, int c3)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c0), "r"(c1), "r"(c2), "r"(c3));
}

/* Two samples of 16 bits to (low, low, high, high) bytes, as operands. */
__device__ __forceinline__ uint32_t split(uint32_t two)
{
    const uint32_t rounded = __vadd2(two, 0x00800080u);
    return __byte_perm(two, rounded, 0x7520);
}

/* First pass: the thread's coefficients of column lane / 4, rows 2 (lane % 4) and the next; returns
 * its samples of row lane / 4, columns 2 (lane % 4) and the next, as operand of the second. */
__device__ __forceinline__ uint32_t columns_pass(const fragments &f, uint32_t coefficients)
{
    int s[4], t[4];
    const uint32_t b = split(coefficients);
    mma(s, f.middle, f.low, b, f.start[0], f.start[1], f.start[2], f.start[3]); /* h z + l y; l z */
    mma(t, f.high, 0, b, 0, 0, 0, 0);                                           /* h y */
    const int x0 = (((t[0] << 8) + s[0]) << 8) + s[2] >> 11,
              x1 = (((t[1] << 8) + s[1]) << 8) + s[3] >> 11;
    return split(__byte_perm(x0, x1, 0x5410));
}

/* Second pass on two blocks. The result has the bytes (a, a, b, b): of block a and b samples of row
 * lane / 4, columns 2 (lane % 4) and the next, 0 .. 255. Its rounding and the 128 that is added to
 * a sample are in the DC coefficient already, as DC_EXTRA. */
__device__ __forceinline__ uint32_t rows_pass(const fragments &f, uint32_t a, uint32_t b)
{
    int s[4], t[4], u[4];
    mma(s, a, b, f.middle, 0, 0, 0, 0);
    mma(t, a, b, f.high, 0, 0, 0, 0);
    mma(u, a, b, f.low, 0, 0, 0, 0);
    int x[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        x[k] = (((t[k] << 8) + s[k]) << 8) + u[k] >> 18;
    uint32_t high, both;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(x[3]), "r"(x[2]), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(both) : "r"(x[1]), "r"(x[0]), "r"(high));
    return both;
}

/* Shared memory of a block: coefficients by block, then rows of samples. */
struct scratch {
    uint32_t *coefficients; /* [blocks][BLOCK_WORDS], zero between uses */
    uint32_t *table;        /* [components][64], jpeg_set.scatter */
};

/* Brings the entries from `from` to `to` near. */
__device__ __forceinline__ void prefetch(const uint32_t *entries, uint32_t from, uint32_t to)
{
    for (uint32_t k = from + threadIdx.x * 32; k < to; k += THREADS * 32)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(entries + k));
}

/* Puts the coefficients of one row of MCUs in their places, DC differences as they are; false if a
 * column is out of range. */
template <int BLOCKS> /* of an MCU */
__device__ __forceinline__ bool scatter_row(const scratch &m, const uint32_t *entries, uint32_t n,
                                            int first_block)
{
    bool good = true;
    for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
        const uint32_t e = entries[k], block = e >> 6 & 1023;
        const uint32_t inside = block % BLOCKS;
        const uint32_t component = BLOCKS == 1           ? 0
                                   : BLOCKS == 3         ? inside
                                   : inside < BLOCKS - 2 ? 0
                                                         : inside - (BLOCKS - 3);
        const uint32_t q = m.table[component * 64 + (e & 63)];
        uint32_t *to = m.coefficients + (first_block + block) * BLOCK_WORDS;
        int value = (int)e >> 20;
        if (e & 63) {
            value *= (int)(q >> 16);
            const uint32_t column = q >> 3 & 7, shift = (column & 1) * 16,
                           size = (uint32_t)abs(value);
            const uint32_t before =
                atomicAdd(to + 32 + column / 2, size << shift) >> shift & 0xffff;
            good &= before + size <= JPEG_COLUMN_SUM;
        }
        ((int16_t *)to)[q & 63] = (int16_t)value;
    }
    return good;
}

/*
 * Turns the DC differences of one component in one row of MCUs into coefficients; one warp. N
 * blocks of each MCU belong to the component, from `inside` on. *carry is the last DC value of the
 * row of MCUs before, in every thread.
 */
template <int BLOCKS, int N>
__device__ __forceinline__ bool sum_dc(const scratch &m, const struct jpeg_geometry &g,
                                       int first_block, int inside, int mcu_row, int quantiser,
                                       int *carry, int lane)
{
    bool good = true;
    for (int from = 0; from < g.mcu_cols; from += 32) {
        const int mcu = from + lane;
        const bool in = mcu < g.mcu_cols;
        uint32_t *block =
            m.coefficients + (first_block + (in ? mcu : 0) * BLOCKS + inside) * BLOCK_WORDS;
        int value[N], sum = 0;
#pragma unroll
        for (int k = 0; k < N; k++)
            value[k] = sum += in ? *(int16_t *)(block + k * BLOCK_WORDS) : 0;
        int upto = sum; /* of the MCUs from `from` to this one */
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(FULL, upto, step);
            upto += lane >= step ? other : 0;
        }
        int base = *carry + upto - sum;
        if (g.restart_interval) {
            const uint32_t heads = __ballot_sync(
                FULL, (uint32_t)(mcu_row * g.mcu_cols + mcu) % (uint32_t)g.restart_interval == 0);
            const uint32_t mine = heads & (FULL >> (31 - lane));
            const int before = __shfl_sync(FULL, upto - sum, mine ? 31 - __clz(mine) : 0);
            base = mine ? upto - sum - before : base;
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int dc = (base + value[k]) * quantiser;
            if (in) {
                good &= abs(base + value[k]) <= JPEG_COLUMN_SUM &&
                        abs(dc) + (int)(block[k * BLOCK_WORDS + 32] & 0xffff) <= JPEG_COLUMN_SUM;
                *(int16_t *)(block + k * BLOCK_WORDS) = (int16_t)(dc + DC_EXTRA);
            }
        }
        *carry = __shfl_sync(FULL, base + sum, min(31, g.mcu_cols - 1 - from));
    }
    return good;
}

/* The thread's two coefficients of a block. */
__device__ __forceinline__ uint32_t peek(const uint32_t *block, int lane)
{
    return block[lane];
}

/* Leaves zeros in n blocks that the warp has read. */
__device__ __forceinline__ void wipe(uint32_t *blocks, int n, int lane)
{
    __syncwarp();
    for (int k = lane; k < n * (BLOCK_WORDS / 4); k += 32)
        ((uint4 *)blocks)[k] = make_uint4(0, 0, 0, 0);
}

#endif
