/*
 * report_groups.h - which group a slide belongs to: from a table, a pattern or its properties.
 */
#ifndef WSI_REPORT_GROUPS_H
#define WSI_REPORT_GROUPS_H

#include "process/report/report_setup.h"
#include "process/report/report_slides.h"

/* Starts as {0}. */
struct report_groups {
    int32_t n;
    char **name; /* [n], owned; group 0 is that of slides without another */
    int32_t *of; /* [slides], the group of each slide; owned */
};

/* -1: out of memory, or the table, pattern or property cannot be used. */
int report_group(const struct report_setup *o, const struct report_slides *s,
                 struct report_groups *g, struct err *e);
void report_groups_free(struct report_groups *g);

#endif
