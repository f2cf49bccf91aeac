/*
 * h5_head.h - looks at the superblock of a file before the library does (HDF5 file format, II.A,
 * versions 2 and 3). Uses no HDF5; any thread.
 */
#ifndef WSI_H5_HEAD_H
#define WSI_H5_HEAD_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* What a file is. */
enum h5_kind {
    H5_OTHER,      /* not a file of this format */
    H5_WHOLE,      /* a file of this format, and complete */
    H5_UNFINISHED, /* of this format, but truncated, damaged or without its mark */
    H5_UNKNOWN,    /* names the format, but another tool has rewritten it: it cannot be judged */
    H5_ERROR,      /* it cannot be read now (permissions, descriptors, memory, the disk) */
};

struct h5_head {
    enum h5_kind kind; /* H5_WHOLE: the library may open the file */
    int fd;            /* of the file, or -1 */
    uint64_t root;     /* address of the root's header */
};

/* Opens the file; h->fd, which the caller closes, is -1 before. 0 if the library may look at the
 * root; else -1, and h->kind says what the file is. The message names it. */
int h5_look_at_head(struct h5_head *h, const char *path, const char *format, struct err *e);
/* A file that cannot be opened: if its head names the format, `if_ours`, else H5_OTHER. */
enum h5_kind h5_judge(int fd, const char *format, enum h5_kind if_ours);
/* Is it an HDF5 file, of whatever format, that is as long as its superblock says? */
bool h5_is_whole(const char *path);

/* Is it whole, and does its beginning say that it is of this format? True is as good as certain,
 * and costs a tenth of opening it. */
bool h5_begins_as(const char *path, const char *format);

#endif
