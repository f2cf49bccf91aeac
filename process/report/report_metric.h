/*
 * report_metric.h - the numbers that slides are compared by.
 */
#ifndef WSI_REPORT_METRIC_H
#define WSI_REPORT_METRIC_H

enum report_metric_number {
    REPORT_MEAN,
    REPORT_STD,
    REPORT_FOCUS_P05,
    REPORT_FOCUS_P50,
    REPORT_FOCUS_P95,
    REPORT_SLOPE,
    REPORT_TISSUE,
    REPORT_METRICS
};

struct report_metric {
    const char *name, *unit;
    const char *low,
        *high;  /* what an unusually low or high value means, in words; NULL: unscored */
    int digits; /* behind the point */
    const char *definition;
};

/* REPORT_METRICS is the W1 distance. */
const struct report_metric *report_metric(int metric);
/* The number of a metric of this name; -1: none. */
int report_find_metric(const char *name);

#endif
