/*
 * report_reasons.h - why to look at a slide, in words.
 */
#ifndef WSI_REPORT_REASONS_H
#define WSI_REPORT_REASONS_H

#include "process/report/report_view.h"

/* Is slide k unusual: a flag of its own, damage, or a verdict other than pass? */
bool report_is_flagged(const struct report_view *r, int64_t k);
/* Reason n = 0, 1 ... for looking at slide k, or what its numbers lack. False: no more. */
bool report_reason(const struct report_view *r, int64_t k, int n, char *out, size_t size);
/* The reason as the page may show it. */
const char *report_failure_reason(const struct report_view *r, int64_t failure);
/* "group, 0.25 um/px". */
void report_pool_label(const struct report_view *r, int32_t pool, char *out, size_t size);

#endif
