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
    REPORT_FOCUS_P50,
    REPORT_SHARP_P50,
    REPORT_SHARP_P05,
    REPORT_PIECES,
    REPORT_FINE_P50,
    REPORT_BLURRED, /* known once the slides of the pool are */
    REPORT_SLOPE,
    REPORT_TISSUE,
    REPORT_GLASS, /* glass_std */
    REPORT_GLASS_RANGE,
    REPORT_GLASS_LINES,
    REPORT_STAIN,
    REPORT_HUE,
    REPORT_GRAY,
    REPORT_INK,
    REPORT_LIGHT, /* light_step */
    REPORT_COLOURLESS,
    REPORT_GLASS_GRAY,
    REPORT_GRAY_LOW,
    REPORT_GRAY_HIGH,
    REPORT_LINES,
    REPORT_SEAMS,
    REPORT_DIRECTION,
    REPORT_DETAIL_4,
    REPORT_DETAIL_7,
    REPORT_FALL, /* detail_fall_db */
    REPORT_QUALITY,
    REPORT_TWICE,
    REPORT_METRICS,
    REPORT_W1 = REPORT_METRICS, /* ranks slides, sets no flag */
    REPORT_NUMBERS
};

/* Which picture of a slide shows what a number says. */
enum picture_kind { PICTURE_NONE, PICTURE_OF_MAP, PICTURE_OF_SLIDE };

/* What a number can be; dB of a difference are at most the width of the histogram's range. */
enum report_range {
    RANGE_ANY,
    RANGE_FROM_0,
    RANGE_SHARE, /* 0 to 1 */
    RANGE_MEAN_DB,
    RANGE_STD_DB,
    RANGE_DIFFERENCE_DB,
    RANGE_DISTANCE_DB /* a difference without a sign */
};

struct report_metric {
    const char *name;  /* in tables of --csv */
    const char *title; /* on the page */
    const char *unit;  /* " dB", "" ... behind a value; " %": a share, shown in percent */
    int digits;        /* behind the point, as shown */
    const char *definition;
    enum report_range range;
    const char *low, *high; /* what an unusually low or high value means; NULL: it is no flag */
    bool angle;             /* degrees: 359 and 1 differ by 2 */
    bool ratio;             /* %s of the words is how many times the median the value is */
    bool unsure;            /* of few slides high values need more: 1 + 6 / slides times the z */
    bool skewed;            /* real groups are: what is usual is wider on their long side */
    double least_value;     /* values below are a flag; 0: none */
    double low_below;       /* a low value is a flag only below this; 0: any may be */
    double most;            /* values above are a flag; 0: none */
    bool widens;            /* up to twice as much, where the group's slides are near that */
    bool spreads;           /* no flag up to four times the third quartile of the group; without a
                             * group up to 0.01 */
    double least;           /* a smaller difference from the median is no flag, whatever its z;
                             * with `ratio`, a part of the median */
    double times;  /* a smaller ratio to the median, or of the median, is no flag; 0: any may be */
    double floor;  /* a smaller MAD counts as this: values that differ by less mean nothing */
    bool specific; /* it names the cause, so it comes before numbers that only notice it */
    enum picture_kind picture;
};

/* Of metric 0 .. REPORT_NUMBERS - 1. */
const struct report_metric *report_metric(int metric);
/* Has it a z? */
bool report_is_scored(int metric);
/* Is it a share, shown in percent? */
bool report_is_share(int metric);
/* Can it set a flag, or rank slides? The others are in tables only. */
bool report_is_on_page(int metric);
/* The number of a metric of this name; -1: none. */
int report_find_metric(const char *name);

#endif
