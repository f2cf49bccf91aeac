/*
 * guard_bytes.h - the bytes of an object that is being checked: reading them, and taking them
 * apart. Every address is checked against the file's size before it is used.
 */
#ifndef WSI_GUARD_BYTES_H
#define WSI_GUARD_BYTES_H

#include "common/base/err.h"
#include "common/hdf5/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD_RANK = 32, GUARD_SIGNATURE = 4, GUARD_TEXT = 4096 }; /* bytes of a text */

struct guard {
    int fd;
    uint64_t file_bytes;
    struct err *e;
    struct guard_heap heap;
    uint32_t seen; /* bit k: the header has had message k */
    bool filtered; /* the chunks pass through filters */
    int rank;      /* of the dataset, once its dataspace is known; else -1 */
    uint64_t size[GUARD_RANK], most[GUARD_RANK];
    struct guard_table *table;           /* to be filled in, or NULL */
    struct guard_attributes *attributes; /* the same */
    bool view;                           /* the dataset must be virtual */
};

/* A run of bytes that is being decoded. */
struct guard_bytes {
    const unsigned char *at;
    size_t left;
};

/* n bytes, and eight bytes, little-endian. */
uint64_t guard_number(const unsigned char *p, size_t n);
uint64_t guard_u64(const unsigned char *p);
/* Sets the message and errno = 0; returns -1. */
int guard_reject(const struct guard *g, const char *what);
/* Reads n bytes that begin with a signature of four letters. */
int guard_read_signed(const struct guard *g, uint64_t address, const char *signature,
                      unsigned char *out, size_t n);
/* The checksum of HDF5's metadata: lookup3's hashlittle() with initval 0 (Bob Jenkins, 2006, public
 * domain). In guard_dense.c. */
uint32_t guard_lookup3(const unsigned char *p, size_t n);

/* --- what the guard of a header and that of many links or attributes ask of each other --- */

/* A message with a link or an attribute; also its name, which is not empty. In guard.c. */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name);
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *name);
/* Links or attributes in the fractal heap and the B-tree at these addresses. In guard_dense.c. */
int guard_dense(struct guard *g, uint64_t heap, uint64_t tree, bool links);

#endif
