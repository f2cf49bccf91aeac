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
 * rows of all shares. Columns: slide, reason and output; cells are guarded as in csv.h. A file that
 * begins otherwise is not ours; it is neither read nor replaced.
 *
 * `output` is the store (the result) that the slide would have here, by its path below the folder.
 * An older one may exist: then the row and that result are one slide. It is empty where another
 * slide has that name.
 *
 * Any number of programs on any number of nodes may write into one folder: no row is lost, and no
 * lock is needed. While a program replaces a list, and after one that was killed then, rows are in
 *
 *   FOLDER/failed.claimed-X.csv, FOLDER/failed.I-of-N.claimed-X.csv
 *
 * where X is a random number. Readers join all files; the next program that writes takes them over.
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

/* The list of a run into `folder`, share `task` of `tasks`; tasks 0 or 1: all. It carries on the
 * rows of other runs; `anew`: those that there are now are removed. Nothing is written yet. NULL on
 * failure, also if a list cannot be read. */
struct failed_list *failed_list_create(enum failed_list_of what, const char *folder, int64_t task,
                                       int64_t tasks, bool anew, struct err *e);
/* This slide (FAILED_STORES) or this store (FAILED_RESULTS) is done: rows of other runs that name
 * it go. Those of slides are compared by the parts of their path that the row has, those of results
 * by the name of the result. NULL is allowed. */
void failed_list_done(struct failed_list *l, const char *path);
/* The reason of a row about a slide that is the same as another one. It is no failure; the row says
 * why the slide has no result. */
#define FAILED_COPY_OF "copy of "
bool failed_list_is_copy(const char *slide, const char *reason);
/* Adds the slide at `path`; path + below is its path below the folder that was given. A reason
 * names it as the row does. NULL is allowed. */
void failed_list_add(struct failed_list *l, const char *path, size_t below, const char *output,
                     const char *reason);
/* Replaces the folder's lists and, unless `quiet`, says so. The message names the file. NULL is
 * allowed. */
int failed_list_write(struct failed_list *l, bool quiet, struct err *e);
void failed_list_free(struct failed_list *l); /* NULL is allowed */

typedef int failed_list_row(void *ctx, const char *slide, const char *output, const char *reason,
                            struct err *e);
/* Calls row() for each row of a table with the columns slide and reason, or of each list in a
 * folder; without a column output it is "". The message names the file. */
int failed_list_rows(const char *path, failed_list_row *row, void *ctx, struct err *e);
int failed_list_read(const char *folder, failed_list_row *row, void *ctx, struct err *e);
/* Calls file() for each list in the folder; its -1 ends the search. A folder that cannot be read
 * has none. */
int failed_list_find(const char *folder, int (*file)(void *ctx, const char *path, struct err *e),
                     void *ctx, struct err *e);

#endif
