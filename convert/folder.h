/*
 * folder.h - creates output folders.
 */
#ifndef WSI_FOLDER_H
#define WSI_FOLDER_H

#include "common/err.h"

/* Creates the folder and those above it, as mkdir -p does. */
int folder_make(const char *path, struct err *e);
/* Creates the folder that `file` is to be in. */
int folder_make_for(const char *file, struct err *e);

#endif
