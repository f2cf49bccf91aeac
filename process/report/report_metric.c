/* report_metric.c - see report_metric.h. */
#include "process/report/report_metric.h"

#include <string.h>

static const struct report_metric metrics[REPORT_METRICS + 1] = {
    [REPORT_MEAN] = {"mean_db", "dB", "less detail and contrast", "more detail, contrast or noise",
                     2, "mean of all log magnitudes of the slide"},
    [REPORT_STD] = {"std_db", "dB", "log magnitudes differ less", "log magnitudes differ more", 2,
                    "standard deviation of all log magnitudes of the slide"},
    [REPORT_FOCUS_P05] = {"focus_p05", "dB", "its least sharp windows are less sharp",
                          "even its least sharp windows are sharp", 2,
                          "5 % of the counted windows have a lower focus_db"},
    [REPORT_FOCUS_P50] = {"focus_p50", "dB", "less sharp overall", "sharper or noisier overall", 2,
                          "median of focus_db over the counted windows"},
    [REPORT_FOCUS_P95] = {"focus_p95", "dB", NULL, NULL, 2,
                          "95 % of the counted windows have a lower focus_db"},
    [REPORT_SLOPE] = {"slope", "", "its spectrum falls more slowly: noise or sharpening",
                      "its spectrum falls more steeply: blur or smoothing", 3,
                      "how steeply the level falls over four octaves of spatial frequency"},
    [REPORT_TISSUE] = {"tissue_fraction", "", "less tissue", "more tissue", 3,
                       "part of the slide's area that the tissue map marks"},
    [REPORT_METRICS] = {"w1_db", "dB", NULL, NULL, 3,
                        "W1 distance: area between the slide's cumulative histogram and the "
                        "pointwise median of the pool's; it ranks slides and sets no flag"},
};

const struct report_metric *report_metric(int metric)
{
    return &metrics[metric];
}

int report_find_metric(const char *name)
{
    for (int m = 0; m <= REPORT_METRICS; m++)
        if (!strcmp(metrics[m].name, name))
            return m;
    return -1;
}
