/*
 * h5_file.h - HDF5 files as a whole: how they are opened and checked, and how they come into being.
 *
 * Every file has a root with the attributes `format` (text), `format_version` and `complete` (uint8 1,
 * written last). An output file has one life cycle: it is created under a temporary name, written,
 * flushed, marked as complete, closed, and renamed to its final name (publish.h). So a file under its
 * final name is whole.
 *
 * After a failed write the library must not touch the file again. h5_file_abort() then leaves the
 * library's own identifiers open, and the process ends with h5_exit().
 */
#ifndef WSI_H5_FILE_H
#define WSI_H5_FILE_H

#include "common/h5.h"
#include "common/publish.h"

/* --- writing --- */

struct h5_file {
    struct publish publish;
    hid_t id;    /* the root, or -1 */
    bool failed; /* the library failed to write: only h5_file_abort() may follow */
};

/* Creates the temporary file beside `path`. On failure nothing is left; h5_file_abort() is harmless. */
int h5_file_create(struct h5_file *f, const char *path, struct err *e);
/* Completes and publishes the file and releases everything. Identifiers of objects in it become invalid.
 * *bytes (may be NULL) gets the file's size. On failure the temporary file is removed. */
int h5_file_commit(struct h5_file *f, int64_t *bytes, struct err *e);
/* Drops the file. Harmless on a file that is committed or dropped. */
void h5_file_abort(struct h5_file *f);

/* --- reading --- */

/* Opens a complete file of this format for reading; -1 on failure. *version gets its format_version,
 * which must be from 1 to `newest`. The message names the file. */
hid_t h5_open(const char *path, const char *format, int newest, int64_t *version, struct err *e);

/* Is the file of this format? H5_WHOLE: yes, and it is complete. H5_UNFINISHED: yes, but its mark is
 * missing, or it is truncated or damaged while its head still names the format. H5_OTHER: no. */
enum h5_kind { H5_OTHER, H5_UNFINISHED, H5_WHOLE };
enum h5_kind h5_look(const char *path, const char *format);

#endif
