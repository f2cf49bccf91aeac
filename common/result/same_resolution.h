/*
 * same_resolution.h - are the slides of one histogram comparable?
 *
 * Frequencies are in cycles per pixel, so slides of different resolution must not be pooled without
 * the user's knowledge. Two slides have the same resolution if their um per stored pixel differ by
 * at most 10 %; if one does not state it, the downsample of their levels is compared.
 */
#ifndef WSI_SAME_RESOLUTION_H
#define WSI_SAME_RESOLUTION_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdbool.h>

/* The first slide: the others are compared with it. Zero it before use. */
struct same_resolution {
    char *path; /* owned */
    struct result_origin first;
};

/* -1 if the slide's resolution differs from that of the first one; the message names both. */
int same_resolution_check(struct same_resolution *r, const char *path,
                          const struct result_origin *o, struct err *e);
void same_resolution_free(struct same_resolution *r);

/* The lowest and the highest resolution of slides, um per stored pixel; 0 while none is known. */
struct resolution_range {
    double low, high;
};
void resolution_range_add(struct resolution_range *r, const struct result_origin *o);
/* Do they differ by more than 10 %? */
bool resolution_range_mixes(const struct resolution_range *r);

#endif
