/*
 * info.h - what a store or a result contains, on stdout: for people, for programs, for tables.
 */
#ifndef WSI_INFO_H
#define WSI_INFO_H

#include "common/base/err.h"

enum info_form {
    INFO_TEXT,      /* for people: names are shortened, control characters become '?' */
    INFO_JSON,      /* one object per line; names are exact */
    INFO_CSV,       /* results only: one row per slide. UTF-8: names are
                       made printable as for people, but not shortened */
    INFO_HISTOGRAM, /* results only: one row per bin, columns separated by tabs */
};

/* Prints what comes before the first of n files: the names of the columns. Of several files each
 * row of a histogram begins with the file's name. */
void info_begin(enum info_form form, int n);
/* Prints one of n files. The message of a failure names the file. */
int info_print(const char *path, enum info_form form, int n, struct err *e);

#endif
