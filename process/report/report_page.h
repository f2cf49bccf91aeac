/*
 * report_page.h - a report in its forms: the page, and tables for other programs.
 */
#ifndef WSI_REPORT_PAGE_H
#define WSI_REPORT_PAGE_H

#include "process/report/report_view.h"

#include <stdio.h>

int report_page(const struct report_view *r, FILE *f, struct err *e);

/*
 * The numbers of a page, as JSON for process/draw/page.js.
 *
 * Slides are columns: arrays with one element per slide, in the order of `names`.
 */

void report_data(const struct report_view *r, FILE *f);

/*
 * A report as tables for other programs.
 */

/* --csv: a row per slide and failure. */
int report_csv(const struct report_view *r, FILE *f, struct err *e);
/* --key: which number is which slide, group or failure. */
int report_key(const struct report_view *r, FILE *f, struct err *e);
/* --multiqc: a file of custom content in its folder. */
int report_multiqc(const struct report_view *r, struct err *e);

#endif
