/*
 * report_numbers.h - numbers of one slide that its result does not state: what the sharpness of its
 * tissue windows is like, the stain of the thumbnail, lines in the mean spectrum.
 *
 * stain   From the pixels of the thumbnail that lie in windows of which at least half is tissue.
 *         The optical density of a channel is -log10(value / 255), value at least 1. stain_density
 *         is the mean over pixels and channels. With the mean densities R, G and B and their mean
 *         D, x = R/D - 1 and y = (G - B) / (sqrt(3) D); stain_hue is the angle of (x, y), 0 to 360
 *         degrees. (J. van der Laak et al., Hue-saturation-density (HSD) model for stain
 *         recognition in digital images from transmitted light microscopy, Cytometry 39, 275,
 *         2000.)
 * grid    A line that goes through a window raises the spectrum along one axis: a vertical line
 *         that of the frequencies (v, u) with v = 0. For both axes, the mean level on the axis from
 *         f = 1/8 to 1/2 less that of the lines at distance 2 and 3 beside it; the larger of the
 *         two. From spectrum_tissue. Windows have such lines at their own borders, so only
 *         differences
 *         between slides mean something.
 * octaves The levels of spectrum_tissue over the octaves [1/32, 1/16), [1/16, 1/8), [1/8, 1/4) and
 *         [1/4, 1/2). How they differ says how the scanner and its software sharpen.
 * glass   glass_p03 of the result, if enough windows have no tissue.
 *
 * Any thread.
 */
#ifndef WSI_REPORT_NUMBERS_H
#define WSI_REPORT_NUMBERS_H

#include "common/result/result.h"

#include <stdint.h>

/* Sharpness of windows, counted: bin k is focus_db from LOW + k * STEP dB on; the first and the
 * last also take what lies beyond. */
enum { REPORT_SHARP_BINS = 350 };
#define REPORT_SHARP_LOW (-60.0)
#define REPORT_SHARP_STEP 0.2

/* Is window k one whose sharpness counts: at least half tissue, if that is known? */
bool report_is_tissue(const struct result_slide *s, int64_t k);
/* Adds the windows that count, and are tissue, to bins[REPORT_SHARP_BINS]. */
void report_count_sharp(const struct result_slide *s, uint32_t *bins);
/* NaN without a thumbnail or tissue. */
void report_stain(const struct result_params *p, const struct result_slide *s, double *density,
                  double *hue);
/* The place of the thumbnail, as parts of its width and height, whose tissue is farthest from hue
 * `usual` in degrees, or with NAN the densest; NaN without a thumbnail. */
void report_stain_place(const struct result_params *p, const struct result_slide *s, double usual,
                        double *x, double *y);
enum { REPORT_SPECTRUM_OCTAVES = 4 };
/* NaN without a spectrum, or in octaves without frequencies. */
void report_octaves(const struct result_params *p, const struct result_slide *s,
                    double octaves[REPORT_SPECTRUM_OCTAVES]);
/* NaN with fewer than `least` windows without tissue. */
double report_glass(const struct result_slide *s, int64_t least);
/* NaN without a spectrum, or with windows below 64 px. */
double report_grid(const struct result_params *p, const struct result_slide *s);

#endif
