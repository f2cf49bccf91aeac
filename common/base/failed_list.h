/*
 * failed_list.h - the slides of a folder's last run that have no store or no result, as a CSV file.
 *
 *   FOLDER/failed.csv          of a run over all inputs
 *   FOLDER/failed.I-of-N.csv   of share I of N (--task)
 *
 * wsi2h5 and h5spec run write it into their output folder, h5spec run carries on what the lists
 * beside its stores say, and h5spec report shows it. Each run replaces the list of the run before
 * it: the file is written whole, or removed if nothing failed. A run also removes the lists of
 * runs that were split otherwise. Columns: slide,reason. A file that begins otherwise is not ours;
 * it is neither read nor replaced.
 */
#ifndef WSI_FAILED_LIST_H
#define WSI_FAILED_LIST_H

#include "common/base/err.h"

#include <stdint.h>

struct failed_list;

/* The list of a run into `folder`, share `task` of `tasks`; tasks 0 or 1: all. Nothing is written
 * yet. NULL when out of memory. */
struct failed_list *failed_list_create(const char *folder, int64_t task, int64_t tasks);
/* When memory is short, failed_list_write() fails. NULL is allowed. */
void failed_list_add(struct failed_list *l, const char *slide, const char *reason);
/* Replaces the folder's lists. The message names the file. */
int failed_list_write(struct failed_list *l, struct err *e);
/* Rows so far, and the file. */
int64_t failed_list_count(const struct failed_list *l);
const char *failed_list_path(const struct failed_list *l);
void failed_list_free(struct failed_list *l); /* NULL is allowed */

/* Calls file() for each list in the folder; its -1 ends the search. A folder that cannot be read
 * has none. */
int failed_list_find(const char *folder, int (*file)(void *ctx, const char *path, struct err *e),
                     void *ctx, struct err *e);

#endif
