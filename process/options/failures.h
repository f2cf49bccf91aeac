/*
 * failures.h - the list of slides without a result that `h5spec run` leaves in its output folder;
 * common/base/failed_list.h says what a list is.
 */
#ifndef WSI_FAILURES_H
#define WSI_FAILURES_H

#include "common/base/err.h"
#include "common/base/failed_list.h"
#include "process/options/options.h"

/* Calls row() for each row of the lists in a folder; the message names the file. */
int failures_read(const char *folder,
                  int (*row)(void *ctx, const char *slide, const char *reason, struct err *e),
                  void *ctx, struct err *e);

/* Begins the list of a run with what is known: what the lists in the folders of stores say, and
 * what list_expand() has found. *l is NULL for a run that has none: into one file, or of some
 * groups. */
int failures_begin(struct failed_list **l, const struct options *o, struct err *e);
/* Adds a store that failed. */
void failures_add(struct failed_list *l, const struct options *o, const char *path,
                  const char *reason);
/* Publishes it and says so. NULL is allowed. */
int failures_end(struct failed_list *l, const struct options *o, struct err *e);

#endif
