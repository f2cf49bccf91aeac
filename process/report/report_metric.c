/* report_metric.c - see report_slides.h. */
#include "process/report/report_slides.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define OF_TISSUE "of the windows of which at least half is tissue"

static const struct report_metric metrics[REPORT_NUMBERS] = {
    [REPORT_MEAN] = {.name = "mean_db",
                     .title = "amount of detail",
                     .unit = " dB",
                     .digits = 2,
                     .most = NAN,
                     .definition =
                         "mean of all log magnitudes of the slide; more tissue gives more"},
    [REPORT_STD] = {.name = "std_db",
                    .title = "spread of detail",
                    .unit = " dB",
                    .digits = 2,
                    .most = NAN,
                    .definition = "standard deviation of all log magnitudes of the slide"},
    [REPORT_FOCUS_P05] = {.name = "focus_p05",
                          .title = "sharpness, worst 5 %",
                          .unit = " dB",
                          .digits = 2,
                          .low = "the least sharp tissue is less sharp than that of the others",
                          .high = "even the least sharp tissue is sharp",
                          .most = NAN,
                          .least = 1,
                          .look = REPORT_LOOK_MAP,
                          .definition = "5 % " OF_TISSUE " have a lower focus_db"},
    [REPORT_FOCUS_P50] = {.name = "focus_p50",
                          .title = "sharpness, typical",
                          .unit = " dB",
                          .digits = 2,
                          .low = "tissue less sharp than in the others",
                          .high = "tissue sharper or noisier than in the others",
                          .most = NAN,
                          .least = 1,
                          .look = REPORT_LOOK_MAP,
                          .definition = "median of focus_db " OF_TISSUE},
    [REPORT_FOCUS_P95] = {.name = "focus_p95",
                          .title = "sharpness, best 5 %",
                          .unit = " dB",
                          .digits = 2,
                          .most = NAN,
                          .definition = "95 % " OF_TISSUE " have a lower focus_db"},
    [REPORT_SHARP_P50] = {.name = "sharp_p50",
                          .title = "sharpness of fine detail",
                          .unit = " dB",
                          .digits = 2,
                          .low = "tissue slightly less sharp than in the others",
                          .high = "fine detail stronger than in the others: scanner or sharpening",
                          .most = NAN,
                          .least = 1,
                          .look = REPORT_LOOK_MAP,
                          .definition = "median of sharp_db " OF_TISSUE},
    [REPORT_FINE_P50] = {.name = "fine_p50",
                         .title = "finest detail",
                         .unit = " dB",
                         .digits = 2,
                         .most = NAN,
                         .look = REPORT_LOOK_MAP,
                         .definition = "median of fine_db " OF_TISSUE},
    [REPORT_BLURRED] = {.name = "blurred_share",
                        .title = "blurred part of the tissue",
                        .unit = "",
                        .digits = 3,
                        .most = 0.01,
                        .look = REPORT_LOOK_MAP,
                        .definition = "part " OF_TISSUE " whose focus_db is below the median of "
                                      "all such windows of the comparison group, less 3.5 robust "
                                      "standard deviations"},
    [REPORT_SLOPE] = {.name = "slope",
                      .title = "fall of the spectrum",
                      .unit = "",
                      .digits = 3,
                      .most = NAN,
                      .look = REPORT_LOOK_SPECTRUM,
                      .definition =
                          "how steeply the level falls over four octaves of spatial frequency"},
    [REPORT_TISSUE] = {.name = "tissue_fraction",
                       .title = "tissue",
                       .unit = "",
                       .digits = 3,
                       .low = "much less tissue than on the others",
                       .high = "much more tissue than on the others",
                       .most = NAN,
                       .times = 3,
                       .specific = true,
                       .look = REPORT_LOOK_SLIDE,
                       .definition = "part of the slide's area that the tissue map marks"},
    [REPORT_GLASS] = {.name = "noise_db",
                      .title = "noise of the glass",
                      .unit = " dB",
                      .digits = 1,
                      .low = "the glass is smoother than that of the others: other compression or "
                             "scanner",
                      .high =
                          "the glass is noisier than that of the others: sensor, lines, or other "
                          "compression",
                      .most = NAN,
                      .floor = 1.2,
                      .look = REPORT_LOOK_NOISE,
                      .definition = "least level_db, the level at 1/8 to 1/4 cycles/px, of the "
                                    "windows without tissue, if there are three"},
    [REPORT_STAIN] = {.name = "stain_density",
                      .title = "stain density",
                      .unit = "",
                      .digits = 3,
                      .low = "stain %s times as dense as that of the others",
                      .high = "stain %s times as dense as that of the others, or pen",
                      .ratio = true,
                      .most = NAN,
                      .least = 0.2,
                      .look = REPORT_LOOK_SLIDE,
                      .definition = "mean optical density -log10(value / 255) of the tissue in the "
                                    "thumbnail, mean of the three channels"},
    [REPORT_HUE] = {.name = "stain_hue",
                    .title = "stain hue",
                    .unit = " degrees",
                    .digits = 1,
                    .low = "another colour than the others: stain, pen or scanner",
                    .high = "another colour than the others: stain, pen or scanner",
                    .most = NAN,
                    .least = 6,
                    .look = REPORT_LOOK_SLIDE,
                    .definition = "angle of the optical densities of the tissue in the thumbnail "
                                  "in the plane of hue and saturation (van der Laak, 2000)"},
    [REPORT_GLASS_GRAY] =
        {.name = "glass_gray",
         .title = "brightness of the glass",
         .unit = " levels",
         .digits = 1,
         .low = "darker glass than on the others: lamp or exposure; calibrate the white",
         .high = "brighter glass than on the others: exposure, gamma, or white tiles",
         .most = NAN,
         .floor = 0.55,
         .specific = true,
         .look = REPORT_LOOK_SLIDE,
         .definition = "median gray of the windows with the least tissue, without their tissue"},
    [REPORT_GRAY_LOW] =
        {.name = "gray_low",
         .title = "darkest window",
         .unit = " levels",
         .digits = 0,
         .low =
             "an area is far darker than anything on the others: black tiles, pen, or underexposed",
         .most = NAN,
         .floor = 3,
         .specific = true,
         .look = REPORT_LOOK_SLIDE,
         .definition = "gray of the darkest window"},
    [REPORT_GRAY_HIGH] =
        {.name = "gray_high",
         .title = "brightest window",
         .unit = " levels",
         .digits = 0,
         .low = "nothing is as bright as the glass of the others: dark exposure, or no glass",
         .most = NAN,
         .floor = 6,
         .specific = true,
         .look = REPORT_LOOK_SLIDE,
         .definition = "gray of the brightest window"},
    [REPORT_LINES] =
        {.name = "lines_db",
         .title = "pattern of lines",
         .unit = " dB",
         .digits = 1,
         .most = 6,
         .specific = true,
         .look = REPORT_LOOK_SPECTRUM,
         .definition = "how far the strongest narrow peak on an axis of the mean spectra is above "
                       "its neighbours, but for periods of 8 px and their harmonics"},
    [REPORT_BLOCKS] =
        {.name = "blocks_db",
         .title = "lines of a period of 8 px",
         .unit = " dB",
         .digits = 1,
         .most = 3.2,
         .specific = true,
         .look = REPORT_LOOK_SPECTRUM,
         .definition =
             "the same for the periods 8, 4, 8/3 and 2 px, where blocks of JPEG show, too"},
    [REPORT_DIRECTION] =
        {.name = "direction_db",
         .title = "direction of the detail",
         .unit = " dB",
         .digits = 1,
         .high = "motion",
         .most = NAN,
         .least = 2.2,
         .floor = 0.25,
         .specific = true,
         .look = REPORT_LOOK_SPECTRUM,
         .definition = "by how much detail of 4 to 8 px is weaker in one direction than across it, "
                       "less the same of detail of 16 to 32 px"},
    [REPORT_DETAIL_4] = {.name = "detail_4px_db",
                         .title = "detail of 4 px",
                         .unit = " dB",
                         .digits = 1,
                         .most = NAN,
                         .definition = "level of the tissue's mean spectrum at periods of 4 to 4.8 "
                                       "px, less that at 17 to 25 px"},
    [REPORT_DETAIL_7] = {.name = "detail_7px_db",
                         .title = "detail of 7 px",
                         .unit = " dB",
                         .digits = 1,
                         .most = NAN,
                         .definition = "the same at periods of 6.2 to 8.3 px"},
    [REPORT_QUALITY] = {.name = "jpeg_quality",
                        .title = "JPEG quality",
                        .unit = "",
                        .digits = 0,
                        .low = "compressed more strongly than the others",
                        .high = "compressed less strongly than the others",
                        .most = NAN,
                        .floor = 1,
                        .specific = true,
                        .definition =
                            "from the quantisation tables of the slide's tiles, 1 to 100"},
    [REPORT_TWICE] = {.name = "jpeg_twice",
                      .title = "saved as JPEG twice",
                      .unit = "",
                      .digits = 2,
                      .most = 0.2,
                      .look = REPORT_LOOK_SLIDE,
                      .definition = "0 to 1: how periodic the coefficients of the slide's tiles "
                                    "are, which an earlier, stronger compression causes"},
    [REPORT_W1] = {.name = "w1_db",
                   .title = "difference from the others",
                   .unit = " dB",
                   .digits = 3,
                   .most = NAN,
                   .definition = "W1 distance: area between the slide's cumulative histogram and "
                                 "the pointwise median of the comparison group's; it ranks slides "
                                 "and sets no flag"},
};

const struct report_metric *report_metric(int metric)
{
    return &metrics[metric];
}

bool report_is_scored(int metric)
{
    return metrics[metric].low || metrics[metric].high;
}

int report_find_metric(const char *name)
{
    for (int m = 0; m < REPORT_NUMBERS; m++)
        if (!strcmp(metrics[m].name, name))
            return m;
    return -1;
}
