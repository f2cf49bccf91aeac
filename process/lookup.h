/*
 * lookup.h - the look-up table of groups for array jobs: "Start<TAB>End<TAB>Name", a line a store, all
 * groups of all stores numbered from 1.
 */
#ifndef WSI_LOOKUP_H
#define WSI_LOOKUP_H

#include "common/err.h"

#include <stdint.h>

/* Prints the header. */
void lookup_begin(void);
/* Prints the line of one store; *groups is how many there were before it, and is moved on. The message of a
 * failure names the store. */
int lookup_print(const char *path, int64_t *groups, struct err *e);

#endif
