/*
 * guard_layout.c - see guard_layout.h.
 *
 * Chunks have one of two indexes: none at all for a single chunk, or a fixed array with one entry
 * per chunk in row-major order. Everything is checked before it is used: the number of entries
 * against the shape, and every place against the file's size.
 */
#include "common/hdf5/guard_layout.h"

#include "common/hdf5/guard.h"

#include <errno.h>
#include <stdlib.h>

int guard_space(struct guard *g, struct guard_bytes b)
{
    uint64_t version, rank, flags, type;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &rank) || !guard_take(&b, 1, &flags) ||
        !guard_take(&b, 1, &type) || version != 2 || rank > GUARD_RANK || flags > 1)
        return guard_reject(g, "the shape is damaged");
    g->rank = (int)rank;
    for (uint64_t k = 0; k < rank; k++)
        if (!guard_take(&b, 8, &g->size[k]))
            return guard_reject(g, "the shape is damaged");
    for (uint64_t k = 0; k < rank; k++) {
        g->most[k] = g->size[k];
        if (flags == 1 && (!guard_take(&b, 8, &g->most[k]) || g->most[k] < g->size[k]))
            return guard_reject(g, "the shape is damaged");
    }
    return 0;
}

/* The number of chunks, 0 if it is out of all proportion to the file. */
static uint64_t count_chunks(const struct guard *g, const uint64_t *chunk)
{
    uint64_t n = 1;
    for (int k = 0; k < g->rank; k++) {
        if (chunk[k] == 0 || g->most[k] > UINT64_MAX - chunk[k])
            return 0;
        const uint64_t along = (g->most[k] + chunk[k] - 1) / chunk[k];
        if (along == 0 || n > g->file_bytes / along)
            return 0;
        n *= along;
    }
    return n;
}

/* Notes chunk number k; `size` 0 means the full size of a chunk. */
static int note_chunk(const struct guard *g, uint64_t k, uint64_t address, uint64_t size,
                      uint64_t mask)
{
    if (address == UINT64_MAX)
        return 0;
    if (!guard_inside(g, address, size))
        return guard_reject(g, "a chunk lies outside the file");
    if (g->chunks)
        g->chunks[k] = (struct guard_chunk){address, size, (uint32_t)mask};
    return 0;
}

/* Entries: address 8, and with filters the stored size and the mask of skipped filters 4. */
static int note_entries(const struct guard *g, uint64_t from, uint64_t n, const unsigned char *p,
                        size_t entry)
{
    for (uint64_t k = 0; k < n; k++, p += entry) {
        const size_t width = entry > 8 ? entry - 12 : 0;
        const uint64_t size = width ? guard_number(p + 8, width) : 0;
        if (note_chunk(g, from + k, guard_u64(p), size, width ? guard_number(p + 8 + width, 4) : 0))
            return -1;
    }
    return 0;
}

struct array {
    uint64_t entries, block; /* their number, and the address of the data block */
    size_t entry;            /* bytes of one */
};

/* Up to 1,024 entries follow the head of the data block; more lie in pages of 1,024 with a checksum
 * each, and a bit in the head says for each page whether it has been written. */
static int list_entries(const struct guard *g, const struct array *a, const unsigned char *block)
{
    enum { PAGE = 1024, HEAD = 14, CHECKSUM = 4 };
    const bool paged = a->entries > PAGE;
    const uint64_t pages = (a->entries + PAGE - 1) / PAGE, bitmap = paged ? (pages + 7) / 8 : 0;
    const unsigned char *p = block + HEAD + bitmap + (paged ? CHECKSUM : 0);
    for (uint64_t k = 0; k < pages; k++, p += PAGE * a->entry + CHECKSUM) {
        const uint64_t left = a->entries - k * PAGE;
        if (paged && !(block[HEAD + k / 8] & 0x80 >> k % 8))
            continue;
        if (note_entries(g, k * PAGE, left < PAGE ? left : PAGE, p, a->entry))
            return -1;
    }
    return 0;
}

static int check_data_block(const struct guard *g, const struct array *a, uint64_t header,
                            int client)
{
    const uint64_t pages = (a->entries + 1023) / 1024;
    const uint64_t n = 14 + (pages > 1 ? (pages + 7) / 8 : 0) + a->entries * a->entry +
                       4 * (pages > 1 ? pages + 1 : 1);
    if (!guard_inside(g, a->block, n))
        return guard_reject(g, "the index of chunks lies outside the file");
    unsigned char *block = malloc((size_t)n);
    if (!block)
        return err_sys(g->e, "out of memory");
    int r = guard_read_signed(g, a->block, "FADB", block, (size_t)n);
    if (r == 0 && (block[4] != 0 || block[5] != client || guard_u64(block + 6) != header))
        r = guard_reject(g, "the index of chunks is damaged");
    if (r == 0)
        r = list_entries(g, a, block);
    const int why = errno;
    free(block);
    errno = why;
    return r;
}

/* Bytes of an entry. With filters, the stored size has one byte more than the size of a chunk
 * needs, as the library computes it. */
static size_t entry_bytes(const struct guard *g, uint64_t chunk_bytes)
{
    size_t width = 2;
    for (uint64_t n = chunk_bytes; n > 255; n >>= 8)
        width++;
    return !g->filtered ? 8 : 12 + (width < 8 ? width : 8);
}

/* FAHD: version, client (1 with filters), bytes per entry, bits of a page, number of entries, data
 * block. The library walks outside its memory if these contradict the filters. */
static int check_fixed_array(const struct guard *g, uint64_t address, uint64_t chunks,
                             uint64_t chunk_bytes)
{
    unsigned char h[24];
    if (guard_read_signed(g, address, "FAHD", h, sizeof h))
        return -1;
    const struct array a = {guard_u64(h + 8), guard_u64(h + 16), h[6]};
    if (h[4] != 0 || h[5] != g->filtered || h[7] != 10 || a.entries != chunks ||
        a.entry != entry_bytes(g, chunk_bytes))
        return guard_reject(g, "the index of chunks does not match the shape");
    return a.block == UINT64_MAX ? 0 : check_data_block(g, &a, address, h[5]);
}

static int check_single(const struct guard *g, struct guard_bytes b, bool filtered)
{
    uint64_t size = 0, mask = 0, address;
    if ((filtered && (!guard_take(&b, 8, &size) || !guard_take(&b, 4, &mask))) ||
        !guard_take(&b, 8, &address))
        return guard_reject(g, "the layout of chunks is damaged");
    return note_chunk(g, 0, address, size, mask);
}

static int check_chunks(const struct guard *g, struct guard_bytes b)
{
    enum { SINGLE = 1, FIXED_ARRAY = 3, FILTERED = 2 };
    uint64_t flags, n, width, kind, address, chunk[GUARD_RANK + 1], page_bits, chunk_bytes = 1;
    if (!guard_take(&b, 1, &flags) || !guard_take(&b, 1, &n) || !guard_take(&b, 1, &width) ||
        g->rank < 1 || n != (uint64_t)g->rank + 1 || width < 1 || width > 8)
        return guard_reject(g, "the layout of chunks does not match the shape");
    for (uint64_t k = 0; k < n; k++) { /* the last is the size of a value */
        if (!guard_take(&b, (size_t)width, &chunk[k]) || chunk[k] == 0 ||
            chunk_bytes > UINT32_MAX / chunk[k])
            return guard_reject(g, "the layout of chunks is damaged");
        chunk_bytes *= chunk[k];
    }
    const uint64_t chunks = count_chunks(g, chunk);
    if (chunks == 0 || (g->chunks && chunks != g->n_chunks) || !guard_take(&b, 1, &kind))
        return guard_reject(g, "the layout of chunks does not match the shape");
    if (kind == SINGLE && chunks == 1 && !(flags & FILTERED) == !g->filtered)
        return check_single(g, b, g->filtered);
    if (kind != FIXED_ARRAY || !guard_take(&b, 1, &page_bits) || !guard_take(&b, 8, &address))
        return guard_reject(g, "the index of chunks is of a kind that these files do not have");
    return address == UINT64_MAX ? 0 : check_fixed_array(g, address, chunks, chunk_bytes);
}

/* The mappings of a virtual dataset lie in the global heap. Their contents have a checksum. */
static int check_view(struct guard *g, struct guard_bytes b)
{
    uint64_t address, index, bytes;
    if (!guard_take(&b, 8, &address) || !guard_take(&b, 4, &index))
        return guard_reject(g, "the layout of virtual data is damaged");
    return guard_heap(g, address, index, &bytes);
}

/* The values of a table must fill its shape. */
static int check_table(const struct guard *g, uint64_t address, uint64_t n)
{
    struct guard_table *t = g->table;
    const uint64_t most = g->file_bytes, value = (uint64_t)t->value_bytes;
    t->rows = g->size[0];
    t->columns = g->size[1];
    t->address = address;
    if (g->rank != 2 || t->rows > most || t->columns > most ||
        (t->rows > 0 && t->columns > most / t->rows) ||
        (value && n / value != t->rows * t->columns))
        return guard_reject(g, "the data do not match the shape");
    return 0;
}

int guard_layout(struct guard *g, struct guard_bytes b)
{
    enum { CONTIGUOUS = 1, CHUNKED = 2, VIRTUAL = 3 };
    uint64_t version, class, address, n;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &class) ||
        (version != 3 && version != 4))
        return guard_reject(g, "the layout is of a version that these files do not have");
    if (g->view)
        return class == VIRTUAL && version == 4 ? check_view(g, b)
                                                : guard_reject(g, "its data are not virtual");
    if (class == VIRTUAL)
        return guard_reject(g, "its data lie outside the file: rejected");
    if (class == CHUNKED && version == 4 && !g->table)
        return check_chunks(g, b);
    if (g->chunks)
        return guard_reject(g, "the data are not in chunks");
    if (class != CONTIGUOUS || !guard_take(&b, 8, &address) || !guard_take(&b, 8, &n))
        return guard_reject(g, "the layout is of a kind that these files do not have");
    if (address != UINT64_MAX && !guard_inside(g, address, n))
        return guard_reject(g, "the data lie beyond the end of the file");
    return g->table ? check_table(g, address, n) : 0;
}
