/*
 * h5_guard_parts.h - what h5_guard.c (headers, messages), h5_layout.c (datasets) and h5_dense.c
 * (many links or attributes) share.
 */
#ifndef WSI_H5_GUARD_PARTS_H
#define WSI_H5_GUARD_PARTS_H

#include "common/hdf5/h5_guard.h"

#include <stdbool.h>
#include <stddef.h>

enum { GUARD_RANK = 32, GUARD_SIGNATURE = 4 };

struct guard {
    int fd;
    uint64_t file_bytes;
    struct err *e;
    unsigned char *heap; /* the collection of the global heap that was read last; owned */
    uint64_t heap_address, heap_bytes;
    uint64_t heap_searched;
    uint32_t seen; /* bit k: the header has had message k */
    bool filtered; /* the chunks pass through filters */
    int rank;      /* of the dataset, once its dataspace is known; else -1 */
    uint64_t size[GUARD_RANK], most[GUARD_RANK];
    struct guard_chunk *chunks; /* [n_chunks] to be filled in, or NULL */
    uint64_t n_chunks;
    bool view; /* the dataset must be virtual */
};

/* A run of bytes that is being decoded. */
struct guard_bytes {
    const unsigned char *at;
    size_t left;
};

/* n bytes, little-endian. */
uint64_t guard_number(const unsigned char *p, size_t n);
/* Takes a number of n bytes, or skips n bytes; false if fewer are left. */
bool guard_take(struct guard_bytes *b, size_t n, uint64_t *out);
bool guard_skip(struct guard_bytes *b, size_t n);
/* Sets the message and errno = 0; returns -1. */
int guard_reject(const struct guard *g, const char *what);
/* Do n bytes from this address lie in the file? */
bool guard_inside(const struct guard *g, uint64_t address, uint64_t n);
int guard_read(const struct guard *g, uint64_t address, void *out, size_t n);
/* Reads n bytes that begin with a signature of four letters. */
int guard_read_signed(const struct guard *g, uint64_t address, const char *signature,
                      unsigned char *out, size_t n);

/* The message with the shape of a dataset, and the one that says where its data lie. */
int guard_space(struct guard *g, struct guard_bytes b);
int guard_layout(struct guard *g, struct guard_bytes b);
/* The bytes of an object of the global heap must lie in the file. */
int guard_heap(struct guard *g, uint64_t address, uint64_t index, uint64_t *bytes);

/* A message with a link or an attribute; also its name, which is not empty. */
int guard_link(struct guard *g, struct guard_bytes b, struct guard_bytes *name);
int guard_attribute(struct guard *g, struct guard_bytes b, struct guard_bytes *name);
/* Links or attributes in the fractal heap and the B-tree at these addresses. */
int guard_dense(struct guard *g, uint64_t heap, uint64_t tree, bool links);

#endif
