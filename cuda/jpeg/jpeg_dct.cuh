/*
 * jpeg_dct.cuh - dequantisation and inverse DCT of the kernels in jpeg_pixels.cu.
 *
 * The inverse DCT is libjpeg's "islow" (jidctint.c: Loeffler, Ligtenberg and Moschytz 1989,
 * constants of 13 bits): columns, a rounding shift by 11, rows, a rounding shift by 18. Between the
 * roundings it only adds and multiplies whole numbers, so a pass is a product with a fixed integer
 * matrix M, exactly. M is cut into two signed bytes, M = 256 h + l. So are the samples, x = 256 y +
 * z, with z unsigned: they are the bytes of x as it lies in memory. Then
 *
 *     M x = 65536 h y + 256 (h z + l y) + l z
 *
 * is computed by the tensor cores (mma.m16n8k16, bytes, 32-bit sums), which read x once as unsigned
 * and once as signed bytes; zeros of the other operand leave out those that are not meant. The
 * fragments are chosen so that a thread's results of the first pass are its operands of the second;
 * no thread needs another's.
 *
 * libjpeg-turbo's SIMD code works in 16 bits between the passes. It agrees with the matrix as long
 * as the absolute coefficients of a column add up to at most JPEG_COLUMN_SUM (then no sum reaches
 * 2^15). Every image of 8 bits is far below it, up to its quantisation error; tiles that exceed it
 * go to the host.
 */
#ifndef WSI_JPEG_DCT_CUH
#define WSI_JPEG_DCT_CUH

#include "cuda/jpeg/jpeg_tables.h"

#include <stdint.h>

enum {
    THREADS = 128,
    COLUMN_SUMS = 32, /* words per block of samples: 64 coefficients of 16 bits, 8 column sums */
    BLOCK_WORDS = 40,
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

/* Of the first pass, / 256. Not a constant to the compiler, which would add it on its own. */
__device__ __constant__ int first_rounding = (1 << 10) / 256;

/* The thread's parts of M: of row lane / 4, columns 2 (lane % 4) and the next. */
struct fragments {
    uint32_t low_h, low_l;   /* (h, 0, h, 0), (l, 0, l, 0): for the unsigned bytes of samples */
    uint32_t high_l, high_h; /* (0, l, 0, l), (0, h, 0, h): for their signed bytes */
};

__device__ __forceinline__ fragments load_fragments(int lane)
{
    const int a = matrix[lane / 4][lane % 4 * 2], b = matrix[lane / 4][lane % 4 * 2 + 1];
    const int l0 = (int8_t)a, l1 = (int8_t)b, h0 = (a - l0) >> 8, h1 = (b - l1) >> 8;
    const uint32_t l = (uint32_t)(l0 & 255) | (uint32_t)(l1 & 255) << 16,
                   h = (uint32_t)(h0 & 255) | (uint32_t)(h1 & 255) << 16;
    return {h, l, l << 8, h << 8};
}

/* D = A B + C: A [16][16] in a0 (rows 0-7), a1 (rows 8-15); B [16][8]; C, D [16][8]. */
#define MMA(name, a_type, b_type)                                                                  \
    __device__ __forceinline__ void name(int d[4], uint32_t a0, uint32_t a1, uint32_t b, int c0,   \
                                         int c1, int c2, int c3)                                   \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.s32." a_type "." b_type ".s32 {%0,%1,%2,%3}, "      \
            "{%4,%5}, {%6}, {%7,%8,%9,%10};"                                                       \
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                       \
            : "r"(a0), "r"(a1), "r"(b), "r"(c0), "r"(c1), "r"(c2), "r"(c3));                       \
    }
MMA(mma_signed, "s8", "s8")
MMA(mma_b_unsigned, "s8", "u8")
MMA(mma_a_unsigned, "u8", "s8")
#undef MMA

/* First pass: the thread's coefficients of column lane / 4, rows 2 (lane % 4) and the next; returns
 * its samples of row lane / 4, columns 2 (lane % 4) and the next, as operand of the second. */
__device__ __forceinline__ uint32_t columns_pass(const fragments &f, uint32_t coefficients)
{
    int s[4], t[4];
    mma_b_unsigned(s, f.low_h, f.low_l, coefficients, 0, 0, 0, 0); /* h z; l z */
    mma_signed(t, f.high_h, f.high_l, coefficients, 0, 0, 0, 0);   /* h y; l y */
    const int x0 = (((t[0] << 8) + s[0] + t[2] + first_rounding) << 8) + s[2] >> 11,
              x1 = (((t[1] << 8) + s[1] + t[3] + first_rounding) << 8) + s[3] >> 11;
    return __byte_perm(x0, x1, 0x5410);
}

/* Second pass on two blocks. The result has the bytes (a, a, b, b): of block a and b samples of row
 * lane / 4, columns 2 (lane % 4) and the next, 0 .. 255. Its rounding and the 128 that is added to
 * a sample are in the DC coefficient already, as DC_EXTRA. */
__device__ __forceinline__ uint32_t rows_pass(const fragments &f, uint32_t a, uint32_t b)
{
    int s[4], t[4], u[4];
    mma_a_unsigned(u, a, b, f.low_l, 0, 0, 0, 0);          /* l z */
    mma_a_unsigned(s, a, b, f.low_h, 0, 0, 0, 0);          /* h z */
    mma_signed(s, a, b, f.high_l, s[0], s[1], s[2], s[3]); /* h z + l y */
    mma_signed(t, a, b, f.high_h, 0, 0, 0, 0);             /* h y */
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
    uint32_t *table;        /* [blocks of an MCU][64 in zigzag order], as table_entry() makes it */
};

/* What scatter_row() needs of an entry of jpeg_set.scatter: the quantiser, the bytes from the block
 * to the sum of the column and to the coefficient. DC differences are not multiplied yet. */
__device__ __forceinline__ uint32_t table_entry(uint32_t q, int k)
{
    return (k ? q & 0xffff0000 : 1 << 16) | (COLUMN_SUMS + (q >> 3 & 7)) * 4 << 8 | (q & 63) * 2;
}

/* The component of a block of an MCU. */
template <int BLOCKS> __device__ __forceinline__ int component_of(int block)
{
    return BLOCKS <= 3 ? block : max(block - (BLOCKS - 3), 0);
}

template <int BLOCKS>
__device__ __forceinline__ void fill_table(const struct jpeg_set *set, uint32_t *table)
{
    for (int k = threadIdx.x; k < BLOCKS * 64; k += THREADS)
        table[k] = table_entry(set->scatter[component_of<BLOCKS>(k / 64)][k % 64], k % 64);
}

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
    uint32_t most = 0;
    for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
        const uint32_t e = entries[k], place = e & 0xffff;
        const uint32_t mcu = __umulhi(place, (1u << 26) / BLOCKS + 1); /* place / (64 BLOCKS) */
        const uint32_t q = m.table[place - mcu * 64 * BLOCKS];
        char *to = (char *)(m.coefficients + (first_block + (place >> 6)) * BLOCK_WORDS);
        const int value = ((int)e >> 20) * (int)(q >> 16);
        const uint32_t size = e & 63 ? (uint32_t)abs(value) : 0;
        most = max(most, atomicAdd((uint32_t *)(to + (q >> 8 & 255)), size) + size);
        *(int16_t *)(to + (q & 255)) = (int16_t)value;
    }
    return most <= JPEG_COLUMN_SUM;
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
                        abs(dc) + (int)block[k * BLOCK_WORDS + COLUMN_SUMS] <= JPEG_COLUMN_SUM;
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

/* Leaves zeros in n <= 6 blocks that the warp has read. */
__device__ __forceinline__ void wipe(uint32_t *blocks, int n, int lane)
{
    const int words = n * (BLOCK_WORDS / 4); /* of 16 bytes, at most 64 */
    uint4 *to = (uint4 *)blocks + lane;
    __syncwarp();
    if (lane < words)
        to[0] = make_uint4(0, 0, 0, 0);
    if (lane + 32 < words)
        to[32] = make_uint4(0, 0, 0, 0);
}

/*
 * --- colours ---
 *
 * From samples of Y, Cb and Cr to R, G and B, as libjpeg-turbo computes them.
 */

/*
 * Four pixels of YCbCr to R, G and B in the bytes of three words: BT.601 full range as libjpeg
 * computes it, with 16 bits of fraction. cb and cr are 128 less.
 */
__device__ __forceinline__ void rgb_of(uint32_t y, const int *cb, const int *cr, uint32_t *rgb)
{
    int x[3][4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int base = (int)__byte_perm(y, 0x8000, 0x4054 | k << 8); /* y << 16, and a half */
        x[0][k] = base + 91881 * cr[k] >> 16;
        x[1][k] = base - 46802 * cr[k] - 22554 * cb[k] >> 16;
        x[2][k] = base + 116130 * cb[k] >> 16;
    }
#pragma unroll
    for (int c = 0; c < 3; c++) {
        uint32_t high;
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
            : "=r"(high)
            : "r"(x[c][3]), "r"(x[c][2]), "r"(0));
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
            : "=r"(rgb[c])
            : "r"(x[c][1]), "r"(x[c][0]), "r"(high));
    }
}

/* The same with all three components in the bytes of words. */
__device__ __forceinline__ void to_rgb4(uint32_t c[3])
{
    int cb[4], cr[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        cb[k] = (int)(c[1] >> 8 * k & 255) - 128;
        cr[k] = (int)(c[2] >> 8 * k & 255) - 128;
    }
    rgb_of(c[0], cb, cr, c);
}

/* Samples 0, 1 and 2, 3 of a word, 16 bits each. */
__device__ __forceinline__ uint32_t low_two(uint32_t w)
{
    return __byte_perm(w, 0, 0x4140);
}

__device__ __forceinline__ uint32_t high_two(uint32_t w)
{
    return __byte_perm(w, 0, 0x4342);
}

/*
 * Interpolates four samples of chroma to eight (jdsample.c, h2v1_fancy_upsample and
 * h2v2_fancy_upsample): weights 3/4 and 1/4, first down, between the row that the pixels lie in and
 * the next one on their side, then across. Beyond the ends the last sample repeats. All threads of
 * a warp; each has the samples behind those of the thread before. out: 8 values, less 128.
 */
template <int V>
__device__ __forceinline__ void upsample(const uint8_t *near, const uint8_t *far, int x, int last,
                                         int lane, int *out)
{
    const uint32_t n = *(const uint32_t *)(near + x);
    uint32_t a = low_two(n), b = high_two(n);
    if (V == 2) {
        const uint32_t f = *(const uint32_t *)(far + x);
        a = a * 3 + low_two(f);
        b = b * 3 + high_two(f);
    }
    if (last < x + 3) { /* the row ends within these samples */
        const uint32_t end = last <= x ? a & 0xffff : last == x + 1 ? a >> 16 : b & 0xffff;
        a = last <= x ? end * 0x10001 : a;
        b = last <= x + 1 ? end * 0x10001 : __byte_perm(b, end, 0x5410);
    }
    uint32_t before = __shfl_up_sync(0xffffffff, b, 1) >> 16,
             behind = __shfl_down_sync(0xffffffff, a, 1) & 0xffff;
    if (lane == 0)
        before = x == 0 ? a & 0xffff : V == 2 ? 3 * near[x - 1] + far[x - 1] : near[x - 1];
    if (x + 3 >= last)
        behind = b >> 16;
    else if (lane == 31)
        behind = V == 2 ? 3 * near[x + 4] + far[x + 4] : near[x + 4];
    const uint32_t middle = __byte_perm(a, b, 0x5432);
    const uint32_t left = V == 2 ? 0x00080008u : 0x00010001u,
                   right = V == 2 ? 0x00070007u : 0x00020002u;
    const int shift = V == 2 ? 4 : 2;
    const uint32_t l[2] = {a * 3 + (a << 16 | before) + left, b * 3 + middle + left};
    const uint32_t r[2] = {a * 3 + middle + right, b * 3 + (b >> 16 | behind << 16) + right};
#pragma unroll
    for (int k = 0; k < 2; k++) {
        out[4 * k] = (int)((l[k] & 0xffff) >> shift) - 128;
        out[4 * k + 1] = (int)((r[k] & 0xffff) >> shift) - 128;
        out[4 * k + 2] = (int)(l[k] >> 16 >> shift) - 128;
        out[4 * k + 3] = (int)(r[k] >> 16 >> shift) - 128;
    }
}

/* Four pixels from words of R, G and B to 12 bytes. */
__device__ __forceinline__ void put_four(uint32_t *to, const uint32_t *rgb)
{
    const uint32_t first = __byte_perm(rgb[0], rgb[1], 0x5140),
                   second = __byte_perm(rgb[0], rgb[1], 0x7362);
    to[0] = __byte_perm(first, rgb[2], 0x2410);
    to[1] = __byte_perm(__byte_perm(first, rgb[2], 0x0053), second, 0x5410);
    to[2] = __byte_perm(rgb[2], second, 0x3762);
}

#endif
