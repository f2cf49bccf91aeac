/*
 * plot_map.h - the map of a slide's windows as a panel of a picture.
 *
 * A cell is a block of b x b windows, b as small as gives at most 200 cells along either side; its
 * colour is the mean of the windows in it that have a value. Cells without one are hatched.
 */
#ifndef WSI_PLOT_MAP_H
#define WSI_PLOT_MAP_H

#include "common/result/result.h"
#include "process/draw/svg.h"

#include <stdint.h>

struct plot_map {
    const float *values;    /* [ny][nx], dB; NaN: no value. The caller's */
    int64_t nx, ny, block;  /* block: windows along a side of a cell */
    int64_t stride, origin; /* px between windows; px of the map's upper left corner */
    double low, high;       /* dB, the ends of the colours */
    double left, top;       /* px of the picture */
    double scale;           /* px of the picture per window */
    int64_t counted, below, above; /* windows with a value, of them below `low`, above `high` */
};

/* Lays out the map of window means so that it and its colour bar fit into `width` px. Returns the
 * panel's height in px, labels included. */
double plot_map_layout(struct plot_map *m, const struct result_params *p,
                       const struct result_slide *s, double low, double high, double width);
void plot_map_draw(const struct plot_map *m, struct svg *svg, double left, double top);

#endif
