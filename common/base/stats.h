/*
 * stats.h - robust statistics of a corpus: quantiles, scores, distances between histograms.
 *
 * Values that are NaN are "no value": they are skipped. Any thread.
 */
#ifndef WSI_STATS_H
#define WSI_STATS_H

#include <stddef.h>
#include <stdint.h>

/* The difference of two angles in degrees, a - b, from -180 to less than 180. NaN if one is. */
double stats_turn(double a, double b);
/* Replaces angles v[n] in degrees by equal ones within 180 degrees of their median, which is from 0
 * to 360: the median of the angles about their mean direction. They can then be summarised. */
void stats_unwrap(double *v, int64_t n, double *work);

/* Fewer values than this have no scores: their median and MAD say too little. */
enum { STATS_LEAST = 10 };
/* |z| above this: look at the slide. Iglewicz & Hoaglin, 1993. */
#define STATS_FLAG 3.5
/* The share of values that stats_limit() calls unusual among n with a normal distribution. Median,
 * MAD and tails of few values are uncertain, so it falls with n: 0.0055, 0.0025, 0.0011, 0.0008,
 * 0.0005 of a million simulated values for n = 10, 20, 50, 100, 300, which the formula follows
 * within 10 %. */
double stats_by_chance(int64_t n);

/* Moves the NaNs of v[n] behind the numbers and sorts these. Returns how many numbers there are. */
int64_t stats_sort(double *v, int64_t n);
/* Quantile q (0 to 1) of n sorted numbers, linear between them; NaN if n is 0. */
double stats_quantile(const double *sorted, int64_t n, double q);

/* The robust summary of a set of values. */
struct stats_summary {
    int64_t n; /* numbers among them */
    double q25, q50, q75;
    double low, high; /* octiles of the values with |z| <= 6: an eighth of these is below, above */
    double mad;       /* median of |x - median|; NaN without numbers */
};

/* Summarises v[n]; `work` is room for n numbers. */
struct stats_summary stats_summarise(const double *v, int64_t n, double *work);
/* z = 0.6745 (x - median) / MAD. NaN if x is, if there are fewer than STATS_LEAST numbers, or if
 * the MAD is 0: then more than half of the values are equal, and no scale exists. */
double stats_z(const struct stats_summary *s, double x);
/*
 * The |z| from which on values below (side 0) or above (1) the median are unusual: STATS_FLAG, and
 * more on the side of the longer tail.
 *
 * Skewed values are taken for (exp(g x) - 1) / g of normal ones, as log-normal values are, and then
 * the limit is (exp(3.5 g) - 1) / g. The octiles say what g is: exp(1.1503 g) = (high - q50) /
 * (q50 - low), and 1.15 times as much for what was left out with |z| > 6, which may be defects.
 * Normal values have a g of up to 0.15 by chance: it counts as 0. A tail counts as no shorter than
 * that of a normal distribution whose MAD is `floor`.
 */
double stats_limit(const struct stats_summary *s, int side, double floor);

/* cdf[k], k = 0 .. bins - 1: the share of all values at or below bin k. Values below the range
 * count as in the first bin, those above as in the last, so cdf[bins - 1] is 1. All 0 if there are
 * no values. */
void stats_cdf(const uint64_t *histogram, int64_t bins, uint64_t underflow, uint64_t overflow,
               float *cdf);
/* out[bins]: the pointwise median of n such functions, cdf[0 .. n - 1]. It is one, too. `work` is
 * room for STATS_BLOCK * n numbers. n > 0. */
enum { STATS_BLOCK = 16 };
void stats_median_cdf(const float *const *cdf, int64_t n, int64_t bins, float *out, float *work);
/* The Wasserstein-1 distance in dB: the area between the two functions. `width`: dB per bin. */
double stats_w1(const float *a, const float *b, int64_t bins, double width);

#endif
