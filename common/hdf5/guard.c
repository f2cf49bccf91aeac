/*
 * guard.c - see guard.h.
 *
 * The names of structures and messages are those of the HDF5 File Format Specification,
 * version 3.0. Checksums of headers are left to the library, except for tables, which it does not
 * open: whoever forges metadata forges them, too.
 */
#include "common/hdf5/guard.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/codec.h"
#include "common/hdf5/guard_bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- bytes: see guard_bytes.h --- */

enum {
    MOST_HEAP = 1 << 26,     /* bytes of one collection of the global heap */
    MOST_SEARCHED = 1 << 29, /* bytes of collections, counted again for each text of an object */
};

uint64_t guard_number(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

uint64_t guard_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v); /* this program runs on little-endian machines only: see h5.c */
    return v;
}

int guard_reject(const struct guard *g, const char *what)
{
    err_set(g->e, "%s", what);
    errno = 0;
    return -1;
}

/* Takes a number of n bytes; false if fewer are left. */
static bool take(struct guard_bytes *b, size_t n, uint64_t *out)
{
    if (b->left < n)
        return false;
    *out = guard_number(b->at, n);
    b->at += n;
    b->left -= n;
    return true;
}

static bool skip(struct guard_bytes *b, size_t n)
{
    if (b->left < n)
        return false;
    b->at += n;
    b->left -= n;
    return true;
}

/* Do n bytes from this address lie in the file? */
static bool is_inside(const struct guard *g, uint64_t address, uint64_t n)
{
    return address <= g->file_bytes && n <= g->file_bytes - address;
}

static int read_bytes(const struct guard *g, uint64_t address, void *out, size_t n)
{
    if (!is_inside(g, address, n))
        return guard_reject(g, "an address lies outside the file");
    if (read_at(g->fd, address, out, n) == n)
        return 0;
    return errno ? err_sys(g->e, "cannot read") : guard_reject(g, "the file ends too early");
}

static int begin(struct guard *g)
{
    struct stat st;
    if (fstat(g->fd, &st))
        return err_sys(g->e, "cannot read the file's size");
    g->file_bytes = (uint64_t)st.st_size;
    g->rank = -1;
    return 0;
}

/* Reads n bytes that begin with a signature of four letters. */
int guard_read_signed(const struct guard *g, uint64_t address, const char *signature,
                      unsigned char *out, size_t n)
{
    if (read_bytes(g, address, out, n))
        return -1;
    return memcmp(out, signature, GUARD_SIGNATURE)
               ? guard_reject(g, "a block of metadata is of the wrong kind")
               : 0;
}

/* Checks the checksum that follows n bytes of metadata. */
static int check_checksum(const struct guard *g, uint64_t address, size_t n)
{
    unsigned char *bytes = memory_try(n + 4, 1, g->e);
    if (!bytes)
        return -1;
    int r = read_bytes(g, address, bytes, n + 4);
    if (r == 0 && guard_lookup3(bytes, n) != guard_number(bytes + n, 4))
        r = guard_reject(g, "the checksum of the header is wrong");
    const int why = errno;
    free(bytes);
    errno = why;
    return r;
}

/* --- the global heap --- */

/* Reads a collection of the global heap, unless it is the last one. */
static int read_heap(struct guard *g, uint64_t address)
{
    struct guard_heap *h = &g->heap;
    unsigned char head[16];
    if (h->bytes && h->address == address)
        return 0;
    if (guard_read_signed(g, address, "GCOL", head, sizeof head))
        return -1;
    const uint64_t n = guard_u64(head + 8);
    if (head[4] != 1 || n < 4096 || n > MOST_HEAP || !is_inside(g, address, n))
        return guard_reject(g, "a heap of texts has invalid sizes");
    free(h->bytes);
    if (!(h->bytes = memory_try((size_t)n, 1, g->e)))
        return -1;
    h->address = address;
    h->n = n;
    return read_bytes(g, address, h->bytes, (size_t)n);
}

/* The heap's objects follow one another: index 2, count 2, unused 4, size 8, bytes padded to 8. */
static int find_heap_object(struct guard *g, uint64_t address, uint64_t index,
                            struct guard_bytes *out)
{
    bool found = false;
    if (read_heap(g, address))
        return -1;
    if ((g->heap.searched += g->heap.n) > MOST_SEARCHED)
        return guard_reject(g, "it has more texts than these files have");
    struct guard_bytes b = {g->heap.bytes + 16, (size_t)g->heap.n - 16};
    while (b.left >= 16) {
        const uint64_t number = guard_number(b.at, 2), size = guard_u64(b.at + 8);
        if (number == 0) { /* free space; the library never ends if it has no bytes */
            if (size != b.left)
                return guard_reject(g, "a heap of texts has invalid sizes");
            break;
        }
        const unsigned char *object = b.at + 16;
        if (size > b.left || !skip(&b, 16) || !skip(&b, (size_t)(size + 7) / 8 * 8))
            return guard_reject(g, "a heap of texts has invalid sizes");
        if (number != index)
            continue;
        if (found)
            return guard_reject(g, "a heap of texts has two texts of one number");
        found = true;
        *out = (struct guard_bytes){object, (size_t)size};
    }
    return found ? 0 : guard_reject(g, "a text is missing in the heap");
}

/*
 * --- the shape of a dataset, and where its data lie ---
 *
 * Chunks have one of two indexes: none at all for a single chunk, or a fixed array with one entry
 * per chunk. What its header says must match the shape and the filters: the library walks outside
 * its memory if it does not. The entries are left to the library, which checks their checksums.
 */

static int guard_space(struct guard *g, struct guard_bytes b)
{
    uint64_t version, rank, flags, type;
    if (!take(&b, 1, &version) || !take(&b, 1, &rank) || !take(&b, 1, &flags) ||
        !take(&b, 1, &type) || version != 2 || rank > GUARD_RANK || flags > 1)
        return guard_reject(g, "the shape is damaged");
    g->rank = (int)rank;
    for (uint64_t k = 0; k < rank; k++)
        if (!take(&b, 8, &g->size[k]))
            return guard_reject(g, "the shape is damaged");
    for (uint64_t k = 0; k < rank; k++) {
        g->most[k] = g->size[k];
        if (flags == 1 && (!take(&b, 8, &g->most[k]) || g->most[k] < g->size[k]))
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
    if ((filtered && (!take(&b, 8, &size) || !take(&b, 4, &mask))) || !take(&b, 8, &address))
        return guard_reject(g, "the layout of chunks is damaged");
    return address == UINT64_MAX || is_inside(g, address, size)
               ? 0
               : guard_reject(g, "a chunk lies outside the file");
}

static int check_chunks(const struct guard *g, struct guard_bytes b)
{
    enum { SINGLE = 1, FIXED_ARRAY = 3, FILTERED = 2 };
    uint64_t flags, n, width, kind, address, chunk[GUARD_RANK + 1], page_bits, chunk_bytes = 1;
    if (!take(&b, 1, &flags) || !take(&b, 1, &n) || !take(&b, 1, &width) || g->rank < 1 ||
        n != (uint64_t)g->rank + 1 || width < 1 || width > 8)
        return guard_reject(g, "the layout of chunks does not match the shape");
    for (uint64_t k = 0; k < n; k++) { /* the last is the size of a value */
        if (!take(&b, (size_t)width, &chunk[k]) || chunk[k] == 0 ||
            chunk_bytes > UINT32_MAX / chunk[k])
            return guard_reject(g, "the layout of chunks is damaged");
        chunk_bytes *= chunk[k];
    }
    const uint64_t chunks = count_chunks(g, chunk);
    if (chunks == 0 || !take(&b, 1, &kind))
        return guard_reject(g, "the layout of chunks does not match the shape");
    if (kind == SINGLE && chunks == 1 && !(flags & FILTERED) == !g->filtered)
        return check_single(g, b, g->filtered);
    if (kind != FIXED_ARRAY || !take(&b, 1, &page_bits) || !take(&b, 8, &address))
        return guard_reject(g, "the index of chunks is of a kind that these files do not have");
    return address == UINT64_MAX ? 0 : check_fixed_array(g, address, chunks, chunk_bytes);
}

/* The mappings of a virtual dataset lie in the global heap. Their contents have a checksum. */
static int check_view(struct guard *g, struct guard_bytes b)
{
    uint64_t address, index;
    struct guard_bytes mappings;
    if (!take(&b, 8, &address) || !take(&b, 4, &index))
        return guard_reject(g, "the layout of virtual data is damaged");
    return find_heap_object(g, address, index, &mappings);
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

static int guard_layout(struct guard *g, struct guard_bytes b)
{
    enum { CONTIGUOUS = 1, CHUNKED = 2, VIRTUAL = 3 };
    uint64_t version, class, address, n;
    if (!take(&b, 1, &version) || !take(&b, 1, &class) || (version != 3 && version != 4))
        return guard_reject(g, "the layout is of a version that these files do not have");
    if (g->view)
        return class == VIRTUAL && version == 4 ? check_view(g, b)
                                                : guard_reject(g, "its data are not virtual");
    if (class == VIRTUAL)
        return guard_reject(g, "its data lie outside the file: rejected");
    if (class == CHUNKED && version == 4 && !g->table)
        return check_chunks(g, b);
    if (class != CONTIGUOUS || !take(&b, 8, &address) || !take(&b, 8, &n))
        return guard_reject(g, "the layout is of a kind that these files do not have");
    if (address != UINT64_MAX && !is_inside(g, address, n))
        return guard_reject(g, "the data lie beyond the end of the file");
    return g->table ? check_table(g, address, n) : 0;
}

/* --- messages: types, fill values, filters, links and attributes --- */

enum { INTEGER = 0, REAL = 1, STRING = 3, VARIABLE = 9 }; /* classes of types */
enum { HEAP_PLACE = 16 };                                 /* bytes of a place in the heap */
enum { BIG_ENDIAN_BIT = 1, SIGNED_BIT = 8, OTHER_ORDER_BIT = 64 }; /* in the flags of a type */

/* A datatype: class and version, 3 bytes of flags, size 4, and what the class adds. */
static bool is_number(const unsigned char *t, size_t n)
{
    const int class = t[0] & 15;
    const uint64_t size = guard_number(t + 4, 4);
    return n >= 12 && (class == INTEGER || class == REAL) &&
           (size == 1 || size == 2 || size == 4 || size == 8);
}

/* A text of fixed length. */
static bool is_fixed_text(const unsigned char *t)
{
    const uint64_t size = guard_number(t + 4, 4);
    return (t[0] & 15) == STRING && size >= 1 && size <= GUARD_TEXT;
}

/* The values of a dataset are numbers, or texts of a fixed length. */
static int guard_type(const struct guard *g, struct guard_bytes b)
{
    return b.left >= 8 && (is_number(b.at, b.left) || is_fixed_text(b.at))
               ? 0
               : guard_reject(g, "the values are of a type that these files do not have");
}

/* Bytes of a value of a type that guard_type() has checked, if these are little-endian integers;
 * else 0. */
static int guard_integer(const unsigned char *type)
{
    const bool is = (type[0] & 15) == INTEGER && !(type[1] & BIG_ENDIAN_BIT);
    return is ? (int)guard_number(type + 4, 4) : 0;
}

/* A text of variable length: a sequence of characters of one byte, of which a value has the place.
 */
static bool is_heap_text(const unsigned char *type, size_t n)
{
    enum { IS_TEXT = 1 };
    return (type[1] & 15) == IS_TEXT && n >= 20 && (type[8] & 15) == INTEGER &&
           guard_number(type + 4, 4) == HEAP_PLACE && guard_number(type + 12, 4) == 1;
}

static enum guard_kind kind_of(const unsigned char *type, size_t n)
{
    const unsigned char flags = type[1];
    switch (type[0] & 15) {
    case INTEGER:
        return flags & BIG_ENDIAN_BIT ? GUARD_OTHER
               : flags & SIGNED_BIT   ? GUARD_SIGNED
                                      : GUARD_UNSIGNED;
    case REAL: return flags & (BIG_ENDIAN_BIT | OTHER_ORDER_BIT) ? GUARD_OTHER : GUARD_REAL;
    case STRING: return GUARD_FIXED_TEXT;
    case VARIABLE: return is_heap_text(type, n) ? GUARD_HEAP_TEXT : GUARD_OTHER;
    default: return GUARD_OTHER;
    }
}

/* A space: version, rank, flags, and in version 2 the kind (1: it has dimensions), in version 1
 * five bytes; then the dimensions. The number of values, 0 if there are none or more than bytes. */
static uint64_t points_of(const unsigned char *space, size_t bytes, size_t most)
{
    enum { NONE = 2 };
    if (bytes < 4 || space[0] < 1 || space[0] > 2 || (space[0] == 2 && space[3] == NONE))
        return 0;
    const size_t rank = space[1], head = space[0] == 2 ? 4 : 8;
    uint64_t n = 1;
    if (bytes < head + 8 * rank)
        return 0;
    for (size_t k = 0; k < rank; k++) {
        const uint64_t size = guard_u64(space + head + 8 * k);
        if (size > most || (size > 0 && n > most / size))
            return 0;
        n *= size;
    }
    return n;
}

/* Version 1 pads name, type and space to multiples of 8 bytes. */
static size_t padded(uint64_t n, uint64_t version)
{
    return (size_t)(version == 1 ? (n + 7) / 8 * 8 : n);
}

/* Notes crc32 among the attributes of a table. A value that no checksum has becomes INT64_MAX. */
static void note_crc32(struct guard_table *t, const struct guard_attribute *a)
{
    if (strcmp(a->name, "crc32") != 0)
        return;
    const bool good = (a->kind == GUARD_UNSIGNED || a->kind == GUARD_SIGNED) && a->each >= 1 &&
                      a->each <= 8 && a->each <= a->value_bytes;
    const uint64_t value = good ? guard_number(a->value, (size_t)a->each) : UINT64_MAX;
    t->crc32 = value <= UINT32_MAX ? (int64_t)value : INT64_MAX;
}

static int add_attribute(const struct guard *g, const struct guard_attribute *a)
{
    struct guard_attributes *all = g->attributes;
    const size_t name = strlen(a->name) + 1;
    struct guard_attribute *new = memory_try(1, sizeof *new + name + a->value_bytes, g->e);
    if (!new)
        return -1;
    *new = *a;
    new->name = memcpy(new->bytes, a->name, name);
    new->value = memcpy(new->bytes + name, a->value, a->value_bytes);
    new->name_crc32 = codec_crc32(a->name, name - 1);
    *(all->last ? &all->last->next : &all->first) = new;
    all->last = new;
    return 0;
}

/* Version, flags, sizes of name, type and space, in version 3 the character set; then these, and
 * the value. A type or space that is shared lies elsewhere. */
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *attribute_name)
{
    uint64_t version, flags, name, type, space;
    if (!take(&b, 1, &version) || !take(&b, 1, &flags) || !take(&b, 2, &name) ||
        !take(&b, 2, &type) || !take(&b, 2, &space) || version < 1 || version > 3 ||
        !skip(&b, version == 3) || name < 1)
        return guard_reject(g, "an attribute is damaged");
    const size_t head = padded(name, version) + padded(type, version) + padded(space, version);
    if (b.left < head || memchr(b.at, 0, (size_t)name) != b.at + name - 1)
        return guard_reject(g, "an attribute is damaged");
    *attribute_name = (struct guard_bytes){b.at, (size_t)name - 1};
    const unsigned char *t = b.at + padded(name, version);
    struct guard_attribute a = {
        .name = (const char *)b.at, .value = b.at + head, .value_bytes = b.left - head};
    if (type >= 8 && !(version > 1 && flags & 3)) {
        a.kind = kind_of(t, (size_t)type);
        a.each = guard_number(t + 4, 4);
        a.n = points_of(t + padded(type, version), (size_t)space, a.value_bytes);
    }
    if (g->table)
        note_crc32(g->table, &a);
    return g->attributes ? add_attribute(g, &a) : 0;
}

/* What a link leads to: the address of an object in the file, or a text and its length 2. The text
 * is a path in this file (soft) or elsewhere (64 and above), and nothing here follows it. */
static bool is_target(const struct guard *g, struct guard_bytes b, uint64_t type)
{
    enum { HARD = 0, SOFT = 1, FOREIGN = 64 };
    uint64_t address, n;
    if (type == HARD)
        return take(&b, 8, &address) && is_inside(g, address, 1);
    return (type == SOFT || type >= FOREIGN) && take(&b, 2, &n) && n > 0 && n <= b.left;
}

/*
 * A link: version 1, flags, [type], [creation order 8], [character set], length of the name in 1,
 * 2, 4 or 8 bytes, name, target. If the library cannot decode a link of a group, it frees what it
 * has not set.
 */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name)
{
    uint64_t version, flags, type = 0, set = 0, length;
    if (take(&b, 1, &version) && version == 1 && take(&b, 1, &flags) && flags < 0x20 &&
        (!(flags & 8) || take(&b, 1, &type)) && skip(&b, flags & 4 ? 8 : 0) &&
        (!(flags & 0x10) || take(&b, 1, &set)) && set <= 1 &&
        take(&b, (size_t)1 << (flags & 3), &length) && length > 0 && length <= b.left) {
        *name = (struct guard_bytes){b.at, (size_t)length};
        if (skip(&b, (size_t)length) && is_target(g, b, type))
            return 0;
    }
    return guard_reject(g, "a link is damaged");
}

/* A value of chunks that are not stored: version 3, flags, and if bit 5 is set its size 4 and its
 * bytes; or version 2, three bytes, of which the last says whether these follow. */
static int guard_fill(const struct guard *g, struct guard_bytes b)
{
    uint64_t version, flags, size = 0;
    if (take(&b, 1, &version) && (version == 3 || (version == 2 && skip(&b, 2))) &&
        take(&b, 1, &flags) && (!(flags & (version == 3 ? 0x20 : 0xff)) || take(&b, 4, &size)) &&
        size <= b.left)
        return 0;
    return guard_reject(g, "a fill value is damaged");
}

/* Filters of the chunks: version 2, their number, and what the library checks itself. */
static int guard_filters(struct guard *g, struct guard_bytes b)
{
    uint64_t version, n;
    if (!take(&b, 1, &version) || !take(&b, 1, &n) || version != 2 || n < 1)
        return guard_reject(g, "the list of filters is damaged");
    g->filtered = true;
    return 0;
}

/* --- headers --- */

enum {
    MOST_MESSAGES = 1 << 20, /* bytes of one block of messages */
    MOST_BLOCKS = 4096,      /* blocks of one header */
};

enum message {
    MSG_NIL = 0x00,
    MSG_DATASPACE = 0x01,
    MSG_LINK_INFO = 0x02,
    MSG_DATATYPE = 0x03,
    MSG_FILL = 0x05,
    MSG_LINK = 0x06,
    MSG_EXTERNAL = 0x07,
    MSG_LAYOUT = 0x08,
    MSG_GROUP_INFO = 0x0a,
    MSG_FILTERS = 0x0b,
    MSG_ATTRIBUTE = 0x0c,
    MSG_COMMENT = 0x0d,
    MSG_CONTINUATION = 0x10,
    MSG_TIME = 0x12,
    MSG_ATTRIBUTE_INFO = 0x15,
    MSG_REFERENCES = 0x16,
};

/* Link info and attribute info: version, flags, [largest number], heap, index of names. */
static int check_info(struct guard *g, struct guard_bytes b, bool links)
{
    const size_t number_bytes = links ? 8 : 2;
    uint64_t version, flags, heap, tree;
    if (!take(&b, 1, &version) || !take(&b, 1, &flags) || version != 0 || flags > 1 ||
        !skip(&b, flags ? number_bytes : 0) || !take(&b, 8, &heap) || !take(&b, 8, &tree))
        return guard_reject(g, "the index of names is damaged");
    if (heap == UINT64_MAX && tree == UINT64_MAX)
        return 0;
    return guard_dense(g, heap, tree, links);
}

/* --- the header --- */

/* Of these messages an object has one. Of several the library may use another one than is checked
 * here. */
static bool is_repeated(struct guard *g, enum message type)
{
    static const uint32_t once = 1u << MSG_DATASPACE | 1u << MSG_DATATYPE | 1u << MSG_FILL |
                                 1u << MSG_LAYOUT | 1u << MSG_FILTERS | 1u << MSG_LINK_INFO |
                                 1u << MSG_GROUP_INFO | 1u << MSG_ATTRIBUTE_INFO;
    const uint32_t bit = type < 32 ? 1u << type : 0;
    const bool again = g->seen & bit & once;
    g->seen |= bit;
    return again;
}

static int check_type(const struct guard *g, struct guard_bytes b)
{
    if (guard_type(g, b))
        return -1;
    if (g->table)
        g->table->value_bytes = guard_integer(b.at);
    return 0;
}

static int check_message(struct guard *g, enum message type, struct guard_bytes b,
                         struct guard_bytes *layout)
{
    struct guard_bytes name;
    if (is_repeated(g, type))
        return guard_reject(g, "the header repeats a message");
    switch (type) {
    case MSG_DATASPACE: return guard_space(g, b);
    case MSG_LAYOUT: *layout = b; return 0; /* checked when the shape is known */
    case MSG_DATATYPE: return check_type(g, b);
    case MSG_ATTRIBUTE: return guard_attribute(g, b, &name);
    case MSG_LINK_INFO: return check_info(g, b, true);
    case MSG_ATTRIBUTE_INFO: return check_info(g, b, false);
    case MSG_LINK: return guard_link(g, b, &name);
    case MSG_FILL: return guard_fill(g, b);
    case MSG_FILTERS: return guard_filters(g, b);
    case MSG_EXTERNAL: return guard_reject(g, "its data lie outside the file: rejected");
    case MSG_NIL:
    case MSG_GROUP_INFO:
    case MSG_COMMENT:
    case MSG_REFERENCES:
    case MSG_CONTINUATION:
    case MSG_TIME: return 0;
    }
    return guard_reject(g, "the header has a message that these files do not have");
}

/* A block of a header: the first one, or one that a continuation message names. */
struct block {
    struct block *next;
    uint64_t address;
    size_t n;
    unsigned char bytes[]; /* [n] */
};

/* Reads a block and appends it. NULL on failure. */
static struct block *add_block(const struct guard *g, struct block **all, uint64_t address,
                               uint64_t n)
{
    int before = 0;
    for (; *all && (*all)->address != address; all = &(*all)->next)
        before++;
    if (*all || before == MOST_BLOCKS || n > MOST_MESSAGES) {
        guard_reject(g, *all ? "the header refers to itself"
                             : "the header is larger than headers can be");
        return NULL;
    }
    struct block *new = memory_try(1, sizeof *new + (size_t)n, g->e);
    if (!new)
        return NULL;
    *new = (struct block){.address = address, .n = (size_t)n};
    *all = new;
    return read_bytes(g, address, new->bytes, (size_t)n) ? NULL : new;
}

/* A continuation: "OCHK", messages, checksum. */
static int add_continuation(const struct guard *g, struct block *all, struct guard_bytes b)
{
    uint64_t address, n;
    if (!take(&b, 8, &address) || !take(&b, 8, &n) || n < 8)
        return guard_reject(g, "the header is damaged");
    const struct block *new = add_block(g, &all, address, n - 4); /* without its checksum */
    if (!new || (g->table && check_checksum(g, address, (size_t)n - 4)))
        return -1;
    return memcmp(new->bytes, "OCHK", GUARD_SIGNATURE) ? guard_reject(g, "the header is damaged")
                                                       : 0;
}

static int check_block(struct guard *g, struct block *all, struct guard_bytes b, bool numbered,
                       struct guard_bytes *layout)
{
    uint64_t type, n, flags;
    while (b.left >= (numbered ? 6u : 4u)) {
        if (!take(&b, 1, &type) || !take(&b, 2, &n) || !take(&b, 1, &flags) ||
            (numbered && !skip(&b, 2)) || n > b.left)
            return guard_reject(g, "the header is damaged");
        const struct guard_bytes body = {b.at, (size_t)n};
        if (flags & 2)
            return guard_reject(g, "the header shares a message with another one");
        if (type == MSG_CONTINUATION && add_continuation(g, all, body))
            return -1;
        if (check_message(g, (enum message)type, body, layout) || !skip(&b, (size_t)n))
            return -1;
    }
    return 0;
}

/* "OHDR", version 2, flags, [4 times], [2 limits of attributes], bytes of messages. */
static int check_header(struct guard *g, struct block **all, uint64_t address)
{
    unsigned char h[34] = {0};
    const uint64_t left = address < g->file_bytes ? g->file_bytes - address : 0;
    if (guard_read_signed(g, address, "OHDR", h, left < sizeof h ? (size_t)left : sizeof h))
        return h[0] != 1 ? -1
                         : guard_reject(g, "another program has rewritten it, with a header of "
                                           "version 1");
    const unsigned flags = h[5];
    const size_t at = 6u + (flags & 0x20 ? 16u : 0u) + (flags & 0x10 ? 4u : 0u);
    const size_t width = (size_t)1 << (flags & 3);
    struct guard_bytes layout = {NULL, 0};
    if (h[4] != 2 || flags & 0xc0)
        return guard_reject(g, "the header is of a version that these files do not have");
    const uint64_t n = guard_number(h + at, width);
    if (!add_block(g, all, address + at + width, n) ||
        (g->table && check_checksum(g, address, at + width + (size_t)n)))
        return -1;
    for (const struct block *k = *all; k; k = k->next) {
        struct guard_bytes b = {k->bytes, k->n};
        if ((k != *all && !skip(&b, GUARD_SIGNATURE)) ||
            check_block(g, *all, b, flags & 4, &layout))
            return -1;
    }
    return layout.at ? guard_layout(g, layout) : 0;
}

static int look_at(struct guard *g, uint64_t address)
{
    struct block *all = NULL;
    if (begin(g))
        return -1;
    int r = check_header(g, &all, address);
    const int why = errno;
    for (struct block *next; all; all = next) {
        next = all->next;
        free(all);
    }
    free(g->heap.bytes);
    errno = why;
    return r;
}

int guard_object(int fd, uint64_t address, struct err *e)
{
    struct guard g = {.fd = fd, .e = e};
    return look_at(&g, address);
}

int guard_view(int fd, uint64_t address, struct err *e)
{
    struct guard g = {.fd = fd, .e = e, .view = true};
    return look_at(&g, address);
}

int guard_table(int fd, uint64_t address, struct guard_table *out, struct err *e)
{
    struct guard g = {.fd = fd, .e = e, .table = out};
    *out = (struct guard_table){.address = UINT64_MAX, .crc32 = -1};
    if (look_at(&g, address))
        return -1;
    return out->address != UINT64_MAX ? 0 : guard_reject(&g, "it has no values");
}

int guard_attributes(int fd, uint64_t address, struct guard_attributes *out, struct err *e)
{
    struct guard g = {.fd = fd, .e = e, .attributes = out};
    return look_at(&g, address);
}

void guard_attributes_free(struct guard_attributes *all)
{
    for (struct guard_attribute *a = all->first, *next; a; a = next) {
        next = a->next;
        free(a->text);
        free(a);
    }
    free(all->heap.bytes);
    *all = (struct guard_attributes){0};
}

/* A place in the heap: length 4, address 8, index 4. Without a length and an address the text is
 * empty. */
static int find_text(int fd, struct guard_heap *heap, const unsigned char *place,
                     struct guard_bytes *out, struct err *e)
{
    const uint64_t n = guard_number(place, 4), address = guard_u64(place + 4);
    struct guard g = {.fd = fd, .e = e, .heap = *heap};
    int r = 0;
    *out = (struct guard_bytes){place, 0};
    if (n != 0 || address != 0)
        r = begin(&g) || find_heap_object(&g, address, guard_number(place + 12, 4), out);
    *heap = g.heap;
    if (r == 0 && out->left != n)
        r = guard_reject(&g, "a text has another length than it says");
    return r ? -1 : 0;
}

const char *guard_text(int fd, struct guard_attributes *of, struct guard_attribute *a,
                       struct err *e)
{
    struct guard_bytes found = {a->value, (size_t)a->each};
    if (a->text || (a->kind == GUARD_HEAP_TEXT && find_text(fd, &of->heap, a->value, &found, e)))
        return a->text;
    if ((a->text = memory_try_zero(found.left + 1, 1, e)))
        memcpy(a->text, found.at, found.left);
    return a->text;
}
