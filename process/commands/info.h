/*
 * info.h - what a store or a result contains, on stdout: for people, for programs, for tables.
 */
#ifndef WSI_INFO_H
#define WSI_INFO_H

enum info_form {
    INFO_TEXT,      /* for people: names are shortened, control characters become '?' */
    INFO_JSON,      /* one object per line; names are exact */
    INFO_CSV,       /* a row per slide of results, or per store. UTF-8: names are made printable
                       as for people, but not shortened */
    INFO_HISTOGRAM, /* results only: one row per bin, columns separated by tabs */
};

/* Prints n files, and reports those that cannot be. Of several files each row of a histogram begins
 * with the file's name. A table is of stores or of results: the first file says which. Returns the
 * exit status. */
int info_print(char *const *paths, int n, enum info_form form);

#endif
