/*
 * guard_dense.h - many links or attributes of one object.
 */
#ifndef WSI_GUARD_DENSE_H
#define WSI_GUARD_DENSE_H

#include "common/hdf5/guard_bytes.h"

/* Links or attributes in the fractal heap and the B-tree at these addresses. */
int guard_dense(struct guard *g, uint64_t heap, uint64_t tree, bool links);

#endif
