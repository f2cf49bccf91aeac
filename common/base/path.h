/*
 * path.h - names in paths.
 */
#ifndef WSI_PATH_H
#define WSI_PATH_H

#include <stddef.h>

/* The part of a path after the last slash. Points into path. */
const char *path_base_name(const char *path);
/* Replaces each mention of `path` in a message by its base name: pages must not show folders. */
void path_drop_folder(char *message, const char *path);
/* The name of a slide: the base name of its store without ".h5". Points into path; *n gets its
 * length. */
const char *path_stem(const char *path, size_t *n);

#endif
