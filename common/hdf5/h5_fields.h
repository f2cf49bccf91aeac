/*
 * h5_fields.h - the members of a struct as attributes of an object: field.h.
 */
#ifndef WSI_H5_FIELDS_H
#define WSI_H5_FIELDS_H

#include "common/base/field.h"

#include <hdf5.h>

/* Writes those that are known, in the order of the table. */
int h5_put_fields(hid_t object, const struct field *f, unsigned sets, const void *from,
                  struct err *e);
/* Reads them and checks their ranges. */
int h5_get_fields(hid_t object, const struct field *f, unsigned sets, void *to, struct err *e);

#endif
