/* stats.c - see stats.h. */
#include "common/base/stats.h"

#include <math.h>
#include <stdlib.h>

/* --- angles --- */

double stats_turn(double a, double b)
{
    const double turn = remainder(a - b, 360);
    return turn == 180 ? -180 : turn;
}

static void unwrap_about(double *v, int64_t n, double middle)
{
    for (int64_t k = 0; k < n; k++)
        v[k] = middle + stats_turn(v[k], middle);
}

void stats_unwrap(double *v, int64_t n, double *work)
{
    double x = 0, y = 0;
    for (int64_t k = 0; k < n; k++)
        if (!isnan(v[k])) {
            x += cos(v[k] * M_PI / 180);
            y += sin(v[k] * M_PI / 180);
        }
    unwrap_about(v, n, atan2(y, x) * 180 / M_PI);
    for (int64_t k = 0; k < n; k++)
        work[k] = v[k];
    const double median = stats_quantile(work, stats_sort(work, n), 0.5);
    unwrap_about(v, n, median < 0 ? median + 360 : median);
}

/* --- quantiles --- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int64_t stats_sort(double *v, int64_t n)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < n; k++)
        if (!isnan(v[k])) {
            const double x = v[k];
            v[k] = v[kept];
            v[kept++] = x;
        }
    qsort(v, (size_t)kept, sizeof *v, by_value);
    return kept;
}

double stats_quantile(const double *sorted, int64_t n, double q)
{
    if (n <= 0)
        return NAN;
    const double at = q * (double)(n - 1);
    const int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

/* The median of |v[k] - middle| of n > 0 sorted numbers: the greatest are at both ends. */
static double find_mad(const double *v, int64_t n, double middle)
{
    double last = 0, before = 0;
    for (int64_t k = 0, low = 0, high = n - 1; k <= n / 2; k++) {
        const double below = middle - v[low], above = v[high] - middle;
        before = last;
        last = below > above ? below : above;
        low += below > above;
        high -= below <= above;
    }
    return n % 2 ? last : before + (last - before) / 2;
}

/* The octiles of n sorted numbers without those that are far from the others. */
static void find_octiles(const double *v, int64_t n, struct stats_summary *s)
{
    const double far = 6 * s->mad / 0.6745;
    int64_t low = 0, high = n;
    while (low < n && s->q50 - v[low] > far)
        low++;
    while (high > low && v[high - 1] - s->q50 > far)
        high--;
    s->low = stats_quantile(v + low, high - low, 0.125);
    s->high = stats_quantile(v + low, high - low, 0.875);
}

struct stats_summary stats_summarise(const double *v, int64_t n, double *work)
{
    struct stats_summary s = {0};
    for (int64_t k = 0; k < n; k++)
        work[k] = v[k];
    s.n = stats_sort(work, n);
    s.q25 = stats_quantile(work, s.n, 0.25);
    s.q50 = stats_quantile(work, s.n, 0.5);
    s.q75 = stats_quantile(work, s.n, 0.75);
    s.mad = s.n > 0 ? find_mad(work, s.n, s.q50) : NAN;
    find_octiles(work, s.n, &s);
    return s;
}

double stats_by_chance(int64_t n)
{
    const double x = (double)n;
    return 4.6525815807105e-4 + 0.034 / x + 0.15 / (x * x);
}

double stats_z(const struct stats_summary *s, double x)
{
    if (s->n < STATS_LEAST || !(s->mad > 0))
        return NAN;
    return 0.6745 * (x - s->q50) / s->mad;
}

double stats_limit(const struct stats_summary *s, int side, double floor)
{
    const double octile = 1.1503, symmetric = 0.15, cut = 1.15;
    /* where values are equal the MAD says that there is a tail, too */
    const double least = octile / 0.6745 * fmax(floor, s->mad / 4);
    const double low = fmax(s->q50 - s->low, least), high = fmax(s->high - s->q50, least);
    const double g = log(side ? high / low : low / high) / octile;
    return g > symmetric ? expm1(STATS_FLAG * cut * g) / (cut * g) : STATS_FLAG; /* also for NaN */
}

/* --- histograms --- */

void stats_cdf(const uint64_t *histogram, int64_t bins, uint64_t underflow, uint64_t overflow,
               float *cdf)
{
    uint64_t all = underflow + overflow, sum = underflow;
    for (int64_t k = 0; k < bins; k++)
        all += histogram[k];
    for (int64_t k = 0; k < bins; k++) {
        sum += histogram[k];
        cdf[k] = all ? (float)((double)sum / (double)all) : 0;
    }
    if (all)
        cdf[bins - 1] = 1;
}

/* The number that has `at` smaller ones in v[n]; reorders v. */
static float select_value(float *v, int64_t n, int64_t at)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const float pivot = v[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                const float x = v[i];
                v[i++] = v[j];
                v[j--] = x;
            }
        }
        if (at <= j)
            high = j;
        else if (at >= i)
            low = i;
        else
            break;
    }
    return v[at];
}

static float median_of(float *v, int64_t n)
{
    const float upper = select_value(v, n, n / 2);
    if (n % 2)
        return upper;
    float lower = v[0]; /* select_value has put the n / 2 smaller ones first */
    for (int64_t k = 1; k < n / 2; k++)
        lower = v[k] > lower ? v[k] : lower;
    return (lower + upper) / 2;
}

void stats_median_cdf(const float *const *cdf, int64_t n, int64_t bins, float *out, float *work)
{
    for (int64_t first = 0; first < bins; first += STATS_BLOCK) {
        const int64_t m = bins - first < STATS_BLOCK ? bins - first : STATS_BLOCK;
        for (int64_t k = 0; k < n; k++)
            for (int64_t b = 0; b < m; b++)
                work[b * n + k] = cdf[k][first + b];
        for (int64_t b = 0; b < m; b++)
            out[first + b] = median_of(work + b * n, n);
    }
}

double stats_w1(const float *a, const float *b, int64_t bins, double width)
{
    double sum = 0;
    for (int64_t k = 0; k < bins; k++)
        sum += fabs((double)a[k] - (double)b[k]);
    return width * sum;
}
