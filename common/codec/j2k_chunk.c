/* j2k_chunk.c - see j2k_chunk.h. Boxes: ISO/IEC 15444-1, annex I; codestream: annex A. */
#include "common/codec/j2k_chunk.h"

#include <stdlib.h>
#include <string.h>

enum {
    SOC = 0xff4f,
    COD = 0xff52,
    COM = 0xff64,
    SOT = 0xff90,
    SOD = 0xff93,
    EOC = 0xffd9,
    SOT_BYTES = 12,
    COD_BYTES = 12, /* at least */
};

static uint32_t u16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) << 16 | u16(p + 2);
}

static void put_u32(uint8_t *p, uint64_t v)
{
    for (int k = 0; k < 4; k++)
        p[k] = (uint8_t)(v >> (24 - 8 * k));
}

/* The boxes before a codestream of n bytes. */
static void make_head(const struct j2k_picture *p, uint64_t n, uint8_t head[J2K_HEAD])
{
    enum { HEIGHT = 48, WIDTH = 52, COLOURS = 76, LENGTH = 77, SRGB = 16, SYCC = 18 };
    static const uint8_t boxes[J2K_HEAD + 1] =
        "\0\0\0\x0cjP  \r\n\x87\n" /* signature */
        "\0\0\0\x14"
        "ftypjp2 \0\0\0\0jp2 "                       /* file type */
        "\0\0\0\x2djp2h"                             /* header, of two boxes: */
        "\0\0\0\x16ihdr\0\0\0\0\0\0\0\0\0\3\7\7\0\0" /* size; 3 components of 8 bits */
        "\0\0\0\x0f"
        "colr\1\0\0\0\0\0\0" /* an enumerated colour space */
        "\0\0\0\0jp2c";      /* the codestream */
    memcpy(head, boxes, J2K_HEAD);
    put_u32(head + HEIGHT, (uint64_t)p->rows);
    put_u32(head + WIDTH, (uint64_t)p->cols);
    head[COLOURS] = p->ycbcr ? SYCC : SRGB;
    put_u32(head + LENGTH, n + 8);
}

/* The segment at `at`: its length with the marker; 0: it is not in the stream. */
static size_t segment(const uint8_t *b, size_t n, size_t at)
{
    if (at > n || n - at < 4 || b[at] != 0xff)
        return 0;
    const size_t length = 2 + u16(b + at + 2);
    return length >= 4 && length <= n - at ? length : 0;
}

/* Walks the parts of tiles from `at` to EOC, after which *stop is. NULL, or what is odd. */
static const char *walk_parts(const uint8_t *b, size_t n, size_t at, size_t *stop)
{
    static const char broken[] = "JPEG 2000 whose parts do not follow each other";
    while (n - at > SOT_BYTES && u16(b + at) == SOT) {
        const size_t psot = u32(b + at + 6);
        size_t k = at + SOT_BYTES, length;
        const size_t end = psot ? at + psot : n - 2;
        if (end > n - 2 || end < k)
            return broken;
        for (; k + 2 <= end && u16(b + k) != SOD; k += length) {
            if (u16(b + k) == COM)
                return "JPEG 2000 with comments among its tiles";
            if ((length = segment(b, end, k)) == 0)
                return broken;
        }
        at = end;
    }
    *stop = at + 2;
    return n - at >= 2 && u16(b + at) == EOC ? NULL : broken;
}

int j2k_chunk_make(struct jpeg_chunk *c, const struct j2k_picture *p, const uint8_t *b, size_t n,
                   struct err *e)
{
    const char *odd = "JPEG 2000 with a damaged header";
    size_t at = 2, stop = 0, length;
    if (n + J2K_HEAD > c->room) {
        free(c->bytes);
        c->room = 0;
        if (!(c->bytes = malloc(n + J2K_HEAD))) {
            err_set(e, "out of memory");
            return J2K_NO_MEMORY;
        }
        c->room = n + J2K_HEAD;
    }
    c->n = J2K_HEAD;
    if (n > 4 && u16(b) == SOC) {
        memcpy(c->bytes + c->n, b, 2);
        c->n += 2;
        for (; (length = segment(b, n, at)) && u16(b + at) != SOT; at += length)
            if (u16(b + at) != COM) {
                memcpy(c->bytes + c->n, b + at, length);
                c->n += length;
            }
        if (length)
            odd = walk_parts(b, n, at, &stop);
    }
    if (odd) {
        err_set(e, "%s", odd);
        return J2K_CHUNK_OTHER;
    }
    memcpy(c->bytes + c->n, b + at, stop - at);
    c->n += stop - at;
    make_head(p, c->n - J2K_HEAD, c->bytes);
    return 0;
}

struct j2k_coding j2k_chunk_coding(const uint8_t *b, size_t n)
{
    enum { TRANSFORM = 8, DECOMPOSITIONS = 9 };
    size_t length;
    for (size_t at = 2; (length = segment(b, n, at)) && u16(b + at) != SOT; at += length)
        if (u16(b + at) == COD && length >= COD_BYTES)
            return (struct j2k_coding){b[at + TRANSFORM] == 1, b[at + DECOMPOSITIONS]};
    return (struct j2k_coding){0};
}

bool j2k_chunk_read(struct j2k_picture *p, int64_t cols, int64_t rows, const uint8_t *bytes,
                    size_t n)
{
    uint8_t head[J2K_HEAD];
    if (n < J2K_HEAD)
        return false;
    for (int k = 0; k < 2; k++) {
        *p = (struct j2k_picture){.cols = cols, .rows = rows, .ycbcr = k == 1};
        make_head(p, n - J2K_HEAD, head);
        if (!memcmp(bytes, head, J2K_HEAD))
            return true;
    }
    return false;
}
