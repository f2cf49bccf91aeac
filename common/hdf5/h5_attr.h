/*
 * h5_attr.h - attributes of an object: scalars, and rows of numbers.
 *
 * Texts are written as variable-length UTF-8 strings; fixed-length ones are read, too. Reading does
 * not use the library, which would decode whatever other programs have added (guard.h).
 *
 * Nothing in HDF5 says whether an attribute is the one that was written: texts lie in the global
 * heap, which has no checksum, and other programs can change a value. So an object gets the
 * attribute `attribute_crc32`, u32 [n][2], when all others are there: for each, the CRC-32 of its
 * name and that of its value (a text without its NUL, a number as it is stored).
 */
#ifndef WSI_H5_ATTR_H
#define WSI_H5_ATTR_H

#include "common/base/err.h"
#include "common/base/field.h"

#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

int h5_put_int(hid_t object, const char *name, int64_t value, struct err *e);
int h5_put_u8(hid_t object, const char *name, uint8_t value, struct err *e);
int h5_put_real(hid_t object, const char *name, double value, struct err *e);
/* n numbers, as an attribute of one dimension; of one number, a scalar. */
int h5_put_reals(hid_t object, const char *name, const double *values, size_t n, struct err *e);
int h5_put_text(hid_t object, const char *name, const char *value, struct err *e);
/* A fixed-length ASCII string with its NUL, for conventions of HDF5 that want one. */
int h5_put_word(hid_t object, const char *name, const char *value, struct err *e);

/* Writes attribute_crc32 over the texts, or over all attributes. */
int h5_seal_texts(hid_t object, struct err *e);
int h5_seal(hid_t object, struct err *e);
/* Is each attribute that was sealed as it was? Others are not looked at. */
int h5_check_seal(hid_t object, struct err *e);

/* The descriptor of an input file; -1 for one that is being written; -2 on failure. */
int h5_descriptor(hid_t object, struct err *e);
/* For input files. Is there an attribute of this name? 1, 0, or -1: without memory nobody can tell,
 * and what is optional must not be taken for absent. */
int h5_has(hid_t object, const char *name, struct err *e);
/* The integer must lie in [low, high]. */
int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e);
int h5_get_real(hid_t object, const char *name, double *out, struct err *e);
int h5_get_reals(hid_t object, const char *name, double *out, size_t n, struct err *e);
/* The string must be shorter than `size` bytes. */
int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e);
/* Is the text of an attribute this one? 0 if it is certainly another, or was never written; 1 also
 * if the text is damaged and the seal says that it was this one; -1: it cannot be read. */
int h5_says(hid_t object, const char *name, const char *text, struct err *e);

/*
 * --- members of a struct ---
 *
 * The members of a struct as attributes of an object: field.h.
 */

/* Writes those that are known, in the order of the table. */
int h5_put_fields(hid_t object, const struct field *f, unsigned sets, const void *from,
                  struct err *e);
/* Reads them and checks their ranges. */
int h5_get_fields(hid_t object, const struct field *f, unsigned sets, void *to, struct err *e);

#endif
