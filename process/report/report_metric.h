/*
 * report_metric.h - the numbers that slides are compared by.
 *
 * A number sets a flag in two ways: by its distance to the median of its pool (robust z), and by a
 * limit that holds for all slides.
 */
#ifndef WSI_REPORT_METRIC_H
#define WSI_REPORT_METRIC_H

#include <stdbool.h>

enum report_metric_number {
    REPORT_MEAN,
    REPORT_STD,
    REPORT_FOCUS_P05,
    REPORT_FOCUS_P50,
    REPORT_FOCUS_P95,
    REPORT_SHARP_P50,
    REPORT_FINE_P50,
    REPORT_BLURRED, /* known once the slides of the pool are */
    REPORT_SLOPE,
    REPORT_TISSUE,
    REPORT_GLASS,
    REPORT_STAIN,
    REPORT_HUE,
    REPORT_GLASS_GRAY,
    REPORT_GRAY_LOW,
    REPORT_GRAY_HIGH,
    REPORT_LINES,
    REPORT_BLOCKS,
    REPORT_DIRECTION,
    REPORT_DETAIL_4,
    REPORT_DETAIL_7,
    REPORT_QUALITY,
    REPORT_TWICE,
    REPORT_METRICS,
    REPORT_W1 = REPORT_METRICS, /* ranks slides, sets no flag */
    REPORT_NUMBERS
};

/* Which picture of a slide shows what a number says. */
enum report_look {
    REPORT_LOOK_NONE,
    REPORT_LOOK_MAP,
    REPORT_LOOK_SLIDE,
    REPORT_LOOK_SPECTRUM,
    REPORT_LOOK_NOISE /* the map of report_more.h */
};

struct report_metric {
    const char *name;       /* in tables of --csv */
    const char *title;      /* on the page */
    const char *unit;       /* " dB", "" ... behind a value */
    int digits;             /* behind the point */
    const char *low, *high; /* what an unusually low or high value means; NULL: it is no flag */
    bool ratio;             /* %s of the words is how many times the median the value is */
    double most;            /* values above are a flag; NAN: none */
    double least;           /* a smaller difference from the median is no flag, whatever its z;
                             * with `ratio`, a part of the median */
    double floor;  /* a smaller MAD counts as this: values that differ by less mean nothing */
    bool specific; /* it names the cause, so it comes before numbers that only notice it */
    enum report_look look;
    const char *definition;
};

/* Of metric 0 .. REPORT_NUMBERS - 1. */
const struct report_metric *report_metric(int metric);
/* Has it a z? */
bool report_is_scored(int metric);
/* The number of a metric of this name; -1: none. */
int report_find_metric(const char *name);

#endif
