/* report_metric.c - the table of the numbers that slides are compared by; see report_metric.h. */
#include "process/report/numbers/report_metric.h"

#include <stddef.h>
#include <string.h>

#define OF_TISSUE "of the windows of which at least half is tissue"

static const struct report_metric metrics[REPORT_NUMBERS] = {
    [REPORT_MEAN] = {"mean_db", "amount of detail", " dB", 1,
                     "mean of all log magnitudes of the slide; more tissue gives more",
                     .range = RANGE_MEAN_DB, .low = NULL},
    [REPORT_STD] = {"std_db", "spread of detail", " dB", 1,
                    "standard deviation of all log magnitudes of the slide", .range = RANGE_STD_DB,
                    .low = NULL},
    [REPORT_FOCUS_P50] =
        {"focus_p50", "sharpness, typical", " dB", 1, "median of focus_db " OF_TISSUE,
         .range = RANGE_DIFFERENCE_DB,
         .low = "tissue less sharp than in the others: focus, or enlarged by software",
         .high = "fine detail stronger than in the others: sharpening, noise or a "
                 "wrong um per px",
         .unsure = true, .least = 1, .picture = PICTURE_OF_MAP},
    [REPORT_SHARP_P50] =
        {"sharp_p50", "sharpness of fine detail", " dB", 1, "median of sharp_db " OF_TISSUE,
         .low = "tissue less sharp than in the others: focus, or enlarged by software",
         .high = "fine detail stronger than in the others: scanner, sharpening or "
                 "a wrong um per px",
         .unsure = true, .least = 1, .picture = PICTURE_OF_MAP},
    [REPORT_SHARP_P05] = {"sharp_p05", "least sharp tissue", " dB", 1,
                          "5th percentile of sharp_db " OF_TISSUE,
                          .low = "part of the tissue less sharp than any on the others: a strip or "
                                 "a region out of focus",
                          .least = 1.5, .picture = PICTURE_OF_MAP},
    [REPORT_PIECES] =
        {"pieces_sharp", "sharpness of small pieces", " dB", 1,
         "median of sharp_db of windows that are at least 1/20 tissue, on slides of which no "
         "window is half tissue",
         .low = "small pieces less sharp than on the others: focus, or enlarged by software",
         .high = "small pieces with stronger fine detail than on the others: sharpening, noise, or "
                 "more of them",
         .unsure = true, .least = 1, .picture = PICTURE_OF_SLIDE},
    [REPORT_FINE_P50] =
        {"fine_p50", "finest detail", " dB", 1, "median of fine_db " OF_TISSUE,
         .range = RANGE_DIFFERENCE_DB,
         .low = "the finest detail is weaker than in the others: focus, compression, or enlarged "
                "by software",
         .high = "the finest detail is stronger than in the others: noise, lines of the camera, or "
                 "sharpening",
         .unsure = true, .least = 0.5, .picture = PICTURE_OF_MAP},
    [REPORT_BLURRED] = {"blurred_share", "blurred part of the tissue", " %", 0,
                        "part " OF_TISSUE " whose focus_db is below the median of "
                        "all such windows of the comparison group, less 3.5 robust "
                        "standard deviations",
                        .range = RANGE_SHARE, .most = 0.01, .picture = PICTURE_OF_MAP},
    [REPORT_SLOPE] = {"slope", "fall of the spectrum", "", 2,
                      "how steeply the level falls over four octaves of spatial frequency",
                      .low = NULL},
    [REPORT_TISSUE] = {"tissue_fraction", "tissue", " %", 0,
                       "part of the slide's area that the tissue map marks", .range = RANGE_SHARE,
                       .low = "much less tissue than on the others",
                       .high = "much more tissue than on the others", .times = 3, .specific = true,
                       .picture = PICTURE_OF_SLIDE},
    [REPORT_GLASS] = {"glass_std", "noise of the glass", " levels", 2,
                      "standard deviation of the gray of pure glass within 32 px, median",
                      .low = "the glass is smoother than that of the others: other compression or "
                             "scanner",
                      .high = "the glass is not as even as that of the others", .floor = 0.06,
                      .skewed = true, .specific = true, .picture = PICTURE_OF_SLIDE},
    [REPORT_GLASS_RANGE] =
        {"glass_range", "evenness of the light", " levels", 1,
         "by how much the gray of pure glass differs from place to place, 5th to 95th percentile",
         .high = "the glass is brighter in some places than in others: shading of fields, unequal "
                 "tiles, or dust; calibrate the white",
         .floor = 0.3, .skewed = true, .specific = true, .picture = PICTURE_OF_SLIDE},
    [REPORT_GLASS_LINES] = {"glass_lines", "lines on the glass", " %", 0,
                            "part of the places of pure glass, 32 px each, whose gray varies most "
                            "from row to row, or most from column to column, whichever is larger",
                            .range = RANGE_SHARE, .most = 0.7, .specific = true,
                            .picture = PICTURE_OF_SLIDE},
    [REPORT_STAIN] = {"stain_density", "stain density", "", 2,
                      "mean optical density -log10(value / 255) of the tissue in the "
                      "thumbnail, mean of the three channels",
                      .low = "stain %s times as dense as that of the others",
                      .high = "stain %s times as dense as that of the others, or pen",
                      .ratio = true, .skewed = true, .least = 0.2, .picture = PICTURE_OF_SLIDE},
    [REPORT_HUE] = {"stain_hue", "stain hue", " degrees", 0,
                    "angle of the optical densities of the tissue in the thumbnail "
                    "in the plane of hue and saturation (van der Laak, 2000)",
                    .low = "another colour than the others: stain, pen or scanner",
                    .high = "another colour than the others: stain, pen or scanner", .angle = true,
                    .skewed = true, .least = 6, .picture = PICTURE_OF_SLIDE},
    [REPORT_GRAY] = {"gray_share", "gray and black areas", " %", 1,
                     "part of the thumbnail that is dark and has no colour, which no stain is",
                     .range = RANGE_SHARE, .most = 0.001, .spreads = true, .specific = true,
                     .picture = PICTURE_OF_SLIDE},
    [REPORT_INK] = {"ink_share", "areas of another colour", " %", 1,
                    "part of the thumbnail that is greener than red, which a pink stain never is, "
                    "or unlike the slide's own stain; of a blue or green stain only areas count",
                    .range = RANGE_SHARE, .most = 0.002, .spreads = true, .specific = true,
                    .picture = PICTURE_OF_SLIDE},
    [REPORT_LIGHT] =
        {"light_step", "step of the light", " levels", 0,
         "by how much the glass differs on both sides of a straight line across the slide, in the "
         "channel where it differs most",
         .most = 6, .widens = true, .specific = true, .picture = PICTURE_OF_SLIDE},
    [REPORT_COLOURLESS] = {"colourless_share", "tissue without colour", " %", 0,
                           "part of the tissue in the thumbnail that has no colour",
                           .range = RANGE_SHARE, .most = 0.95, .specific = true,
                           .picture = PICTURE_OF_SLIDE},
    [REPORT_GLASS_GRAY] =
        {"glass_gray", "brightness of the glass", " levels", 1, "median gray of pure glass",
         .low = "darker glass than on the others: lamp or exposure; calibrate the white",
         .high = "brighter glass than on the others: exposure, gamma, or white tiles",
         .skewed = true, .least_value = 150, .floor = 0.55, .specific = true,
         .picture = PICTURE_OF_SLIDE},
    [REPORT_GRAY_LOW] = {"gray_low", "darkest place", " levels", 0,
                         "gray than which 1 of 500 pixels of the thumbnail is darker",
                         .low = "an area is far darker than anything on the others",
                         .low_below = 64, .floor = 4, .skewed = true, .specific = true,
                         .picture = PICTURE_OF_SLIDE},
    [REPORT_GRAY_HIGH] =
        {"gray_high", "brightest place", " levels", 0,
         "gray than which 1 of 100 pixels of the thumbnail is brighter",
         .low = "nothing is as bright as the glass of the others: dark exposure, or no glass",
         .floor = 6, .skewed = true, .specific = true, .picture = PICTURE_OF_SLIDE},
    [REPORT_LINES] =
        {"lines_db", "pattern of lines", " dB", 1,
         "how far the strongest narrow peak on an axis of the mean spectra is above "
         "its neighbours, but for periods of 8 px and their harmonics, which are JPEG's",
         .range = RANGE_DIFFERENCE_DB, .most = 6, .widens = true, .specific = true},
    [REPORT_SEAMS] = {"seams", "straight edges", "", 0,
                      "rows and columns of pixels behind which the tissue changes most in so many "
                      "places that chance does not explain it",
                      .range = RANGE_FROM_0, .most = 2, .widens = true, .specific = true,
                      .picture = PICTURE_OF_SLIDE},
    [REPORT_DIRECTION] =
        {"direction_db", "direction of the detail", " dB", 1,
         "by how much detail of 4 to 16 px is weaker in one direction than across it, "
         "less the same of detail of 16 to 32 px",
         .high = "motion", .least = 1.2, .floor = 0.2, .specific = true},
    [REPORT_DETAIL_4] = {"detail_4px_db", "detail of 4 px", " dB", 1,
                         "level of the tissue's mean spectrum at periods of 4 to 4.8 "
                         "px, less that at 17 to 25 px",
                         .low = NULL},
    [REPORT_DETAIL_7] = {"detail_7px_db", "detail of 7 px", " dB", 1,
                         "the same at periods of 6.2 to 8.3 px", .low = NULL},
    [REPORT_FALL] = {"detail_fall_db", "finest beside fine detail", " dB", 1,
                     "detail of 4 px less detail of 7 px, which differs little from tissue to "
                     "tissue",
                     .low = "the finest detail is weaker beside fine detail than in the others: "
                            "slight defocus, or enlarged by software",
                     .least = 1, .floor = 0.2},
    [REPORT_QUALITY] = {"jpeg_quality", "JPEG quality", "", 0,
                        "from the quantisation tables of the slide's tiles, 1 to 100",
                        .low = "compressed more strongly than the others",
                        .high = "compressed less strongly than the others", .floor = 1,
                        .specific = true},
    [REPORT_TWICE] = {"jpeg_twice", "signs of an earlier compression", "", 2,
                      "0 to 1: how periodic the coefficients of the slide's tiles "
                      "are, which an earlier, stronger compression causes",
                      .range = RANGE_SHARE, .most = 0.2, .picture = PICTURE_OF_SLIDE},
    [REPORT_W1] = {"w1_db", "difference from the others", " dB", 1,
                   "W1 distance: area between the slide's cumulative histogram and "
                   "the pointwise median of the comparison group's; it ranks slides "
                   "and sets no flag",
                   .range = RANGE_DISTANCE_DB, .low = NULL},
};

const struct report_metric *report_metric(int metric)
{
    return &metrics[metric];
}

bool report_is_scored(int metric)
{
    return metrics[metric].low || metrics[metric].high;
}

bool report_is_share(int metric)
{
    return !strcmp(metrics[metric].unit, " %");
}

bool report_is_on_page(int metric)
{
    return report_is_scored(metric) || metrics[metric].most > 0 || metric == REPORT_W1;
}

int report_find_metric(const char *name)
{
    for (int m = 0; m < REPORT_NUMBERS; m++)
        if (!strcmp(metrics[m].name, name))
            return m;
    return -1;
}
