/*
 * guard_messages.h - messages of a header: types, fill values, filters, links and attributes. Those
 * with the shape of a dataset and the place of its data are in guard_layout.h.
 */
#ifndef WSI_GUARD_MESSAGES_H
#define WSI_GUARD_MESSAGES_H

#include "common/hdf5/guard_bytes.h"

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
