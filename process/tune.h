/*
 * tune.h - which size of groups is read fastest here: a table, and what to give to wsi2h5 --group-bytes.
 */
#ifndef WSI_TUNE_H
#define WSI_TUNE_H

#include "common/err.h"

/* Reads parts of a store as groups of growing size, from one row of chunks to 1 GiB of pixels (or the whole
 * store), with 1, 2, 4 ... `threads` threads, cold where the kernel lets go of the file's pages, and warm;
 * and the windows in them one by one. Prints the table on stdout. */
int tune_print(const char *path, int threads, struct err *e);

#endif
