/*
 * report_load.h - reads every slide of the results once: numbers, histogram, pictures.
 */
#ifndef WSI_REPORT_LOAD_H
#define WSI_REPORT_LOAD_H

#include "process/report/report_pictures.h"
#include "process/report/report_setup.h"
#include "process/report/report_slides.h"

/* *s and *f start as {0} and are to be freed in any case; *spool (NULL: no pictures), too. Inputs
 * that cannot be used go to *f, and *bad gets their number. -1: out of memory, or stopped. */
int report_load(const struct report_setup *o, struct report_slides *s, struct report_failures *f,
                struct report_spool **spool, int64_t *bad, struct err *e);
/* Of very many slides, the pictures of those that do not pass (verdicts[slides]); of others all are
 * there already. *bad is raised by the number of slides whose result cannot be read any more. */
int report_load_pictures(const struct report_setup *o, struct report_slides *s,
                         const uint8_t *verdicts, struct report_spool *spool, int64_t *bad,
                         struct err *e);

#endif
