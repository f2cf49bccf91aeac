/*
 * slide_numbers.h - arithmetic: what the stored spectra and maps of a slide say of its scanner
 * (brightness, lines, motion). All of it follows from integers that a result holds.
 *
 * L(v, u) is the mean level of a spectrum in dB. f = sqrt(v^2 + u^2) / N cycles per px.
 *
 * gray     Of the windows that count and touch no filled tile, by window_gray and window_tissue.
 *          tissue_gray: median over the windows of which at least half is tissue.
 *          Of the thumbnail: gray_low and gray_high, than which 1 of 500 pixels is darker, and 1 of
 *          100 brighter. A window is too coarse for a stroke of a pen, and may lie on no glass.
 * lines    A pattern along the rows raises L(v, 0), one along the columns L(0, u), at the one
 *          frequency 1 / period. The excess of a frequency k, from N / 32 on, is its level less the
 *          median level of those at a distance of 2 to 5 on the same axis. lines_db is the greatest
 *          excess of either spectrum, tissue or glass, on either axis but at multiples of N / 8,
 *          where the blocks of JPEG show, those of an earlier compression, too. The period is N / k
 *          px, known to 1 / 2 of a frequency. lines_deg: 0 for lines along the rows, 90 for
 *          columns.
 *          A spectrum needs 16 windows. By chance, lines_db is 2 to 5 dB on a slide of 80 windows.
 * motion   The level over a ring, as a function of the direction, has a component of
 *          cos 2 (angle - weakest). direction_db is the difference between its ends, the mean (of
 *          vectors) over 1/16 <= f < 1/8 and 1/8 <= f < 1/4, less that over 1/32 <= f < 1/16,
 *          which is the tissue's own direction. direction_deg is the direction in which detail is
 *          weakest, 0 along the rows, 90 down. The axes are left out: lines and the borders of
 *          windows are there.
 *
 * detail   detail_4px_db, detail_7px_db: the level of the tissue's spectrum over the rings [0.21,
 *          0.25) and [0.12, 0.16) less that over [0.04, 0.06), without the axes. Optical blur takes
 *          away from both, by the square of the frequency; a picture that was enlarged has lost the
 *          finer one only.
 *
 * seams    Straight edges: stitching, borders of fields, lost tiles. Each window that counts,
 *          touches no filled tile and is at least a quarter tissue names the row, and the column,
 *          behind which its pixels change most (features.h, n steps). In a row of windows the row
 *          of pixels that most of them name is a seam, if the chance that so many name any is less
 *          than 1 / 500 over the slide: over the n / 8 places of each row and column of windows in
 *          which any window names one, where a window names each with a chance of 8 / n, as if the borders of JPEG's blocks
 *          alone decided. seam_rows and seam_columns are how many seams there are, seam_y_px and
 *          seam_x_px the last row, and column, before the least likely one of each. A row of
 *          windows has one seam at most. Up to n = 8 nothing is looked for, and where no window
 *          names a row there is nothing to look at: then they are NaN.
 *          Where the compression of the file's tiles leaves edges where they meet
 *          (codec_leaves_borders()), the rows and columns there take no part. tile_seam_rows and
 *          tile_seam_columns are how many of these would be seams, if only they were looked for;
 *          else 0.
 *
 * Any thread.
 */
#ifndef WSI_SLIDE_NUMBERS_H
#define WSI_SLIDE_NUMBERS_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Numbers that are not known are NaN. */
struct slide_numbers {
    double tissue_gray, gray_low, gray_high;
    double lines_db, lines_period_px, lines_deg;
    double direction_db, direction_deg;
    double detail_4px_db, detail_7px_db;
    double seam_rows, seam_columns, seam_y_px, seam_x_px;
    double tile_seam_rows, tile_seam_columns;
};

/* Their names and ranges, in the order of the attributes of a result. */
enum { SLIDE_NUMBERS = 16 };
struct slide_number {
    const char *name;
    size_t offset; /* in struct slide_numbers */
    double low, high;
};
extern const struct slide_number slide_number_list[SLIDE_NUMBERS];
static inline double *slide_number_of(struct slide_numbers *n, int k)
{
    return (double *)(void *)((char *)n + slide_number_list[k].offset);
}

/* A sum of spectra: [v: n][u: n / 2 + 1] of bin numbers over `windows` windows; NULL: none. */
struct spectrum_sums {
    const uint64_t *sums;
    int64_t windows;
};
/* Lines, motion and detail. width: of a bin, dB. */
void slide_numbers_lines(const struct spectrum_sums *tissue, const struct spectrum_sums *glass,
                         int64_t n, double width, struct slide_numbers *out);
/* Maps of windows, [ny][nx] each. */
struct spectrum_maps {
    const uint8_t *gray, *tissue; /* tissue: NULL or FEATURES_NO_TISSUE: not known */
    const uint8_t *flags;
    uint8_t filled; /* windows whose flags have any bit of it are left out */
    const uint8_t *row_step, *column_step;
    int64_t tile_rows, tile_cols; /* px of tiles that leave edges; 0: none do */
    int64_t nx, ny, window, stride;
};
/* Brightness. */
void slide_numbers_gray(const struct spectrum_maps *m, struct slide_numbers *out);
/* Seams. */
void slide_numbers_seams(const struct spectrum_maps *m, struct slide_numbers *out);
/* The same of a thumbnail, [pixels][3]; NULL: none. */
void slide_numbers_places(const uint8_t *rgb, int64_t pixels, struct slide_numbers *out);

#endif
