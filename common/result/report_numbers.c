/* report_numbers.c - see report_numbers.h. */
#include "common/result/report_numbers.h"

#include "common/result/features.h"

#include "common/base/memory.h"
#include "common/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER(name_, member, n_, low_, high_)                                                     \
    {                                                                                              \
        name_, offsetof(struct report_numbers, member), n_, low_, high_                            \
    }
const struct report_number report_number_list[REPORT_NUMBER_KINDS] = {
    NUMBER("stain_density", stain_density, 1, 0, INFINITY),
    NUMBER("stain_hue", stain_hue, 1, 0, 360),
    NUMBER("gray_share", gray_share, 1, 0, 1),
    NUMBER("ink_share", ink_share, 1, 0, 1),
    NUMBER("colourless_share", colourless_share, 1, 0, 1),
    NUMBER("light_step", light.step, 3, -255, 255),
    NUMBER("light_step_at", light.at, 2, 0, 1),
    NUMBER("pieces_sharp", pieces_sharp, 1, -INFINITY, INFINITY),
    NUMBER("spectrum_octaves", octaves, RESULT_SPECTRUM_OCTAVES, -INFINITY, INFINITY)};

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

bool result_is_brightfield(const struct result_slide *s)
{
    const char *background = s->origin.background;
    return *background ? strcmp(background, "dark") != 0 : !isnan(s->origin.tissue_fraction);
}

/* --- stain --- */

/* The window whose middle is nearest to a place, px of the stored level. */
static int64_t nearest(double at, const struct result_params *p, int64_t n)
{
    const double w = floor((at - (double)(p->window - p->stride) / 2) / (double)p->stride);
    return w < 0 ? 0 : w >= (double)n ? n - 1 : (int64_t)w;
}

/* The optical densities of all levels. */
static void find_densities(double density[256])
{
    for (int k = 0; k < 256; k++)
        density[k] = -log10((k ? k : 1) / 255.0);
}

/* The place of optical densities in the plane of hue and saturation (van der Laak, 2000); {0, 0}
 * for white. */
static void find_place(const double od[3], double place[2])
{
    const double d = (od[0] + od[1] + od[2]) / 3;
    place[0] = d > 0 ? od[0] / d - 1 : 0;
    place[1] = d > 0 ? (od[1] - od[2]) / (sqrt(3) * d) : 0;
}

static void find_stain(const struct result_params *p, const struct result_slide *s,
                       struct report_numbers *out)
{
    const struct result_picture *t = &s->thumbnail;
    double sum[3] = {0}, od[256];
    int64_t n = 0, colourless = 0, column[RESULT_MOST_THUMBNAIL];
    if (!t->rgb || !knows_tissue(s))
        return;
    for (int64_t x = 0; x < t->width; x++)
        column[x] = nearest(((double)x + 0.5) * (double)s->width / (double)t->width, p, s->nx);
    find_densities(od);
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
            colourless += result_greatest(rgb) - result_least(rgb) < 8;
            n++;
        }
    }
    const double d = (sum[0] + sum[1] + sum[2]) / 3;
    if (n > 0 && !s->source_gray)
        out->colourless_share = (double)colourless / (double)n;
    if (n == 0 || d <= 0)
        return;
    out->stain_density = d / (double)n;
    double place[2];
    find_place(sum, place);
    const double angle = atan2(place[1], place[0]);
    out->stain_hue = (angle < 0 ? angle + 2 * M_PI : angle) * 180 / M_PI;
}

/* --- what no stain makes --- */

enum { IS_GRAY = 1, IS_INK = 2, NEIGHBOURS = 2 };
enum { LEAST_STAINED = 10, SECOND_STAIN = 10 }; /* pixels; one in so many */
#define LEAST_COLOUR 0.15 /* of a stain, its distance from gray in the plane of hue */
#define FOREIGN 0.3

/* The greatest channel that 1 of 100 pixels exceeds. */
static int white_of(const struct result_picture *t)
{
    int64_t count[256] = {0}, above = t->width * t->height / 100;
    for (int64_t k = 0; k < t->width * t->height; k++)
        count[result_greatest(t->rgb + 3 * k)]++;
    int white = 255;
    while (white > 0 && (above -= count[white]) >= 0)
        white--;
    return white;
}

/* Marks the pixels. Returns whether the stain itself is blue or green. */
static bool mark_foreign(const struct result_picture *t, int white, uint8_t *mark)
{
    int64_t coloured = 0, green = 0;
    for (int64_t k = 0; k < t->width * t->height; k++) {
        const uint8_t *rgb = t->rgb + 3 * k;
        const int high = result_greatest(rgb), spread = high - result_least(rgb);
        const bool is_green = spread > 12 && rgb[1] > rgb[0] + 2;
        coloured += spread > 12;
        green += is_green;
        mark[k] = (uint8_t)((spread < 14 && 255 * high < 190 * white ? IS_GRAY : 0) |
                            (is_green && 255 * high < 210 * white ? IS_INK : 0));
    }
    return 40 * green > coloured;
}

/* The places of the colours of all pixels, [height][width][2]; to be free()d. */
static double *find_places(const struct result_picture *t)
{
    double density[256], *place = memory_need(2 * (size_t)(t->width * t->height), sizeof *place);
    find_densities(density);
    for (int64_t k = 0; k < t->width * t->height; k++) {
        const uint8_t *rgb = t->rgb + 3 * k;
        find_place((double[]){density[rgb[0]], density[rgb[1]], density[rgb[2]]}, place + 2 * k);
    }
    return place;
}

static bool is_stained(const struct result_picture *t, int64_t k, int white)
{
    return 255 * result_greatest(t->rgb + 3 * k) < 190 * white;
}

/* The median place of stained pixels. Returns how many these are. */
static int64_t find_usual(const struct result_picture *t, int white, const double *place,
                          double usual[2])
{
    const int64_t pixels = t->width * t->height;
    double *v = memory_need((size_t)pixels, sizeof *v);
    int64_t n = 0;
    for (int c = 0; c < 2; c++) {
        n = 0;
        for (int64_t k = 0; k < pixels; k++)
            if (is_stained(t, k, white))
                v[n++] = place[2 * k + c];
        usual[c] = stats_quantile(v, stats_sort(v, n), 0.5);
    }
    free(v);
    return n;
}

/* Marks stained pixels whose colour is not that of the stain. */
static void mark_unlike(const struct result_picture *t, int white, uint8_t *mark)
{
    const int64_t pixels = t->width * t->height;
    double usual[2], *place = find_places(t);
    const int64_t stained = find_usual(t, white, place, usual);
    const double square = usual[0] * usual[0] + usual[1] * usual[1];
    uint8_t *unlike = memory_need((size_t)pixels, 1);
    int64_t n = 0;
    for (int64_t k = 0; k < pixels; k++) {
        unlike[k] = is_stained(t, k, white) && !(mark[k] & IS_GRAY) &&
                    place[2 * k] * usual[0] + place[2 * k + 1] * usual[1] < FOREIGN * square;
        n += unlike[k];
    }
    const bool counts = stained >= LEAST_STAINED && square >= LEAST_COLOUR * LEAST_COLOUR &&
                        SECOND_STAIN * n <= stained;
    for (int64_t k = 0; k < pixels && counts; k++)
        mark[k] = (uint8_t)(mark[k] | (unlike[k] ? IS_INK : 0));
    free(unlike);
    free(place);
}

static bool is_area(const struct result_picture *t, const uint8_t *mark, int64_t k, int what)
{
    const int64_t x = k % t->width, y = k / t->width;
    if (x < NEIGHBOURS || y < NEIGHBOURS || x >= t->width - NEIGHBOURS ||
        y >= t->height - NEIGHBOURS)
        return false;
    for (int64_t b = y - NEIGHBOURS; b <= y + NEIGHBOURS; b++)
        for (int64_t a = x - NEIGHBOURS; a <= x + NEIGHBOURS; a++)
            if (!(mark[b * t->width + a] & what))
                return false;
    return true;
}

static double share_of(const struct result_picture *t, const uint8_t *mark, bool areas, int what)
{
    const int64_t n = t->width * t->height;
    int64_t found = 0;
    for (int64_t k = 0; k < n; k++)
        found += (mark[k] & what) && (!areas || is_area(t, mark, k, what));
    return (double)found / (double)n;
}

/* What was never scanned has the colour that the scanner's software gave it. */
static void forget_missing(const struct result_params *p, const struct result_slide *s,
                           uint8_t *mark)
{
    const struct result_picture *t = &s->thumbnail;
    const uint8_t *flags = s->maps[RESULT_FLAGS].values;
    if (s->origin.tiles_missing == 0 || !flags || s->nx * s->ny == 0)
        return;
    for (int64_t k = 0; k < t->width * t->height; k++) {
        const double x = ((double)(k % t->width) + 0.5) * (double)s->width / (double)t->width,
                     y = ((double)(k / t->width) + 0.5) * (double)s->height / (double)t->height;
        if (flags[nearest(y, p, s->ny) * s->nx + nearest(x, p, s->nx)] & RESULT_FLAG_MISSING)
            mark[k] = 0;
    }
}

static void find_foreign(const struct result_params *p, const struct result_slide *s,
                         struct report_numbers *out)
{
    const struct result_picture *t = &s->thumbnail;
    if (!t->rgb)
        return;
    result_find_light(t, &out->light);
    if (s->source_gray)
        return;
    const int white = white_of(t);
    uint8_t *mark = memory_need((size_t)(t->width * t->height), 1);
    const bool areas = mark_foreign(t, white, mark);
    if (!areas)
        mark_unlike(t, white, mark);
    forget_missing(p, s, mark);
    out->gray_share = share_of(t, mark, areas, IS_GRAY);
    out->ink_share = share_of(t, mark, areas, IS_INK);
    free(mark);
}

/* --- pieces --- */

static double find_pieces(const struct result_slide *s)
{
    const struct result_map *sharp = &s->maps[RESULT_SHARP];
    const uint8_t *tissue = s->maps[RESULT_TISSUE].values;
    const int64_t n = s->nx * s->ny;
    int64_t found = 0;
    double *v = tissue && sharp->values ? memory_need((size_t)n, sizeof *v) : NULL;
    for (int64_t k = 0; v && k < n; k++) {
        const double x = result_map_value(sharp, k);
        if (tissue[k] == FEATURES_NO_TISSUE || isnan(x) || tissue[k] < 5)
            continue;
        if (features_is_tissue(tissue[k])) {
            free(v);
            return NAN;
        }
        v[found++] = x;
    }
    const double median = v ? stats_quantile(v, stats_sort(v, found), 0.5) : NAN;
    free(v);
    return median;
}

/* How far a colour is from hue `usual`, in optical density; NAN: how dense it is. */
static double strangeness(const double od[3], double usual)
{
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

void report_numbers_stain_place(const struct result_params *p, const struct result_slide *s,
                                double usual, double *x, double *y)
{
    const struct result_picture *t = &s->thumbnail;
    double most = 0, density[256];
    *x = *y = NAN;
    find_densities(density);
    if (!t->rgb)
        return;
    double *v = memory_need((size_t)(t->width * t->height), sizeof *v);
    for (int64_t k = 0; k < t->width * t->height; k++) {
        const double a = ((double)(k % t->width) + 0.5) / (double)t->width;
        const double b = ((double)(k / t->width) + 0.5) / (double)t->height;
        const int64_t row = nearest(b * (double)s->height, p, s->ny);
        const uint8_t *rgb = t->rgb + 3 * k;
        const double od[3] = {density[rgb[0]], density[rgb[1]], density[rgb[2]]};
        if (result_is_tissue(s, row * s->nx + nearest(a * (double)s->width, p, s->nx)))
            v[k] = strangeness(od, usual);
    }
    for (int64_t k = 0; k < t->width * t->height; k++) {
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

unsigned report_numbers_parts(void)
{
    return RESULT_WITH_THUMBNAIL | RESULT_WITH_TISSUE_SPECTRUM | RESULT_WITH_MAP(RESULT_FOCUS) |
           RESULT_WITH_MAP(RESULT_SHARP) | RESULT_WITH_MAP(RESULT_TISSUE) |
           RESULT_WITH_MAP(RESULT_FLAGS);
}

void report_numbers_find(const struct result_params *p, const struct result_slide *s,
                         struct report_numbers *n)
{
    *n = (struct report_numbers){.stain_density = NAN,
                                 .stain_hue = NAN,
                                 .gray_share = NAN,
                                 .ink_share = NAN,
                                 .colourless_share = NAN,
                                 .light = {{NAN, NAN, NAN}, {NAN, NAN}},
                                 .pieces_sharp = NAN};
    find_octaves(p, s, n->octaves);
    if (result_is_brightfield(s))
        find_foreign(p, s, n);
    if (s->counts.windows == 0)
        return;
    if (result_is_brightfield(s))
        find_stain(p, s, n);
    n->pieces_sharp = find_pieces(s);
    count_sharp(s, n->sharp);
}
