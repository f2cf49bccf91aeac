/* h5sum.c - see h5sum.h. As a program: "h5sum FILE" prints offset, length and place of the hash of
 * each block; "h5sum FILE OFFSET:BYTES:HASH ..." repairs these blocks in place. */
#include "h5sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 4096, /* finding takes the square of it; our blocks have some 2,100 */
    SMALLEST_HEAP_BLOCK = 512,
    LARGEST_HEAP_BLOCK = 65536,
};

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

/* A direct block of a fractal heap: a power of two. Signature, version, address of the header 8,
 * offset 4 (links) or 5 (attributes), hash. */
static size_t heap_block(const uint8_t *p, size_t room, size_t *hash)
{
    uint8_t copy[LARGEST_HEAP_BLOCK];
    for (*hash = 17; *hash <= 18; ++*hash)
        for (size_t n = SMALLEST_HEAP_BLOCK; n <= room && n <= sizeof copy; n *= 2) {
            memcpy(copy, p, n);
            memset(copy + *hash, 0, 4);
            if (lookup3(copy, n) == word(p + *hash, 4))
                return n;
        }
    return 0;
}

/* The length of the block that begins here, or 0. */
static size_t block_at(const uint8_t *p, size_t room, size_t *hash)
{
    if (!is_signature(p))
        return 0;
    return memcmp(p, "FHDB", 4) ? *hash = fitting_length(p, room) : heap_block(p, room, hash);
}

size_t h5sum_find(const uint8_t *file, size_t n, struct h5sum_block *blocks, size_t most)
{
    size_t found = 0;
    if (n >= 48 && most > 0 && lookup3(file, 44) == word(file + 44, 4))
        blocks[found++] = (struct h5sum_block){0, 44, 44};
    for (size_t at = 48; at + 8 <= n && found < most; at++) {
        size_t hash;
        const size_t bytes = block_at(file + at, n - at, &hash);
        if (bytes) {
            blocks[found++] = (struct h5sum_block){at, bytes, hash};
            at += (hash < bytes ? bytes : bytes + 4) - 1;
        }
    }
    return found;
}

void h5sum_repair(uint8_t *file, size_t n, const struct h5sum_block *blocks, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct h5sum_block *b = &blocks[k];
        const size_t bytes = b->hash < b->bytes ? b->bytes : b->bytes + 4;
        if (b->offset > n || bytes > n - b->offset)
            continue;
        uint8_t *p = file + b->offset;
        memset(p + b->hash, 0, 4);
        const uint32_t hash = lookup3(p, b->bytes);
        for (size_t i = 0; i < 4; i++)
            p[b->hash + i] = (uint8_t)(hash >> (8 * i));
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
            printf("%zu:%zu:%zu\n", blocks[k].offset, blocks[k].bytes, blocks[k].hash);
    } else {
        for (int k = 2; k < argc && count < sizeof blocks / sizeof *blocks; k++)
            if (sscanf(argv[k], "%zu:%zu:%zu", &blocks[count].offset, &blocks[count].bytes,
                       &blocks[count].hash) == 3)
                count++;
        h5sum_repair(file, n, blocks, count);
        status = save(argv[1], file, n);
    }
    free(file);
    return status;
}
#endif
