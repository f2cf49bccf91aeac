/*
 * h5.h - groups, datasets and attributes for stores and results. Only common/h5*, common/store* and
 * common/result* include it; nothing else in the project uses HDF5.
 *
 * Written files have format bounds V110 (its metadata carries checksums) and no object times, so
 * that equal runs give equal bytes. Files that are read are hostile until checked: plug-ins are
 * off, and only hard links are followed.
 *
 * HDF5 may only be used by one thread at a time.
 */
#ifndef WSI_H5_H
#define WSI_H5_H

#include "common/base/err.h"
#include "common/codec/jpeg_chunk.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Prepares the library. Safe to call again; h5_file.h calls it before it opens a file. */
void h5_init(void);

/* --- scalar attributes of an object --- */

/* Texts are written as variable-length UTF-8 strings; fixed-length ones are read, too.
 * Variable-length strings lie in HDF5's global heap, which has no checksum. So an object gets the
 * attribute text_crc32 when all its texts are there: the CRC-32 over name, NUL, value, NUL of each,
 * in the order of the names' bytes. Objects without text_crc32 are not checked (files of older
 * versions). */
int h5_put_int(hid_t object, const char *name, int64_t value, struct err *e);
int h5_put_u8(hid_t object, const char *name, uint8_t value, struct err *e);
int h5_put_real(hid_t object, const char *name, double value, struct err *e);
int h5_put_text(hid_t object, const char *name, const char *value, struct err *e);
/* A fixed-length ASCII string with its NUL, for conventions of HDF5 that want one. */
int h5_put_word(hid_t object, const char *name, const char *value, struct err *e);

int h5_seal_texts(hid_t object, struct err *e);
int h5_check_texts(hid_t object, struct err *e);

/* Is there an attribute of this name? 1, 0, or -1: without memory the library cannot tell, and what
 * is optional must not be taken for absent. */
int h5_has(hid_t object, const char *name, struct err *e);
/* The integer must lie in [low, high]. */
int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e);
int h5_get_real(hid_t object, const char *name, double *out, struct err *e);
/* The string must be shorter than `size` bytes. */
int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e);

/* --- groups and datasets --- */

/* For any object that is created: no times, and all attributes in its header (H5P_..._CREATE). */
hid_t h5_creation(hid_t class);
/* Returns a property list. If a setting of it has failed, closes it and returns -1, which HDF5
 * takes for no list: an object without that setting would be another one. */
hid_t h5_list(hid_t list, bool failed);
/* Both return an identifier, or -1. A group that is opened must be reached by a hard link. A group
 * keeps up to `links` links in its header, with 0 the library's 8; more go to a heap. */
hid_t h5_create_group(hid_t parent, const char *name, unsigned links, struct err *e);
hid_t h5_open_group(hid_t parent, const char *name, struct err *e);
/* Writes a dataset of rank 1 to 3 in one go: contiguous, or with deflate > 0 compressed at that
 * level in chunks of a few MiB. Its attribute crc32 is the CRC-32 of the values, little-endian and
 * uncompressed. */
int h5_write_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                   int deflate, const void *data, struct err *e);
/* Writes u8 [dims[0]][dims[1]][dims[2]], or of rank 2 if dims[2] is 1, packed with deflate by up to
 * `threads` threads in chunks of whole rows. The bytes do not depend on the threads. crc32 as
 * above. With dims[2] = 3 the dataset is an RGB image as of HDF5's image specification. */
int h5_write_image(hid_t parent, const char *name, const int64_t dims[3], const uint8_t *data,
                   int threads, struct err *e);
/* Marks a dataset as such an image. */
int h5_mark_as_rgb(hid_t dataset, struct err *e);
/* Writes an RGB image that is compressed already. Its attribute stored_crc32 is the CRC-32 of the
 * stored bytes of all chunks, one after the other. */
int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, struct err *e);
/* Makes chunks of codec jpeg those of a dataset that will be created with this list. */
int h5_set_jpeg(hid_t dcpl, int64_t cols, int64_t rows);
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
/* Are its values stored in one run, not in chunks? H5Dread() is safe for no others. */
bool h5_is_contiguous(hid_t ds);
enum { H5_NO_LIBRARY = 1 };
/* Reads a dataset of rank 1 to 3 that is contiguous, or was written by one of the functions above.
 * If it has the attribute crc32, the values must match; if it is JPEG, stored_crc32 must. 0, -1, or
 * H5_NO_LIBRARY: it is JPEG, and this build cannot decode it. */
int h5_read_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                  void *data, struct err *e);
/* The same for a dataset that h5_open_array() has opened, without the check of crc32. */
int h5_read_values(hid_t ds, const char *name, hid_t type, int rank, const hsize_t *dims,
                   void *data, struct err *e);

/* Lists the n chunks of a dataset of a file that is open for reading; see guard_chunks(). */
struct guard_chunk;
int h5_list_chunks(hid_t parent, const char *name, struct guard_chunk *out, uint64_t n,
                   struct err *e);

/* --- errors --- */

/* As err_set, and appends the library's own cause. Returns -1. */
int h5_error(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* For a call that failed to write: "cannot write NAME", with the cause, and h5_mark_broken(). Call
 * it at once, because the next call of the library forgets the cause. Returns -1. */
int h5_write_failed(struct err *e, const char *name);
/* Drops the library's list of errors. */
void h5_forget(void);
/* Has a system call failed, or memory run out, in any call of the library since h5_watch()? Then a
 * failure says nothing about the file. */
void h5_watch(void);
bool h5_system_failed(void);
/* Notes that the library failed to write a file; see h5_exit.h. */
void h5_mark_broken(void);

#endif
