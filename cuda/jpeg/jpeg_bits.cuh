/*
 * jpeg_bits.cuh - the entropy decoder of one tile, as one thread of a kernel runs it, one look-up
 * per step. It also compiles for the host, where tests compare it with libjpeg-turbo.
 *
 * The input is the tile's entropy-coded data without stuffed bytes and without restart markers, as
 * big-endian 32-bit words, followed by at least JPEG_SLACK bytes of anything. The output is a list
 * of the coefficients that are not zero, in the order of the stream: value << 20 | block << 6 |
 * place in zigzag order; bits 16-19 mean nothing. `block` counts the blocks of one row of MCUs. A
 * DC coefficient is still the difference from the block before.
 *
 * The decoder reports everything that an encoder would not write: the tile is then decoded by the
 * host. It reads nothing beyond the slack and writes nothing beyond its room, whatever the input
 * is.
 */
#ifndef WSI_JPEG_BITS_CUH
#define WSI_JPEG_BITS_CUH

#include "cuda/jpeg/jpeg_tables.h"

#include <stdint.h>

#ifdef __CUDACC__
#pragma nv_diag_suppress 20011,                                                                    \
    20014 /* host code calls the templates with a Memory of the host, kernels with their own */
#endif

/* Where a tile's data come from and go to. */
struct jpeg_work {
    const uint32_t *words; /* the data, on a boundary of 16 bytes */
    uint32_t bytes;        /* of data, without stuffed bytes and markers */
    uint32_t *entries; /* room for `most` entries and JPEG_MARGIN more; on a boundary of 8 bytes */
    uint32_t most;
    uint32_t *row_start;      /* [mcu_rows + 1]: the first entry of each row of MCUs */
    const uint32_t *restarts; /* byte in the data at which restart interval 1, 2 ... begins */
    uint32_t n_restarts;
};

JPEG_HD uint32_t jpeg_big_endian(uint32_t w)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(w, 0, 0x0123);
#else
    return w << 24 | (w & 0xff00) << 8 | (w >> 8 & 0xff00) | w >> 24;
#endif
}

/* 32 bits of high:low from bit `by` modulo 32 on. */
JPEG_HD uint32_t jpeg_funnel(uint32_t high, uint32_t low, uint32_t by)
{
#ifdef __CUDA_ARCH__
    return __funnelshift_l(low, high, by); /* takes by modulo 32 */
#else
    by &= 31;
    return by ? high << by | low >> (32 - by) : high;
#endif
}

/* c + the bytes of a, each times that of b. */
JPEG_HD uint32_t jpeg_dot(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDA_ARCH__
    return __dp4a(a, b, c);
#else
    for (int k = 0; k < 32; k += 8)
        c += (a >> k & 255) * (b >> k & 255);
    return c;
#endif
}

/*
 * The state of a tile's decoder. `Memory` is what a thread has beside its registers:
 *
 *   word(k, wanted)   word k of the stream; anything if it is not wanted
 *
 *   entry(k, top)     entry k of the look-up tables, [pair][DC, AC][1 << JPEG_LOOKUP], for a
 *                     stream that goes on with the 32 bits of top; entry IDLE is JPEG_IDLE
 *
 *   put(n, e)         entry n of the output; a later put of the same n replaces it
 *
 *   row(k, n)         row k of MCUs begins at entry n
 */
struct jpeg_state {
    /* the stream */
    uint32_t w0, w1; /* a window of 64 bits over it */
    uint32_t w2;     /* the word behind the window, as it lies in memory */
    uint32_t next;   /* number of the word behind w2 */
    uint32_t at;     /* bits 0-7: the next bit of w0:w1; bits 8-15: place in zigzag order */
    /* the block */
    uint32_t block; /* its number in the row of MCUs, shifted by 6 */
    uint32_t place; /* block + the place in zigzag order - 1 */
    uint32_t order; /* pairs of tables of the MCU's blocks, 4 bits each; the lowest is in use */
    uint32_t dc;    /* the entry at which the block's DC table begins */
    uint32_t table; /* the entry at which the table in use begins */
    /* progress */
    uint32_t n;          /* entries so far */
    uint32_t row;        /* of MCUs */
    uint32_t mcu_blocks; /* blocks left in the MCU */
    uint32_t mcus;       /* MCUs left in the restart interval */
    uint32_t restart;    /* restarts so far */
    uint32_t active, unusual;
    uint32_t waits; /* JPEG_SLOW, JPEG_ROW_END: what jpeg_rare() has to do */
};

enum {
    JPEG_SLOW = 1,
    JPEG_ROW_END = 2,
    /* The entry that changes nothing; its first symbol never seems to end a block. */
    JPEG_IDLE = 1 << 16,
};

/* The pair of tables of each block of an MCU. */
JPEG_HD uint32_t jpeg_order(const struct jpeg_geometry *g, uint32_t pair_of)
{
    const uint32_t y = pair_of & 1, cb = pair_of >> 1 & 1, cr = pair_of >> 2 & 1;
    switch (g->sampling) {
    case JPEG_444: return y | cb << 4 | cr << 8;
    case JPEG_422: return y | y << 4 | cb << 8 | cr << 12;
    case JPEG_420: return y | y << 4 | y << 8 | y << 12 | cb << 16 | cr << 20;
    default: return y;
    }
}

template <class Memory>
JPEG_HD void jpeg_begin(struct jpeg_state *t, const struct jpeg_geometry *g, uint32_t pair_of,
                        Memory &m)
{
    t->w0 = jpeg_big_endian(m.word(0, true));
    t->w1 = jpeg_big_endian(m.word(1, true));
    t->w2 = m.word(2, true);
    t->next = 3;
    t->at = t->block = t->n = t->row = t->restart = 0;
    t->place = ~0u;
    t->order = jpeg_order(g, pair_of);
    t->dc = t->table = (t->order & 1) << (JPEG_LOOKUP + 1);
    t->mcu_blocks = (uint32_t)g->mcu_blocks;
    t->mcus = (uint32_t)g->restart_interval;
    t->active = 1;
    t->unusual = t->waits = 0;
    m.row(0, 0);
}

/* From now on steps change nothing: the window is empty, and the table has one entry of zeros. */
template <class Memory> JPEG_HD void jpeg_stop(struct jpeg_state *t, Memory &)
{
    t->active = t->w0 = t->w1 = t->at = t->block = t->place = 0;
    t->dc = t->table = Memory::IDLE;
}

template <class Memory> JPEG_HD void jpeg_refill(struct jpeg_state *t, Memory &m)
{
    const bool wanted = t->at & 32;
    t->w0 = wanted ? t->w1 : t->w0;
    t->w1 = wanted ? jpeg_big_endian(t->w2) : t->w1;
    const uint32_t word = m.word(t->next, wanted);
    t->w2 = wanted ? word : t->w2;
    t->next += wanted;
    t->at &= ~32u;
}

/* Bytes of the stream that have been used, in whole or in part. */
JPEG_HD uint32_t jpeg_used(const struct jpeg_state *t)
{
    return ((t->next - 3) * 32 + (t->at & 255) + 7) / 8;
}

/* The value behind a code of `bits` bits at the top of the window. T.81 F.2.2.1, EXTEND. */
JPEG_HD int32_t jpeg_value(uint32_t top, uint32_t bits, uint32_t size)
{
    const uint32_t raw = top << bits >> 1 >> (31 - size);
    return raw < 1u << size >> 1 ? (int32_t)raw - (int32_t)((1u << size) - 1) : (int32_t)raw;
}

/* One symbol as an entry with its value. */
JPEG_HD uint64_t jpeg_one_symbol(uint32_t top, uint32_t bits, uint32_t moves, uint32_t size)
{
    const uint32_t value = (uint32_t)jpeg_value(top, bits, size) & 4095, brings = value != 0;
    return (bits + size) | moves << 8 | moves << 16 |
           (uint64_t)(brings | value << 4 | brings << 16) << 32;
}

/* The least bits of a code that is not in the look-up tables. */
JPEG_HD uint32_t jpeg_longer(const struct jpeg_set *)
{
    return JPEG_LOOKUP + 1;
}

JPEG_HD uint32_t jpeg_longer(const struct jpeg_own *)
{
    return 1; /* a symbol may be left out for other reasons, too */
}

/* What a tile's own tables say; JPEG_LONG if the code is not in the look-up table. */
JPEG_HD uint64_t jpeg_own_entry(uint32_t found, uint32_t ac, uint32_t top)
{
    const uint32_t bits = found & 255, symbol = found >> 8, size = ac ? symbol & 15 : symbol;
    const uint32_t moves = ac ? symbol == 0 ? (uint32_t)JPEG_END : (symbol >> 4) + 1 : 1;
    const uint64_t e = jpeg_one_symbol(top, bits, moves, size);
    return found ? e : (uint64_t)JPEG_LONG << JPEG_KIND;
}

/* The code at the top of the window, of `bits` bits or more. Set: struct jpeg_set or jpeg_own. */
template <class Set>
JPEG_HD uint64_t jpeg_first_symbol(const Set *s, uint32_t pair, uint32_t ac, uint32_t top,
                                   uint32_t bits)
{
    const uint32_t top16 = top >> 16;
    while (bits <= 16 && top16 >= s->limit[pair][ac][bits])
        bits++;
    if (bits > 16)
        return (uint64_t)JPEG_UNUSUAL << JPEG_KIND;
    const uint32_t symbol =
        s->values[pair][ac][(s->first[pair][ac][bits] + (int32_t)(top16 >> (16 - bits))) & 255];
    const uint32_t size = ac ? symbol & 15 : symbol, run = ac ? symbol >> 4 : 0;
    if (size > (ac ? JPEG_MOST_AC : JPEG_MOST_DC) || (ac && size == 0 && run != 0 && run != 15))
        return (uint64_t)JPEG_UNUSUAL << JPEG_KIND;
    return jpeg_one_symbol(top, bits, ac && size == 0 && run == 0 ? (uint32_t)JPEG_END : run + 1,
                           size);
}

/* An entry of the tables that does not resolve everything, or whose second symbol belongs to the
 * next block; returns one that resolves one symbol, or JPEG_UNUSUAL. */
template <class Set>
JPEG_HD uint64_t jpeg_slow_entry(const Set *s, uint32_t table, uint32_t top, uint64_t e)
{
    const uint32_t kind = (uint32_t)e >> JPEG_KIND, ac = table >> JPEG_LOOKUP & 1,
                   pair = table >> (JPEG_LOOKUP + 1);
    if (kind == JPEG_VALUE)
        return jpeg_one_symbol(top, (uint32_t)e & 255, (uint32_t)e >> 8 & 255, (uint32_t)(e >> 32));
    return kind == JPEG_UNUSUAL
               ? e
               : jpeg_first_symbol(s, pair, ac, top, kind == JPEG_LONG ? jpeg_longer(s) : 1);
}

/* The end of an MCU in a stream with restart markers. */
template <class Memory>
JPEG_HD void jpeg_end_mcu(struct jpeg_state *t, const struct jpeg_geometry *g,
                          const struct jpeg_work *l, bool ended, Memory &m)
{
    t->mcu_blocks = (uint32_t)g->mcu_blocks;
    if (--t->mcus > 0 || ended)
        return;
    const uint32_t used = jpeg_used(t);
    t->unusual |= t->restart >= l->n_restarts || l->restarts[t->restart] != used;
    t->restart++;
    t->at = (t->at + 7) & ~7u; /* the place in zigzag order is 0 here */
    if (t->at == 64) {         /* two words on */
        t->at = 32;
        jpeg_refill(t, m);
        t->at = 32;
    }
    t->mcus = (uint32_t)g->restart_interval;
}

/* The end of a block that is the last one of its row of MCUs, or with restart markers of any block.
 */
template <bool RESTARTS, class Memory>
JPEG_HD void jpeg_end_block(struct jpeg_state *t, const struct jpeg_geometry *g,
                            const struct jpeg_work *l, uint32_t row_end, Memory &m)
{
    bool ended = false;
    if (t->block == row_end) {
        t->block = 0;
        t->place = ~0u;
        m.row(++t->row, t->n);
        ended = t->row == (uint32_t)g->mcu_rows;
    }
    if (RESTARTS && --t->mcu_blocks == 0)
        jpeg_end_mcu(t, g, l, ended, m);
    if (ended) {
        t->unusual |= jpeg_used(t) != l->bytes || (RESTARTS && t->restart != l->n_restarts);
        jpeg_stop(t, m);
    }
}

/* What a resolved entry does: coefficients go out, the stream and the place move on, blocks end. */
template <bool PAIRS, class Memory>
JPEG_HD bool jpeg_apply(struct jpeg_state *t, const struct jpeg_geometry *g, uint64_t e,
                        uint32_t place1, Memory &m)
{
    const uint32_t low = (uint32_t)e, high = (uint32_t)(e >> 32),
                   place2 = jpeg_dot(low, 0x100, t->place);
    m.put(t->n, high << 16 | (place1 & 0xffff));
    m.put(t->n + (high & 1), (high & 0xffff0000u) | (place2 & 0xffff));
    t->n += high >> 16 & 15;
    t->at += low & 0xffff;
    t->place = place2;
    const bool ends = t->at & 0xc000;
    t->unusual |= (t->at & 0x7f00) > 64 << 8; /* JPEG_END aside, a block ends at place 64 */
    t->block += ends ? 64 : 0;
    t->place = ends ? t->block - 1 : t->place;
    t->at = ends ? t->at & 255 : t->at;
    if (PAIRS && ends) {
        t->order = t->order >> 4 | (t->order & 1) << (4 * (g->mcu_blocks - 1));
        t->dc = (t->order & 1) << (JPEG_LOOKUP + 1);
    }
    t->table = ends || (t->at & 0xff00) == 0 ? t->dc : t->dc + (1 << JPEG_LOOKUP);
    return ends;
}

/*
 * One look-up. What is rare waits: the steps change nothing until jpeg_rare() has done it. So the
 * steps have no branches, at which the threads of a warp would part.
 */
template <bool RESTARTS, bool PAIRS, class Memory>
JPEG_HD void jpeg_step(struct jpeg_state *t, const struct jpeg_geometry *g,
                       const struct jpeg_work *l, uint32_t row_end, Memory &m)
{
    jpeg_refill(t, m);
    const uint32_t top = jpeg_funnel(t->w0, t->w1, t->at);
    uint64_t e =
        m.entry(t->waits ? (uint32_t)Memory::IDLE : t->table + (top >> (32 - JPEG_LOOKUP)), top);
    const uint32_t place1 = jpeg_dot((uint32_t)e, 0x10000, t->place);
    const bool slow = (uint32_t)e >> JPEG_KIND || (place1 & 63) == 63;
    t->waits |= slow ? JPEG_SLOW : 0;
    e = slow ? 0 : e;
    const bool ends = jpeg_apply<PAIRS>(t, g, e, place1, m);
    if (RESTARTS) {
        if (ends)
            jpeg_end_block<true>(t, g, l, row_end, m);
    } else
        t->waits |= t->block == row_end ? JPEG_ROW_END : 0;
}

/* The work that waits after some steps. */
template <bool RESTARTS, bool PAIRS, class Set, class Memory>
JPEG_HD void jpeg_rare(struct jpeg_state *t, const struct jpeg_geometry *g, const Set *s,
                       const struct jpeg_work *l, uint32_t row_end, Memory &m)
{
    if (t->active && (t->waits & JPEG_SLOW)) {
        const uint32_t top = jpeg_funnel(t->w0, t->w1, t->at);
        const uint64_t e =
            jpeg_slow_entry(s, t->table, top, m.entry(t->table + (top >> (32 - JPEG_LOOKUP)), top));
        if ((uint32_t)e >> JPEG_KIND)
            t->unusual = 1;
        else if (jpeg_apply<PAIRS>(t, g, e, jpeg_dot((uint32_t)e, 0x10000, t->place), m) &&
                 RESTARTS)
            jpeg_end_block<true>(t, g, l, row_end, m);
    }
    if (!RESTARTS && t->active && t->block == row_end)
        jpeg_end_block<false>(t, g, l, row_end, m);
    t->waits = 0;
}

/* Between steps, at least after every fourth: ends tiles that are beyond their data or their room.
 */
template <class Memory>
JPEG_HD void jpeg_check(struct jpeg_state *t, const struct jpeg_work *l, Memory &m)
{
    t->unusual |= t->n > l->most || t->next > l->bytes / 4 + 16;
    if (t->unusual && t->active)
        jpeg_stop(t, m);
}

#endif
