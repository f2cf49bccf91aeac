/*
 * folder.h - searching folders for files, and creating them.
 */
#ifndef WSI_FOLDER_H
#define WSI_FOLDER_H

#include "common/err.h"

#include <stdbool.h>

struct folder_search {
    void *ctx;
    /* Is a file with this name looked for? */
    bool (*wants)(const char *name);
    /* Takes a file. With a problem the path is not a file but a dangling link, whatever its name,
     * or a folder that cannot be read; the problem is the system's message. -1 ends the search. */
    int (*add)(void *ctx, const char *path, const char *problem, struct err *e);
};

/* Calls add() for all files below a folder whose names are wanted, in order of their names. Names
 * that begin with a dot are skipped. Links to folders are followed. Each folder is searched once,
 * however many links lead to it, and links to the folders above the first one are skipped. -1 when
 * add() fails or memory is short. */
int folder_find(const char *folder, const struct folder_search *search, struct err *e);

/* Creates the folder and those above it, as mkdir -p does. */
int folder_make(const char *path, struct err *e);
/* Creates the folder that `file` is to be in. */
int folder_make_for(const char *file, struct err *e);

#endif
