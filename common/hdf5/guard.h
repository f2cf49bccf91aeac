/*
 * guard.h - checks the header of an HDF5 object before the library reads it.
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

/* What the values of an attribute are; numbers are little-endian. */
enum guard_kind {
    GUARD_OTHER,
    GUARD_UNSIGNED,
    GUARD_SIGNED,
    GUARD_REAL,
    GUARD_FIXED_TEXT,
    GUARD_HEAP_TEXT, /* the value says where it lies in the heap: guard_text() */
};

struct guard_attribute {
    struct guard_attribute *next;
    const char *name;
    uint32_t name_crc32; /* by which seals name it */
    enum guard_kind kind;
    uint64_t each, n;           /* bytes of a value; values. 0: not known */
    const unsigned char *value; /* [value_bytes], which may be fewer than each x n */
    size_t value_bytes;
    char *text;            /* once guard_text() has been asked for it; owned */
    unsigned char bytes[]; /* of name and value */
};

/* What the header of a table says: of a contiguous dataset with two dimensions. */
struct guard_table {
    uint64_t rows, columns;
    int value_bytes;  /* of a little-endian integer; 0: the values are of another type */
    uint64_t address; /* of the values, all of which lie in the file */
    int64_t crc32;    /* its attribute of this name; -1: it has none */
};

/* The collection of the global heap that was read last: most texts of an object share one. */
struct guard_heap {
    unsigned char *bytes; /* [n], owned; NULL: none */
    uint64_t address, n;
    uint64_t searched; /* bytes that were looked through for texts, also of others */
};

/* All attributes of an object. Starts as {0}. */
struct guard_attributes {
    struct guard_attribute *first, *last;
    struct guard_heap heap;
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
/* The text of an attribute that has one value, which is a text of either kind; it belongs to the
 * attribute. NULL on failure, as guard_object(). */
const char *guard_text(int fd, struct guard_attributes *of, struct guard_attribute *a,
                       struct err *e);

/* As guard_object(), for a table that is then read without the library: therefore this also checks
 * the checksum of the header. */
int guard_table(int fd, uint64_t address, struct guard_table *out, struct err *e);

#endif
