/*
 * resolution.h - opens the level of a slide that the options ask for, by number or by resolution.
 *
 * A level's resolution is the um per level-0 pixel times the downsample of the level. Nothing is
 * resampled: a slide without a fitting level is rejected, and the message lists what it has.
 */
#ifndef WSI_RESOLUTION_H
#define WSI_RESOLUTION_H

#include "convert/convert_options.h"
#include "convert/readers/slide.h"

/*
 * With o->mpp > 0: the level whose resolution is nearest to it, if both directions lie within
 * o->mpp_tolerance x o->mpp. Else level o->level. o->mpp_override > 0 replaces what the slide
 * states (um per level-0 pixel). On failure NULL with a message that names the file; then
 * slide_may_pass(errno) says whether the error may pass.
 */
struct slide *resolution_open(const struct slide_file *file, const struct convert_options *o,
                              struct slide_info *info, struct err *e);

#endif
