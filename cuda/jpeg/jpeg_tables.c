/* jpeg_tables.c - look-up tables for the kernels that decode JPEG; see jpeg_tables.h. */
#include "cuda/jpeg/jpeg_tables.h"

#include <stddef.h>
#include <string.h>

enum {
    MOST_MCU_COLS = 128,
    MOST_PARTS = 16,
    MOST_RUN_BLOCKS = 153, /* whose coefficients fit COEFFICIENT_BYTES of jpeg_dct.cuh */
};

/* A symbol with its value, as far as `room` bits hold them. */
struct symbol {
    int kind;  /* enum jpeg_kind */
    int bits;  /* of code and value, or of the code alone (JPEG_VALUE) */
    int moves; /* in zigzag order */
    int value_bits;
    int value;
};

/* The code at the top of 16 bits: its length and symbol. 0: no code begins so. */
static int find_code(const struct jpeg_huffman *t, unsigned top16, int *symbol)
{
    unsigned code = 0;
    int k = 0;
    for (int n = 1; n <= 16; n++) {
        if (top16 >> (16 - n) < code + t->counts[n]) {
            *symbol = t->values[k + (int)((top16 >> (16 - n)) - code)];
            return n;
        }
        code = (code + t->counts[n]) << 1;
        k += t->counts[n];
    }
    return 0;
}

/* T.81 F.2.2.1, EXTEND. */
static int extended(unsigned bits, int n)
{
    return n == 0 ? 0 : bits < 1u << (n - 1) ? (int)bits - (1 << n) + 1 : (int)bits;
}

/* The symbol at the top of `window`, of whose 32 bits the first `room` are known. */
static struct symbol read_symbol(const struct jpeg_huffman *t, bool ac, uint32_t window, int room)
{
    int symbol = 0;
    const int n = find_code(t, window >> 16, &symbol);
    const int run = ac ? symbol >> 4 : 0, size = ac ? symbol & 15 : symbol;
    if (n == 0 || n > room)
        return (struct symbol){.kind = JPEG_LONG};
    if (size > (ac ? JPEG_MOST_AC : JPEG_MOST_DC) || (ac && size == 0 && run != 0 && run != 15))
        return (struct symbol){.kind = JPEG_UNUSUAL};
    struct symbol s = {.kind = JPEG_RESOLVED, .bits = n, .moves = run + 1, .value_bits = size};
    if (ac && size == 0)
        s.moves = run == 0 ? JPEG_END : 16;
    if (n + size > room)
        s.kind = JPEG_VALUE;
    else {
        s.value = extended(size ? window << n >> (32 - size) : 0, size);
        s.bits = n + size;
    }
    return s;
}

static uint64_t first_entry(const struct symbol *s)
{
    const uint32_t brings = s->value != 0;
    const uint64_t high = s->kind == JPEG_VALUE
                              ? (uint32_t)s->value_bits
                              : brings | ((uint32_t)s->value & 4095) << 4 | brings << 16;
    return (uint64_t)s->bits | (uint64_t)s->moves << 8 | (uint64_t)s->moves << 16 |
           (uint64_t)s->kind << JPEG_KIND | high << 32;
}

static uint64_t with_second(uint64_t entry, const struct symbol *first, const struct symbol *second)
{
    const uint64_t brings = second->value != 0;
    entry = (entry & ~(uint64_t)0xffff) | (uint64_t)(first->bits + second->bits) |
            (uint64_t)(first->moves + second->moves) << 8;
    return entry + (brings << 48) + ((uint64_t)((uint32_t)second->value & 4095) << 52);
}

static uint64_t make_entry(const struct jpeg_huffman *t, bool ac, const struct jpeg_huffman *next,
                           uint32_t index)
{
    /* the unknown bits are ones; a code that ends within the known bits does not depend on them */
    const uint32_t window = index << (32 - JPEG_LOOKUP) | (0xffffffffu >> JPEG_LOOKUP);
    const struct symbol first = read_symbol(t, ac, window, JPEG_LOOKUP);
    const uint64_t entry = first_entry(&first);
    if (first.kind != JPEG_RESOLVED || first.moves == JPEG_END || first.bits == JPEG_LOOKUP)
        return entry;
    const struct symbol second = read_symbol(
        next, true, window << first.bits | ((1u << first.bits) - 1), JPEG_LOOKUP - first.bits);
    return second.kind == JPEG_RESOLVED ? with_second(entry, &first, &second) : entry;
}

static void make_lookup(struct jpeg_set *s, int pair, bool ac, const struct jpeg_huffman *t,
                        const struct jpeg_huffman *next)
{
    uint32_t code = 0;
    int k = 0;
    for (uint32_t index = 0; index < 1u << JPEG_LOOKUP; index++)
        s->lookup[pair][ac][index] = make_entry(t, ac, next, index);
    for (int n = 1; n <= 16; n++) {
        s->first[pair][ac][n] = k - (int32_t)code;
        code += t->counts[n];
        k += t->counts[n];
        s->limit[pair][ac][n] = code << (16 - n);
        code <<= 1;
    }
    memcpy(s->values[pair][ac], t->values, sizeof t->values);
}

void jpeg_tables_codes(const struct jpeg_header *h, struct jpeg_set *s)
{
    for (int p = 0; p < s->pairs; p++) {
        make_lookup(s, p, false, &h->dc[s->dc[p]], &h->ac[s->ac[p]]);
        make_lookup(s, p, true, &h->ac[s->ac[p]], &h->ac[s->ac[p]]);
    }
}

bool jpeg_tables_alike(const struct jpeg_set *a, const struct jpeg_set *b, bool quantisers)
{
    return a->pair_of == b->pair_of && a->pairs == b->pairs &&
           (!quantisers || !memcmp(a->scatter, b->scatter, sizeof a->scatter));
}

/* Finds or adds the pair of tables of a component; -1 if there are too many. */
static int pair_of(struct jpeg_set *s, const struct jpeg_component *k)
{
    int p = 0;
    while (p < s->pairs && (s->dc[p] != k->dc || s->ac[p] != k->ac))
        p++;
    if (p == JPEG_PAIRS)
        return -1;
    if (p == s->pairs) {
        s->dc[p] = k->dc;
        s->ac[p] = k->ac;
        s->pairs++;
    }
    return p;
}

static bool find_sampling(const struct jpeg_header *h, int32_t *sampling)
{
    const struct jpeg_component *c = h->component;
    *sampling = JPEG_GRAY;
    if (h->components == 1)
        return true;
    if (c[1].h != 1 || c[1].v != 1 || c[2].h != 1 || c[2].v != 1)
        return false;
    *sampling = c[0].h == 1 && c[0].v == 1   ? JPEG_444
                : c[0].h == 2 && c[0].v == 1 ? JPEG_422
                                             : JPEG_420;
    return c[0].h <= 2 && c[0].v <= c[0].h;
}

void jpeg_cut_runs(struct jpeg_geometry *g)
{
    const int32_t mcus = g->mcu_cols * g->mcu_rows;
    int32_t run = MOST_RUN_BLOCKS / g->mcu_blocks;
    while (mcus % run)
        run--;
    g->parts = 0;
    g->mcu_cols = run;
    g->mcu_rows = mcus / run;
}

/*
 * Cuts the rows of MCUs of a wide tile into equal parts, which the kernels take as rows: a tile of
 * 3,968 x 64 px, four parts, is 992 px wide and has 32 rows of MCUs. Only where no pixel depends on
 * the next part: chroma is not interpolated, and no MCU is cut. Others are cut into runs.
 */
static void cut_rows(struct jpeg_geometry *g)
{
    g->parts = 1;
    while (g->parts <= MOST_PARTS &&
           (g->mcu_cols / g->parts > MOST_MCU_COLS || g->mcu_cols % g->parts))
        g->parts++;
    if (g->parts > MOST_PARTS || (g->parts > 1 && (g->sampling > JPEG_444 || g->width % 8))) {
        jpeg_cut_runs(g);
        return;
    }
    g->mcu_cols /= g->parts;
    g->mcu_rows *= g->parts;
}

int64_t jpeg_most_rows(int64_t width, int64_t height)
{
    return (height + 7) / 8 * (width > 8 * MOST_MCU_COLS ? MOST_PARTS : 1);
}

bool jpeg_tables_make(const struct jpeg_header *h, bool ycc, struct jpeg_geometry *g,
                      struct jpeg_set *s)
{
    memset(s, 0, offsetof(struct jpeg_set, lookup));
    *g = (struct jpeg_geometry){.width = h->width,
                                .height = h->height,
                                .ycc = ycc && h->components == 3,
                                .mcu_cols = jpeg_header_mcu_cols(h),
                                .mcu_rows = jpeg_header_mcu_rows(h),
                                .mcu_blocks = jpeg_header_mcu_blocks(h),
                                .across = jpeg_header_mcu_cols(h),
                                .restart_interval = h->restart_interval};
    if (!find_sampling(h, &g->sampling))
        return false;
    cut_rows(g);
    /* libjpeg-turbo interpolates chroma only where it is more than two samples wide */
    if (g->sampling >= JPEG_422 && (h->width + 1) / 2 <= 2)
        return false;
    for (int c = 0; c < h->components; c++) {
        const int p = pair_of(s, &h->component[c]);
        if (p < 0)
            return false;
        s->pair_of |= (uint32_t)p << c;
        for (int k = 0; k < 64; k++) {
            const uint32_t place = jpeg_zigzag[k];
            s->scatter[c][k] =
                (uint32_t)h->quant[h->component[c].quant][k] << 16 | (place % 8 * 8 + place / 8);
        }
    }
    return true;
}
