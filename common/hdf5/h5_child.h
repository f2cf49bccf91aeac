/*
 * h5_child.h - a table of numbers out of an HDF5 file that another program wrote.
 *
 * Such files have what guard.h rejects: old headers, any type of data. The library, which crashes
 * on forged metadata, reads them in a process of its own, which copies the numbers to a temporary
 * file and ends. If it crashes, needs 4 GiB of memory or ten minutes of processor time, the file is
 * reported as damaged, and the caller goes on. Nothing outside of the file is followed: plug-ins
 * are off, and soft and external links, virtual datasets and external storage are passed over.
 *
 * Call it from a process with one thread.
 */
#ifndef WSI_H5_CHILD_H
#define WSI_H5_CHILD_H

#include "common/base/err.h"

#include <stdint.h>

enum { H5_CHILD_COLUMNS = 64, H5_CHILD_NAME = 64 };

struct h5_child {
    int64_t rows;
    int64_t columns; /* x, y, then values */
    char name[H5_CHILD_COLUMNS][H5_CHILD_NAME];
    double size; /* of a patch, px of level 0; 0: the file does not say */
};

/* Copies `coords` (N x 2) and all datasets of the root with N or N x k numbers (k at most 16) as
 * doubles [rows][columns] into the empty file fd. */
int h5_child_read(const char *path, int fd, struct h5_child *out, struct err *e);

#endif
