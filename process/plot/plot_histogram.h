/*
 * plot_histogram.h - the histograms of slides as a panel of a picture, and its legend.
 *
 * Either a curve per slide, or the median of the slides with two bands: in each cell the 5 to 95 %
 * and the 25 to 75 % quantiles of the slides' normalised histograms.
 */
#ifndef WSI_PLOT_HISTOGRAM_H
#define WSI_PLOT_HISTOGRAM_H

#include "process/draw/svg.h"
#include "process/plot/curves.h"

#include <stdbool.h>

enum { PLOT_QUANTILES = 5 };

struct plot_histogram {
    const struct curves *c; /* the caller's */
    bool band;
    double *quantiles[PLOT_QUANTILES]; /* [cells], of 5, 25, 50, 75, 95 %; only with `band` */
    double *mean;                      /* [cells], only with `band` */
    struct axis x, y;                  /* dB; per cent of the values per dB */
    double cut;     /* per cent per dB: the top of a spike that y cuts; 0: all fits */
    double outside; /* the largest share of a slide's values outside the x axis */
};

/* Computes what is drawn from px `left` to `right`. Free with plot_histogram_free. */
void plot_histogram_make(struct plot_histogram *h, const struct curves *c, bool band, double left,
                         double right);
void plot_histogram_free(struct plot_histogram *h);

/* Height of the panel, axes included, and of the legend, px. */
double plot_histogram_height(const struct plot_histogram *h);
double plot_histogram_legend_height(const struct plot_histogram *h);

/* Draws with the upper edge at the px `top`. */
void plot_histogram_draw(struct plot_histogram *h, struct svg *s, double top);
void plot_histogram_draw_legend(const struct plot_histogram *h, struct svg *s, double top);

#endif
