/*
 * text_file.h - a text or picture that appears as a file whole or not at all, and replaces only one
 * of its kind.
 *
 * A kind of file is known by how it begins. A file that exists under the name and begins
 * otherwise is never overwritten.
 */
#ifndef WSI_TEXT_FILE_H
#define WSI_TEXT_FILE_H

#include "common/base/err.h"
#include "common/base/publish.h"

#include <stdio.h>

struct text_file {
    FILE *f;      /* what to write to; NULL before begin and after the end */
    char *buffer; /* of f; the default of 4 KiB makes 11,000 calls for the GeoJSON of a large map */
    const char *path;
    struct publish publish;
};

/* May `path` be written? Yes if no file exists there, or one that begins with `head`. `what` is
 * the kind in the message: "a report made by h5spec". */
int text_file_check(const char *path, const char *head, const char *what, struct err *e);
/* Begins a file; `path` must outlive it. Nothing is written yet. */
int text_file_begin(struct text_file *t, const char *path, struct err *e);
/* Publishes the file. Reports all errors since its begin; then nothing is published. */
int text_file_commit(struct text_file *t, struct err *e);
/* Drops the file; harmless after commit and on a zeroed struct. */
void text_file_abort(struct text_file *t);

#endif
