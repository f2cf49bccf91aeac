/*
 * h5_strips.h - the values of a dataset that is contiguous, or lies in chunks of whole rows packed
 * with deflate, shuffle and deflate, or JPEG.
 *
 * The chunks are unpacked here, to exactly their size. HDF5 1.10 takes whatever its filter returns
 * for a full chunk, and reads beyond it.
 */
#ifndef WSI_H5_STRIPS_H
#define WSI_H5_STRIPS_H

#include "common/base/err.h"

#include <hdf5.h>
#include <stdbool.h>

/* Are its values stored in one run, not in chunks? H5Dread() is safe for no others. */
bool h5_is_contiguous(hid_t ds);

enum { H5_NO_LIBRARY = 1 };
/* Reads a dataset of rank 1 to 3 that h5_open_array() has opened, without the check of crc32. If it
 * is JPEG, stored_crc32 must match. 0, -1, or H5_NO_LIBRARY: it is JPEG, and this build cannot
 * decode it. */
int h5_read_values(hid_t ds, const char *name, hid_t type, int rank, const hsize_t *dims,
                   void *data, struct err *e);

/* The same strip by strip. `ds` and `name` must outlive it. NULL on failure. */
struct h5_strips;
struct h5_strips *h5_strips_open(hid_t ds, const char *name, hid_t type, int rank,
                                 const hsize_t *dims, struct err *e);
/* Rows of a strip; the last one may have fewer. */
int64_t h5_strips_rows(const struct h5_strips *m);
/* Reads strip k. As h5_read_values(). */
int h5_strips_read(struct h5_strips *m, int64_t k, void *out, struct err *e);
/* Strip k as it is stored, for another dataset of this shape and these filters: *bytes [*n] until
 * the next call, and HDF5's mask of the filters that were not applied. */
int h5_strips_stored(struct h5_strips *m, int64_t k, const void **bytes, size_t *n, uint32_t *mask,
                     struct err *e);
/* Are strips packed with deflate after shuffle? */
bool h5_strips_are_shuffled(const struct h5_strips *m);
void h5_strips_close(struct h5_strips *m); /* NULL is fine */

#endif
