/*
 * guard_layout.h - the shape of a dataset, and where its data lie.
 */
#ifndef WSI_GUARD_LAYOUT_H
#define WSI_GUARD_LAYOUT_H

#include "common/hdf5/guard_bytes.h"

/* The message with the shape of a dataset, and the one that says where its data lie. */
int guard_space(struct guard *g, struct guard_bytes b);
int guard_layout(struct guard *g, struct guard_bytes b);

#endif
