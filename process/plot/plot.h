/*
 * plot.h - `h5spec plot`: results as a picture, an SVG file.
 *
 * Up to PLOT_MOST_CURVES slides are drawn as one curve each, more as their median with two bands:
 * pointwise quantiles of the slides' normalised histograms. Equal inputs give equal bytes.
 */
#ifndef WSI_PLOT_H
#define WSI_PLOT_H

#include "common/base/command.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLOT_MOST_CURVES = 12 };

struct plot_setup {
    const char *output; /* FILE.svg; an existing picture of ours is replaced */
    char *const *files; /* [n_files] results */
    int n_files;
    const char *const *patterns; /* [n_patterns] names or patterns of slides; none: all */
    int n_patterns;
    const char *title;        /* NULL: the slide's name or the number of slides; "": no title */
    bool band;                /* draw the bands for any number of slides from 3 */
    bool map;                 /* add a map of the only slide */
    int feature;              /* enum result_map_number; -1: focus, or mean without it */
    bool colours;             /* map_low and map_high are set */
    double map_low, map_high; /* dB, the ends of the map's colours */
};

/* Draws and publishes the picture; *slides gets how many it shows. On failure no file is created or
 * changed. */
int plot_write(const struct plot_setup *setup, int64_t *slides, struct err *e);

/* The command line. plot_main returns the program's exit status. */
extern const struct command plot_options;
int plot_main(int argc, char **argv);

#endif
