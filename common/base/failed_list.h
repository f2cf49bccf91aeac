/*
 * failed_list.h - the slides that have no store or no result, as a CSV file in the output folder.
 *
 *   FOLDER/failed.csv          of runs over all inputs
 *   FOLDER/failed.I-of-N.csv   of share I of N (--task)
 *
 * wsi2h5 and h5spec run write it into their output folder, h5spec run carries on what the lists
 * beside its stores say, and h5spec report shows it. One row per slide, by its path from the run's
 * folder: it stays until that slide has a store (a result), whatever other slides later runs do.
 * The file is written whole, and removed when no row is left. A run over all inputs takes over the
 * rows of all shares. Columns: slide,reason. A file that begins otherwise is not ours; it is
 * neither read nor replaced.
 */
#ifndef WSI_FAILED_LIST_H
#define WSI_FAILED_LIST_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct failed_list;

enum failed_list_of {
    FAILED_STORES,  /* rows name slides */
    FAILED_RESULTS, /* rows name slides and stores */
};

/* The list of a run into `folder`, share `task` of `tasks`; tasks 0 or 1: all. It begins with the
 * rows of the runs before, unless `anew`. Nothing is written yet. NULL on failure. */
struct failed_list *failed_list_create(enum failed_list_of what, const char *folder, int64_t task,
                                       int64_t tasks, bool anew, struct err *e);
/* This slide (FAILED_STORES) or this store (FAILED_RESULTS) is done: rows of earlier runs that name
 * it go. Those of slides are compared by the parts of their path that the row has, those of results
 * by the name of the result. NULL is allowed. */
void failed_list_done(struct failed_list *l, const char *path);
/* Adds the slide at `path`; path + below is its path below the folder that was given. A reason
 * names it as the row does. NULL is allowed. */
void failed_list_add(struct failed_list *l, const char *path, size_t below, const char *reason);
/* Replaces the folder's lists and, unless `quiet`, says so. The message names the file. NULL is
 * allowed. */
int failed_list_write(struct failed_list *l, bool quiet, struct err *e);
void failed_list_free(struct failed_list *l); /* NULL is allowed */

typedef int failed_list_row(void *ctx, const char *slide, const char *reason, struct err *e);
/* Calls row() for each row of a table with the columns slide and reason, or of each list in a
 * folder. The message names the file. */
int failed_list_rows(const char *path, failed_list_row *row, void *ctx, struct err *e);
int failed_list_read(const char *folder, failed_list_row *row, void *ctx, struct err *e);
/* Calls file() for each list in the folder; its -1 ends the search. A folder that cannot be read
 * has none. */
int failed_list_find(const char *folder, int (*file)(void *ctx, const char *path, struct err *e),
                     void *ctx, struct err *e);

#endif
