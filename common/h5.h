/*
 * h5.h - the little of HDF5 that the store and the result share. Included by common/store and
 * common/result only; nothing else of the project knows HDF5.
 *
 * Writing: format bounds V110 (its metadata carries checksums), no object times, so that equal runs
 * give equal bytes. Reading: files are hostile until checked. Only superblocks of version 2 and 3
 * get as far as the library, plug-ins are off, and nothing is followed but hard links.
 *
 * After a failed write the library must not be asked to close the file (a disk that is full makes it
 * crash in its exit handler): leave the identifiers open and end the process with h5_exit().
 *
 * None of this may run on two threads at once.
 */
#ifndef WSI_H5_H
#define WSI_H5_H

#include "common/err.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* An attribute on an object; the table form keeps writers and readers short. */
int h5_put_int(hid_t object, const char *name, int64_t value, struct err *e);
int h5_put_u8(hid_t object, const char *name, uint8_t value, struct err *e);
int h5_put_real(hid_t object, const char *name, double value, struct err *e);
int h5_put_text(hid_t object, const char *name, const char *value, struct err *e);

bool h5_has(hid_t object, const char *name);
/* Integers must lie in [low, high]. */
int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e);
int h5_get_real(hid_t object, const char *name, double *out, struct err *e);
/* Fixed-length strings shorter than `size`. */
int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e);

/* Creates (empties) / opens for reading. `format` is what the root's attribute must say, and
 * `complete` must be 1. -1 on failure. */
hid_t h5_create(const char *path, struct err *e);
hid_t h5_open(const char *path, const char *format, struct err *e);

/* Is the file of this format? H5_WHOLE: yes, and complete. H5_UNFINISHED: it is without its mark, or
 * truncated or damaged while its head still says the format. H5_OTHER: anything else. */
enum h5_kind { H5_OTHER, H5_UNFINISHED, H5_WHOLE };
enum h5_kind h5_look(const char *path, const char *format);

/* First and last in whatever calls the library and may run on a thread of the pipe. h5_create and
 * h5_open enter by themselves. */
void h5_enter(void);
void h5_leave(void);

/* Groups and datasets; object headers without times. `name` may not contain a slash when read: the
 * link must be a hard one. -1 on failure. */
hid_t h5_create_group(hid_t parent, const char *name, struct err *e);
hid_t h5_open_group(hid_t parent, const char *name, struct err *e);
/* A dataset written in one go; rank 1 to 3. Contiguous, or with deflate > 0 packed, in chunks of some
 * MiB. */
int h5_write_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                   int deflate, const void *data, struct err *e);
/* Opens a dataset whose dimensions must be `dims`; its values must be of the class of `type`
 * (H5T_NATIVE_...), its data in this file. */
hid_t h5_open_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                    struct err *e);
int h5_read_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                  void *data, struct err *e);

/* As err_set, and appends what the library says is the cause. Returns -1. */
int h5_error(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* Notes that a write failed inside the library. */
void h5_mark_broken(void);
/* Ends the process: exit(status), or _exit(status) after a broken write. Flushes stdout first. */
_Noreturn void h5_exit(int status);
/* "1.10.8" of the library that is running. */
const char *h5_version(void);

#endif
