/*
 * temporary.h - files without a name, which are gone when they are closed or the program ends.
 */
#ifndef WSI_TEMPORARY_H
#define WSI_TEMPORARY_H

#include "common/base/err.h"

#include <stdio.h>

/* A file for reading and writing in the folder TMPDIR or, without it, in /tmp; messages name `what`
 * it is for: "pictures". fclose() it. NULL on failure. */
FILE *temporary_open(const char *what, struct err *e);
/* After a write to it has failed: errno says why. Returns -1. */
int temporary_failed(const char *what, struct err *e);

#endif
