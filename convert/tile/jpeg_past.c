/* jpeg_past.c - see jpeg_past.h. */
#include "convert/tile/jpeg_past.h"

#include "common/codec/jpeg_stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH = 500, FREQUENCIES = 128 }; /* blocks of a coefficient; steps of f */

/* --- quality and subsampling --- */

/* ITU-T T.81, table K.1, row by row. */
static const uint8_t standard[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
};

/* How far a table in zigzag order is from that of an IJG quality. */
static long distance(const uint16_t *table, int quality)
{
    const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    long sum = 0;
    for (int z = 0; z < 64; z++) {
        const int q = (standard[jpeg_zigzag[z]] * scale + 50) / 100;
        sum += labs((long)table[z] - (q < 1 ? 1 : q > 255 ? 255 : q));
    }
    return sum;
}

static int nearest_quality(const uint16_t *table)
{
    int best = 100;
    long least = distance(table, best);
    for (int q = 99; q >= 1; q--) {
        const long d = distance(table, q);
        if (d < least) {
            least = d;
            best = q;
        }
    }
    return best;
}

static const char *subsampling_of(const struct jpeg_header *h)
{
    static const struct {
        int h, v;
        const char *name;
    } known[] = {
        {1, 1, "4:4:4"}, {2, 1, "4:2:2"}, {2, 2, "4:2:0"}, {1, 2, "4:4:0"}, {4, 1, "4:1:1"}};
    const struct jpeg_component *c = h->component;
    if (h->components == 1)
        return "gray";
    if (c[1].h != c[2].h || c[1].v != c[2].v)
        return "other";
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (c[0].h == known[k].h * c[1].h && c[0].v == known[k].v * c[1].v)
            return known[k].name;
    return "other";
}

/* Takes the tables of a tile, or of tiles, into account. */
static void note(struct jpeg_past *p, int64_t tiles, int quality, const char *subsampling)
{
    if (p->tiles == 0 || quality < p->quality)
        p->quality = quality;
    if (p->tiles > 0 && strcmp(p->subsampling, subsampling))
        subsampling = "other";
    snprintf(p->subsampling, sizeof p->subsampling, "%s", subsampling);
    p->tiles += tiles;
}

int jpeg_past_add(struct jpeg_past *p, struct jpeg_decoder *d, const struct jpeg_chunk *tile,
                  struct jpeg_blocks *blocks, struct err *e)
{
    struct jpeg_header h;
    if (jpeg_header_read(&h, tile->bytes, tile->n, e))
        return JPEG_DAMAGED;
    const int r = jpeg_count(d, tile->bytes, tile->n, &p->counts, blocks, e);
    if (r)
        return r;
    note(p, 1, nearest_quality(h.quant[h.component[0].quant]), subsampling_of(&h));
    return 0;
}

void jpeg_past_join(struct jpeg_past *p, const struct jpeg_past *other)
{
    if (other->tiles == 0)
        return;
    note(p, other->tiles, other->quality, other->subsampling);
    for (int z = 0; z < JPEG_LOW; z++)
        for (int k = 0; k <= JPEG_LEVELS; k++)
            p->counts.n[z][k] += other->counts.n[z][k];
}

/* --- compressed twice --- */

/* The largest rise of S(f), times the number of blocks. */
static double largest_rise(const uint32_t *n)
{
    double lowest = INFINITY, rise = 0;
    for (int f = 0; f <= FREQUENCIES; f++) {
        double s = 0;
        for (int k = 1; k <= JPEG_LEVELS; k++)
            s += n[k] * cos(acos(-1) * f * k / FREQUENCIES);
        lowest = s < lowest ? s : lowest;
        rise = s - lowest > rise ? s - lowest : rise;
    }
    return rise;
}

double jpeg_past_twice(const struct jpeg_past *p)
{
    double sum = 0;
    int used = 0;
    for (int z = 0; z < JPEG_LOW; z++) {
        double blocks = 0;
        for (int k = 1; k <= JPEG_LEVELS; k++)
            blocks += p->counts.n[z][k];
        if (blocks < ENOUGH)
            continue;
        sum += largest_rise(p->counts.n[z]) / blocks;
        used++;
    }
    return used ? fmin(sum / used, 1) : NAN;
}
