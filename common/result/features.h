/*
 * features.h - what the bin numbers of windows say besides the histogram: levels of octaves of
 * spatial frequency, per window and per slide, and the sample of windows whose spectra are summed.
 *
 * A frequency (v, u) of a window of N x N px, -N/2 < v, u <= N/2, has f = sqrt(v^2 + u^2) / N
 * cycles per px. Octave o, from 0, is the ring 2^-j <= f < 2^-(j-1) with j = 7 - o; the last one,
 * j = 1, is the corners of the spectrum, f >= 1/2. Its level is
 *
 *   L = low_db + width * (sum of k over the ring / number of values + 1/2)
 *
 * k: the histogram's bin, where underflow counts as bin 0 and overflow as the last bin; width: of a
 * bin. Sums of k are integers, so levels are the same for every split of the work.
 */
#ifndef WSI_FEATURES_H
#define WSI_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FEATURES_OCTAVES = 7,
    FEATURES_NONE = -1, /* no octave: f < 1/128 */
    FEATURES_QUANTILES = 3,
};

/* The octave 2^-j <= f < 2^-(j-1). */
#define FEATURES_OCTAVE(j) (7 - (j))

/* The octave of a frequency, or FEATURES_NONE. Signs do not matter. */
int features_octave(int64_t window, int64_t v, int64_t u);
/* Values of one window in each octave; 0 where a small window has none. */
void features_values(int64_t window, int64_t values[FEATURES_OCTAVES]);

/* The level of a ring from the sum of k over n values; NaN without values. */
double features_level(double low_db, double bin_width, uint64_t sum, uint64_t n);
/*
 * sharp_db: how sharp a window is, from the levels of its octaves: the octave j = 3, which blur
 * takes away first, less three quarters of the next coarser one and a quarter of octave 6,
 *
 *   L(1/8, 1/4) - 3/4 L(1/16, 1/8) - 1/4 L(1/64, 1/32) = sum of weight[o] L[o]
 *
 * The weights add up to 0, so contrast cancels out. Octave 4 alone sees slight blur best, but rises
 * again where strong blur leaves nothing but noise in octave 3; octave 6 keeps it falling. Octave 2
 * is noise of sensor and encoder in pictures of real scanners, and so tells nothing of slight blur.
 * Beyond a sigma of 6 px it rises again; focus_db does not. Chosen on pictures of tissue;
 * tests/FIGURES.md has the table.
 */
extern const double features_sharpness_weights[FEATURES_OCTAVES];
/* NaN where an octave that has a weight has no level. */
double features_sharpness(const double levels[FEATURES_OCTAVES]);
/* In hundredths of a dB, as maps store them. Beyond +-327.67 dB it is the nearest one. */
int16_t features_hundredths(double db);
/* Minus the least-squares slope of the levels on 20 log10 f, f the geometric middle of the octave,
 * over the octaves j = 6..3: dB per dB. NaN if one of them has no level. */
double features_slope(const double profile[FEATURES_OCTAVES]);

/* Values of windows, less those that are left out. */
struct features_values {
    const int16_t *values; /* [n] */
    int64_t n;
    int16_t none;          /* a value that is left out */
    const uint8_t *tissue; /* [n]: windows are left out unless features_is_tissue() */
};
/* The shares 0.05, 0.5 and 0.95. */
extern const double features_shares[FEATURES_QUANTILES];
/* The quantiles of the values at n_shares shares; between two values a quantile is interpolated.
 * NaN without values. */
void features_quantiles(const struct features_values *v, const double *shares, int n_shares,
                        double *quantiles);

/* --- tissue --- */

enum {
    FEATURES_HALF = 50,       /* of a window or more is tissue */
    FEATURES_NO_TISSUE = 255, /* it is not known how much is: no tissue map */
};
/* Is so much of a window tissue that its sharpness counts? FEATURES_NO_TISSUE counts. */
static inline bool features_is_tissue(uint8_t percent)
{
    return percent >= FEATURES_HALF;
}
/* The percent of `all` that `area` is, rounded down, but 1 where it would be 0 and is not: so 0
 * means none, 50 at least half and 100 all. all > 0. */
uint8_t features_percent(int64_t area, int64_t all);

/* --- brightness --- */

enum { FEATURES_NO_GRAY = 255, FEATURES_MOST_GRAY = 254 };

/* The mean gray of a window as maps store it: rounded, at most FEATURES_MOST_GRAY. A half, and what
 * is less than 1/1024 below it, is rounded up: the last bits of a mean depend on the device. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint8_t
    features_gray(float mean)
{
    const int gray = (int)(mean + (0.5f + 1.0f / 1024));
    return (uint8_t)(gray > FEATURES_MOST_GRAY ? FEATURES_MOST_GRAY : gray < 0 ? 0 : gray);
}

/* --- steps, which show edges --- */

/*
 * The last n + 1 rows and columns of a window of N x N px at stride S, n = min(S, N - 1, 254), have
 * n steps each, from a row or column to the next. A step is the sum of |difference| over the n px
 * of its line. The greatest, of equal ones the first, is kept as its number 0 .. n - 1; none is
 * where nothing changes. Up to S = 254 the steps of neighbouring windows follow each other without
 * a gap. Stored pixels are compared, before they are smoothed, as whole numbers: no device or split
 * matters.
 *
 * Only some windows are looked at, of those that are at least a quarter tissue and lie inside the
 * regions. Of n such windows in a row of windows those whose number in the row, from 0, plus j is
 * divisible by max(1, n / 24 rounded down) are; and the same in each column, with i. So it is 24 or
 * more in each row and column, if there are so many, however much glass lies around.
 */
enum { FEATURES_NO_STEP = 255, FEATURES_MOST_STEPS = 254, FEATURES_STEP_TISSUE = 25 };

static inline int64_t features_steps(int64_t window, int64_t stride)
{
    const int64_t n = stride < window ? stride : window - 1, most = FEATURES_MOST_STEPS;
    return n < most ? n : most;
}
/* Is so much of a window tissue that its steps may be looked at? FEATURES_NO_TISSUE counts. */
static inline bool features_shows_steps(uint8_t percent)
{
    return percent >= FEATURES_STEP_TISSUE;
}
/* Sets the bit FEATURES_STEPPED of sample[ny][nx] for all windows of the slide that are looked at.
 * percent, inside: [ny][nx], how much of a window is tissue, and 1 inside the regions, else 0;
 * NULL: all of it, and all. */
void features_choose_steps(const uint8_t *percent, const uint8_t *inside, int64_t nx, int64_t ny,
                           uint8_t *sample);

/* --- the sample of windows whose spectra are summed --- */

enum features_sample { FEATURES_TISSUE, FEATURES_GLASS, FEATURES_SAMPLES };

/* A byte of each window: 0, or 1 + enum features_sample in the sample; and FEATURES_STEPPED. */
enum { FEATURES_KIND = 3, FEATURES_STEPPED = 4 };

enum { FEATURES_MOST_TISSUE = 4096, FEATURES_MOST_GLASS = 1024, FEATURES_LEAST = 256 };

/*
 * A window is of tissue if at least min_tissue of it is; without a map all are. It is in the sample
 * of its kind if it counts, touches no tile that is filled, and its hash is less than the kind's
 * threshold. Of the n windows of the kind in the slide, or inside the regions, the m of least hash
 * are taken, m = min(n, FEATURES_MOST_..., max(FEATURES_LEAST, n / 16)); the threshold is the least
 * hash that is left out, INT64_MAX if none is.
 */

/* 63 bits, spread evenly over the windows (column i, row j): SplitMix64 of the state 2^32 j + i,
 * shifted right by one. */
int64_t features_hash(int64_t i, int64_t j);
/*
 * The thresholds. They depend on nothing but which of ALL windows of the slide are tissue, and
 * which lie inside the regions: tissue, inside [ny][nx], 1 or 0; NULL: all. So every part of a
 * slide finds the same ones, and samples of parts add up to the sample of the whole.
 */
void features_thresholds(const uint8_t *tissue, const uint8_t *inside, int64_t nx, int64_t ny,
                         int64_t thresholds[FEATURES_SAMPLES]);

#ifdef __cplusplus
}
#endif
#endif
