/*
 * choice.h - which slides of results a command works on: --slide NAME, or a pattern as fnmatch()
 * takes it, any number of times. Without any, all slides are chosen.
 */
#ifndef WSI_CHOICE_H
#define WSI_CHOICE_H

#include "common/base/err.h"

#include <stdbool.h>

struct choice {
    const char *const *patterns; /* [n], the caller's */
    int n;
    bool *found; /* [n]: the pattern has matched a slide; owned */
};

/* Appends a word of the command line, which is not copied, to *patterns [*n]. The caller frees the
 * array. */
void choice_add(const char ***patterns, int *n, const char *word);
void choice_begin(struct choice *c, const char *const *patterns, int n);
bool choice_has(struct choice *c, const char *name);
/* -1 if a pattern has matched no slide; the message names it. */
int choice_check(const struct choice *c, struct err *e);
void choice_end(struct choice *c);

#endif
