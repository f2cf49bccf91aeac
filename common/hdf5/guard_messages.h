/*
 * guard_messages.h - messages of a header: types, fill values, filters, links and attributes. Those
 * with the shape of a dataset and the place of its data are in guard_layout.h.
 */
#ifndef WSI_GUARD_MESSAGES_H
#define WSI_GUARD_MESSAGES_H

#include "common/hdf5/guard_bytes.h"

/* An attribute as it lies in the file: what its message has, in the encoding of HDF5. */
struct guard_attribute {
    unsigned char *bytes; /* owned: name, NUL, type, space, value */
    const char *name;
    const unsigned char *type, *space, *value;
    size_t type_bytes, space_bytes, value_bytes;
    bool shared; /* its type or its space lies elsewhere */
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

/* The type of a dataset's values, the value of chunks that are not stored, and the filters. */
int guard_type(const struct guard *g, struct guard_bytes b);
/* Bytes of a value of a type that guard_type() or guard_attribute() has checked, if these are
 * little-endian integers; else 0. */
int guard_integer(const unsigned char *type);
int guard_fill(const struct guard *g, struct guard_bytes b);
int guard_filters(struct guard *g, struct guard_bytes b);
/* A message with a link or an attribute; also its name, which is not empty. */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name);
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *name);

#endif
