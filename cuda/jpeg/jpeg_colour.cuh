/*
 * jpeg_colour.cuh - from samples of Y, Cb and Cr to R, G and B, as libjpeg-turbo computes them.
 */
#ifndef WSI_JPEG_COLOUR_CUH
#define WSI_JPEG_COLOUR_CUH

#include <stdint.h>

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
