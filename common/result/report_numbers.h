/*
 * report_numbers.h - arithmetic: numbers of a slide that follow from its maps, spectra and
 * thumbnail: the colours of the thumbnail, how sharp the windows of tissue are. Results and tables
 * have them under the same names, so that whoever reads either computes nothing. Results of version
 * 1.0.0 lack them: a merge and a report compute them, of any result.
 *
 * stain   From the pixels of the thumbnail that lie in windows of which at least half is tissue.
 *         The optical density of a channel is -log10(value / 255), value at least 1. stain_density
 *         is the mean over pixels and channels. With the mean densities R, G and B and their mean
 *         D, x = R/D - 1 and y = (G - B) / (sqrt(3) D); stain_hue is the angle of (x, y), 0 to 360
 *         degrees. (J. van der Laak et al., Hue-saturation-density (HSD) model for stain
 *         recognition in digital images from transmitted light microscopy, Cytometry 39, 275,
 *         2000.)
 * gray    Pixels of the thumbnail that no stain makes: their greatest and least channel differ by
 *         less than 14, and the greatest is below 190/255 of white. White is the greatest channel
 *         that 1 of 100 pixels exceeds. Pixels in windows that touch missing
 *         tiles do not count. gray_share is the part of the thumbnail of those that do.
 * ink     The same of pixels that are greener than red: G > R + 2, channels that differ by more
 *         than 12, the greatest below 210/255 of white. Where more than 1 in 40 of all coloured
 *         pixels (channels that differ by more than 12) have G > R + 2, the stain itself is blue or
 *         green: then a pixel, gray or ink, counts only if the 5 x 5 pixels round it do.
 *         Else foreign pixels count, too: those below 190/255 of white, not gray, whose (x, y) of
 *         their own (see stain) reaches less than 0.3 as far as the median (x, y) of all pixels
 *         below 190/255 of white, and in its direction. More than 1 in 10 of these are a second
 *         stain, and do not count.
 * light   A step of the light across the slide (result_light.h).
 * colour  colourless_share is the part of the pixels in windows of tissue whose channels differ by
 *         less than 8. No value for a gray store.
 * pieces  The median of sharp_db of windows that are at least 1/20 tissue, where no window is half
 *         tissue.
 * octaves The levels of spectrum_tissue over the octaves [1/32, 1/16), [1/16, 1/8), [1/8, 1/4) and
 *         [1/4, 1/2). How they differ says how the scanner and its software sharpen.
 * sharp   The windows that count and are tissue, by their focus_db.
 *
 * Any thread.
 */
#ifndef WSI_REPORT_NUMBERS_H
#define WSI_REPORT_NUMBERS_H

#include "common/result/result.h"
#include "common/result/result_light.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sharpness of windows, counted: bin k is focus_db from LOW + k * STEP dB on; the first and the
 * last also take what lies beyond. */
enum { RESULT_SHARP_BINS = 350 };
#define RESULT_SHARP_LOW (-60.0)
#define RESULT_SHARP_STEP 0.2

enum { RESULT_SPECTRUM_OCTAVES = 4 };

struct report_numbers {
    /* All of these are NaN unless result_is_brightfield(). */
    double stain_density, stain_hue;                /* NaN without a thumbnail or tissue */
    double gray_share, ink_share, colourless_share; /* NaN without a thumbnail */
    struct result_light light;
    double pieces_sharp; /* dB; NaN if a window is half tissue, or none is 1/20 */
    double octaves[RESULT_SPECTRUM_OCTAVES]; /* NaN without a spectrum or frequencies */
    uint32_t sharp[RESULT_SHARP_BINS];
};

/* Their names and ranges, but for `sharp`, in the order of the attributes of a result and of the
 * columns of a table. */
enum { REPORT_NUMBER_KINDS = 9 };
struct report_number {
    const char *name;
    size_t offset; /* in struct report_numbers */
    size_t n;      /* numbers */
    double low, high;
};
extern const struct report_number report_number_list[REPORT_NUMBER_KINDS];
static inline double *report_number_of(struct report_numbers *n, int k)
{
    return (double *)(void *)((char *)n + report_number_list[k].offset);
}

/* The parts of a slide that the numbers follow from. */
unsigned report_numbers_parts(void);
void report_numbers_find(const struct result_params *p, const struct result_slide *s,
                         struct report_numbers *n);
/* Was the slide seen in transmitted light, so that glass is bright and stain dark? The converter
 * knows, and says so in `background`. A result of an earlier version does not have that: then a
 * slide is taken for one of brightfield if it has a tissue map, which fluorescence gets none. */
bool result_is_brightfield(const struct result_slide *s);
/* Is window k one whose sharpness counts: at least half tissue, if that is known? */
bool result_is_tissue(const struct result_slide *s, int64_t k);
/* The place of the thumbnail, as parts of its width and height, whose tissue is farthest from hue
 * `usual` in degrees, or with NAN the densest; NaN without a thumbnail. */
void report_numbers_stain_place(const struct result_params *p, const struct result_slide *s,
                                double usual, double *x, double *y);

#ifdef __cplusplus
}
#endif
#endif
