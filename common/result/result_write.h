/*
 * result_write.h - writing a result slide by slide, so that memory does not grow with their number.
 */
#ifndef WSI_RESULT_WRITE_H
#define WSI_RESULT_WRITE_H

#include "common/base/err.h"
#include "common/result/report_numbers.h"
#include "common/result/result.h"

#include <stddef.h>

/* Of a result's file. */
struct result_stamp {
    int64_t bytes, mtime_ns, slides;
};

struct result_table;
struct result_writer;
struct result_writer *result_create(const char *path, const struct result_params *p, struct err *e);
/* Names must differ. */
int result_put_slide(struct result_writer *w, const struct result_slide *s, struct err *e);
/* The same as a table, of at most `most` rows; 0: of any number, for other readers than
 * result_read.h. result_put_row() takes the place of result_put_slide(): `result` is the file that has the slide's maps, in the folder of the table or
 * below, and *stamp what it was like before it was read. Names must ascend. */
struct result_writer *result_create_table(const char *path, const struct result_params *p,
                                          int64_t most, struct err *e);
int result_put_row(struct result_writer *w, const struct result_slide *s,
                   const struct report_numbers *n, const char *result,
                   const struct result_stamp *stamp, struct err *e);
/* Copies row k of a table; `result` is named as the table does. Its
 * histogram is not added to the totals: result_add_histogram() adds those of all such rows. */
int result_copy_row(struct result_writer *w, struct result_table *from, int64_t k,
                    const char *result, struct err *e);
void result_add_histogram(struct result_writer *w, const uint64_t *histogram);
/* Finishes, publishes and frees. On failure the final name is untouched, with the one exception
 * that publish_commit() has. */
int result_commit(struct result_writer *w, struct err *e);
/* The same under another name in the folder; -1 also after a failed write. */
int result_commit_as(struct result_writer *w, const char *path, struct err *e);
void result_abort(struct result_writer *w);

/*
 * --- paths in tables ---
 *
 * Where results are, seen from the folder of a table: results/a.h5.
 *
 * A table refers to results in its own folder and below only. Both the names of folders and what
 * they are, links and ".." followed, are tried.
 */

struct table_paths;
/* `table` need not exist. */
struct table_paths *table_paths_create(const char *table);
/* The path of a result as the table names it, into out[size]. -1: it is not below. */
int table_paths_find(struct table_paths *p, const char *result, char *out, size_t size,
                     struct err *e);
void table_paths_free(struct table_paths *p); /* NULL is fine */

#endif
