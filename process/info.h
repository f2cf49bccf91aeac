/*
 * info.h - what a store or a result holds, on stdout: for people, for programs, for a plot.
 */
#ifndef WSI_INFO_H
#define WSI_INFO_H

#include "common/err.h"

enum info_form {
    INFO_TEXT,      /* for people */
    INFO_JSON,      /* one object a line */
    INFO_CSV,       /* results only: the columns of info_csv_head, a line a slide, then the sum */
    INFO_HISTOGRAM, /* results only: "low_db<TAB>high_db<TAB>count", a line a bin, after a header */
};

void info_csv_head(void);
/* Prints one file; the message of a failure names it. */
int info_print(const char *path, enum info_form form, struct err *e);

#endif
