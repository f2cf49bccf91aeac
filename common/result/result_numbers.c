/* result_numbers.c - see result_numbers.h. */
#include "common/result/result_numbers.h"

#include "common/result/features.h"

#include <math.h>
#include <stdlib.h>

/* --- tissue --- */

static bool knows_tissue(const struct result_slide *s)
{
    return s->maps[RESULT_TISSUE].values != NULL;
}

bool result_is_tissue(const struct result_slide *s, int64_t k)
{
    if (!knows_tissue(s))
        return true;
    return features_is_tissue(((const uint8_t *)s->maps[RESULT_TISSUE].values)[k]);
}

static void count_sharp(const struct result_slide *s, uint32_t *bins)
{
    const struct result_map *focus = &s->maps[RESULT_FOCUS];
    for (int64_t k = 0; focus->values && k < s->nx * s->ny; k++) {
        const double x = result_map_value(focus, k);
        if (isnan(x) || !result_is_tissue(s, k))
            continue;
        const double at = floor((x - RESULT_SHARP_LOW) / RESULT_SHARP_STEP + 1e-9);
        bins[at < 0 ? 0 : at > RESULT_SHARP_BINS - 1 ? RESULT_SHARP_BINS - 1 : (int)at]++;
    }
}

/* --- stain --- */

/* The window whose middle is nearest to a place, px of the stored level. */
static int64_t nearest(double at, const struct result_params *p, int64_t n)
{
    const double w = floor((at - (double)(p->window - p->stride) / 2) / (double)p->stride);
    return w < 0 ? 0 : w >= (double)n ? n - 1 : (int64_t)w;
}

static void find_stain(const struct result_params *p, const struct result_slide *s, double *density,
                       double *hue)
{
    const struct result_picture *t = &s->thumbnail;
    double sum[3] = {0}, od[256];
    int64_t n = 0, column[RESULT_MOST_THUMBNAIL];
    *density = *hue = NAN;
    if (!t->rgb || !knows_tissue(s))
        return;
    for (int64_t x = 0; x < t->width; x++)
        column[x] = nearest(((double)x + 0.5) * (double)s->width / (double)t->width, p, s->nx);
    for (int k = 0; k < 256; k++)
        od[k] = -log10((k ? k : 1) / 255.0);
    for (int64_t y = 0; y < t->height; y++) {
        const double middle = ((double)y + 0.5) * (double)s->height / (double)t->height;
        const int64_t row = nearest(middle, p, s->ny) * s->nx;
        for (int64_t x = 0; x < t->width; x++) {
            const int64_t k = row + column[x];
            const uint8_t *rgb = t->rgb + 3 * (y * t->width + x);
            if (((const uint8_t *)s->maps[RESULT_TISSUE].values)[k] == FEATURES_NO_TISSUE)
                return;
            if (!result_is_tissue(s, k))
                continue;
            for (int c = 0; c < 3; c++)
                sum[c] += od[rgb[c]];
            n++;
        }
    }
    const double d = (sum[0] + sum[1] + sum[2]) / 3;
    if (n == 0 || d <= 0)
        return;
    *density = d / (double)n;
    const double angle = atan2((sum[1] - sum[2]) / (sqrt(3) * d), sum[0] / d - 1);
    *hue = (angle < 0 ? angle + 2 * M_PI : angle) * 180 / M_PI;
}

/* How far the colour of a pixel is from hue `usual`, in optical density; NAN: how dense it is. */
static double strangeness(const uint8_t rgb[3], double usual)
{
    double od[3];
    for (int c = 0; c < 3; c++)
        od[c] = -log10((rgb[c] ? rgb[c] : 1) / 255.0);
    const double d = (od[0] + od[1] + od[2]) / 3, x = od[0] - d, y = (od[1] - od[2]) / sqrt(3);
    const double u = cos(usual * M_PI / 180), v = sin(usual * M_PI / 180);
    if (isnan(usual))
        return d;
    return x * u + y * v > 0 ? fabs(y * u - x * v) : hypot(x, y);
}

/* Mean of 5 x 5 values round (x, y); 0 beyond the edges. */
static double mean_around(const double *v, int64_t width, int64_t height, int64_t x, int64_t y)
{
    double sum = 0;
    for (int64_t b = y - 2; b <= y + 2; b++)
        for (int64_t a = x - 2; a <= x + 2; a++)
            sum += a >= 0 && a < width && b >= 0 && b < height ? v[b * width + a] : 0;
    return sum / 25;
}

void result_stain_place(const struct result_params *p, const struct result_slide *s, double usual,
                        double *x, double *y)
{
    const struct result_picture *t = &s->thumbnail;
    double most = 0;
    *x = *y = NAN;
    double *v = t->rgb ? calloc((size_t)(t->width * t->height), sizeof *v) : NULL;
    for (int64_t k = 0; v && k < t->width * t->height; k++) {
        const double a = ((double)(k % t->width) + 0.5) / (double)t->width;
        const double b = ((double)(k / t->width) + 0.5) / (double)t->height;
        const int64_t row = nearest(b * (double)s->height, p, s->ny);
        if (result_is_tissue(s, row * s->nx + nearest(a * (double)s->width, p, s->nx)))
            v[k] = strangeness(t->rgb + 3 * k, usual);
    }
    for (int64_t k = 0; v && k < t->width * t->height; k++) {
        const double here = mean_around(v, t->width, t->height, k % t->width, k / t->width);
        if (here <= most)
            continue;
        most = here;
        *x = ((double)(k % t->width) + 0.5) / (double)t->width;
        *y = ((double)(k / t->width) + 0.5) / (double)t->height;
    }
    free(v);
}

/* --- the mean spectrum --- */

/* Adds row v of the spectrum to the octaves that it crosses; the last one ends at 1/2. */
static void add_row(const struct result_spectrum *x, int64_t n, int64_t v,
                    double sum[RESULT_SPECTRUM_OCTAVES], double values[RESULT_SPECTRUM_OCTAVES])
{
    const int64_t up = v < n / 2 ? v : n - v, columns = n / 2 + 1;
    int64_t edge = n >> (RESULT_SPECTRUM_OCTAVES + 1);
    int o = -1;
    for (int64_t u = 0; u < columns; u++) {
        for (; o < RESULT_SPECTRUM_OCTAVES && up * up + u * u >= edge * edge; edge *= 2)
            o++;
        if (o == RESULT_SPECTRUM_OCTAVES)
            return;
        const int twice = u > 0 && u < n / 2 ? 2 : 1;
        sum[o < 0 ? 0 : o] += o < 0 ? 0 : twice * (double)x->sums[v * columns + u];
        values[o < 0 ? 0 : o] += o < 0 ? 0 : twice;
    }
}

static void find_octaves(const struct result_params *p, const struct result_slide *s,
                         double octaves[RESULT_SPECTRUM_OCTAVES])
{
    const struct result_spectrum *x = &s->spectra[FEATURES_TISSUE];
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    double sum[RESULT_SPECTRUM_OCTAVES] = {0}, values[RESULT_SPECTRUM_OCTAVES] = {0};
    for (int64_t v = 0; x->sums && x->windows > 0 && v < p->window; v++)
        add_row(x, p->window, v, sum, values);
    for (int o = 0; o < RESULT_SPECTRUM_OCTAVES; o++)
        octaves[o] = values[o] > 0 ? width * sum[o] / values[o] / (double)x->windows : NAN;
}

/* --- all --- */

unsigned result_parts_of_numbers(void)
{
    return RESULT_WITH_THUMBNAIL | RESULT_WITH_TISSUE_SPECTRUM | RESULT_WITH_MAP(RESULT_FOCUS) |
           RESULT_WITH_MAP(RESULT_TISSUE) | RESULT_WITH_MAP(RESULT_FLAGS);
}

void result_find_numbers(const struct result_params *p, const struct result_slide *s,
                         struct result_numbers *n)
{
    *n = (struct result_numbers){.stain_density = NAN, .stain_hue = NAN};
    find_octaves(p, s, n->octaves);
    if (s->counts.windows == 0)
        return;
    find_stain(p, s, &n->stain_density, &n->stain_hue);
    count_sharp(s, n->sharp);
}
