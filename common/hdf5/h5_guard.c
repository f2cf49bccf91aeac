/*
 * h5_guard.c - see h5_guard.h.
 *
 * The names of structures and messages are those of the HDF5 File Format Specification,
 * version 3.0. Checksums of headers are left to the library: whoever forges metadata forges them,
 * too.
 */
#include "common/hdf5/h5_guard_parts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_MESSAGES = 1 << 20, /* bytes of one block of messages */
    MOST_BLOCKS = 4096,      /* blocks of one header */
    MOST_HEAP = 1 << 26,     /* bytes of one collection of the global heap */
    MOST_SEARCHED = 1 << 29, /* bytes of collections, counted again for each text of an object */
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
    MSG_CONTINUATION = 0x10,
    MSG_TIME = 0x12,
    MSG_ATTRIBUTE_INFO = 0x15,
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

/* Takes a number of n bytes. */
bool guard_take(struct guard_bytes *b, size_t n, uint64_t *out)
{
    if (b->left < n)
        return false;
    *out = guard_number(b->at, n);
    b->at += n;
    b->left -= n;
    return true;
}

bool guard_skip(struct guard_bytes *b, size_t n)
{
    if (b->left < n)
        return false;
    b->at += n;
    b->left -= n;
    return true;
}

bool guard_inside(const struct guard *g, uint64_t address, uint64_t n)
{
    return address <= g->file_bytes && n <= g->file_bytes - address;
}

int guard_read(const struct guard *g, uint64_t address, void *out, size_t n)
{
    if (!guard_inside(g, address, n))
        return guard_reject(g, "an address lies outside the file");
    for (size_t have = 0; have < n;) {
        const ssize_t got = pread(g->fd, (char *)out + have, n - have, (off_t)(address + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(g->e, "cannot read");
        if (got == 0)
            return guard_reject(g, "the file ends too early");
        have += (size_t)got;
    }
    return 0;
}

/* Reads n bytes that begin with a signature of four letters. */
int guard_read_signed(const struct guard *g, uint64_t address, const char *signature,
                      unsigned char *out, size_t n)
{
    if (guard_read(g, address, out, n))
        return -1;
    return memcmp(out, signature, GUARD_SIGNATURE)
               ? guard_reject(g, "a block of metadata is of the wrong kind")
               : 0;
}

/* --- texts of variable length --- */

/* Reads a collection of the global heap; keeps the last one, as most texts of an object share one.
 */
static int read_heap(struct guard *g, uint64_t address)
{
    unsigned char head[16];
    if (g->heap && g->heap_address == address)
        return 0;
    if (guard_read_signed(g, address, "GCOL", head, sizeof head))
        return -1;
    const uint64_t n = guard_u64(head + 8);
    if (head[4] != 1 || n < 4096 || n > MOST_HEAP || !guard_inside(g, address, n))
        return guard_reject(g, "a heap of texts has invalid sizes");
    free(g->heap);
    if (!(g->heap = malloc((size_t)n)))
        return err_sys(g->e, "out of memory");
    g->heap_address = address;
    g->heap_bytes = n;
    return guard_read(g, address, g->heap, (size_t)n);
}

/* The heap's objects follow one another: index 2, count 2, unused 4, size 8, bytes padded to 8. */
int guard_heap(struct guard *g, uint64_t address, uint64_t index, uint64_t *bytes)
{
    bool found = false;
    if (read_heap(g, address))
        return -1;
    if ((g->heap_searched += g->heap_bytes) > MOST_SEARCHED)
        return guard_reject(g, "it has more texts than these files have");
    struct guard_bytes b = {g->heap + 16, (size_t)g->heap_bytes - 16};
    while (b.left >= 16) {
        const uint64_t number = guard_number(b.at, 2), size = guard_u64(b.at + 8);
        if (number == 0) { /* free space; the library never ends if it has no bytes */
            if (size != b.left)
                return guard_reject(g, "a heap of texts has invalid sizes");
            break;
        }
        if (size > b.left || !guard_skip(&b, 16) || !guard_skip(&b, (size_t)(size + 7) / 8 * 8))
            return guard_reject(g, "a heap of texts has invalid sizes");
        if (number != index)
            continue;
        if (found)
            return guard_reject(g, "a heap of texts has two texts of one number");
        found = true;
        *bytes = size;
    }
    return found ? 0 : guard_reject(g, "a text is missing in the heap");
}

static int check_text(struct guard *g, uint64_t n, uint64_t address, uint64_t index)
{
    uint64_t bytes;
    if (n == 0 && address == 0) /* otherwise the library reads the heap all the same */
        return 0;
    if (guard_heap(g, address, index, &bytes))
        return -1;
    return bytes == n ? 0 : guard_reject(g, "a text has another length than it says");
}

enum { INTEGER = 0, REAL = 1, STRING = 3, VARIABLE = 9 };

/* A datatype: class and version, 3 bytes of flags, size 4, and what the class adds. */
static bool is_number(const unsigned char *t, size_t n)
{
    const int class = t[0] & 15;
    const uint64_t size = guard_number(t + 4, 4);
    return n >= 12 && (class == INTEGER || class == REAL) &&
           (size == 1 || size == 2 || size == 4 || size == 8);
}

/* A text of variable length is a sequence of single bytes: length 4, address 8, index 4. */
static bool is_variable_text(const unsigned char *t, size_t n)
{
    return n >= 20 && (t[0] & 15) == VARIABLE && (t[1] & 15) == 1 && guard_number(t + 4, 4) == 16 &&
           (t[8] & 15) == INTEGER && guard_number(t + 12, 4) == 1;
}

/* The values of a dataset are numbers. */
static int check_type(const struct guard *g, struct guard_bytes b)
{
    return b.left >= 8 && is_number(b.at, b.left)
               ? 0
               : guard_reject(g, "the values are of a type that these files do not have");
}

/* A dataspace: version, rank, flags, and 1 byte (version 2) or 5; then the dimensions, each of 8
 * bytes, and perhaps their limits. False if the values need more than `most` bytes. */
static bool fits(const unsigned char *space, uint64_t n, uint64_t value_bytes, uint64_t most)
{
    const unsigned rank = space[1], head = space[0] == 2 ? 4 : 8;
    uint64_t bytes = value_bytes;
    if (space[0] < 1 || space[0] > 2 || n < head + 8u * rank)
        return false;
    for (unsigned k = 0; k < rank; k++) {
        const uint64_t size = guard_u64(space + head + 8 * k);
        if (size > most)
            return false;
        bytes *= size; /* at most `most` squared, which is small */
        if (bytes > most)
            return false;
    }
    return bytes <= most;
}

/* Version 3: version, flags, sizes of name, type and space, character set; then these, and the
 * value. */
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *attribute_name)
{
    uint64_t version, flags, name, type, space, set, length, address, index;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &flags) || !guard_take(&b, 2, &name) ||
        !guard_take(&b, 2, &type) || !guard_take(&b, 2, &space) || !guard_take(&b, 1, &set) ||
        version != 3 || flags != 0 || type < 8 || space < 4 || name < 1 ||
        b.left < name + type + space || b.at[name - 1] != 0)
        return guard_reject(g, "an attribute is damaged");
    *attribute_name = (struct guard_bytes){b.at, (size_t)name - 1};
    const unsigned char *t = b.at + name, *s = t + type;
    const bool scalar = s[0] == 2 && s[1] == 0;
    guard_skip(&b, (size_t)(name + type + space));
    const uint64_t bytes = guard_number(t + 4, 4);
    if (is_number(t, (size_t)type) && fits(s, space, bytes, b.left))
        return 0;
    if ((t[0] & 15) == STRING && scalar && bytes > 0 && bytes <= b.left)
        return 0;
    if (!is_variable_text(t, (size_t)type) || !scalar || !guard_take(&b, 4, &length) ||
        !guard_take(&b, 8, &address) || !guard_take(&b, 4, &index))
        return guard_reject(g, "an attribute is of a type that these files do not have");
    return check_text(g, length, address, index);
}

/* --- links, and what else a header holds --- */

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

/*
 * A link: version 1, flags, [type], [creation order 8], [character set], length of the name in 1,
 * 2, 4 or 8 bytes, name, address. If the library cannot decode a link of a group, it frees what it
 * has not set.
 */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name)
{
    uint64_t version, flags, type = 0, set = 0, length, address;
    if (guard_take(&b, 1, &version) && version == 1 && guard_take(&b, 1, &flags) && flags < 0x20 &&
        (!(flags & 8) || guard_take(&b, 1, &type)) && type == 0 &&
        guard_skip(&b, flags & 4 ? 8 : 0) && (!(flags & 0x10) || guard_take(&b, 1, &set)) &&
        set <= 1 && guard_take(&b, (size_t)1 << (flags & 3), &length) && length > 0 &&
        length <= b.left) {
        *name = (struct guard_bytes){b.at, (size_t)length};
        if (guard_skip(&b, (size_t)length) && guard_take(&b, 8, &address) &&
            guard_inside(g, address, 1))
            return 0;
    }
    return guard_reject(g, "a link is damaged or leads elsewhere: rejected");
}

/* A value of chunks that are not stored: version 3, flags, and if bit 5 is set its size 4 and its
 * bytes; or version 2, three bytes, of which the last says whether these follow. */
static int check_fill(const struct guard *g, struct guard_bytes b)
{
    uint64_t version, flags, size = 0;
    if (guard_take(&b, 1, &version) && (version == 3 || (version == 2 && guard_skip(&b, 2))) &&
        guard_take(&b, 1, &flags) &&
        (!(flags & (version == 3 ? 0x20 : 0xff)) || guard_take(&b, 4, &size)) && size <= b.left)
        return 0;
    return guard_reject(g, "a fill value is damaged");
}

/* Filters of the chunks: version 2, their number, and what the library checks itself. */
static int check_filters(struct guard *g, struct guard_bytes b)
{
    uint64_t version, n;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &n) || version != 2 || n < 1)
        return guard_reject(g, "the list of filters is damaged");
    g->filtered = true;
    return 0;
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
    case MSG_FILL: return check_fill(g, b);
    case MSG_FILTERS: return check_filters(g, b);
    case MSG_EXTERNAL: return guard_reject(g, "its data lie outside the file: rejected");
    case MSG_NIL:
    case MSG_GROUP_INFO:
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
    unsigned char *bytes = malloc((size_t)n + 1);
    if (!bytes)
        return err_sys(g->e, "out of memory");
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
    if (add_block(g, all, address, n - 4)) /* without its checksum */
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
        return -1;
    const unsigned flags = h[5];
    const size_t at = 6u + (flags & 0x20 ? 16u : 0u) + (flags & 0x10 ? 4u : 0u);
    const size_t width = (size_t)1 << (flags & 3);
    struct guard_bytes layout = {NULL, 0};
    if (h[4] != 2 || flags & 0xc0)
        return guard_reject(g, "the header is of a version that these files do not have");
    if (add_block(g, all, address + at + width, guard_number(h + at, width)))
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
    struct stat st;
    if (fstat(g->fd, &st))
        return err_sys(g->e, "cannot read the file's size");
    g->file_bytes = (uint64_t)st.st_size;
    g->rank = -1;
    struct blocks *all = malloc(sizeof *all); /* large, and few of them are used */
    if (!all)
        return err_sys(g->e, "out of memory");
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

int guard_chunks(int fd, uint64_t address, struct guard_chunk *out, uint64_t n, struct err *e)
{
    struct guard g = {.fd = fd, .e = e, .chunks = out, .n_chunks = n};
    for (uint64_t k = 0; k < n; k++)
        out[k] = (struct guard_chunk){.address = UINT64_MAX};
    return look_at(&g, address);
}
