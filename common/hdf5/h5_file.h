/*
 * h5_file.h - HDF5 files as a whole: how an output file comes into being, how an input file is
 * opened.
 *
 * Every file has a root with the attributes `format` (text), `format_version`, `creator` (text) and
 * `complete` (uint8 1, written last). An output file has one life cycle: it is created under a
 * temporary name, written, flushed, marked as complete, closed, and renamed to its final name
 * (publish.h). So a file under its final name is whole.
 *
 * After a failed write the library must not touch the file again. h5_file_abort() then leaves the
 * library's own identifiers open, and the process ends with h5_exit().
 */
#ifndef WSI_H5_FILE_H
#define WSI_H5_FILE_H

#include "common/base/publish.h"
#include "common/hdf5/h5.h"
#include "common/hdf5/h5_library.h"

/* --- writing --- */

struct h5_file {
    struct publish publish;
    hid_t id;           /* the root, or -1 */
    bool failed;        /* the library failed to write: only h5_file_abort() may follow */
    bool seals_numbers; /* h5_seal() for the root, else h5_seal_texts() */
};

/* How a file identifies itself. */
struct h5_format {
    const char *name;    /* "wsi-patch-store" */
    int version;         /* the only one */
    const char *creator; /* "wsi2h5 0.1.0" */
    /* For writing: bytes of the blocks that metadata come in. Large ones keep the chunks of data
     * one after the other; of the last one the rest is unused. Then data are appended one by one,
     * however small; 0: the library collects small ones in blocks. */
    int64_t metadata;
};

/* Creates the temporary file beside `path`. On failure nothing is left; h5_file_abort() is
 * harmless. */
int h5_file_create(struct h5_file *f, const char *path, const struct h5_format *format,
                   struct err *e);
/* Completes and publishes the file and releases everything. Identifiers of objects in it become
 * invalid. *bytes (may be NULL) gets the file's size. On failure the temporary file is removed and
 * the final name is untouched, with the one exception that publish_commit() has. */
int h5_file_commit(struct h5_file *f, int64_t *bytes, struct err *e);
/* Drops the file. Harmless on a file that is committed or dropped. */
void h5_file_abort(struct h5_file *f);

/* --- reading --- */

/* Opens a complete file of this format and version for reading; -1 on failure. The message names
 * the file. */
hid_t h5_open(const char *path, const struct h5_format *format, struct err *e);

/* Has a newer version of these programs made the file? Then what this one misses or does not know
 * there is no damage, and `e` gets a message about the versions in place of the one that it has. */
bool h5_is_newer(hid_t file, const char *path, const struct h5_format *format, struct err *e);

/* What `path` is, judged by its head and its root. `e` says why for H5_UNKNOWN, H5_UNREADABLE
 * and H5_ERROR. */
enum h5_kind h5_look(const char *path, const struct h5_format *format, struct err *e);

#endif
