/*
 * run_remarks.h - what `h5spec run` says about a slide that is done: which windows do not count, or
 * count with less than the slide's own pixels, and why. None of this is an error.
 */
#ifndef WSI_RUN_REMARKS_H
#define WSI_RUN_REMARKS_H

#include "common/result/result.h"

/* `path` is that of the store. */
void run_remarks(const char *path, const struct result_params *p, const struct result_slide *s);

#endif
