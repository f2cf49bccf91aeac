/*
 * report_cells.h - the histograms of a page, in cells of about 1 dB.
 */
#ifndef WSI_REPORT_CELLS_H
#define WSI_REPORT_CELLS_H

#include "process/report/report_scores.h"

enum { REPORT_BANDS = 5 };
extern const double report_bands[REPORT_BANDS]; /* the quantiles of the bands */

/* Starts as {0}. */
struct report_cells {
    int64_t bins, all_bins; /* per cell, of the histogram */
    double width;           /* of a bin, dB */
    int64_t first, n;       /* cells shown */
    double most_share;      /* 1/dB: the largest of all cells */
    int32_t n_pools;
    float **bands; /* [n_pools][REPORT_BANDS][n]: quantiles of the shares; owned */
};

int report_cells(const struct report_slides *s, const struct report_scores *scores,
                 struct report_cells *out, struct err *e);
void report_cells_free(struct report_cells *c);
/* The share of the values in a cell, per dB, of the slide with this CDF. */
double report_share(const struct report_cells *c, const float *cdf, int64_t cell);

#endif
