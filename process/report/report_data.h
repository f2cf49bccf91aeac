/*
 * report_data.h - the numbers of a page, as JSON for process/draw/page.js.
 *
 * Slides are columns: arrays with one element per slide, in the order of `names`. Histograms are
 * one text: two characters per cell, which count from 0 to 4095 in base 64; 4095 is `max` per dB.
 * The text is empty if they do not fit into --max-size.
 */
#ifndef WSI_REPORT_DATA_H
#define WSI_REPORT_DATA_H

#include "process/report/report_view.h"

#include <stdio.h>

void report_data(const struct report_view *r, FILE *f);

#endif
