/*
 * list.h - the files that a command works on: words of the command line, lines of --list files, and a
 * task's share of them.
 */
#ifndef WSI_LIST_H
#define WSI_LIST_H

#include "common/err.h"

#include <stdint.h>

struct list {
    char **paths; /* each owned */
    int n;
};

int list_add(struct list *l, const char *path, struct err *e);
/* Adds the paths of a file, one a line; empty lines and lines that begin with # are left out. */
int list_add_file(struct list *l, const char *file, struct err *e);
/* Keeps share `task` of `tasks` (cli_task); it can be empty. */
void list_share(struct list *l, int64_t task, int64_t tasks);
void list_free(struct list *l); /* what it owns, not l */

#endif
