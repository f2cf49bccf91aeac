/*
 * axis.h - the axes of a picture: round numbers, ticks, labels, grid.
 */
#ifndef WSI_AXIS_H
#define WSI_AXIS_H

#include "process/draw/svg.h"

/* Values [low, high] lie at the px [from, to]; labels are multiples of `step`. `to` may be less
 * than `from`: y axes run upwards. */
struct axis {
    double low, high, step, from, to;
};

/* The smallest of 1, 2 and 5 times a power of ten with at most `most` steps in `span`. */
double axis_step(double span, int most);
/* px of a value; outside the axis: at its nearer end. */
double axis_px(const struct axis *a, double value);
/* "1,234.5" into out; returns out. */
const char *axis_number(char out[64], double value, int digits);

/* The value and the label of tick k, from 0; 0 past the end. */
int axis_tick(const struct axis *a, int k, double *value, char label[64]);
/* Ticks and numbers of an axis below (at the px y) or left of (at the px x) a panel; grid lines
 * reach to `end`, none if end equals y or x. Styles: tick, grid, and the text styles middle and
 * end. */
void axis_draw_below(struct svg *s, const struct axis *a, double y, double end);
void axis_draw_left(struct svg *s, const struct axis *a, double x, double end);
/* Ticks and numbers right of a panel. */
void axis_draw_right(struct svg *s, const struct axis *a, double x);

#endif
