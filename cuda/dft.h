/*
 * dft.h - complex numbers and small transforms in registers.
 */
#ifndef WSI_DFT_H
#define WSI_DFT_H

#ifdef __CUDACC__
struct c32 {
    float x, y;
};

__device__ __forceinline__ c32 operator+(c32 a, c32 b)
{
    return {a.x + b.x, a.y + b.y};
}
__device__ __forceinline__ c32 operator-(c32 a, c32 b)
{
    return {a.x - b.x, a.y - b.y};
}
__device__ __forceinline__ c32 operator*(c32 a, c32 b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ c32 minus_i(c32 a)
{
    return {a.y, -a.x};
}

/* In place, natural order in and out. */

__device__ __forceinline__ void dft4(c32 &a, c32 &b, c32 &c, c32 &d)
{
    const c32 s = a + c, t = a - c, u = b + d, v = minus_i(b - d);
    a = s + u;
    b = t + v;
    c = s - u;
    d = t - v;
}

__device__ __forceinline__ void dft8(c32 *v)
{
    const float h = 0.70710678118654752f;
    dft4(v[0], v[2], v[4], v[6]);
    dft4(v[1], v[3], v[5], v[7]);
    const c32 b0 = v[1], b1 = {h * (v[3].x + v[3].y), h * (v[3].y - v[3].x)}, b2 = minus_i(v[5]),
              b3 = {h * (v[7].y - v[7].x), -h * (v[7].x + v[7].y)};
    const c32 a0 = v[0], a1 = v[2], a2 = v[4], a3 = v[6];
    v[0] = a0 + b0;
    v[1] = a1 + b1;
    v[2] = a2 + b2;
    v[3] = a3 + b3;
    v[4] = a0 - b0;
    v[5] = a1 - b1;
    v[6] = a2 - b2;
    v[7] = a3 - b3;
}

__device__ __forceinline__ void dft16(c32 *v)
{
    const float c = 0.92387953251128674f, s = 0.38268343236508977f, h = 0.70710678118654752f;
#pragma unroll
    for (int k = 0; k < 4; k++)
        dft4(v[k], v[k + 4], v[k + 8], v[k + 12]);
    v[5] = v[5] * c32{c, -s};
    v[6] = {h * (v[6].x + v[6].y), h * (v[6].y - v[6].x)};
    v[7] = v[7] * c32{s, -c};
    v[9] = {h * (v[9].x + v[9].y), h * (v[9].y - v[9].x)};
    v[10] = minus_i(v[10]);
    v[11] = {h * (v[11].y - v[11].x), -h * (v[11].x + v[11].y)};
    v[13] = v[13] * c32{s, -c};
    v[14] = {h * (v[14].y - v[14].x), -h * (v[14].x + v[14].y)};
    v[15] = v[15] * c32{-c, s};
#pragma unroll
    for (int k = 0; k < 16; k += 4)
        dft4(v[k], v[k + 1], v[k + 2], v[k + 3]);
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int p = q + 1; p < 4; p++) {
            const c32 t = v[4 * q + p];
            v[4 * q + p] = v[4 * p + q];
            v[4 * p + q] = t;
        }
}
#endif

#endif
