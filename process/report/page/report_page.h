/*
 * report_page.h - a report as a page of HTML.
 */
#ifndef WSI_REPORT_PAGE_H
#define WSI_REPORT_PAGE_H

#include "process/report/words/report_view.h"

#include <stdio.h>

int report_page(const struct report_view *r, FILE *f, struct err *e);

#endif
