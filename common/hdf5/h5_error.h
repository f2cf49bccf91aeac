/*
 * h5_error.h - the library itself: its start and its errors.
 */
#ifndef WSI_H5_ERROR_H
#define WSI_H5_ERROR_H

#include "common/base/err.h"

#include <stdbool.h>

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

#endif
