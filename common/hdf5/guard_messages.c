/* guard_messages.c - see guard_messages.h. */
#include "common/hdf5/guard_messages.h"

#include <string.h>

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
 * value. If a name is shorter than its size, the library frees what it has not set. */
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *attribute_name)
{
    uint64_t version, flags, name, type, space, set, length, address, index;
    if (!guard_take(&b, 1, &version) || !guard_take(&b, 1, &flags) || !guard_take(&b, 2, &name) ||
        !guard_take(&b, 2, &type) || !guard_take(&b, 2, &space) || !guard_take(&b, 1, &set) ||
        version != 3 || flags != 0 || type < 8 || space < 4 || name < 1 ||
        b.left < name + type + space || memchr(b.at, 0, (size_t)name) != b.at + name - 1)
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
