/*
 * publish.h - a file appears under its final name whole, or not at all.
 *
 * The file is made under a temporary name in the target's folder (".NAME.HOST-PID-NUMBER.part"),
 * with a descriptor of our own held from its creation. Publishing is fsync (never tried twice: after
 * a failed fsync the kernel may have dropped the pages), rename, fsync of the folder. Killed runs
 * leave at most a ".part" file, which nothing takes for a finished one; the next run that publishes
 * into the folder removes those of this host whose process is gone.
 */
#ifndef WSI_PUBLISH_H
#define WSI_PUBLISH_H

#include "common/err.h"

struct publish {
    char *final_path; /* owned */
    char *temp_path;  /* owned; NULL when no temporary file is there */
    int fd;           /* our descriptor of the temporary file, or -1 */
};

/* Creates the temporary file beside final_path. On failure nothing is left. */
int publish_begin(struct publish *p, const char *final_path, struct err *e);
/* Makes it stand under its final name; replaces what was there. On failure the temporary file is
 * removed. Call after every other descriptor of the file has been closed and checked. */
int publish_commit(struct publish *p, struct err *e);
/* Removes the temporary file and gives its blocks back even if another descriptor is still open.
 * Safe after publish_commit and on a zeroed struct with fd -1. */
void publish_abort(struct publish *p);

#endif
