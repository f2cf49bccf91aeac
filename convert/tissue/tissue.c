/* tissue.c - see tissue.h. */
#include "convert/tissue/tissue.h"

#include "common/base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS = 256,
    /* the rule `saturation`: */
    GLASS = 243,           /* where a slide shows none */
    GLASS_LEAST = 200,     /* gray of what could be glass */
    GLASS_SATURATION = 16, /* bin: glass has less */
    GLASS_SHARE = 500,     /* one cell of so many */
    DARK_LEAST = 100,      /* gray of what could be dark glass */
    DARK_FEW = 100,        /* it is looked for if one cell of so many could be glass, or fewer */
    DARK_SHARE = 50,       /* one cell of so many is even */
    DARK_EVEN = 1,         /* and differs by this from its neighbours at most */
    WHITE = 255,           /* gray of what was not scanned */
    EVEN = 4,              /* neighbouring cells of glass differ by less */
    TISSUE_SATURATION = 26 /* bin: tissue has this or more */
};
/* ln(glass / gray) that tissue exceeds; of pale tissue, which Otsu's threshold shows if this share
 * of the variance of gray is between its classes. */
static const double density = 0.07, pale_density = 0.02, two_classes = 0.8;
/* Uneven glass that makes a map doubtful: of the slide, and of the tissue. */
static const double uneven_least = 0.01, uneven_of_tissue = 1 / 3.0;

static int64_t view_cols(const struct tissue *t)
{
    return (t->cols + t->step - 1) / t->step;
}

int tissue_create(struct tissue *t, int64_t width, int64_t height, const struct tissue_rule *rule,
                  struct err *e)
{
    *t = (struct tissue){.rule = rule,
                         .cols = (width + TISSUE_CELL - 1) / TISSUE_CELL,
                         .rows = (height + TISSUE_CELL - 1) / TISSUE_CELL};
    const int64_t most = t->cols > t->rows ? t->cols : t->rows;
    t->step = (most + TISSUE_VIEW - 1) / TISSUE_VIEW;
    t->band.cols = t->cols;
    t->saturation = memory_try_zero((size_t)(t->cols * t->rows), 1, e);
    t->mask = memory_try_zero((size_t)(t->cols * t->rows), 1, e);
    t->view = memory_try_zero((size_t)(view_cols(t) * ((t->rows + t->step - 1) / t->step)),
                              sizeof *t->view, e);
    if (t->saturation && t->mask && t->view)
        return 0;
    tissue_free(t);
    return -1;
}

void tissue_free(struct tissue *t)
{
    tissue_sums_free(&t->band);
    free(t->saturation);
    free(t->mask);
    free(t->damaged);
    free(t->view);
    t->saturation = t->mask = t->damaged = NULL;
    t->view = NULL;
}

void tissue_sums_free(struct tissue_sums *s)
{
    free(s->cell);
    *s = (struct tissue_sums){0};
}

/* --- sums --- */

static int64_t at_most(int64_t v, int64_t most)
{
    return v < most ? v : most;
}

/* The cell in which the middle of pixel k of an image of that scale lies. */
static int64_t cell_of(int64_t k, double scale)
{
    return (int64_t)(((double)k + 0.5) * scale / TISSUE_CELL);
}

/* The pixels of a cell's side, if that is a whole number; else 0. */
static int64_t side_of(double scale)
{
    const int64_t side = (int64_t)(TISSUE_CELL / scale);
    return side > 0 && (double)side * scale == TISSUE_CELL ? side : 0;
}

/* The first pixel at or after k that lies in the cell after k's, at most `end`. */
static int64_t next_cell(int64_t k, int64_t end, double scale, int64_t side)
{
    if (side > 0)
        return at_most((k / side + 1) * side, end);
    const int64_t cell = cell_of(k, scale);
    int64_t n = (int64_t)((double)((cell + 1) * TISSUE_CELL) / scale - 0.5);
    n = n > k ? n : k + 1;
    while (n > k + 1 && cell_of(n - 1, scale) > cell)
        n--;
    while (n < end && cell_of(n, scale) == cell)
        n++;
    return n < end ? n : end;
}

/* Prepares the cells that the tile touches, all zero. */
static void begin_sums(struct tissue_sums *s, int64_t x, int64_t y, int64_t cols, int64_t rows,
                       double scale)
{
    s->damaged = false;
    s->col = cell_of(x, scale);
    s->row = cell_of(y, scale);
    s->cols = cell_of(x + cols - 1, scale) - s->col + 1;
    s->rows = cell_of(y + rows - 1, scale) - s->row + 1;
    if (s->cols * s->rows > s->room) {
        free(s->cell);
        s->room = s->cols * s->rows;
        s->cell = memory_need((size_t)s->room, sizeof *s->cell);
    }
    memset(s->cell, 0, (size_t)(s->cols * s->rows) * sizeof *s->cell);
}

/* As sum_pixels, for the few pixels of a cell at 1/8. */
static void sum_few(uint32_t cell[4], const uint8_t *rgb, int64_t n, int64_t rows, int64_t pitch,
                    uint32_t weight)
{
    uint32_t sum[3] = {0};
    for (int64_t y = 0; y < rows; y++, rgb += pitch)
        for (int64_t k = 0; k < n; k++)
            for (int c = 0; c < 3; c++)
                sum[c] += rgb[3 * k + c];
    for (int c = 0; c < 3; c++)
        cell[c] += weight * sum[c];
    cell[3] += weight * (uint32_t)(n * rows);
}

/* Adds n pixels of each of some rows, each of which counts `weight` times. Columns are summed first,
 * which the compiler vectorises. */
static void sum_pixels(uint32_t cell[4], const uint8_t *rgb, int64_t n, int64_t rows, int64_t pitch,
                       uint32_t weight)
{
    uint16_t column[3 * TISSUE_CELL] = {0}; /* of 32 rows at most */
    uint32_t sum[3] = {0};
    assert(n <= TISSUE_CELL && rows <= TISSUE_CELL);
    if (n <= 4) {
        sum_few(cell, rgb, n, rows, pitch, weight);
        return;
    }
    for (int64_t y = 0; y < rows; y++, rgb += pitch)
        for (int64_t k = 0; k < 3 * n; k++)
            column[k] = (uint16_t)(column[k] + rgb[k]);
    for (int64_t k = 0; k < n; k++)
        for (int c = 0; c < 3; c++)
            sum[c] += column[3 * k + c];
    for (int c = 0; c < 3; c++)
        cell[c] += weight * sum[c];
    cell[3] += weight * (uint32_t)(n * rows);
}

void tissue_sum(struct tissue_sums *s, const uint8_t *rgb, int64_t cols, int64_t rows,
                int64_t pitch, int64_t x, int64_t y, double scale, int64_t step)
{
    const int64_t side = side_of(scale);
    const uint32_t weight = (uint32_t)(lrint(scale * scale) * step); /* stored pixels */
    begin_sums(s, x, y, cols, rows, scale);
    for (int64_t c = y, d; c < y + rows; c = d) {
        d = next_cell(c, y + rows, scale, side);
        const int64_t first = (c + step - 1) / step * step - y,
                      n = (d - y - first + step - 1) / step;
        uint32_t(*cell)[4] = s->cell + (cell_of(c, scale) - s->row) * s->cols;
        for (int64_t a = x, b; n > 0 && a < x + cols; a = b) {
            b = next_cell(a, x + cols, scale, side);
            sum_pixels(cell[(side > 0 ? a / side : cell_of(a, scale)) - s->col],
                       rgb + (first * pitch + a - x) * 3, b - a, n, step * pitch * 3, weight);
        }
    }
}

void tissue_sum_damaged(struct tissue_sums *s, int64_t cols, int64_t rows, int64_t x, int64_t y,
                        double scale)
{
    begin_sums(s, x, y, cols, rows, scale);
    s->damaged = true;
}

/* --- colours: a complete row becomes bins --- */

static int bin_of(double v)
{
    const int k = (int)(v * BINS);
    return k < BINS ? k : BINS - 1;
}

/* The bin of a colour's hue, or its gray level; and the bin of its saturation. */
static void bins_of(const uint32_t c[4], enum tissue_by by, uint8_t bins[2])
{
    const double r = (double)c[0] / c[3], g = (double)c[1] / c[3], b = (double)c[2] / c[3];
    const double high = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const double low = r < g ? (r < b ? r : b) : (g < b ? g : b), span = high - low;
    double h = 0;
    if (span > 0)
        h = high == r   ? (g - b) / span / 6
            : high == g ? ((b - r) / span + 2) / 6
                        : ((r - g) / span + 4) / 6;
    h += h < 0;
    bins[0] = (uint8_t)(by == TISSUE_BY_SATURATION ? lrint(0.299 * r + 0.587 * g + 0.114 * b)
                                                   : bin_of(h));
    bins[1] = (uint8_t)bin_of(high > 0 ? span / high : 0);
}

/* Is the cell's brightest colour dark, or bright? */
static void note_brightness(struct tissue *t, const uint32_t c[4])
{
    const uint32_t high = c[0] > c[1] ? c[0] : c[1], most = high > c[2] ? high : c[2];
    t->seen++;
    t->dim += most < (uint64_t)64 * c[3];
    t->bright += most >= (uint64_t)96 * c[3];
}

static void add_to_view(struct tissue *t, int64_t row, int64_t col, const uint32_t c[4])
{
    uint32_t *p = t->view[row / t->step * view_cols(t) + col / t->step];
    for (int k = 0; k < 3; k++)
        p[k] += (c[k] + c[3] / 2) / c[3];
    p[3]++;
}

/* A cell without pixels is as the one to its left, in the first column as the one above. */
static void copy_neighbour(struct tissue *t, int64_t k)
{
    const int64_t from = k % t->cols > 0 ? k - 1 : k - t->cols;
    if (from >= 0) {
        t->mask[k] = t->mask[from];
        t->saturation[k] = t->saturation[from];
    }
}

/* Turns the upper n rows of the band, which are complete, into bins. */
static void complete_rows(struct tissue *t, int64_t n)
{
    struct tissue_sums *s = &t->band;
    const int64_t first = s->row * t->cols, cells = n * t->cols, left = (s->rows - n) * t->cols;
    if (n == 0)
        return;
    for (int64_t k = 0; k < cells; k++) {
        uint8_t bins[2];
        if (s->cell[k][3] == 0) {
            copy_neighbour(t, first + k);
            continue;
        }
        bins_of(s->cell[k], t->rule->by, bins);
        t->mask[first + k] = bins[0];
        t->saturation[first + k] = bins[1];
        note_brightness(t, s->cell[k]);
        add_to_view(t, s->row + k / t->cols, k % t->cols, s->cell[k]);
    }
    memmove(s->cell, s->cell + cells, (size_t)left * sizeof *s->cell);
    s->row += n;
    s->rows -= n;
}

/* Extends the band to row `end` - 1 if it ends before. */
static int extend_band(struct tissue *t, int64_t end, struct err *e)
{
    struct tissue_sums *s = &t->band;
    const int64_t have = s->rows * t->cols, need = (end - s->row) * t->cols;
    if (need <= have)
        return 0;
    if (need > s->room) {
        void *more = realloc(s->cell, (size_t)need * sizeof *s->cell);
        if (!more)
            return err_memory(e);
        s->cell = more;
        s->room = need;
    }
    memset(s->cell + have, 0, (size_t)(need - have) * sizeof *s->cell);
    s->rows = end - s->row;
    return 0;
}

/* Marks the cells of a damaged tile. */
static int mark_damaged(struct tissue *t, const struct tissue_sums *s, struct err *e)
{
    if (!t->damaged && !(t->damaged = memory_try_zero((size_t)(t->cols * t->rows), 1, e)))
        return -1;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++)
            t->damaged[at_most(s->row + r, t->rows - 1) * t->cols +
                       at_most(s->col + c, t->cols - 1)] = 1;
    return 0;
}

int tissue_view(const struct tissue *t, uint8_t **rgb, int64_t *width, int64_t *height,
                struct err *e)
{
    *width = view_cols(t);
    *height = (t->rows + t->step - 1) / t->step;
    const int64_t n = *width * *height;
    int64_t seen = 0;
    for (int64_t k = 0; k < n; k++)
        seen += t->view[k][3] > 0;
    if (seen == 0)
        return 0;
    if (!(*rgb = memory_try((size_t)n * 3, 1, e)))
        return -1;
    for (int64_t k = 0; k < n; k++)
        for (int c = 0; c < 3; c++)
            (*rgb)[3 * k + c] =
                (uint8_t)(t->view[k][3] ? (t->view[k][c] + t->view[k][3] / 2) / t->view[k][3]
                                        : 255);
    return 1;
}

int tissue_add(struct tissue *t, const struct tissue_sums *s, struct err *e)
{
    if (s->damaged && mark_damaged(t, s, e))
        return -1;
    const int64_t first = at_most(s->row, t->rows - 1), end = at_most(s->row + s->rows, t->rows);
    assert(first >= t->band.row);
    if (extend_band(t, end, e))
        return -1;
    complete_rows(t, first - t->band.row);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++) {
            const int64_t row = at_most(s->row + r, t->rows - 1) - first,
                          col = at_most(s->col + c, t->cols - 1);
            for (int k = 0; k < 4; k++)
                t->band.cell[row * t->cols + col][k] += s->cell[r * s->cols + c][k];
        }
    return 0;
}

/* --- thresholds --- */

/* The first bin of the upper class; BINS when there is only one class. *share: the part of the
 * variance that lies between the classes. */
static int otsu(const uint64_t histogram[BINS], double *share)
{
    double total = 0, sum = 0, squares = 0, below = 0, sum_below = 0, best = -1;
    int first = 0, last = 0;
    for (int k = 0; k < BINS; k++) {
        total += (double)histogram[k];
        sum += (double)histogram[k] * k;
        squares += (double)histogram[k] * k * k;
    }
    for (int k = 0; k < BINS - 1; k++) {
        below += (double)histogram[k];
        sum_below += (double)histogram[k] * k;
        if (below == 0 || below == total)
            continue;
        const double d = sum_below / below - (sum - sum_below) / (total - below);
        const double between = below * (total - below) * d * d;
        if (between > best) {
            best = between;
            first = k;
        }
        if (between >= best) /* empty bins make a plateau: take its middle */
            last = k;
    }
    *share = best < 0 ? 0 : best / (total * squares - sum * sum);
    return best < 0 ? BINS : (first + last) / 2 + 1;
}

static int bin_from(double threshold)
{
    return (int)(threshold * BINS + 0.5);
}

void tissue_rule_text(const struct tissue_rule *r, char *text, size_t size)
{
    if (r->by == TISSUE_BY_SATURATION)
        snprintf(text, size, "saturation");
    else
        snprintf(text, size, "thresholds %.9g,%.9g", bin_from(r->h) / (double)BINS,
                 bin_from(r->s) / (double)BINS);
}

/* Does the cell take part in finding thresholds? */
static bool takes_part(const struct tissue *t, int64_t k)
{
    return !t->damaged || !t->damaged[k];
}

/* The gray levels of cells: of all, and of those that could be glass. */
struct grays {
    uint64_t all[BINS], glass[BINS];
    int64_t cells, glass_cells;
};

static bool shows_glass(const struct grays *g)
{
    return g->glass_cells > 0 && g->glass_cells * GLASS_SHARE >= g->cells;
}

static void count_grays(const struct tissue *t, int64_t n, bool white, struct grays *g)
{
    *g = (struct grays){0};
    for (int64_t k = 0; k < n; k++) {
        const int gray = t->mask[k];
        if (!takes_part(t, k) || (!white && gray == WHITE && t->saturation[k] == 0))
            continue;
        g->all[gray]++;
        g->cells++;
        if (gray >= GLASS_LEAST && t->saturation[k] < GLASS_SATURATION) {
            g->glass[gray]++;
            g->glass_cells++;
        }
    }
}

/* Is the cell hardly coloured, and not brighter or darker than any of its neighbours? */
static bool is_even(const struct tissue *t, int64_t row, int64_t col)
{
    const int own = t->mask[row * t->cols + col];
    for (int64_t r = row > 0 ? row - 1 : 0; r <= row + 1 && r < t->rows; r++)
        for (int64_t c = col > 0 ? col - 1 : 0; c <= col + 1 && c < t->cols; c++) {
            const int64_t k = r * t->cols + c;
            if (!takes_part(t, k) || abs(t->mask[k] - own) > DARK_EVEN ||
                t->saturation[k] >= GLASS_SATURATION)
                return false;
        }
    return true;
}

/* The cells that could be glass of a dark slide, into g->glass: those that are even. Without an even
 * level that is the brightest of the slide there are none. */
static void count_dark(const struct tissue *t, struct grays *g)
{
    uint64_t brighter = 0;
    int level = 0;
    memset(g->glass, 0, sizeof g->glass);
    g->glass_cells = 0;
    for (int64_t k = 0; k < t->rows * t->cols; k++)
        if (t->mask[k] >= DARK_LEAST && t->mask[k] < GLASS_LEAST &&
            is_even(t, k / t->cols, k % t->cols)) {
            g->glass[t->mask[k]]++;
            g->glass_cells++;
            level = t->mask[k] > level ? t->mask[k] : level;
        }
    for (int k = level + EVEN; k < BINS; k++)
        brighter += g->all[k];
    if (g->glass_cells * DARK_SHARE < g->cells || brighter * DARK_FEW > (uint64_t)g->cells)
        g->glass_cells = 0;
}

/* The gray level that tissue is below. */
static double find_dark(struct tissue *t, int64_t n)
{
    struct grays g, dark;
    uint64_t sum = 0;
    double share;
    count_grays(t, n, false, &g);
    dark = g;
    if (g.glass_cells * DARK_FEW <= g.cells)
        count_dark(t, &dark);
    if (g.glass_cells * DARK_FEW <= g.cells && dark.glass_cells > 0)
        g = dark;
    else if (!shows_glass(&g))
        count_grays(t, n, true, &g);
    t->glass = GLASS;
    if (!shows_glass(&g))
        return t->glass * exp(-density);
    for (t->glass = DARK_LEAST; (sum += g.glass[t->glass]) * 10 < (uint64_t)g.glass_cells * 9;
         t->glass++)
        ;
    const int split = otsu(g.all, &share);
    const double pale = share >= two_classes ? log((double)t->glass / split) : density;
    return t->glass * exp(-fmin(fmax(pale, pale_density), density));
}

/* The mask is still gray levels. */
static bool is_tissue(const struct tissue *t, int64_t k)
{
    return t->mask[k] < t->dark || t->saturation[k] >= TISSUE_SATURATION;
}

static bool is_uneven(const struct tissue *t, int64_t a, int64_t b)
{
    return abs(t->mask[a] - t->mask[b]) >= EVEN && !is_tissue(t, a) && !is_tissue(t, b);
}

static double find_uneven(const struct tissue *t)
{
    int64_t n = 0;
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t col = 0; col < t->cols; col++) {
            const int64_t k = row * t->cols + col;
            n += col + 1 < t->cols && is_uneven(t, k, k + 1);
            n += row + 1 < t->rows && is_uneven(t, k, k + t->cols);
        }
    return (double)n / (double)(2 * t->cols * t->rows);
}

bool tissue_leaves_uneven(const struct tissue *t)
{
    return t->uneven >= uneven_least && t->uneven >= uneven_of_tissue * t->fraction;
}

/* Every cell beside one that is `value` gets this value, too. work: [rows][cols]. */
static void spread(uint8_t *mask, uint8_t *work, int64_t rows, int64_t cols, uint8_t value)
{
    for (int64_t k = 0; k < rows * cols; k++)
        mask[k] = (uint8_t)(mask[k] ^ !value);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const uint8_t *m = mask + r * cols;
            work[r * cols + c] = m[c > 0 ? c - 1 : 0] | m[c] | m[c + 1 < cols ? c + 1 : c];
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t above = r > 0 ? r - 1 : 0, below = r + 1 < rows ? r + 1 : r;
            const uint8_t any =
                work[above * cols + c] | work[r * cols + c] | work[below * cols + c];
            mask[r * cols + c] = (uint8_t)(any ^ !value);
        }
}

static void mark_by_saturation(struct tissue *t, int64_t n)
{
    t->dark = find_dark(t, n);
    t->uneven = find_uneven(t);
    for (int64_t k = 0; k < n; k++)
        t->mask[k] = is_tissue(t, k);
    spread(t->mask, t->saturation, t->rows, t->cols, 1);
    spread(t->mask, t->saturation, t->rows, t->cols, 0);
}

static void mark_by_thresholds(struct tissue *t, int64_t n)
{
    const int h = bin_from(t->rule->h), s = bin_from(t->rule->s);
    for (int64_t k = 0; k < n; k++)
        t->mask[k] = t->mask[k] >= h && t->saturation[k] >= s;
}

void tissue_finish(struct tissue *t)
{
    const int64_t n = t->cols * t->rows;
    int64_t tissue = 0;
    complete_rows(t, t->band.rows);
    for (int64_t k = t->band.row * t->cols; k < n && k >= t->cols; k++) {
        t->mask[k] = t->mask[k - t->cols]; /* the coarse level ended before this row of cells */
        t->saturation[k] = t->saturation[k - t->cols];
    }
    t->none = !t->given && t->rule->by != TISSUE_BY_THRESHOLDS && t->dim > t->bright;
    if (t->given)
        memcpy(t->mask, t->given, (size_t)n);
    else
        (t->rule->by == TISSUE_BY_SATURATION ? mark_by_saturation : mark_by_thresholds)(t, n);
    for (int64_t k = 0; t->damaged && !t->given && k < n; k++)
        t->mask[k] |= t->damaged[k];
    for (int64_t k = 0; k < n; k++)
        tissue += t->mask[k];
    t->fraction = (double)tissue / (double)n;
    tissue_sums_free(&t->band);
    free(t->saturation);
    t->saturation = NULL;
}

void tissue_take(struct tissue *t, const uint8_t *mask)
{
    t->given = mask;
}

const char *tissue_background(const struct tissue *t)
{
    return t->seen == 0 ? "" : t->dim > t->bright ? "dark" : "bright";
}

int64_t tissue_count(const struct tissue *t, int64_t x, int64_t y, int64_t cols, int64_t rows)
{
    int64_t n = 0;
    const uint8_t *mask = t->given ? t->given : t->mask;
    const int64_t right = at_most((x + cols - 1) / TISSUE_CELL, t->cols - 1);
    const int64_t below = at_most((y + rows - 1) / TISSUE_CELL, t->rows - 1);
    for (int64_t r = y / TISSUE_CELL; r <= below; r++)
        for (int64_t c = x / TISSUE_CELL; c <= right; c++)
            n += mask[r * t->cols + c];
    return n;
}
