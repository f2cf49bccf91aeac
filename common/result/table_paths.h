/*
 * table_paths.h - where results are, seen from the folder of a table: results/a.h5.
 *
 * A table refers to results in its own folder and below only. Both the names of folders and what
 * they are, links and ".." followed, are tried.
 */
#ifndef WSI_TABLE_PATHS_H
#define WSI_TABLE_PATHS_H

#include "common/base/err.h"

#include <stddef.h>

struct table_paths;
/* `table` need not exist. NULL on failure. */
struct table_paths *table_paths_create(const char *table, struct err *e);
/* The path of a result as the table names it, into out[size]. -1: it is not below. */
int table_paths_find(struct table_paths *p, const char *result, char *out, size_t size,
                     struct err *e);
void table_paths_free(struct table_paths *p); /* NULL is fine */

#endif
