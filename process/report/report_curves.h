/*
 * report_curves.h - the cumulative histogram and the sharpness of each slide, in a temporary file.
 *
 * They take 8 KiB per slide, most of what is known of it. The file is mapped to be read, and its
 * pages are dropped from memory now and then.
 */
#ifndef WSI_REPORT_CURVES_H
#define WSI_REPORT_CURVES_H

#include "common/base/err.h"

#include <stdint.h>

struct report_curves;
struct report_curves *report_curves_create(int64_t bins, struct err *e);
/* cdf[bins] and sharp[RESULT_SHARP_BINS] of one more slide. *at gets their number. */
int report_curves_add(struct report_curves *c, const float *cdf, const uint32_t *sharp, int64_t *at,
                      struct err *e);
/* After the last. The others can be used then, by one thread. */
int report_curves_map(struct report_curves *c, struct err *e);
const float *report_curves_cdf(struct report_curves *c, int64_t at);
const uint32_t *report_curves_sharp(struct report_curves *c, int64_t at);
void report_curves_free(struct report_curves *c); /* NULL is fine */

#endif
