/*
 * h5_library.h - the library itself: its start, its errors, its lock, how a program ends, and what
 * is known of a file without it.
 */
#ifndef WSI_H5_LIBRARY_H
#define WSI_H5_LIBRARY_H

#include "common/base/err.h"
#include "common/codec/codec.h"

#include <stdbool.h>
#include <stdint.h>

/* Prepares the library. Safe to call again; h5_file.h calls it before it opens a file. */
void h5_init(void);

/* As err_set, and appends the library's own cause. Returns -1. */
int h5_error(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* For a call that failed to write: "cannot write NAME", with the cause, and h5_mark_broken(). Call
 * it at once, because the next call of the library forgets the cause. Returns -1. */
int h5_write_failed(struct err *e, const char *name);
/* Drops the library's list of errors. */
void h5_forget(void);
/* Has a system call failed, or memory run out, in any call of the library since h5_watch()? Then a
 * failure says nothing about the file. */
void h5_watch(void);
bool h5_system_failed(void);
/* Notes that a system call has failed outside the library. */
void h5_note_system_failure(void);

/*
 * --- the one lock around HDF5, which may be used by one thread at a time ---
 *
 * Functions that several threads may call take it around their calls of the library, and let go
 * before they compute. A program whose HDF5 stays on the first thread need not care. Without the
 * lock the library prints the errors of any other thread.
 */

/* The thread that holds it may take it again, and lets go as often. */
void h5_lock(void);
void h5_unlock(void);

/*
 * --- what the two programs themselves must know of HDF5: its version, and how to end ---
 *
 * If HDF5 fails to write a file (the disk is full, say), it must not be asked to close that file:
 * it can crash in its exit handler. So every program that may have written a file ends with
 * h5_exit().
 */

/* Flushes stdout, then ends the process: exit(status), or _exit(status) after a failed write.
 * Status 0 becomes 1 if stdout cannot be written. */
_Noreturn void h5_exit(int status);
/* "HDF5 1.10.8": the library that is running. */
const char *h5_library(void);
/* Notes that the library failed to write a file. */
void h5_mark_broken(void);

/*
 * --- plug-ins ---
 *
 * Can other programs on this machine read stores of kept tiles?
 *
 * They need our HDF5 plug-in, libh5jpeg.so or libh5j2k.so, in a folder where their HDF5 looks:
 * those of the variable HDF5_PLUGIN_PATH, or the library's own one. Ours never loads it. Not while
 * other threads use HDF5.
 */

enum { H5_PLUGIN_PATH = 4096 };

/* The first folder where HDF5 looks for plug-ins. False: it does not say. */
bool h5_plugin_folder(char folder[H5_PLUGIN_PATH]);
/* The command that shows four pixels in the middle of a store of this codec, quoted for a shell:
 * "HDF5_PLUGIN_PATH='FOLDER' h5dump -d /pixels -s ... -c ... 'PATH'". The folder is that of the
 * plug-in that came with this program; the variable is left out if HDF5 needs none or finds it by
 * itself, and then the result is true. Without a plug-in *command is NULL. `size`: rows, columns,
 * channels of the slide. The caller frees the command. */
bool h5_plugin_command(const struct codec *c, const char *path, const int64_t size[3],
                       char **command);
/* The remedy when there is no plug-in. */
const char *h5_plugin_missing(const struct codec *c);

/*
 * --- the superblock ---
 *
 * Looks at the superblock of a file before the library does (HDF5 file format, II.A, versions 2
 * and 3). Uses no HDF5; any thread.
 */

/* Kinds of files. */
enum h5_kind {
    H5_OTHER,      /* it can be read and says that it is another's: not ours to touch or report */
    H5_WHOLE,      /* a file of this format, and complete */
    H5_UNFINISHED, /* of this format, but truncated, damaged or without its mark */
    H5_UNREADABLE, /* not HDF5, or damaged: nothing says whose it is */
    H5_UNKNOWN, /* names the format, but a newer version has made it or another tool rewritten it:
                    * it cannot be judged */
    H5_ERROR,   /* it cannot be read now (permissions, descriptors, memory, the disk) */
};

struct h5_head {
    enum h5_kind kind; /* H5_WHOLE: the library may open the file */
    int fd;            /* of the file, or -1 */
    uint64_t root;     /* address of the root's header */
};

/* Opens the file; h->fd, which the caller closes, is -1 before. 0 if the library may look at the
 * root; else -1, and h->kind says what the file is. The message names it. */
int h5_look_at_head(struct h5_head *h, const char *path, const char *format, struct err *e);
/* A file that cannot be opened: `if_ours` if its head names the format, `if_not` if it does not,
 * H5_ERROR if that cannot be read now. */
enum h5_kind h5_judge(int fd, const char *format, enum h5_kind if_ours, enum h5_kind if_not);

/* Is it whole, and does its beginning say that it is of this format? True is as good as certain,
 * and costs a tenth of opening it. */
bool h5_begins_as(const char *path, const char *format);

#endif
