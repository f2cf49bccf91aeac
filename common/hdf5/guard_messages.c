/* guard_messages.c - see guard_messages.h. */
#include "common/hdf5/guard_messages.h"

#include "common/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { INTEGER = 0, REAL = 1, STRING = 3 };

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
int guard_type(const struct guard *g, struct guard_bytes b)
{
    return b.left >= 8 && (is_number(b.at, b.left) || is_fixed_text(b.at))
               ? 0
               : guard_reject(g, "the values are of a type that these files do not have");
}

int guard_integer(const unsigned char *type)
{
    enum { BIG_ENDIAN_BIT = 1 };
    const bool is = (type[0] & 15) == INTEGER && !(type[1] & BIG_ENDIAN_BIT);
    return is ? (int)guard_number(type + 4, 4) : 0;
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
    const size_t n = a->shared || a->type_bytes < 8 ? 0 : (size_t)guard_integer(a->type);
    const bool good = n >= 1 && n <= 8 && n <= a->value_bytes;
    const uint64_t value = good ? guard_number(a->value, n) : UINT64_MAX;
    t->crc32 = value <= UINT32_MAX ? (int64_t)value : INT64_MAX;
}

static int add_attribute(const struct guard *g, struct guard_attribute a)
{
    struct guard_attributes *all = g->attributes;
    all->list = memory_grow(all->list, (int64_t)all->n, sizeof *all->list);
    const size_t name = strlen(a.name) + 1, n = name + a.type_bytes + a.space_bytes + a.value_bytes;
    if (!(a.bytes = memory_try(n, 1, g->e)))
        return -1;
    unsigned char *at = a.bytes;
    a.name = memcpy(at, a.name, name);
    a.type = memcpy(at += name, a.type, a.type_bytes);
    a.space = memcpy(at += a.type_bytes, a.space, a.space_bytes);
    a.value = memcpy(at + a.space_bytes, a.value, a.value_bytes);
    all->list[all->n++] = a;
    return 0;
}

/* Version, flags, sizes of name, type and space, in version 3 the character set; then these, and
 * the value. */
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *attribute_name)
{
    uint64_t version, flags, name, type, space;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &flags) || !guard_take(&b, 2, &name) ||
        !guard_take(&b, 2, &type) || !guard_take(&b, 2, &space) || version < 1 || version > 3 ||
        !guard_skip(&b, version == 3) || name < 1)
        return guard_reject(g, "an attribute is damaged");
    const size_t head = padded(name, version) + padded(type, version) + padded(space, version);
    if (b.left < head || memchr(b.at, 0, (size_t)name) != b.at + name - 1)
        return guard_reject(g, "an attribute is damaged");
    *attribute_name = (struct guard_bytes){b.at, (size_t)name - 1};
    const unsigned char *t = b.at + padded(name, version);
    const struct guard_attribute a = {.name = (const char *)b.at,
                                      .type = t,
                                      .space = t + padded(type, version),
                                      .value = b.at + head,
                                      .type_bytes = (size_t)type,
                                      .space_bytes = (size_t)space,
                                      .value_bytes = b.left - head,
                                      .shared = version > 1 && flags & 3};
    if (g->table)
        note_crc32(g->table, &a);
    return g->attributes ? add_attribute(g, a) : 0;
}

/* What a link leads to: the address of an object in the file, or a text and its length 2. The text
 * is a path in this file (soft) or elsewhere (64 and above), and nothing here follows it. */
static bool is_target(const struct guard *g, struct guard_bytes b, uint64_t type)
{
    enum { HARD = 0, SOFT = 1, FOREIGN = 64 };
    uint64_t address, n;
    if (type == HARD)
        return guard_take(&b, 8, &address) && guard_inside(g, address, 1);
    return (type == SOFT || type >= FOREIGN) && guard_take(&b, 2, &n) && n > 0 && n <= b.left;
}

/*
 * A link: version 1, flags, [type], [creation order 8], [character set], length of the name in 1,
 * 2, 4 or 8 bytes, name, target. If the library cannot decode a link of a group, it frees what it
 * has not set.
 */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name)
{
    uint64_t version, flags, type = 0, set = 0, length;
    if (guard_take(&b, 1, &version) && version == 1 && guard_take(&b, 1, &flags) && flags < 0x20 &&
        (!(flags & 8) || guard_take(&b, 1, &type)) && guard_skip(&b, flags & 4 ? 8 : 0) &&
        (!(flags & 0x10) || guard_take(&b, 1, &set)) && set <= 1 &&
        guard_take(&b, (size_t)1 << (flags & 3), &length) && length > 0 && length <= b.left) {
        *name = (struct guard_bytes){b.at, (size_t)length};
        if (guard_skip(&b, (size_t)length) && is_target(g, b, type))
            return 0;
    }
    return guard_reject(g, "a link is damaged");
}

/* A value of chunks that are not stored: version 3, flags, and if bit 5 is set its size 4 and its
 * bytes; or version 2, three bytes, of which the last says whether these follow. */
int guard_fill(const struct guard *g, struct guard_bytes b)
{
    uint64_t version, flags, size = 0;
    if (guard_take(&b, 1, &version) && (version == 3 || (version == 2 && guard_skip(&b, 2))) &&
        guard_take(&b, 1, &flags) &&
        (!(flags & (version == 3 ? 0x20 : 0xff)) || guard_take(&b, 4, &size)) && size <= b.left)
        return 0;
    return guard_reject(g, "a fill value is damaged");
}

/* Filters of the chunks: version 2, their number, and what the library checks itself. */
int guard_filters(struct guard *g, struct guard_bytes b)
{
    uint64_t version, n;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &n) || version != 2 || n < 1)
        return guard_reject(g, "the list of filters is damaged");
    g->filtered = true;
    return 0;
}
