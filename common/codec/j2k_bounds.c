/* j2k_bounds.c - see j2k_bounds.h. Segments: ISO/IEC 15444-1, annex A. */
#include "common/codec/j2k_bounds.h"

#include <stdbool.h>
#include <string.h>

enum {
    COD = 0xff52,
    COC = 0xff53,
    SOT = 0xff90,
    SOD = 0xff93,
    SOT_BYTES = 12,
    MOST_DECOMPOSITIONS = 32,
    WHOLE = 15, /* the exponent of precincts that are not stated */
};

static const char broken[] = "a JPEG 2000 stream whose markers do not follow each other";
static const char too_many[] =
    "a JPEG 2000 stream with more precincts, code-blocks or layers than a decoder has memory for";

/* The coding of components, from a segment. */
struct coding {
    unsigned decompositions, block_cols, block_rows; /* exponents */
    const uint8_t *precincts;                        /* [decompositions + 1], or NULL */
};

/* The most of each, over all segments so far. */
struct most {
    double packets; /* of a layer and a component */
    double layers;
};

static unsigned u16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static size_t u32(const uint8_t *p)
{
    return (size_t)u16(p) << 16 | u16(p + 2);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Parts of 2^exponent px that n px touch at most, wherever they begin. */
static double parts(int64_t n, unsigned exponent)
{
    return (double)(n >> exponent) + 2;
}

/* Precincts and code-blocks of one resolution of a component; *packets: precincts alone. */
static double resolution_parts(const struct coding *c, unsigned r, int64_t cols, int64_t rows,
                               double *packets)
{
    const unsigned coarser = c->decompositions - r, half = r > 0;
    const unsigned px = c->precincts ? c->precincts[r] & 15 : WHOLE;
    const unsigned py = c->precincts ? c->precincts[r] >> 4 : WHOLE;
    const int64_t w = (cols >> coarser) + 1, h = (rows >> coarser) + 1;
    const unsigned bx = (unsigned)least(c->block_cols, px < half ? 0 : px - half);
    const unsigned by = (unsigned)least(c->block_rows, py < half ? 0 : py - half);
    *packets = parts(w, px) * parts(h, py);
    return (half ? 3 : 1) * (*packets + parts(w >> half, bx) * parts(h >> half, by));
}

static bool is_bounded(const struct coding *c, const struct j2k_extent *x, struct most *most)
{
    const double samples = (double)x->cols * (double)x->rows * x->components;
    double all = 0, packets = 0;
    for (unsigned r = 0; r <= c->decompositions; r++) {
        double here;
        all += resolution_parts(c, r, x->cols, x->rows, &here);
        packets = here > packets ? here : packets;
    }
    packets *= (c->decompositions + 1) * (double)x->components;
    most->packets = packets > most->packets ? packets : most->packets;
    return all * x->components <= 4096 + samples / 64 &&
           most->packets * most->layers <= (1 << 20) + 2 * samples;
}

/* The segment COD or COC of `length` bytes at p. */
static const char *check_coding(const uint8_t *p, size_t length, const struct j2k_extent *x,
                                struct most *most)
{
    enum { FIRST_COD = 9, FIRST_COC = 6, STATED = 5, MOST_EXPONENT = 8 };
    const bool cod = u16(p) == COD;
    const size_t first = cod ? FIRST_COD : FIRST_COC, precincts = first + STATED;
    if (length < precincts)
        return broken;
    const bool stated = p[cod ? 4 : 5] & 1;
    struct coding c = {p[first], (p[first + 1] & 15u) + 2, (p[first + 2] & 15u) + 2,
                       stated ? p + precincts : NULL};
    if (c.decompositions > MOST_DECOMPOSITIONS || p[first + 1] > MOST_EXPONENT ||
        p[first + 2] > MOST_EXPONENT || (stated && length < precincts + c.decompositions + 1))
        return broken;
    if (cod && u16(p + 6) > most->layers)
        most->layers = u16(p + 6);
    return is_bounded(&c, x, most) ? NULL : too_many;
}

/* Is it a marker that begins a segment of a header? Decoders differ in how they skip others. */
static bool is_known(unsigned marker)
{
    static const uint8_t known[] = "\x51\x52\x53\x55\x57\x58\x5c\x5d\x5e\x5f\x60\x61\x63\x64";
    return marker >> 8 == 0xff && memchr(known, (int)(marker & 0xff), sizeof known - 1);
}

/* Walks the segments from *at to the marker `last`, where *at is then. A stream that ends before is
 * cut off: a decoder finds no further segments, either. */
static const char *walk_header(const uint8_t *b, size_t n, size_t *at, unsigned last,
                               const struct j2k_extent *x, struct most *most)
{
    while (n - *at >= 4 && u16(b + *at) != last) {
        const uint8_t *p = b + *at;
        const size_t length = 2 + (size_t)u16(p + 2);
        if (!is_known(u16(p)) || length < 4)
            return broken;
        if (length > n - *at)
            break;
        const bool coding = u16(p) == COD || u16(p) == COC;
        const char *bad = coding ? check_coding(p, length, x, most) : NULL;
        if (bad)
            return bad;
        *at += length;
    }
    return NULL;
}

const char *j2k_bounds_check(const uint8_t *b, size_t n, const struct j2k_extent *x)
{
    struct most most = {.layers = 1};
    size_t at = 2;
    const char *bad = n < at ? broken : walk_header(b, n, &at, SOT, x, &most);
    while (!bad && n - at > SOT_BYTES && u16(b + at) == SOT) {
        const size_t part = u32(b + at + 6), begin = at;
        at += SOT_BYTES;
        bad = walk_header(b, n, &at, SOD, x, &most);
        if (part == 0 || part > n - begin)
            break;
        if (!bad && begin + part < at)
            bad = broken;
        at = begin + part;
    }
    return bad;
}
