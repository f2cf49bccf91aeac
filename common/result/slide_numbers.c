/* slide_numbers.c - see slide_numbers.h. */
#include "common/result/slide_numbers.h"

#include "common/base/memory.h"
#include "common/result/features.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_WINDOWS = 16, /* of a spectrum */
    LEAST_SIZE = 64,    /* px of a window */
    NEAR = 2,           /* neighbours of a frequency, from here .. */
    FAR = 5,            /* .. to here */
    BLOCK = 8,          /* px, of JPEG */
    COARSEST = 32,      /* the longest period of lines, px */
    AXIS = 2            /* frequencies beside the axes that count as such */
};

#define MOST_CHANCE (1 / 500.0) /* of a seam, over all rows and columns of windows */

#define FIELD(name, low, high)                                                                     \
    {                                                                                              \
#name, offsetof(struct slide_numbers, name), low, high                                     \
    }
const struct slide_number slide_number_list[SLIDE_NUMBERS] = {
    FIELD(tissue_gray, 0, 255),
    FIELD(gray_low, 0, 255),
    FIELD(gray_high, 0, 255),
    FIELD(lines_db, -1e3, 1e3),
    FIELD(lines_period_px, 2, COARSEST),
    FIELD(lines_deg, 0, 90),
    FIELD(direction_db, 0, 1e3),
    FIELD(direction_deg, 0, 180),
    FIELD(detail_4px_db, -1e3, 1e3),
    FIELD(detail_7px_db, -1e3, 1e3),
    FIELD(seam_rows, 0, INT32_MAX),
    FIELD(seam_columns, 0, INT32_MAX),
    FIELD(seam_y_px, 0, INT32_MAX),
    FIELD(seam_x_px, 0, INT32_MAX),
    FIELD(tile_seam_rows, 0, INT32_MAX),
    FIELD(tile_seam_columns, 0, INT32_MAX),
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

static void search_axis(const struct axis *a, double width, struct slide_numbers *out)
{
    for (int64_t k = a->n / COARSEST; k <= a->n / 2; k++) {
        const double db = width * excess(a, k);
        if (k % (a->n / BLOCK) == 0 || db <= out->lines_db)
            continue;
        out->lines_db = db;
        out->lines_period_px = (double)a->n / (double)k;
        out->lines_deg = a->rows ? 0 : 90;
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
static void find_direction(const struct spectrum_sums *s, int64_t n, int64_t low, int64_t high,
                           double out[2])
{
    double x = 0, y = 0, all = 0;
    struct circle *c = memory_need((size_t)high + 2, sizeof *c);
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
}

static void find_motion(const struct spectrum_sums *s, int64_t n, double width,
                        struct slide_numbers *out)
{
    double fine[2], coarse[2], own[2];
    find_direction(s, n, n / 8, n / 4, fine);
    find_direction(s, n, n / 16, n / 8, coarse);
    find_direction(s, n, n / 32, n / 16, own);
    const double x = (fine[0] + coarse[0]) / 2 - own[0], y = (fine[1] + coarse[1]) / 2 - own[1];
    if (isnan(x) || isnan(y))
        return;
    out->direction_db = 2 * width * hypot(x, y);
    const double weakest = atan2(-y, -x) * 90 / M_PI;
    out->direction_deg = weakest < 0 ? weakest + 180 : weakest;
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

void slide_numbers_lines(const struct spectrum_sums *tissue, const struct spectrum_sums *glass,
                         int64_t n, double width, struct slide_numbers *out)
{
    const struct spectrum_sums *both[] = {tissue, glass};
    out->lines_db = out->lines_period_px = out->lines_deg = NAN;
    out->direction_db = out->direction_deg = out->detail_4px_db = out->detail_7px_db = NAN;
    for (int k = 0; k < 2; k++)
        for (int rows = 0; rows < 2 && is_usable(both[k], n); rows++)
            search_axis(&(struct axis){both[k], n, rows}, width, out);
    if (!is_usable(tissue, n))
        return;
    find_motion(tissue, n, width, out);
    const double coarse = ring_level(tissue, n, 0.04, 0.06);
    out->detail_4px_db = width * (ring_level(tissue, n, 0.21, 0.25) - coarse);
    out->detail_7px_db = width * (ring_level(tissue, n, 0.12, 0.16) - coarse);
}

/* --- brightness --- */

enum { GRAYS = 256 };

/* The gray that `rank` of those that were counted are below or equal to, from 0; NaN: none. */
static double gray_at(const int64_t counts[GRAYS], int64_t rank)
{
    int64_t below = 0;
    for (int g = 0; g < GRAYS; g++)
        if ((below += counts[g]) > rank)
            return g;
    return NAN;
}

/* Does the window count, touch no filled tile, and is so much of it tissue, percent? */
static bool shows_tissue(const struct spectrum_maps *m, int64_t k, uint8_t least)
{
    return m->gray[k] != FEATURES_NO_GRAY && !(m->flags[k] & m->filled) &&
           (!m->tissue || m->tissue[k] >= least);
}

void slide_numbers_gray(const struct spectrum_maps *m, struct slide_numbers *out)
{
    int64_t counts[GRAYS] = {0}, n = 0;
    for (int64_t k = 0; k < m->nx * m->ny; k++)
        if (shows_tissue(m, k, FEATURES_HALF)) {
            counts[m->gray[k]]++;
            n++;
        }
    out->tissue_gray = gray_at(counts, (n - 1) / 2);
}

void slide_numbers_places(const uint8_t *rgb, int64_t pixels, struct slide_numbers *out)
{
    int64_t counts[GRAYS] = {0};
    for (int64_t k = 0; rgb && k < pixels; k++)
        counts[(299 * rgb[3 * k] + 587 * rgb[3 * k + 1] + 114 * rgb[3 * k + 2] + 500) / 1000]++;
    out->gray_low = gray_at(counts, (pixels - 1) / 500);
    out->gray_high = gray_at(counts, (pixels - 1) * 99 / 100);
}

/* --- seams --- */

/* The chance that at least `least` of n draws of chance p hit. By logarithms: the chance that none
 * hits may be too small for a double. */
static double chance_of(int64_t least, int64_t n, double p)
{
    double term = (double)n * log1p(-p), sum = 0;
    for (int64_t k = 0; k <= n; k++) {
        sum += k >= least ? exp(term) : 0;
        term += log((double)(n - k) / (double)(k + 1) * p / (1 - p));
    }
    return sum;
}

/* Rows of windows, or columns: `count` lines of `length` windows. */
struct lines {
    const struct spectrum_maps *m;
    const uint8_t *step;
    int64_t count, length, across, along; /* windows from one line to the next, and within one */
    int64_t tile;                         /* px of tiles that leave edges; 0: none */
    int64_t steps;
    int *votes; /* [steps] */
};

/* The last row of pixels before a step of a line. */
static int64_t place_of(const struct lines *l, int64_t line, int64_t step)
{
    return line * l->m->stride + l->m->window - 1 - l->steps + step;
}

static bool is_tile_border(const struct lines *l, int64_t line, int64_t step)
{
    return l->tile > 0 && (place_of(l, line, step) + 1) % l->tile == 0;
}

/* How many windows of a line name the step that most of them name. */
struct vote {
    int64_t step, votes, n; /* of n windows */
};

/* Of the borders of tiles, or of all other steps. */
static struct vote elect(const struct lines *l, int64_t line, bool borders)
{
    struct vote v = {0};
    memset(l->votes, 0, (size_t)l->steps * sizeof *l->votes);
    for (int64_t w = 0; w < l->length; w++) {
        const int64_t k = line * l->across + w * l->along;
        if (l->step[k] >= l->steps || /* or none */
            !shows_tissue(l->m, k, FEATURES_STEP_TISSUE) ||
            (!borders && is_tile_border(l, line, l->step[k])))
            continue;
        l->votes[l->step[k]]++;
        v.n++;
    }
    for (int64_t s = 0; s < l->steps; s++)
        if (l->votes[s] > v.votes && (!borders || is_tile_border(l, line, s)))
            v = (struct vote){s, l->votes[s], v.n};
    return v;
}

/* Lines in which any window names a step. */
static int64_t count_lines(const struct lines *l)
{
    int64_t n = 0;
    for (int64_t line = 0; line < l->count; line++)
        n += elect(l, line, true).n > 0;
    return n;
}

/* `lines`: that are looked at, of rows and columns together. */
static void count_seams(const struct lines *l, int64_t lines, double *seams, double *of_tiles,
                        double *px)
{
    const double p = (double)BLOCK / (double)l->steps;
    /* of each place that is searched, 1 / p on each line */
    const double most = MOST_CHANCE * p / (double)lines;
    double least = most;
    *seams = *of_tiles = *px = NAN;
    if (!(p < 1) || count_lines(l) == 0)
        return;
    *seams = *of_tiles = 0;
    for (int64_t line = 0; line < l->count; line++) {
        const struct vote v = elect(l, line, false), tiles = elect(l, line, true);
        const double chance = v.n > 0 ? chance_of(v.votes, v.n, p) : 1;
        *seams += chance < most;
        *of_tiles += tiles.votes > 0 && chance_of(tiles.votes, tiles.n, p) < most;
        if (chance < least) {
            least = chance;
            *px = (double)place_of(l, line, v.step);
        }
    }
}

void slide_numbers_seams(const struct spectrum_maps *m, struct slide_numbers *out)
{
    const int64_t steps = features_steps(m->window, m->stride);
    int *votes = memory_need((size_t)steps, sizeof *votes);
    const struct lines rows = {m, m->row_step, m->ny, m->nx, m->nx, 1, m->tile_rows, steps, votes},
                       columns = {m,     m->column_step, m->nx, m->ny, 1,
                                  m->nx, m->tile_cols,   steps, votes};
    const int64_t n = count_lines(&rows) + count_lines(&columns);
    count_seams(&rows, n, &out->seam_rows, &out->tile_seam_rows, &out->seam_y_px);
    count_seams(&columns, n, &out->seam_columns, &out->tile_seam_columns, &out->seam_x_px);
    free(votes);
}
