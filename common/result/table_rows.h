/*
 * table_rows.h - a dataset [slides][numbers] of a table of results; for result_table.c only.
 *
 * Each row is packed alone, so that a table that is made again takes the rows of unchanged slides
 * over as they are stored.
 */
#ifndef WSI_TABLE_ROWS_H
#define WSI_TABLE_ROWS_H

#include "common/hdf5/h5.h"

#include <stdbool.h>

struct table_rows;

/* --- writing: rows 0, 1, 2 ... --- */

/* `type` is that of the file, little-endian; at most `most` rows follow. */
struct table_rows *table_rows_create(hid_t group, const char *name, hid_t type, int64_t most,
                                     int64_t numbers, struct err *e);
int table_rows_put(struct table_rows *r, const void *values, struct err *e);
/* Row k of another dataset. */
int table_rows_copy(struct table_rows *r, struct table_rows *from, int64_t k, struct err *e);
/* The dataset gets the rows that were put, and no more. */
int table_rows_finish(struct table_rows *r, struct err *e);

/* --- reading --- */

struct table_rows *table_rows_open(hid_t group, const char *name, hid_t type, int64_t slides,
                                   int64_t numbers, struct err *e);
/* `crc` is the row's CRC-32. */
int table_rows_get(struct table_rows *r, int64_t k, int64_t crc, void *values, struct err *e);

void table_rows_close(struct table_rows *r); /* of both; NULL is fine */
/* After a failed write: see h5_library.h. NULL is fine. */
void table_rows_forget(struct table_rows *r);

#endif
