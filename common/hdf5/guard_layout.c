/*
 * guard_layout.c - see guard_layout.h.
 *
 * Chunks have one of two indexes: none at all for a single chunk, or a fixed array with one entry
 * per chunk. What its header says must match the shape and the filters: the library walks outside
 * its memory if it does not. The entries are left to the library, which checks their checksums.
 */
#include "common/hdf5/guard_layout.h"

#include "common/hdf5/guard.h"

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
 * block. */
static int check_fixed_array(const struct guard *g, uint64_t address, uint64_t chunks,
                             uint64_t chunk_bytes)
{
    unsigned char h[24];
    if (guard_read_signed(g, address, "FAHD", h, sizeof h))
        return -1;
    if (h[4] != 0 || h[5] != g->filtered || h[7] != 10 || guard_u64(h + 8) != chunks ||
        h[6] != entry_bytes(g, chunk_bytes))
        return guard_reject(g, "the index of chunks does not match the shape");
    return 0;
}

static int check_single(const struct guard *g, struct guard_bytes b, bool filtered)
{
    uint64_t size = 0, mask = 0, address;
    if ((filtered && (!guard_take(&b, 8, &size) || !guard_take(&b, 4, &mask))) ||
        !guard_take(&b, 8, &address))
        return guard_reject(g, "the layout of chunks is damaged");
    return address == UINT64_MAX || guard_inside(g, address, size)
               ? 0
               : guard_reject(g, "a chunk lies outside the file");
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
    if (chunks == 0 || !guard_take(&b, 1, &kind))
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
    uint64_t address, index;
    struct guard_bytes mappings;
    if (!guard_take(&b, 8, &address) || !guard_take(&b, 4, &index))
        return guard_reject(g, "the layout of virtual data is damaged");
    return guard_heap(g, address, index, &mappings);
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
    if (class != CONTIGUOUS || !guard_take(&b, 8, &address) || !guard_take(&b, 8, &n))
        return guard_reject(g, "the layout is of a kind that these files do not have");
    if (address != UINT64_MAX && !guard_inside(g, address, n))
        return guard_reject(g, "the data lie beyond the end of the file");
    return g->table ? check_table(g, address, n) : 0;
}
