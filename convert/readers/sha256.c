/* sha256.c - see sha256.h. */
#include "convert/readers/sha256.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 64 };

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t v, int bits)
{
    return v >> bits | v << (32 - bits);
}

/* The 64 words of a block's message schedule. */
static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int k = 0; k < 16; k++)
        w[k] = (uint32_t)block[4 * k] << 24 | (uint32_t)block[4 * k + 1] << 16 |
               (uint32_t)block[4 * k + 2] << 8 | block[4 * k + 3];
    for (int k = 16; k < 64; k++) {
        const uint32_t a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + w[k - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void add_block(uint32_t hash[8], const uint8_t *block)
{
    uint32_t w[64], s[8]; /* s: the working variables a to h */
    schedule(block, w);
    memcpy(s, hash, sizeof s);
    for (int k = 0; k < 64; k++) {
        const uint32_t e = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        const uint32_t a = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        const uint32_t t1 = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[k] + w[k];
        const uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int k = 0; k < 8; k++)
        hash[k] += s[k];
}

void sha256_text(const void *bytes, size_t n, char text[SHA256_TEXT])
{
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t end[2 * BLOCK] = {0};
    const uint8_t *p = bytes;
    const size_t left = n % BLOCK, ends = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    assert(n <= SHA256_MOST);
    for (size_t at = 0; at + BLOCK <= n; at += BLOCK)
        add_block(hash, p + at);
    memcpy(end, p + (n - left), left);
    end[left] = 0x80;
    for (size_t k = 0; k < 4; k++) /* the length in bits, big endian */
        end[ends - 1 - k] = (uint8_t)(8 * n >> 8 * k);
    for (size_t at = 0; at < ends; at += BLOCK)
        add_block(hash, end + at);
    for (int k = 0; k < 8; k++)
        snprintf(text + 8 * k, 9, "%08x", hash[k]);
}
