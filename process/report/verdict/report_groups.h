/*
 * report_groups.h - which group a slide belongs to: from a table or its properties.
 */
#ifndef WSI_REPORT_GROUPS_H
#define WSI_REPORT_GROUPS_H

#include "process/report/numbers/report_setup.h"
#include "process/report/numbers/report_slides.h"

/* Starts as {0}. */
struct report_groups {
    int32_t n;
    char **name; /* [n], owned; group 0 is that of slides without another */
    int32_t *of; /* [slides], the group of each slide; owned */
    bool asked;  /* the user says which slides go together (--group) */
};

/* -1: out of memory, or the table or property cannot be used. */
int report_group(const struct report_setup *o, const struct report_slides *s,
                 struct report_groups *g, struct err *e);
void report_groups_free(struct report_groups *g);

/*
 * What slides, groups and failures are called on the page: their names or, with
 * --anonymous, numbers.
 */

/* Starts as {0}. All texts are owned. */
struct report_names {
    char **slide, **group, **failure; /* in the order of slides, groups and failures */
    int64_t slides, groups, failures;
};

/* Adds the failures of --failed and of the folders' lists to *f; those of slides that have a result
 * in the same folder to the slides. */
int report_read_failed(const struct report_setup *o, struct report_slides *s,
                       struct report_failures *f, struct err *e);
/* Why a slide failed, without its name in front. Points into reason. */
const char *report_bare_reason(const char *name, const char *reason);
/* What a page may show of a path: no folders of an absolute one. Points into path. */
const char *report_shown_path(const char *path);
/* Failures are called by their paths from the folder that all of them have in common. */
void report_name(const struct report_setup *o, const struct report_slides *s,
                 const struct report_groups *g, const struct report_failures *f,
                 struct report_names *names);
void report_names_free(struct report_names *names);

#endif
