/*
 * guard.h - looks at the header of an HDF5 object before the library does.
 *
 * The library crashes on forged metadata. wsi2h5 and h5spec use few of its features, so everything
 * else is rejected before the library sees it: shared or repeated messages, external files, unknown
 * message types, datasets of other types than integers, reals and strings of at most 4,096 bytes,
 * texts of another length than the heap holds, indexes of chunks that do not match shape or
 * filters, places beyond the file, and heaps or trees of links and attributes that are not as the
 * library writes them, larger than 64 MiB, or with a message above 4 KiB. What other programs add
 * is let pass if it is well formed: attributes of any type, which the library is never asked for,
 * and links, which are never followed. The source is the HDF5 File Format Specification, version
 * 3.0: IV.A (headers and messages), III.A.2 (trees), III.E and III.G (heaps).
 *
 * These functions use no HDF5 and any thread may call them. Every number is checked against the
 * file's size before it is used.
 */
#ifndef WSI_GUARD_H
#define WSI_GUARD_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An attribute as it lies in the file: what its message has, in the encoding of HDF5. */
struct guard_attribute {
    unsigned char *bytes; /* owned: name, NUL, type, space, value */
    const char *name;
    const unsigned char *type, *space, *value;
    size_t type_bytes, space_bytes, value_bytes;
    bool shared;         /* its type or its space lies elsewhere */
    uint32_t name_crc32; /* by which seals name it */
};

/* What the header of a table says: of a contiguous dataset with two dimensions. */
struct guard_table {
    uint64_t rows, columns;
    int value_bytes;  /* of a little-endian integer; 0: the values are of another type */
    uint64_t address; /* of the values, all of which lie in the file */
    int64_t crc32;    /* its attribute of this name; -1: it has none */
};

/* All attributes of an object. Starts as {0}. */
struct guard_attributes {
    struct guard_attribute *list;
    size_t n;
    uint64_t searched; /* bytes of the heap that were looked through for texts */
};

/* Checks the object whose header lies at `address` of the open file: 0, or -1 with the reason.
 * errno is 0 if the file is to blame, else it has the failure of the system. */
int guard_object(int fd, uint64_t address, struct err *e);

/* As guard_object(), for a virtual dataset, which guard_object() rejects. */
int guard_view(int fd, uint64_t address, struct err *e);

/* As guard_object(), and lists the attributes, whoever wrote them: the library, which decodes all
 * attributes of an object to find one, need not see them. */
int guard_attributes(int fd, uint64_t address, struct guard_attributes *out, struct err *e);
void guard_attributes_free(struct guard_attributes *a); /* what it owns */
/* The text of variable length whose place in the heap is this value of 16 bytes; to be free()d.
 * NULL on failure, as guard_object(). */
char *guard_text(int fd, struct guard_attributes *of, const unsigned char *value, struct err *e);

/* As guard_object(), for a table that is then read without the library: therefore this also checks
 * the checksum of the header. */
int guard_table(int fd, uint64_t address, struct guard_table *out, struct err *e);

#endif
