/*
 * search.h - the slides below a folder.
 *
 *   - Subfolders are searched, also through links. Each folder is searched once: a link to a folder
 *     above it, or a second link to the same folder, is skipped.
 *   - A file is a slide if its name ends like one (slide_has_name).
 *   - DICOM files of one folder that share a series are one slide. The largest file stands for it.
 *   - A MIRAX slide is NAME.mrxs; the folder NAME beside it holds its data and is not searched.
 *     Likewise the pictures of a .vms or .vmu slide have no ending of a slide.
 *   - Names that begin with a dot are skipped.
 *   - A dangling link with a slide's ending and a folder that cannot be read are problems.
 */
#ifndef WSI_SEARCH_H
#define WSI_SEARCH_H

#include "common/err.h"

/* What a search finds. Each returns 0, or -1 to end it. */
struct search_ops {
    int (*slide)(void *ctx, const char *path, struct err *e);
    int (*problem)(void *ctx, const char *path, const char *why, struct err *e);
    int (*skipped)(void *ctx, const char *path, const char *why, struct err *e);
};

/* Searches a folder. Names of one folder come in the order of their bytes. -1: a callback failed,
 * or out of memory. */
int search_folder(const char *folder, const struct search_ops *ops, void *ctx, struct err *e);

#endif
