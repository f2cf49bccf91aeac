/*
 * h5_strips.h - datasets in strips, which are chunks of whole rows: read and written.
 */
#ifndef WSI_H5_STRIPS_H
#define WSI_H5_STRIPS_H

#include "common/base/err.h"
#include "common/codec/codec.h"
#include "common/codec/jpeg_stream.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * --- the values of a dataset that is contiguous, or lies in chunks of whole rows packed with
 * deflate, shuffle and deflate, or JPEG ---
 *
 * The chunks are unpacked here, to exactly their size. HDF5 1.10 takes whatever its filter returns
 * for a full chunk, and reads beyond it.
 */

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

/* --- writing arrays of bytes in strips; h5_read_array() reads them --- */

/* Writes u8 [dims[0]][dims[1]][dims[2]], or of rank 2 if dims[2] is 1, packed with deflate by up to
 * `threads` threads in chunks of whole rows. The bytes do not depend on the threads. crc32 is that
 * of h5_write_array(). With dims[2] = 3 the dataset is an RGB image as of HDF5's image
 * specification. */
int h5_write_image(hid_t parent, const char *name, const int64_t dims[3], const uint8_t *data,
                   int threads, struct err *e);
/* Writes an RGB image that is compressed already. Its attribute stored_crc32, which *crc gets, is
 * the CRC-32 of the stored bytes of all chunks, one after the other. */
int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, uint32_t *crc,
                    struct err *e);
/* Makes kept tiles the chunks of a dataset that will be created with this list. */
int h5_set_kept(hid_t dcpl, const struct codec *c, int64_t cols, int64_t rows, int64_t channels);

#endif
