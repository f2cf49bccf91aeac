/*
 * search.h - the slides below a folder: folder_find() with what is special about slides.
 *
 *   - A file is a slide if its name ends like one (slide_has_name).
 *   - DICOM files of one folder that share a series are one slide. The largest file stands for it.
 *   - A MIRAX slide is NAME.mrxs; the folder NAME beside it holds its data and is not searched.
 *     Likewise the pictures of a .vms or .vmu slide have no ending of a slide.
 */
#ifndef WSI_SEARCH_H
#define WSI_SEARCH_H

#include "common/base/err.h"

/* What a search finds; see folder_ops. */
struct search_ops {
    int (*slide)(void *ctx, const char *path, struct err *e);
    int (*problem)(void *ctx, const char *path, const char *why, struct err *e);
    int (*skipped)(void *ctx, const char *path, const char *why, struct err *e);
};

/* Searches a folder. -1: a callback failed, or out of memory. */
int search_slides(const char *folder, const struct search_ops *ops, void *ctx, struct err *e);

#endif
