/*
 * report_tables.h - a report as tables for other programs.
 */
#ifndef WSI_REPORT_TABLES_H
#define WSI_REPORT_TABLES_H

#include "process/report/words/report_view.h"

#include <stdio.h>

/* --csv: a row per slide and failure. */
int report_csv(const struct report_view *r, FILE *f, struct err *e);
/* --anonymous: which number is which slide, group or failure. */
int report_key(const struct report_view *r, FILE *f, struct err *e);
/* How the file begins. */
#define REPORT_MULTIQC_HEAD "{\"id\": \"h5spec_"
/* --multiqc: a file of custom content in its folder. */
int report_multiqc(const struct report_view *r, struct err *e);

#endif
