/*
 * file_kind.h - what a file is that no reader recognises, and what its owner can do.
 */
#ifndef WSI_FILE_KIND_H
#define WSI_FILE_KIND_H

#include "common/base/err.h"
#include "convert/readers/slide_file.h"

/* Sets the message "PATH: not a slide ...: what it is; remedy". `why` is what a reader says of the
 * file, or ""; `only` which formats this build reads, if not all, or "". Returns -1. */
int file_kind_reject(const struct slide_file *file, const char *why, const char *only,
                     struct err *e);

#endif
