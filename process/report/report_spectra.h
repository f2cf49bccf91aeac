/*
 * report_spectra.h - the mean spectra of slides, as pictures in a report.
 *
 * The sums are large, so they are loaded when the page is written, and only for slides that show
 * them.
 */
#ifndef WSI_REPORT_SPECTRA_H
#define WSI_REPORT_SPECTRA_H

#include "process/report/report_slides.h"

#include <stdio.h>

/* The range of the colours, dB. */
enum { REPORT_SPECTRUM_LOW = 10, REPORT_SPECTRUM_HIGH = 90 };

/* Writes " TISSUE GLASS", each the base64 of a PNG picture or nothing, for a slide. The middle of a
 * picture is frequency 0, its edges are 1/2 cycle per px. A slide that cannot be read any more has
 * no spectra. */
int report_spectra_write(struct report_again *a, const struct report_slide *slide, FILE *f,
                         struct err *e);

#endif
