/*
 * overview.h - a tissue map from as few pixels of a slide as can be.
 */
#ifndef WSI_OVERVIEW_H
#define WSI_OVERVIEW_H

#include "common/err.h"
#include "convert/slide.h"
#include "convert/tissue.h"

#include <stdbool.h>

/*
 * Fills t (tissue_create()d for the open level) from the coarsest level that still has a pixel for every
 * cell; without one, if `must`, from the open level itself, decoded at 1/8 where the reader can. Uses
 * `threads` threads; s may not be read meanwhile. 1: done, 0: there was no coarse level and it need not
 * be, -1.
 */
int overview_tissue(const char *path, const struct slide_reader *reader, struct slide *s,
                    const struct slide_info *info, int threads, bool must, struct tissue *t,
                    struct err *e);

#endif
