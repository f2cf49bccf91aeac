/*
 * table_old.h - the table that a merge replaces: which of its rows are still right. For
 * result_merge.c only.
 *
 * A row is right if its result has the same path, size and time as when it was read. Results of
 * which the table does not have all slides are read again.
 */
#ifndef WSI_TABLE_OLD_H
#define WSI_TABLE_OLD_H

#include "common/result/result_read.h"
#include "common/result/result_write.h"

struct table_old;
/* NULL if there is no such table, a damaged one, or one of another version of the program, which
 * may count differently. */
struct table_old *table_old_open(const char *path);
struct result *table_old_result(const struct table_old *o);
/* The rows of a result, by its path from the folder of the table: their number, and *rows gets the
 * numbers of the rows. 0 if it is new or has changed. */
int64_t table_old_find(const struct table_old *o, const char *path, const struct result_stamp *now,
                       const int64_t **rows);
void table_old_close(struct table_old *o); /* NULL is fine */

#endif
