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
    const struct result_slide *slide; /* the caller's */
    int map;                          /* enum result_map_number: one that has a unit */
    int64_t nx, ny, block;            /* block: windows along a side of a cell */
    int64_t stride, origin;           /* px between windows; px of the map's upper left corner */
    double low, high;                 /* dB, the ends of the colours */
    double scale;                     /* px of the picture per window */
    double um_per_px;                 /* of the stored level; NaN: not known, and no scale bar */
    int64_t counted, below, above;    /* windows with a value, of them below `low`, above `high` */
};

/* Lays out a map of the slide so that it and its colour bar fit into `width` px. Returns the
 * panel's height in px, labels and scale bar included. */
double plot_map_layout(struct plot_map *m, const struct result_params *p,
                       const struct result_slide *s, int map, double low, double high,
                       double width);
void plot_map_draw(const struct plot_map *m, struct svg *svg, double left, double top);

#endif
