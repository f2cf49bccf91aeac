/*
 * guard.c - see guard.h.
 *
 * The names of structures and messages are those of the HDF5 File Format Specification,
 * version 3.0. Checksums of headers are left to the library, except for tables, which it does not
 * open: whoever forges metadata forges them, too.
 */
#include "common/hdf5/guard.h"

#include "common/base/memory.h"
#include "common/hdf5/guard_dense.h"
#include "common/hdf5/guard_layout.h"
#include "common/hdf5/guard_messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &flags) || version != 0 || flags > 1 ||
        !guard_skip(&b, flags ? number_bytes : 0) || !guard_take(&b, 8, &heap) ||
        !guard_take(&b, 8, &tree))
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

/* The blocks of a header: the first one, and those that continuation messages name. */
struct blocks {
    unsigned char *bytes[MOST_BLOCKS]; /* owned */
    size_t size[MOST_BLOCKS];
    uint64_t address[MOST_BLOCKS];
    int n;
};

static int add_block(const struct guard *g, struct blocks *all, uint64_t address, uint64_t n)
{
    if (all->n == MOST_BLOCKS || n > MOST_MESSAGES)
        return guard_reject(g, "the header is larger than headers can be");
    for (int k = 0; k < all->n; k++)
        if (all->address[k] == address)
            return guard_reject(g, "the header refers to itself");
    unsigned char *bytes = memory_try((size_t)n + 1, 1, g->e);
    if (!bytes)
        return -1;
    all->bytes[all->n] = bytes;
    all->size[all->n] = (size_t)n;
    all->address[all->n++] = address;
    return guard_read(g, address, bytes, (size_t)n);
}

/* A continuation: "OCHK", messages, checksum. */
static int add_continuation(const struct guard *g, struct blocks *all, struct guard_bytes b)
{
    uint64_t address, n;
    if (!guard_take(&b, 8, &address) || !guard_take(&b, 8, &n) || n < 8)
        return guard_reject(g, "the header is damaged");
    if (add_block(g, all, address, n - 4) || /* without its checksum */
        (g->table && guard_checksum(g, address, (size_t)n - 4)))
        return -1;
    return memcmp(all->bytes[all->n - 1], "OCHK", GUARD_SIGNATURE)
               ? guard_reject(g, "the header is damaged")
               : 0;
}

static int check_block(struct guard *g, struct blocks *all, struct guard_bytes b, bool numbered,
                       struct guard_bytes *layout)
{
    uint64_t type, n, flags;
    while (b.left >= (numbered ? 6u : 4u)) {
        if (!guard_take(&b, 1, &type) || !guard_take(&b, 2, &n) || !guard_take(&b, 1, &flags) ||
            (numbered && !guard_skip(&b, 2)) || n > b.left)
            return guard_reject(g, "the header is damaged");
        const struct guard_bytes body = {b.at, (size_t)n};
        if (flags & 2)
            return guard_reject(g, "the header shares a message with another one");
        if (type == MSG_CONTINUATION && add_continuation(g, all, body))
            return -1;
        if (check_message(g, (enum message)type, body, layout) || !guard_skip(&b, (size_t)n))
            return -1;
    }
    return 0;
}

/* "OHDR", version 2, flags, [4 times], [2 limits of attributes], bytes of messages. */
static int check_header(struct guard *g, struct blocks *all, uint64_t address)
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
    if (add_block(g, all, address + at + width, n) ||
        (g->table && guard_checksum(g, address, at + width + (size_t)n)))
        return -1;
    for (int k = 0; k < all->n; k++) {
        struct guard_bytes b = {all->bytes[k], all->size[k]};
        if ((k > 0 && !guard_skip(&b, GUARD_SIGNATURE)) ||
            check_block(g, all, b, flags & 4, &layout))
            return -1;
    }
    return layout.at ? guard_layout(g, layout) : 0;
}

static int look_at(struct guard *g, uint64_t address)
{
    if (guard_begin(g))
        return -1;
    struct blocks *all = memory_try(1, sizeof *all, g->e); /* large, and few of them are used */
    if (!all)
        return -1;
    all->n = 0;
    int r = check_header(g, all, address);
    const int why = errno;
    for (int k = 0; k < all->n; k++)
        free(all->bytes[k]);
    free(all);
    free(g->heap);
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

void guard_attributes_free(struct guard_attributes *a)
{
    for (size_t k = 0; k < a->n; k++)
        free(a->list[k].bytes);
    free(a->list);
    *a = (struct guard_attributes){0};
}

/* A text: length 4, address 8, index 4. Without a length and an address it is empty. */
char *guard_text(int fd, struct guard_attributes *of, const unsigned char *value, struct err *e)
{
    const uint64_t n = guard_number(value, 4), address = guard_u64(value + 4);
    struct guard g = {.fd = fd, .e = e, .heap_searched = of->searched};
    struct guard_bytes found = {value, 0};
    char *text = NULL;
    int r = 0;
    if (n != 0 || address != 0)
        r = guard_begin(&g) || guard_heap(&g, address, guard_number(value + 12, 4), &found);
    of->searched = g.heap_searched;
    if (r == 0 && found.left != n)
        r = guard_reject(&g, "a text has another length than it says");
    if (r == 0 && (text = memory_try_zero((size_t)n + 1, 1, e)))
        memcpy(text, found.at, (size_t)n);
    const int why = errno;
    free(g.heap);
    errno = why;
    return text;
}
