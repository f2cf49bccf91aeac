/* spectrum_numbers.c - see spectrum_numbers.h. */
#include "common/result/spectrum_numbers.h"

#include "common/result/features.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_WINDOWS = 8, /* of a spectrum */
    LEAST_SIZE = 64,   /* px of a window */
    NEAR = 2,          /* neighbours of a frequency, from here .. */
    FAR = 5,           /* .. to here */
    BLOCK = 8,         /* px, of JPEG */
    COARSEST = 32,     /* the longest period of lines, px */
    AXIS = 2,          /* frequencies beside the axes that count as such */
    MOST_TISSUE = 8,   /* percent of a window that shows glass */
    LEAST_GLASS = 3    /* such windows */
};

#define FIELD(name, low, high)                                                                     \
    {                                                                                              \
#name, offsetof(struct spectrum_numbers, name), low, high                                  \
    }
const struct spectrum_number spectrum_number_list[SPECTRUM_NUMBERS] = {
    FIELD(glass_gray, 0, 255),       FIELD(tissue_gray, 0, 255),
    FIELD(gray_low, 0, 255),         FIELD(gray_high, 0, 255),
    FIELD(lines_db, -1e3, 1e3),      FIELD(lines_period_px, 2, COARSEST),
    FIELD(lines_deg, 0, 90),         FIELD(blocks_db, -1e3, 1e3),
    FIELD(direction_db, 0, 1e3),     FIELD(direction_deg, 0, 180),
    FIELD(noise_db, -1e3, 1e3),      FIELD(detail_4px_db, -1e3, 1e3),
    FIELD(detail_7px_db, -1e3, 1e3),
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n == 0 ? NAN : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* --- lines --- */

struct axis {
    const struct spectrum_sums *s;
    int64_t n;
    bool rows; /* lines along the rows: frequencies (k, 0) */
};

/* In bins. Beyond n / 2 the axis is mirrored. */
static double level_at(const struct axis *a, int64_t k)
{
    const int64_t at = k > a->n / 2 ? a->n - k : k;
    const uint64_t sum = a->s->sums[a->rows ? at * (a->n / 2 + 1) : at];
    return (double)sum / (double)a->s->windows;
}

static double excess(const struct axis *a, int64_t k)
{
    double near[2 * FAR];
    int m = 0;
    for (int64_t d = NEAR; d <= FAR; d++) {
        near[m++] = level_at(a, k + d);
        if (k - d > 0)
            near[m++] = level_at(a, k - d);
    }
    return level_at(a, k) - median(near, m);
}

static void search_axis(const struct axis *a, double width, bool blocks,
                        struct spectrum_numbers *out)
{
    const int64_t block = a->n / BLOCK;
    for (int64_t k = a->n / COARSEST; k <= a->n / 2; k++) {
        const double db = width * excess(a, k);
        if (k % block == 0) {
            out->blocks_db = blocks ? fmax(out->blocks_db, db) : NAN;
        } else if (!(db <= out->lines_db)) {
            out->lines_db = db;
            out->lines_period_px = (double)a->n / (double)k;
            out->lines_deg = a->rows ? 0 : 90;
        }
    }
}

static bool is_usable(const struct spectrum_sums *s, int64_t n)
{
    return s->sums && s->windows >= LEAST_WINDOWS && n >= LEAST_SIZE;
}

/* --- motion --- */

/* Sums over a circle, of frequencies whose distance to the origin rounds to the same number. */
struct circle {
    double levels, x, y, n; /* of the levels, of cos and sin of twice the angle */
    double level_x, level_y;
};

/* The component of cos 2 angle, and of sin 2 angle, of the level in the ring low <= f < high. */
static int find_direction(const struct spectrum_sums *s, int64_t n, int64_t low, int64_t high,
                          double out[2], struct err *e)
{
    double x = 0, y = 0, all = 0;
    struct circle *c = calloc((size_t)high + 2, sizeof *c);
    if (!c)
        return err_set(e, "out of memory");
    for (int64_t v = -high; v <= high; v++)
        for (int64_t u = AXIS + 1; u < high; u++) {
            const int64_t square = v * v + u * u;
            if (llabs(v) <= AXIS || square < low * low || square >= high * high)
                continue;
            struct circle *r = &c[lround(sqrt((double)square))];
            const uint64_t sum = s->sums[(v < 0 ? v + n : v) * (n / 2 + 1) + u];
            const double level = (double)sum / (double)s->windows;
            const double cosine = (double)(u * u - v * v) / (double)square;
            const double sine = 2 * (double)(u * v) / (double)square;
            r->levels += level;
            r->x += cosine;
            r->y += sine;
            r->level_x += level * cosine;
            r->level_y += level * sine;
            r->n++;
        }
    for (int64_t k = 0; k <= high; k++)
        if (c[k].n > 0) {
            x += c[k].level_x - c[k].levels * c[k].x / c[k].n;
            y += c[k].level_y - c[k].levels * c[k].y / c[k].n;
            all += c[k].n;
        }
    free(c);
    out[0] = all > 0 ? 2 * x / all : NAN;
    out[1] = all > 0 ? 2 * y / all : NAN;
    return 0;
}

static int find_motion(const struct spectrum_sums *s, int64_t n, double width,
                       struct spectrum_numbers *out, struct err *e)
{
    double fine[2], own[2];
    if (find_direction(s, n, n / 8, n / 4, fine, e) || find_direction(s, n, n / 32, n / 16, own, e))
        return -1;
    const double x = fine[0] - own[0], y = fine[1] - own[1];
    if (isnan(x) || isnan(y))
        return 0;
    out->direction_db = 2 * width * hypot(x, y);
    const double weakest = atan2(-y, -x) * 90 / M_PI;
    out->direction_deg = weakest < 0 ? weakest + 180 : weakest;
    return 0;
}

/* --- detail --- */

/* Mean level over low <= f < high, in bins. */
static double ring_level(const struct spectrum_sums *s, int64_t n, double low, double high)
{
    uint64_t sum = 0;
    int64_t values = 0;
    for (int64_t v = 1 - n / 2; v < n / 2; v++)
        for (int64_t u = AXIS + 1; u < n / 2; u++) {
            const double square = (double)(v * v + u * u) / (double)(n * n);
            if (llabs(v) <= AXIS || square < low * low || square >= high * high)
                continue;
            sum += s->sums[(v < 0 ? v + n : v) * (n / 2 + 1) + u];
            values++;
        }
    return values ? (double)sum / (double)values / (double)s->windows : NAN;
}

int spectrum_numbers_lines(const struct spectrum_sums *tissue, const struct spectrum_sums *glass,
                           int64_t n, double width, struct spectrum_numbers *out, struct err *e)
{
    const struct spectrum_sums *both[] = {tissue, glass};
    out->lines_db = out->lines_period_px = out->lines_deg = out->blocks_db = NAN;
    out->direction_db = out->direction_deg = out->detail_4px_db = out->detail_7px_db = NAN;
    for (int k = 0; k < 2; k++)
        for (int rows = 0; rows < 2 && is_usable(both[k], n); rows++)
            search_axis(&(struct axis){both[k], n, rows}, width, is_usable(tissue, n), out);
    if (!is_usable(tissue, n))
        return 0;
    if (find_motion(tissue, n, width, out, e))
        return -1;
    const double coarse = ring_level(tissue, n, 0.04, 0.06);
    out->detail_4px_db = width * (ring_level(tissue, n, 0.21, 0.25) - coarse);
    out->detail_7px_db = width * (ring_level(tissue, n, 0.12, 0.16) - coarse);
    return 0;
}

/* --- noise --- */

void spectrum_numbers_noise(const int16_t *level, int16_t none, const uint8_t *tissue,
                            const uint8_t *flags, uint8_t filled, int64_t windows,
                            struct spectrum_numbers *out)
{
    int64_t n = 0;
    int least = INT16_MAX;
    for (int64_t k = 0; tissue && k < windows; k++) {
        if (level[k] == none || tissue[k] > 0 || flags[k] & filled)
            continue;
        least = level[k] < least ? level[k] : least;
        n++;
    }
    out->noise_db = n >= LEAST_GLASS ? least / 100.0 : NAN;
}

/* --- brightness --- */

enum { TISSUES = 101, GRAYS = 256 };

/* Windows by their percent of tissue and their gray. */
struct counts {
    int64_t of[TISSUES][GRAYS];
};

/* Median gray of the windows of which low to high percent are tissue. */
static double median_gray(const struct counts *c, int low, int high)
{
    int64_t n = 0, sum[GRAYS] = {0};
    for (int t = low; t <= high; t++)
        for (int g = 0; g < GRAYS; g++) {
            sum[g] += c->of[t][g];
            n += c->of[t][g];
        }
    int64_t below = 0;
    for (int g = 0; g < GRAYS && n > 0; g++)
        if (2 * (below += sum[g]) > n - 1)
            return g;
    return NAN;
}

/* The gray of a window without its tissue. */
static double without_tissue(int gray, int percent, double tissue_gray)
{
    const double share = percent / 100.0;
    const double rest = percent ? (gray - share * tissue_gray) / (1 - share) : gray;
    return fmin(fmax(rest, 0), 255);
}

/* Percent of tissue of the third window in this order; more than MOST_TISSUE: there are too few. */
static int least_tissue(const struct counts *c)
{
    int64_t n = 0;
    for (int t = 0; t <= MOST_TISSUE; t++)
        for (int g = 0; g < GRAYS; g++)
            if ((n += c->of[t][g]) >= LEAST_GLASS)
                return t;
    return MOST_TISSUE + 1;
}

/* The weighted median of what is left, in steps of 1/8 of a level. */
static double find_glass(const struct counts *c, double tissue_gray)
{
    enum { STEPS = 8 };
    const int most = least_tissue(c);
    int64_t n = 0, below = 0, sum[GRAYS * STEPS] = {0};
    if (most > MOST_TISSUE || (most > 0 && isnan(tissue_gray)))
        return NAN;
    for (int t = 0; t <= most; t++)
        for (int g = 0; g < GRAYS; g++)
            if (c->of[t][g] > 0) {
                sum[lround(STEPS * without_tissue(g, t, tissue_gray))] += c->of[t][g];
                n += c->of[t][g];
            }
    for (int k = 0; k < GRAYS * STEPS; k++)
        if (2 * (below += sum[k]) > n - 1)
            return (double)k / STEPS;
    return NAN;
}

int spectrum_numbers_gray(const uint8_t *gray, const uint8_t *tissue, const uint8_t *flags,
                          uint8_t filled, int64_t windows, struct spectrum_numbers *out,
                          struct err *e)
{
    struct counts *c = calloc(1, sizeof *c);
    int low = GRAYS, high = -1;
    bool known = true;
    if (!c)
        return err_set(e, "out of memory");
    out->glass_gray = out->tissue_gray = out->gray_low = out->gray_high = NAN;
    for (int64_t k = 0; k < windows; k++) {
        if (gray[k] == FEATURES_NO_GRAY || flags[k] & filled)
            continue;
        low = gray[k] < low ? gray[k] : low;
        high = gray[k] > high ? gray[k] : high;
        known = known && tissue && tissue[k] < TISSUES;
        c->of[known ? tissue[k] : TISSUES - 1][gray[k]]++;
    }
    if (high >= 0) {
        out->gray_low = low;
        out->gray_high = high;
        out->tissue_gray = median_gray(c, FEATURES_HALF, TISSUES - 1);
        out->glass_gray = known ? find_glass(c, out->tissue_gray) : NAN;
    }
    free(c);
    return 0;
}
