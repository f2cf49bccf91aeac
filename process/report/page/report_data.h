/*
 * report_data.h - the numbers of a page, as JSON for process/draw/page.js.
 *
 * Slides are columns: arrays with one element per slide, in the order of `names`.
 */
#ifndef WSI_REPORT_DATA_H
#define WSI_REPORT_DATA_H

#include "process/report/words/report_view.h"

#include <stdio.h>

void report_data(const struct report_view *r, FILE *f);

#endif
