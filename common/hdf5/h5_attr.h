/*
 * h5_attr.h - scalar attributes of an object.
 *
 * Texts are written as variable-length UTF-8 strings; fixed-length ones are read, too.
 * Variable-length strings lie in HDF5's global heap, which has no checksum. So an object gets the
 * attribute text_crc32 when all its texts are there: the CRC-32 over name, NUL, value, NUL of each,
 * in the order of the names' bytes. Objects without text_crc32 are not checked (files of older
 * versions).
 */
#ifndef WSI_H5_ATTR_H
#define WSI_H5_ATTR_H

#include "common/base/err.h"

#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
