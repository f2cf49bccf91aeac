/*
 * lookup.h - the look-up table of groups for array jobs: "Start<TAB>End<TAB>Name", one line per
 * store. All groups of all stores are numbered from 1.
 */
#ifndef WSI_LOOKUP_H
#define WSI_LOOKUP_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Prints the header of the table. */
void lookup_begin(void);
/* Prints the line of one store, or a JSON line. *groups is the number of groups of all stores
 * before it; those of this store are added. The message of a failure names the store. */
int lookup_print(const char *path, bool json, int64_t *groups, struct err *e);

#endif
