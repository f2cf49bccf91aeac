/*
 * h5.h - groups and datasets for stores and results; with attributes (h5_attr.h) and errors
 * (h5_library.h). Whole files are in h5_file.h, writing images in h5_strips.h. Only common/hdf5,
 * store and result include them; nothing else in the project uses HDF5.
 *
 * Written files have format bounds V110 (its metadata carries checksums) and no object times, so
 * that equal runs give equal bytes. Files that are read are hostile until checked: plug-ins are
 * off, and only hard links are followed.
 *
 * HDF5 may only be used by one thread at a time: see h5_library.h.
 */
#ifndef WSI_H5_H
#define WSI_H5_H

#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_library.h"
#include "common/hdf5/h5_strips.h"

/* For any object that is created: no times, and all attributes in its header (H5P_..._CREATE). */
hid_t h5_creation(hid_t class);
/* Returns a property list. If a setting of it has failed, closes it and returns -1, which HDF5
 * takes for no list: an object without that setting would be another one. */
hid_t h5_list(hid_t list, bool failed);
/* Closes what an identifier stands for, but a file; -1 is allowed. Where something is written, ask
 * HDF5's own functions, which tell a failure. */
void h5_close(hid_t id);
/* Both return an identifier, or -1. A group that is opened must be reached by a hard link. A group
 * keeps up to `links` links in its header, with 0 the library's 8; more go to a heap. */
hid_t h5_create_group(hid_t parent, const char *name, unsigned links, struct err *e);
hid_t h5_open_group(hid_t parent, const char *name, struct err *e);
/* Writes a dataset of rank 1 to 3 in one go: contiguous, or `packed` with deflate in chunks of a
 * few MiB, values of several bytes after HDF5's shuffle. Its attribute crc32 is the CRC-32 of the
 * values, little-endian and uncompressed. */
int h5_write_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                   bool packed, const void *data, struct err *e);
/* HDF5's filter of this name: the first byte of all n values, then the second byte of all, ... */
void h5_shuffle(const void *values, size_t n, size_t size, uint8_t *out);
/* Opens a dataset with exactly these dimensions. Its values must have the class and the size of
 * `type` (H5T_NATIVE_...) and lie in this file. */
hid_t h5_open_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                    struct err *e);
/* Opens a dataset of any shape, to ask for its storage. */
hid_t h5_open_dataset(hid_t parent, const char *name, struct err *e);
/* Opens a virtual dataset, to ask for its mappings. Do not read its values. */
hid_t h5_open_view(hid_t parent, const char *name, struct err *e);
/* The dimensions of a dataset of this rank. */
int h5_get_shape(hid_t parent, const char *name, int rank, hsize_t *dims, struct err *e);
/* Is there a link of this name? As h5_has(). */
int h5_has_link(hid_t parent, const char *name, struct err *e);
/* Reads a dataset of rank 1 to 3 that is contiguous, or was written by the function above or those
 * of h5_strips.h. If it has the attribute crc32, the values must match; if it is JPEG, stored_crc32
 * must. 0, -1, or H5_NO_LIBRARY: it is JPEG, and this build cannot decode it. */
int h5_read_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                  void *data, struct err *e);
/* The same for texts of a fixed length, in UTF-8: `bytes` [n][width], padded with NULs. A text that
 * fills its width has no NUL. */
int h5_write_texts(hid_t parent, const char *name, hsize_t n, size_t width, const char *texts,
                   struct err *e);
/* The width of texts must be at most *width, which gets it. To be free()d; NULL on failure. */
char *h5_read_texts(hid_t parent, const char *name, hsize_t n, size_t *width, struct err *e);
/* Where the header of an object lies in the file, for the functions of guard.h. */
int h5_find(hid_t parent, const char *name, uint64_t *address, struct err *e);

#endif
