/*
 * crc.cuh - CRC-32 (zlib's polynomial) of one chunk by several threads.
 *
 * A CRC is a polynomial over GF(2) modulo POLY, its highest power in bit 0. Thread t of T computes
 * the CRC of a piece of its own, beginning with 0; its share in the whole is that CRC times
 * x^(8 times the bytes behind the piece), and all shares are added by XOR. All pieces have
 * ceil(n / T) bytes, so the first ones may begin before the chunk: zeros there change nothing.
 */
#ifndef WSI_CRC_CUH
#define WSI_CRC_CUH

#include <stdint.h>

enum { CRC_ENTRIES = 256, CRC_TABLES = 4 };
static const uint32_t CRC_POLY = 0xedb88320u, CRC_ONE = 0x80000000u;

/* a times x. */
static __host__ __device__ inline uint32_t crc_times_x(uint32_t a)
{
    return a & 1 ? a >> 1 ^ CRC_POLY : a >> 1;
}

static __host__ __device__ inline uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = CRC_ONE; bit; bit >>= 1, b = crc_times_x(b))
        product ^= a & bit ? b : 0;
    return product;
}

/* powers[k] becomes x^(2^k). */
static inline void crc_powers(uint32_t *powers, int n)
{
    powers[0] = CRC_ONE >> 1;
    for (int k = 1; k < n; k++)
        powers[k] = crc_multiply(powers[k - 1], powers[k - 1]);
}

/* x^n for n < 2^36; by crc_powers(). */
static __host__ __device__ inline uint32_t crc_power(const uint32_t *powers, uint64_t n)
{
    uint32_t product = CRC_ONE;
    for (int k = 0; n >> k; k++)
        if (n >> k & 1)
            product = crc_multiply(powers[k], product);
    return product;
}

/* Entry k of the first table: the CRC of byte k. Those of table j are followed by j zeros. */
static __host__ __device__ inline uint32_t crc_entry(uint32_t k)
{
    for (int bit = 0; bit < 8; bit++)
        k = crc_times_x(k);
    return k;
}

/* One byte more, by the first table. */
static __host__ __device__ inline uint32_t crc_byte(const uint32_t *tables, uint32_t crc,
                                                    uint8_t byte)
{
    return tables[(crc ^ byte) & 255] ^ crc >> 8;
}

/* The CRC of n bytes, beginning with 0; tables [CRC_TABLES][CRC_ENTRIES]. */
static __host__ __device__ inline uint32_t crc_piece(const uint32_t *tables, const uint8_t *p,
                                                     uint32_t n)
{
    uint32_t crc = 0;
    for (; n > 0 && ((uintptr_t)p & 3); n--)
        crc = crc_byte(tables, crc, *p++);
    for (; n >= 4; n -= 4, p += 4) {
        crc ^= *(const uint32_t *)p;
        crc = tables[768 + (crc & 255)] ^ tables[512 + (crc >> 8 & 255)] ^
              tables[256 + (crc >> 16 & 255)] ^ tables[crc >> 24];
    }
    for (; n > 0; n--)
        crc = crc_byte(tables, crc, *p++);
    return crc;
}

/* The share of thread t of T in the CRC of n bytes at p. Thread 0 adds what CRC-32 begins with. */
static __host__ __device__ inline uint32_t crc_share(const uint32_t *tables, const uint32_t *powers,
                                                     const uint8_t *p, uint32_t n, uint32_t t,
                                                     uint32_t T)
{
    const uint32_t each = (n + T - 1) / T, before = each * T - n;
    const uint32_t begin = each * t < before ? 0 : each * t - before,
                   end = each * (t + 1) < before ? 0 : each * (t + 1) - before;
    const uint32_t crc = crc_piece(tables, p + begin, end - begin);
    const uint32_t share = crc_multiply(crc, crc_power(powers, UINT64_C(8) * (n - end)));
    return t == 0 ? share ^ crc_multiply(0xffffffffu, crc_power(powers, UINT64_C(8) * n)) : share;
}

#endif
