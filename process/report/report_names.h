/*
 * report_names.h - what slides, groups and failures are called on the page: their names or, with
 * --names number, numbers.
 */
#ifndef WSI_REPORT_NAMES_H
#define WSI_REPORT_NAMES_H

#include "process/report/report_groups.h"

/* Starts as {0}. All texts are owned. */
struct report_names {
    char **slide, **group, **failure; /* in the order of slides, groups and failures */
    int64_t slides, groups, failures;
};

/* Adds the failures of --failed and of the folders' lists to *f. */
int report_read_failed(const struct report_setup *o, struct report_failures *f, struct err *e);
int report_name(const struct report_setup *o, const struct report_slides *s,
                const struct report_groups *g, const struct report_failures *f,
                struct report_names *names, struct err *e);
void report_names_free(struct report_names *names);

#endif
