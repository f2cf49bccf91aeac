/*
 * plot_histogram.h - the histograms of slides as a panel of a picture, and its legend.
 *
 * Either a curve per slide, or the median of the slides with two bands: in each cell the 5 to 95 %
 * and the 25 to 75 % quantiles of the slides' normalised histograms.
 */
#ifndef WSI_PLOT_HISTOGRAM_H
#define WSI_PLOT_HISTOGRAM_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "process/draw/svg.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * --- curves ---
 *
 * The histograms of slides as curves: share of a slide's values per dB.
 *
 * A cell is a whole number of neighbouring bins, at most 0.5 dB together, or one bin if bins are
 * wider. share[cell] is the part of ALL values of the slide (0 to 1, values outside the
 * histogram's range included) that lie in the cell, divided by the cell's width in dB.
 */

struct curve {
    const char *file; /* the result, as the caller named it */
    char *name;       /* the slide in it; owned */
    int64_t windows;
    double mean, std; /* dB */
    double *share;    /* [cells], 1/dB; owned */
};

struct curves {
    struct result_params params; /* of all files */
    int64_t cell_bins, cells;    /* bins per cell (the last may have fewer), cells */
    int64_t n;
    struct curve *list;        /* [n], in the order of the files, by name within a file */
    struct result_counts all;  /* sum over the list */
    int64_t empty;             /* chosen slides without a counted window; not in the list */
    int64_t partial;           /* slides of the list without some of their groups */
    int64_t gray;              /* slides of the list made from 8-bit gray */
    struct result_slide slide; /* with `parts`: the only slide */
};

/* Loads the slides whose names equal or match (fnmatch) one of the patterns; all without patterns.
 * Every pattern must find a slide, and all files must have the same parameters. With `parts` (of
 * enum result_part) exactly one slide must be chosen, which is kept with them. Free with
 * curves_free, also after a failure. */
int curves_load(struct curves *c, char *const *files, int n_files, const char *const *patterns,
                int n_patterns, unsigned parts, struct err *e);
void curves_free(struct curves *c);

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
