/*
 * output.h - what the NAME of -o NAME means: the same for every command of both programs.
 */
#ifndef WSI_OUTPUT_H
#define WSI_OUTPUT_H

#include "common/base/err.h"

#include <stdbool.h>

/* A folder: one that exists, a name that ends with a slash, or any that does not end in `ending`
 * (".h5"). */
bool output_is_folder(const char *name, const char *ending);
/* Rejects a name that looks like another kind of file than `ending`, unless it is that of an
 * existing folder. `option` is "-o". */
int output_check(const char *option, const char *name, const char *ending, struct err *e);
/* Rejects an output that is one of the n inputs, also through a link. NULL for an input that is not
 * given. */
int output_is_no_input(const char *option, const char *name, char *const *inputs, int n,
                       struct err *e);
/* Do two names lead to one existing file? */
bool output_is_same(const char *a, const char *b);

#endif
