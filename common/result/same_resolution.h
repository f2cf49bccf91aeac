/*
 * same_resolution.h - are the slides of one histogram comparable?
 *
 * Frequencies are in cycles per pixel, so slides of different resolution are not pooled unless the
 * user asks for it. The slides of a result are looked at in the order of their names. Each is
 * compared with the first one that states its resolution: two resolutions are the same if their um
 * per stored pixel differ by at most 10 %. A slide that does not state it, or before which none
 * does, is compared by the downsample of its level with the first slide that states that. What is
 * not known, as in older results, does not differ.
 */
#ifndef WSI_SAME_RESOLUTION_H
#define WSI_SAME_RESOLUTION_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdint.h>

enum { SAME_RESOLUTION_NAME = 4096 };

/* What the slides are compared with. Zero it before use. */
struct same_resolution {
    /* names of the first slides that state them, "" so far */
    char with_downsample[SAME_RESOLUTION_NAME], with_mpp[SAME_RESOLUTION_NAME];
    double downsample, mpp; /* of these; mpp is um per stored pixel */
    int64_t others;         /* slides of another resolution */
};

/* -1 if the slide's resolution is another one: it is counted, and the message says what differs and
 * what to do, but does not name the slide. */
int same_resolution_check(struct same_resolution *r, const char *name,
                          const struct result_origin *o, struct err *e);

#endif
