/*
 * results.h - where the slides of a run go: all into one file, or, when the output is a folder, each into a
 * file of its own there, FOLDER/NAME.h5 (FOLDER/NAME.A-B.h5 with --groups A-B).
 *
 * One file is there when the whole run is; files of their own one after the other, so that a run that was
 * stopped or killed goes on where it was, and tasks of an array job share a folder.
 */
#ifndef WSI_RESULTS_H
#define WSI_RESULTS_H

#include "common/err.h"
#include "common/result.h"

#include <stdbool.h>
#include <stdint.h>

struct results;

/* Does -o name a folder: one that is there, or with a slash at its end? */
bool results_is_folder(const char *output);
/* Begins the one file, or looks whether the folder is there. Groups as in struct stream_setup. NULL on
 * failure. */
struct results *results_open(const char *output, const struct result_params *p, int64_t first_group,
                             int64_t last_group, struct err *e);
/* Is the store's result there already? 1: made from this store with these parameters. 0: none, one that is
 * older than the store, or a damaged one. -1: another one, which is left alone. */
int results_have(const struct results *r, const char *store, struct err *e);
int results_put(struct results *r, const struct result_slide *s, struct err *e);
/* Publishes the one file, if any slide is in it; frees r. */
int results_commit(struct results *r, struct err *e);
/* Drops the one file; files of their own stay. NULL is fine. */
void results_abort(struct results *r);

#endif
