/* h5sum.c - see h5sum.h. As a program: "h5sum FILE" prints offset and length of each block;
 * "h5sum FILE OFFSET:BYTES ..." repairs these blocks in place. */
#include "h5sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 4096 }; /* finding takes the square of it; our blocks have some 2,100 */

static uint32_t rotated(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const uint8_t *p, size_t n)
{
    uint32_t w = 0;
    for (size_t k = 0; k < 4 && k < n; k++)
        w |= (uint32_t)p[k] << (8 * k);
    return w;
}

/* lookup3's hashlittle() with initval 0. */
static uint32_t lookup3(const uint8_t *p, size_t n)
{
    uint32_t a = 0xdeadbeef + (uint32_t)n, b = a, c = a;
    for (; n > 12; p += 12, n -= 12) {
        a += word(p, 4), b += word(p + 4, 4), c += word(p + 8, 4);
        a -= c, a ^= rotated(c, 4), c += b;
        b -= a, b ^= rotated(a, 6), a += c;
        c -= b, c ^= rotated(b, 8), b += a;
        a -= c, a ^= rotated(c, 16), c += b;
        b -= a, b ^= rotated(a, 19), a += c;
        c -= b, c ^= rotated(b, 4), b += a;
    }
    if (n == 0)
        return c;
    a += word(p, n);
    b += n > 4 ? word(p + 4, n - 4) : 0;
    c += n > 8 ? word(p + 8, n - 8) : 0;
    c ^= b, c -= rotated(b, 14);
    a ^= c, a -= rotated(c, 11);
    b ^= a, b -= rotated(a, 25);
    c ^= b, c -= rotated(b, 16);
    a ^= c, a -= rotated(c, 4);
    b ^= a, b -= rotated(a, 14);
    c ^= b, c -= rotated(b, 24);
    return c;
}

static int is_signature(const uint8_t *p)
{
    if (!strchr("OFBESH", p[0]) || p[0] == 0) /* nearly all bytes end here */
        return 0;
    static const char known[] = "OHDROCHKFRHPFHDBFHIBBTHDBTINBTLF"
                                "EAHDEAIBEASBEADBFAHDFADBFSHDFSSESMTBSMLI";
    for (size_t k = 0; k + 4 < sizeof known; k += 4)
        if (!memcmp(p, known + k, 4))
            return 1;
    return 0;
}

/* The length at which the hash behind it fits, or 0. */
static size_t fitting_length(const uint8_t *p, size_t room)
{
    for (size_t n = 4; n + 4 <= room && n < MOST_BYTES; n++)
        if (lookup3(p, n) == word(p + n, 4))
            return n;
    return 0;
}

size_t h5sum_find(const uint8_t *file, size_t n, struct h5sum_block *blocks, size_t most)
{
    size_t found = 0;
    if (n >= 48 && most > 0 && lookup3(file, 44) == word(file + 44, 4))
        blocks[found++] = (struct h5sum_block){0, 44};
    for (size_t at = 48; at + 8 <= n && found < most; at++) {
        const size_t bytes = is_signature(file + at) ? fitting_length(file + at, n - at) : 0;
        if (bytes) {
            blocks[found++] = (struct h5sum_block){at, bytes};
            at += bytes + 3;
        }
    }
    return found;
}

void h5sum_repair(uint8_t *file, size_t n, const struct h5sum_block *blocks, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        if (blocks[k].offset > n || blocks[k].bytes + 4 > n - blocks[k].offset)
            continue;
        uint8_t *p = file + blocks[k].offset;
        const uint32_t hash = lookup3(p, blocks[k].bytes);
        for (int b = 0; b < 4; b++)
            p[blocks[k].bytes + (size_t)b] = (uint8_t)(hash >> (8 * b));
    }
}

#ifdef H5SUM_MAIN
static uint8_t *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size;
    if (f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) >= 0 &&
        (bytes = malloc((size_t)size + 1))) {
        rewind(f);
        *n = fread(bytes, 1, (size_t)size, f);
    }
    if (f)
        fclose(f);
    return bytes;
}

static int save(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    const int good = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && good ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct h5sum_block blocks[65536];
    size_t n = 0, count = 0;
    uint8_t *file = argc > 1 ? load(argv[1], &n) : NULL;
    int status = 0;
    if (!file)
        return 2;
    if (argc == 2) {
        count = h5sum_find(file, n, blocks, sizeof blocks / sizeof *blocks);
        for (size_t k = 0; k < count; k++)
            printf("%zu:%zu\n", blocks[k].offset, blocks[k].bytes);
    } else {
        for (int k = 2; k < argc && count < sizeof blocks / sizeof *blocks; k++)
            if (sscanf(argv[k], "%zu:%zu", &blocks[count].offset, &blocks[count].bytes) == 2)
                count++;
        h5sum_repair(file, n, blocks, count);
        status = save(argv[1], file, n);
    }
    free(file);
    return status;
}
#endif
