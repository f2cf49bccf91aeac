/*
 * run_output.h - writes the results of a run: into one file, or into a folder with one file per
 * slide, FOLDER/NAME.h5 (FOLDER/NAME.A-B.h5 with --groups A-B).
 *
 * A single file gets its name when the whole run is done. If the run ends early, the finished slides
 * are kept in NAME.h5.partial; the next run reads them from there and removes that file when it has
 * finished. Files in a folder get their names one by one, so a stopped run continues where it was,
 * and the tasks of an array job share a folder.
 */
#ifndef WSI_RUN_OUTPUT_H
#define WSI_RUN_OUTPUT_H
#include "common/base/err.h"
#include "common/base/failed_list.h"
#include "common/result/result.h"
#include "process/engine/regions.h"
#include "process/options/options.h"

#include <stdbool.h>
#include <stdint.h>

struct run_output;

#define RUN_OUTPUT_PARTIAL ".partial" /* after the name of the one file */

/* The facts in an existing result about its slide. */
struct run_output_found {
    char quickhash[80];
    int64_t damaged;  /* of its tiles */
    bool kept;        /* the store has a result, whether it is up to date or rejected */
    struct err other; /* how its parameters differ; "": they do not, or nobody looked */
};

/* Begins the one file, or makes the folder unless it exists. `o` must outlive it. NULL on
 * failure. */
struct run_output *run_output_open(const struct options *o, struct err *e);
/* Has the folder an up-to-date result of this store already? Its times do not matter: content_crc32
 * says of which store it is.
 * 1: yes, complete and whole; *found is filled in.
 * 0: no. If a result exists but its store has changed, its regions differ or it is damaged, e says
 *    so; else e is unchanged.
 * -1: something else exists under its name, which must not be replaced, or it cannot be read; or,
 *    with found->kept, a result of other parameters, or one that --on-damage fail rejects. */
int run_output_have(const struct run_output *r, const char *store, struct run_output_found *found,
                    struct err *e);
/* Has the folder the result of another slide under the name that the store's would get? A slide a.1-2
 * and groups 1 to 2 of a slide `a` have one. Then e says so, and nothing may replace it. */
bool run_output_is_others(const struct run_output *r, const char *store, struct err *e);
/* Does the partial result have the slide of this store, as it would be computed now? 1: yes; *s is
 * to be freed with result_slide_free(). 0: no; if its store has changed, e says so. */
int run_output_take(struct run_output *r, const char *store, struct result_slide *s, struct err *e);
/* Writes a slide: into the one file, or as its own file. */
int run_output_put(struct run_output *r, const struct result_slide *s, struct err *e);
/* Publishes the one file if it has any slide, and removes the partial result; frees r. */
int run_output_commit(struct run_output *r, struct err *e);
/* Publishes the slides of the one file as a partial result, in place of run_output_commit(), but
 * where another program has published one of as many slides since; frees r. 1: there is one now,
 * -1: failed. */
int run_output_keep(struct run_output *r, struct err *e);
/* Drops the one file, keeps files in a folder; frees r. NULL is fine. */
void run_output_abort(struct run_output *r);

/* --- the list of slides without a result, in the output folder: failed_list.h --- */

/* Begins the list with what is known: what the lists in the folders of stores say, and what
 * input_files_expand() has found. *l is NULL for a run that has none: into one file, or with
 * --groups. */
int failures_begin(struct failed_list **l, const struct options *o, struct err *e);
/* Adds a store that failed. */
void failures_add(struct failed_list *l, const struct options *o, const char *store,
                  const char *reason);

#endif
