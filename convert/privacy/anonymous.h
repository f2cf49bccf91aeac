/*
 * anonymous.h - slides named by their hash instead of their file name (--anonymous).
 *
 * Many archives name files after patients or accession numbers. A slide's name is then "slide-" and
 * 16 digits of its quickhash-1; a key file, which only its owner can read, says which file that is.
 */
#ifndef WSI_ANONYMOUS_H
#define WSI_ANONYMOUS_H

#include "common/base/err.h"

#include <stddef.h>

enum { ANONYMOUS_NAME = 64 };

/* The name of a slide. -1: it cannot be opened, or has no quickhash. */
int anonymous_name(const char *path, char name[ANONYMOUS_NAME], struct err *e);

/* Adds the line "NAME,PATH" (CSV) to the key file, unless it has that line. The file gets mode
 * 0600. Several processes may write to one key file. */
int anonymous_note(const char *key, const char *name, const char *path, struct err *e);

/* Replaces the path in a message, its base name and the base name without ending by `by`. */
void anonymous_mask(struct err *e, const char *path, const char *by);

#endif
