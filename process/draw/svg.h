/*
 * svg.h - drawing SVG pictures: shapes, text, one file that is written whole or not at all.
 *
 * A picture is collected in memory in px, origin top left. Numbers are printed with a fixed
 * number of digits, so equal drawings give equal bytes. Fonts are named, not embedded; nothing
 * refers to another file. `style` is the name of a class that the picture's style sheet defines,
 * or "".
 *
 * Drawing never fails; svg_write reports a lack of memory. One thread per picture.
 */
#ifndef WSI_SVG_H
#define WSI_SVG_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct svg {
    FILE *f;
    char *text; /* owned */
    size_t bytes;
};

/* Begins a picture of width x height px. `title` is what a screen reader says; `sheet` is CSS. */
void svg_begin(struct svg *s, double width, double height, const char *title, const char *sheet);

void svg_line(struct svg *s, const char *style, double x1, double y1, double x2, double y2);
void svg_rect(struct svg *s, const char *style, double x, double y, double width, double height);
/* Text of any origin: it is made printable and escaped. */
void svg_text(struct svg *s, const char *style, double x, double y, const char *text);
void svg_textf(struct svg *s, const char *style, double x, double y, const char *fmt, ...)
    ERR_PRINTF(5, 6);
/* Text that runs upwards, its middle at (x, y). */
void svg_text_up(struct svg *s, double x, double y, const char *text);
/* Markup of our own; strings from files go through svg_escape. */
void svg_markup(struct svg *s, const char *fmt, ...) ERR_PRINTF(2, 3);
void svg_escape(struct svg *s, const char *text);

/* Does the name of a file end in .svg? */
bool svg_is_name(const char *path);
/* May a picture be written to `path`? Yes if no file or a picture of svg_write() exists there. */
int svg_check_target(const char *path, struct err *e);
/* Ends the picture and publishes it under `path`. */
int svg_write(struct svg *s, const char *path, struct err *e);
/* Frees the picture; also after svg_write, and on a zeroed struct. */
void svg_end(struct svg *s);

/* --- the axes of a picture: round numbers, ticks, labels, grid --- */

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
