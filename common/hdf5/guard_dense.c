/*
 * guard_dense.c - many links or attributes of one object; see guard_bytes.h.
 *
 * More than eight of them lie as messages in a fractal heap, and a B-tree version 2 lists them by
 * the hashes of their names. Names and layouts of the blocks are those of the HDF5 File Format
 * Specification, version 3.0: III.G (fractal heap) and III.A.2 (B-tree).
 *
 * The heap is a space that direct blocks (FHDB) fill from its start. Rows of four have equal sizes:
 * the first two rows have the smallest blocks, and each further row doubles them. An indirect block
 * (FHIB) lists the blocks of its rows. In rows beyond the largest direct block, the blocks are
 * indirect blocks of fewer rows.
 *
 * All direct blocks are read, at most 64 MiB, and then the tree is walked in the order of its
 * records. Hashes and names must ascend. So no node is visited twice, and the work is in proportion
 * to the file. Checksums are checked here, too: the library frees memory that it has not set if a
 * block is found to be damaged while it lists a group. The heap's list of free space is left out,
 * because the library reads it for writing only.
 */
#include "common/hdf5/guard_bytes.h"

#include "common/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- checksums --- */

static uint32_t rotated(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static void mix(uint32_t *s, const int *by)
{
    for (unsigned k = 0; k < 6; k++) {
        const unsigned i = k % 3, before = (k + 2) % 3, after = (k + 1) % 3;
        s[i] -= s[before];
        s[i] ^= rotated(s[before], by[k]);
        s[before] += s[after];
    }
}

static void finish(uint32_t *s, const int *by)
{
    for (unsigned k = 0; k < 7; k++) {
        const unsigned i = (k + 2) % 3, before = (k + 1) % 3;
        s[i] ^= s[before];
        s[i] -= rotated(s[before], by[k]);
    }
}

uint32_t guard_lookup3(const unsigned char *p, size_t n)
{
    static const int mixes[] = {4, 6, 8, 16, 19, 4}, finishes[] = {14, 11, 25, 16, 4, 14, 24};
    const uint32_t start = 0xdeadbeef + (uint32_t)n;
    uint32_t s[3] = {start, start, start};
    for (; n > 0; p += 12, n -= 12) {
        for (size_t k = 0; k < 3 && n > 4 * k; k++)
            s[k] += (uint32_t)guard_number(p + 4 * k, n - 4 * k < 4 ? n - 4 * k : 4);
        if (n <= 12) {
            finish(s, finishes);
            break;
        }
        mix(s, mixes);
    }
    return s[2];
}

/* --- links and attributes --- */

enum {
    WIDTH = 4,             /* blocks of one row */
    LARGEST_BLOCK = 65536, /* direct block */
    LARGEST_OBJECT = 4096, /* message */
    MOST_BYTES = 1 << 26,  /* of the direct blocks of a heap */
    MOST_ROWS = 16,        /* enough for MOST_BYTES */
    NODE = 512,            /* bytes of a node */
    NODE_HEAD = 6,         /* signature, version, type */
    CHECKSUM = 4,
    MOST_DEPTH = 8, /* levels of nodes above the leaves */
};

/* Parameters of the library: one set for links, one for attributes. */
struct shape {
    uint64_t start;              /* bytes of the smallest block */
    unsigned bits, offset_bytes; /* of an offset in the heap */
    unsigned type, record_bytes; /* of the tree */
    unsigned id, hash;           /* where they lie in a record */
    int (*check)(struct guard *g, struct guard_bytes message, struct guard_bytes *name);
};

static const struct shape link_shape = {512, 32, 4, 5, 11, 4, 0, guard_link};
static const struct shape attribute_shape = {1024, 40, 5, 8, 17, 0, 13, guard_attribute};

/* A direct block: its place in the heap's space, and in the memory that holds all of them. */
struct block {
    uint64_t offset, bytes;
    const unsigned char *at;
};

/* A node of the tree, as its parent describes it. */
struct node {
    uint64_t address, records, all; /* records of its own, and with those below */
    unsigned depth;                 /* 0: a leaf */
};

struct dense {
    struct guard *g;
    const struct shape *shape;
    uint64_t heap;        /* address of its header */
    unsigned char *bytes; /* [allocated] of all direct blocks; owned */
    uint64_t allocated, used;
    struct block *blocks; /* [n_blocks], in the order of their offsets; owned */
    size_t n_blocks;
    uint64_t objects; /* messages in the heap */
    uint32_t hash;    /* of the record before */
    struct guard_bytes name;
    uint64_t most_records[MOST_DEPTH + 1]; /* of a node of each depth */
    unsigned all_bytes[MOST_DEPTH + 1];    /* width of the number of records below it */
};

static int bad_heap(const struct dense *d)
{
    return guard_reject(d->g, "a heap of links or attributes is damaged");
}

static int bad_tree(const struct dense *d)
{
    return guard_reject(d->g, "an index of links or attributes is damaged");
}

static bool is_intact(const unsigned char *block, size_t n)
{
    return guard_lookup3(block, n) == guard_number(block + n, CHECKSUM);
}

/* --- the heap --- */

static uint64_t row_bytes(const struct shape *s, unsigned row)
{
    return s->start << (row > 0 ? row - 1 : 0);
}

/* Bytes of the rows before this one. */
static uint64_t rows_bytes(const struct shape *s, unsigned row)
{
    return row > 0 ? WIDTH * s->start << (row - 1) : 0;
}

/* Signature, version, header's address, offset, and of direct blocks the checksum. */
static size_t block_head(const struct shape *s)
{
    return GUARD_SIGNATURE + 1 + 8 + s->offset_bytes;
}

static bool belongs(const struct dense *d, const unsigned char *block, uint64_t offset)
{
    return block[4] == 0 && guard_u64(block + 5) == d->heap &&
           guard_number(block + 13, d->shape->offset_bytes) == offset;
}

static int add_block(struct dense *d, uint64_t address, uint64_t offset, uint64_t n)
{
    unsigned char *at = d->bytes + d->used;
    if (n > d->allocated - d->used)
        return bad_heap(d);
    if (guard_read_signed(d->g, address, "FHDB", at, (size_t)n))
        return -1;
    const size_t head = block_head(d->shape);
    const uint32_t sum = (uint32_t)guard_number(at + head, CHECKSUM);
    memset(at + head, 0, CHECKSUM); /* it counts as zeros */
    if (!belongs(d, at, offset) || guard_lookup3(at, (size_t)n) != sum)
        return bad_heap(d);
    d->blocks[d->n_blocks++] = (struct block){offset, n, at};
    d->used += n;
    return 0;
}

/* Each call has fewer rows than the one that calls it. */
static int add_rows(struct dense *d, uint64_t address, uint64_t offset, unsigned rows)
{
    unsigned char b[GUARD_SIGNATURE + 1 + 8 + 5 + MOST_ROWS * WIDTH * 8 + CHECKSUM];
    const size_t head = block_head(d->shape);
    if (guard_read_signed(d->g, address, "FHIB", b, head + rows * WIDTH * 8 + CHECKSUM))
        return -1;
    if (!belongs(d, b, offset) || !is_intact(b, head + rows * WIDTH * 8))
        return bad_heap(d);
    for (unsigned k = 0; k < rows * WIDTH; k++) {
        const unsigned row = k / WIDTH;
        const uint64_t n = row_bytes(d->shape, row), child = guard_u64(b + head + 8 * k);
        const uint64_t at = offset + rows_bytes(d->shape, row) + k % WIDTH * n;
        if (child == UINT64_MAX) /* none: nothing lies there */
            continue;
        if (n <= LARGEST_BLOCK ? add_block(d, child, at, n) : add_rows(d, child, at, row - 2))
            return -1;
    }
    return 0;
}

/*
 * FRHP: signature 0, version 4, bytes of an ID 5, of filters 7, flags 9 (2: checksums), largest
 * object 10, large objects 14 and 22, free space 30 and 38, space 46, allocated 54, next block 62,
 * objects 70, large ones 78 and 86, tiny ones 94 and 102, width 110, smallest block 112, largest
 * 120, bits of an offset 128, first rows 130, root 132, rows of the root 140.
 */
enum { HEAP_HEAD = 146 };

static bool has_our_parameters(const struct shape *s, const unsigned char *h)
{
    return h[4] == 0 && guard_number(h + 5, 2) == 1 + s->offset_bytes + 2 &&
           guard_number(h + 7, 2) == 0 && h[9] == 2 && guard_number(h + 10, 4) == LARGEST_OBJECT &&
           guard_number(h + 110, 2) == WIDTH && guard_u64(h + 112) == s->start &&
           guard_u64(h + 120) == LARGEST_BLOCK && guard_number(h + 128, 2) == s->bits &&
           guard_number(h + 130, 2) == 1;
}

/* Large objects lie outside the blocks, tiny ones in their IDs. */
static bool has_blocks_only(const unsigned char *h)
{
    return guard_u64(h + 22) == UINT64_MAX && guard_u64(h + 78) == 0 && guard_u64(h + 86) == 0 &&
           guard_u64(h + 94) == 0 && guard_u64(h + 102) == 0;
}

static int read_blocks(struct dense *d)
{
    unsigned char h[HEAP_HEAD];
    if (guard_read_signed(d->g, d->heap, "FRHP", h, sizeof h))
        return -1;
    if (!has_our_parameters(d->shape, h))
        return guard_reject(d->g, "a heap of links or attributes has parameters that the library "
                                  "never writes");
    if (!has_blocks_only(h))
        return guard_reject(d->g, "a heap of links or attributes has messages of a size that these "
                                  "files do not have");
    const uint64_t root = guard_u64(h + 132), rows = guard_number(h + 140, 2);
    if (rows > MOST_ROWS)
        return bad_heap(d);
    const uint64_t space = rows ? rows_bytes(d->shape, (unsigned)rows) : d->shape->start;
    d->allocated = guard_u64(h + 54);
    d->objects = guard_u64(h + 70);
    if (d->allocated > MOST_BYTES)
        return guard_reject(d->g, "a heap of links or attributes is too large");
    if (d->allocated > space || d->allocated > d->g->file_bytes || guard_u64(h + 46) != space ||
        guard_u64(h + 62) > space || !is_intact(h, sizeof h - CHECKSUM))
        return bad_heap(d);
    const size_t blocks = (size_t)(d->allocated / d->shape->start + 1);
    if (!(d->bytes = memory_try((size_t)d->allocated + 1, 1, d->g->e)) ||
        !(d->blocks = memory_try(blocks, sizeof *d->blocks, d->g->e)))
        return -1;
    if (rows ? add_rows(d, root, 0, (unsigned)rows) : add_block(d, root, 0, d->shape->start))
        return -1;
    return d->used == d->allocated ? 0 : bad_heap(d);
}

/* The block that holds this offset, or NULL. */
static const struct block *find_block(const struct dense *d, uint64_t offset)
{
    size_t from = 0, to = d->n_blocks;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const struct block *b = &d->blocks[middle];
        if (offset < b->offset)
            to = middle;
        else if (offset - b->offset >= b->bytes)
            from = middle + 1;
        else
            return b;
    }
    return NULL;
}

/* The message with this ID: version and kind (0: in a direct block), offset, length 2. */
static int find_message(const struct dense *d, const unsigned char *id, struct guard_bytes *out)
{
    const uint64_t offset = guard_number(id + 1, d->shape->offset_bytes);
    const uint64_t n = guard_number(id + 1 + d->shape->offset_bytes, 2);
    const struct block *b = find_block(d, offset);
    if (id[0] != 0 || !b || offset - b->offset < block_head(d->shape) + CHECKSUM ||
        n > LARGEST_OBJECT || n > b->bytes - (offset - b->offset))
        return guard_reject(d->g, "a link or attribute lies outside its heap");
    *out = (struct guard_bytes){b->at + (offset - b->offset), (size_t)n};
    return 0;
}

/* --- the tree --- */

static bool ascends(const struct dense *d, uint32_t hash, struct guard_bytes name)
{
    if (!d->name.at || hash != d->hash)
        return !d->name.at || hash > d->hash;
    const size_t n = d->name.left < name.left ? d->name.left : name.left;
    const int order = memcmp(d->name.at, name.at, n);
    return order < 0 || (order == 0 && d->name.left < name.left);
}

/* Links: hash 4, ID 7. Attributes: ID 8, flags (1: shared), number 4, hash 4. */
static int check_record(struct dense *d, const unsigned char *record)
{
    const struct shape *s = d->shape;
    const uint32_t hash = (uint32_t)guard_number(record + s->hash, 4);
    struct guard_bytes message, name;
    if (s == &attribute_shape && record[8] != 0)
        return guard_reject(d->g, "an attribute is shared between objects: rejected");
    if (find_message(d, record + s->id, &message) || s->check(d->g, message, &name))
        return -1;
    if (guard_lookup3(name.at, name.left) != hash)
        return bad_tree(d);
    if (!ascends(d, hash, name))
        return guard_reject(d->g, "an index of links or attributes is not in order");
    d->hash = hash;
    d->name = name;
    return 0;
}

/* A node above leaves: child k has address 8, its records 1, and above other such nodes all records
 * below it. */
static size_t pointer_bytes(const struct dense *d, unsigned depth)
{
    return depth > 0 ? 8 + 1 + d->all_bytes[depth - 1] : 0;
}

static struct node read_pointer(const struct dense *d, const unsigned char *p, unsigned depth)
{
    const uint64_t records = p[8];
    const unsigned width = d->all_bytes[depth - 1];
    return (struct node){guard_u64(p), records, width ? guard_number(p + 9, width) : records,
                         depth - 1};
}

/* Head, records, and above the leaves one child more than there are records. */
static int check_node(struct dense *d, struct node node)
{
    unsigned char b[NODE];
    const size_t record = d->shape->record_bytes, pointer = pointer_bytes(d, node.depth);
    uint64_t all = node.records;
    if (node.records < 1 || node.records > d->most_records[node.depth])
        return bad_tree(d);
    if (guard_read_signed(d->g, node.address, node.depth ? "BTIN" : "BTLF", b, sizeof b))
        return -1;
    if (b[4] != 0 || b[5] != d->shape->type)
        return bad_tree(d);
    const size_t own = NODE_HEAD + (size_t)node.records * record;
    const size_t used = own + (node.depth ? ((size_t)node.records + 1) * pointer : 0);
    if (!is_intact(b, used))
        return bad_tree(d);
    const unsigned char *children = b + own;
    for (uint64_t k = 0; k <= node.records; k++) {
        if (node.depth > 0) {
            const struct node child = read_pointer(d, children + k * pointer, node.depth);
            if (child.all > node.all || check_node(d, child))
                return child.all > node.all ? bad_tree(d) : -1;
            all += child.all;
        }
        if (k < node.records && check_record(d, b + NODE_HEAD + k * record))
            return -1;
    }
    return all == node.all ? 0 : bad_tree(d);
}

/* Bytes that a number up to n needs. */
static unsigned width_of(uint64_t n)
{
    unsigned width = 1;
    while (n >>= 8)
        width++;
    return width;
}

/* How many records fit into a node of each depth, as the library computes it. The number of records
 * of a node takes one byte. */
static void measure_nodes(struct dense *d)
{
    const unsigned record = d->shape->record_bytes, room = NODE - NODE_HEAD - CHECKSUM;
    uint64_t below = d->most_records[0] = room / record;
    d->all_bytes[0] = 0;
    for (unsigned depth = 1; depth <= MOST_DEPTH; depth++) {
        const unsigned pointer = (unsigned)pointer_bytes(d, depth);
        const uint64_t n = (room - pointer) / (record + pointer);
        d->most_records[depth] = n;
        below = (n + 1) * below + n;
        d->all_bytes[depth] = width_of(below);
    }
}

/* BTHD: signature 0, version 4, type 5, bytes of a node 6, of a record 10, depth 12, shares at
 * which nodes split and merge 14 and 15, root 16, its records 24, all records 26. */
static int check_tree(struct dense *d, uint64_t address)
{
    unsigned char h[38];
    if (guard_read_signed(d->g, address, "BTHD", h, sizeof h))
        return -1;
    if (h[4] != 0 || h[5] != d->shape->type || guard_number(h + 6, 4) != NODE ||
        guard_number(h + 10, 2) != d->shape->record_bytes || guard_number(h + 12, 2) > MOST_DEPTH ||
        h[14] != 100 || h[15] != 40)
        return guard_reject(d->g, "an index of links or attributes has parameters that the library "
                                  "never writes");
    if (!is_intact(h, sizeof h - CHECKSUM))
        return bad_tree(d);
    if (guard_u64(h + 26) != d->objects)
        return guard_reject(d->g, "an index of links or attributes does not match its heap");
    measure_nodes(d);
    return check_node(d, (struct node){guard_u64(h + 16), guard_number(h + 24, 2), d->objects,
                                       (unsigned)guard_number(h + 12, 2)});
}

int guard_dense(struct guard *g, uint64_t heap, uint64_t tree, bool links)
{
    struct dense d = {.g = g, .shape = links ? &link_shape : &attribute_shape, .heap = heap};
    const int r = read_blocks(&d) || check_tree(&d, tree) ? -1 : 0;
    const int why = errno;
    free(d.bytes);
    free(d.blocks);
    errno = why;
    return r;
}
