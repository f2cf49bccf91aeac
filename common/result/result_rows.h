/*
 * result_rows.h - what result_rows.c needs of result_read.c.
 */
#ifndef WSI_RESULT_ROWS_H
#define WSI_RESULT_ROWS_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

/* Opens /slides/NAME of slide k; -1 on failure. */
hid_t result_open_slide(const struct result *r, int64_t k, struct err *e);
/* How values of this type lie in memory. */
hid_t result_native_type(enum result_type type);

#endif
