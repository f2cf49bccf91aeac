/*
 * guard.h - looks at the header of an HDF5 object before the library does.
 *
 * The library crashes on forged metadata. wsi2h5 and h5spec use few of its features, so everything
 * else is rejected before the library sees it: shared messages, external files, old or unknown
 * message types, indexes of chunks that do not match their dataset, texts whose length differs from
 * what the global heap holds, and heaps or trees of links and attributes that are not as the
 * library writes them. The source is the HDF5 File Format Specification, version 3.0: IV.A (headers
 * and messages), III.A.2 (trees), III.E and III.G (heaps).
 *
 * These functions use no HDF5 and any thread may call them. Every number is checked against the
 * file's size before it is used.
 */
#ifndef WSI_GUARD_H
#define WSI_GUARD_H

#include "common/base/err.h"

#include <stdint.h>

/* Checks the object whose header lies at `address` of the open file: 0, or -1 with the reason.
 * errno is 0 if the file is to blame, else it has the failure of the system. */
int guard_object(int fd, uint64_t address, struct err *e);

/* As guard_object(), for a virtual dataset, which guard_object() rejects. */
int guard_view(int fd, uint64_t address, struct err *e);

/* What the header of a table says: of a contiguous dataset with two dimensions. */
struct guard_table {
    uint64_t rows, columns;
    int value_bytes;  /* of a little-endian integer; 0: the values are of another type */
    uint64_t address; /* of the values, all of which lie in the file */
    int64_t crc32;    /* its attribute of this name; -1: it has none */
};

/* As guard_object(), for a table that is then read without the library: therefore this also checks
 * the checksum of the header. */
int guard_table(int fd, uint64_t address, struct guard_table *out, struct err *e);

#endif
