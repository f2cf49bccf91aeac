/*
 * tune.h - measures which size of groups is read fastest on this machine.
 */
#ifndef WSI_TUNE_H
#define WSI_TUNE_H

#include "common/base/err.h"

#include <stdbool.h>

/*
 * Reads parts of a store as groups of growing size, from one row of chunks to 1 GiB of pixels (or
 * the whole store), with 1, 2, 4 ... `threads` threads, warm, and also cold if the kernel drops the
 * file's pages. Compares each with reading the windows in it one by one. Prints the table and the
 * best --group-bytes for wsi2h5 on stdout, or all of it as one JSON line. -1 if the store is
 * damaged or cannot be read; the message names it.
 */
int tune_print(const char *path, int threads, bool json, struct err *e);

#endif
