/*
 * publish.h - files that appear whole or not at all, and files without a name.
 */
#ifndef WSI_PUBLISH_H
#define WSI_PUBLISH_H
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * A file appears under its final name whole, or not at all.
 *
 * The file is made under a temporary name in the target's folder (".NAME.HOST-PID-NUMBER.part",
 * with a long NAME cut in the middle). This module keeps a descriptor of its own from the file's
 * creation on, with a lock. Publishing is: fsync (never tried twice: after a failed fsync the
 * kernel may have dropped the pages), rename, fsync of the folder. A killed run leaves at most a
 * ".part" file, which nothing takes for a finished one. The next run that publishes under the same
 * name, or into the folder, removes those of this host whose process is gone, and those of other
 * hosts that have not grown for a day: locks need not reach other hosts. A file that is gone before
 * it is published is trouble of the machine (err.h).
 *
 * Messages do not name the target, because callers do.
 */

/* Creates a file for reading and writing, which must not exist, and follows no link: how every file
 * of ours begins. The descriptor, or -1: errno says why. */
int publish_create(const char *path, mode_t mode);
/* The same as a stream, with mode 0666. NULL: errno says why; a file that was created stays. */
FILE *publish_create_stream(const char *path);

struct publish {
    char *final_path; /* owned */
    char *temp_path;  /* owned; NULL when there is no temporary file */
    int fd;           /* our descriptor of the temporary file, or -1 */
};

/* Removes the temporary files that killed runs have left for final_path. publish_begin() does it,
 * too; this is for runs that write nothing there. */
void publish_clean(const char *final_path);
/* The same for all files of a folder, in one pass. */
void publish_clean_folder(const char *folder);
/* Creates the temporary file beside final_path. On failure nothing is left. */
int publish_begin(struct publish *p, const char *final_path, struct err *e);
/* Another final name, in the same folder. */
void publish_rename(struct publish *p, const char *final_path);
/*
 * Gives the file its final name and replaces what had that name. Call it after every other
 * descriptor of the file has been closed and checked. On failure the temporary file is removed and
 * the final name is untouched. The one exception is a folder that cannot be written to disk after
 * the rename: then the file is complete under its final name, but a power failure may still undo
 * the rename. That is a failure (-1), too, and its message says that the file exists.
 */
int publish_commit(struct publish *p, struct err *e);
/* Lets nobody but its owner read a file, such as a key that says whose slide is which. */
int publish_make_private(int fd, struct err *e);
/* Writes the folder of a file that was created without these functions to disk. */
int publish_sync_folder_of(const char *path, struct err *e);
/* Removes the temporary file, and frees its blocks even if another descriptor is still open.
 * Harmless after publish_commit() and on a zeroed struct with fd -1. */
void publish_abort(struct publish *p);
/* Removes the temporary files of this process, which ends: no file can be published after it.
 * Allocates nothing. */
void publish_abort_all(void);
enum { PUBLISH_NAME = 96 };
/* "HOST-PID" of this process, for a lock that all hosts see. */
void publish_own_name(char name[PUBLISH_NAME]);
/* Has the process of this name ended? False for one of another host, of which nobody here knows. */
bool publish_has_ended(const char *name);
enum { PUBLISH_PATH = 4096 };
/* From now on `shown` [PUBLISH_PATH] holds the path of this process's temporary file, or "" while
 * it has none: a process that shares that memory can remove the file if this one dies. */
void publish_show(char *shown);

/*
 * --- a text or picture that replaces only one of its kind ---
 *
 * A kind of file is known by how it begins. A file that exists under the name and begins
 * otherwise is never overwritten.
 */

struct text_file {
    FILE *f;      /* what to write to; NULL before begin and after the end */
    char *buffer; /* of f; the default of 4 KiB makes 11,000 calls for the GeoJSON of a large map */
    const char *path;
    struct publish publish;
};

/* Is it a file that begins with `head`, of at most 256 bytes? */
bool text_file_begins_with(const char *path, const char *head);
/* May `path` be written? Yes if no file exists there, or one that begins with `head`. `what` is
 * the kind in the message: "a report made by h5spec". */
int text_file_check(const char *path, const char *head, const char *what, struct err *e);
/* Begins a file; `path` must outlive it. Nothing is written yet. */
int text_file_begin(struct text_file *t, const char *path, struct err *e);
/* Publishes the file. Reports all errors since its begin; then nothing is published. */
int text_file_commit(struct text_file *t, struct err *e);
/* Drops the file; harmless after commit and on a zeroed struct. */
void text_file_abort(struct text_file *t);

/* --- files without a name, which are gone when they are closed or the program ends --- */

/* A file for reading and writing in the folder TMPDIR or, without it, in /tmp; messages name `what`
 * it is for: "pictures". fclose() it. NULL on failure. */
FILE *temporary_open(const char *what, struct err *e);
/* Makes it so long, of which so many bytes will be written. 0, or -1: there is no room. */
int temporary_room(FILE *f, int64_t length, int64_t bytes, const char *what, struct err *e);
/* After a write to it has failed: errno says why. Returns -1. */
int temporary_failed(const char *what, struct err *e);

#endif
