/* tissue.c - see tissue.h. */
#include "convert/tissue.h"

#include <stdlib.h>
#include <string.h>

enum { BINS = 256 };

int tissue_create(struct tissue *t, int64_t width, int64_t height, struct err *e)
{
    *t = (struct tissue){.cols = (width + TISSUE_CELL - 1) / TISSUE_CELL,
                         .rows = (height + TISSUE_CELL - 1) / TISSUE_CELL};
    t->sums = (struct tissue_sums){.cols = t->cols, .rows = t->rows, .room = t->cols * t->rows};
    t->sums.cell = calloc((size_t)t->sums.room, sizeof *t->sums.cell);
    t->mask = calloc((size_t)t->sums.room, 1);
    if (t->sums.cell && t->mask)
        return 0;
    tissue_free(t);
    return err_set(e, "out of memory");
}

void tissue_free(struct tissue *t)
{
    tissue_sums_free(&t->sums);
    free(t->mask);
    t->mask = NULL;
}

void tissue_sums_free(struct tissue_sums *s)
{
    free(s->cell);
    *s = (struct tissue_sums){0};
}

/* --- sums --- */

/* The cell of pixel k of an image of that scale: where its middle lies. */
static int64_t cell_of(int64_t k, double scale)
{
    return (int64_t)(((double)k + 0.5) * scale / TISSUE_CELL);
}

/* The first pixel at or after k that lies in the cell after k's, at most `end`. */
static int64_t next_cell(int64_t k, int64_t end, double scale)
{
    const int64_t cell = cell_of(k, scale);
    int64_t n = (int64_t)((double)((cell + 1) * TISSUE_CELL) / scale - 0.5);
    n = n > k ? n : k + 1;
    while (n > k + 1 && cell_of(n - 1, scale) > cell)
        n--;
    while (n < end && cell_of(n, scale) == cell)
        n++;
    return n < end ? n : end;
}

/* The cells that the tile touches, all zero. */
static int begin_sums(struct tissue_sums *s, int64_t x, int64_t y, int64_t cols, int64_t rows, double scale,
                      struct err *e)
{
    s->col = cell_of(x, scale);
    s->row = cell_of(y, scale);
    s->cols = cell_of(x + cols - 1, scale) - s->col + 1;
    s->rows = cell_of(y + rows - 1, scale) - s->row + 1;
    if (s->cols * s->rows > s->room) {
        free(s->cell);
        s->room = s->cols * s->rows;
        s->cell = malloc((size_t)s->room * sizeof *s->cell);
        if (!s->cell) {
            s->room = 0;
            return err_set(e, "out of memory");
        }
    }
    memset(s->cell, 0, (size_t)(s->cols * s->rows) * sizeof *s->cell);
    return 0;
}

static void sum_pixels(uint64_t cell[4], const uint8_t *rgb, int64_t n)
{
    uint32_t r = 0, g = 0, b = 0; /* a row of a cell has far fewer than 2^24 pixels */
    for (int64_t k = 0; k < n; k++) {
        r += rgb[3 * k];
        g += rgb[3 * k + 1];
        b += rgb[3 * k + 2];
    }
    cell[0] += r;
    cell[1] += g;
    cell[2] += b;
    cell[3] += (uint64_t)n;
}

int tissue_sum(struct tissue_sums *s, const uint8_t *rgb, int64_t cols, int64_t rows, int64_t pitch,
               int64_t x, int64_t y, double scale, int64_t step, struct err *e)
{
    if (begin_sums(s, x, y, cols, rows, scale, e))
        return -1;
    for (int64_t a = x, b; a < x + cols; a = b) {
        b = next_cell(a, x + cols, scale);
        const int64_t col = cell_of(a, scale) - s->col;
        for (int64_t k = 0; k < rows; k += step) {
            const int64_t row = cell_of(y + k, scale) - s->row;
            sum_pixels(s->cell[row * s->cols + col], rgb + (k * pitch + a - x) * 3, b - a);
        }
    }
    return 0;
}

static int64_t at_most(int64_t v, int64_t most)
{
    return v < most ? v : most;
}

void tissue_add(struct tissue *t, const struct tissue_sums *s)
{
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++) {
            const int64_t row = at_most(s->row + r, t->rows - 1), col = at_most(s->col + c, t->cols - 1);
            for (int k = 0; k < 4; k++)
                t->sums.cell[row * t->cols + col][k] += s->cell[r * s->cols + c][k];
        }
}

/* --- colours and thresholds --- */

/* Hue and saturation of a cell, 0 .. 1; a cell without pixels is like its neighbour to the left. */
static void hue_of(const struct tissue *t, int64_t k, double *h, double *s)
{
    while (k > 0 && t->sums.cell[k][3] == 0)
        k--;
    const uint64_t *c = t->sums.cell[k];
    const double n = c[3] ? (double)c[3] : 1;
    const double r = (double)c[0] / n, g = (double)c[1] / n, b = (double)c[2] / n;
    const double high = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const double low = r < g ? (r < b ? r : b) : (g < b ? g : b), span = high - low;
    *s = high > 0 ? span / high : 0;
    *h = 0;
    if (span > 0)
        *h = high == r ? (g - b) / span / 6 : high == g ? ((b - r) / span + 2) / 6 : ((r - g) / span + 4) / 6;
    *h += *h < 0;
}

static int bin_of(double v)
{
    const int k = (int)(v * BINS);
    return k < BINS ? k : BINS - 1;
}

/* The upper edge of the lower class. */
static double otsu(const uint64_t histogram[BINS])
{
    double total = 0, sum = 0, below = 0, sum_below = 0, best = -1;
    int first = 0, last = 0;
    for (int k = 0; k < BINS; k++) {
        total += (double)histogram[k];
        sum += (double)histogram[k] * k;
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
        if (between >= best) /* a plateau, where bins are empty: its middle */
            last = k;
    }
    return best < 0 ? 1 : ((first + last) / 2 + 1) / (double)BINS;
}

void tissue_finish(struct tissue *t)
{
    uint64_t hues[BINS] = {0}, saturations[BINS] = {0};
    const int64_t n = t->cols * t->rows;
    int64_t tissue = 0;
    double h, s;
    for (int64_t k = 0; k < n; k++) {
        hue_of(t, k, &h, &s);
        hues[bin_of(h)]++;
        saturations[bin_of(s)]++;
    }
    t->otsu_h = otsu(hues);
    t->otsu_s = otsu(saturations);
    for (int64_t k = 0; k < n; k++) {
        hue_of(t, k, &h, &s);
        t->mask[k] = h >= t->otsu_h && s >= t->otsu_s;
        tissue += t->mask[k];
    }
    t->fraction = (double)tissue / (double)n;
}

int tissue_any(const struct tissue *t, int64_t x, int64_t y, int64_t cols, int64_t rows)
{
    const int64_t right = at_most((x + cols - 1) / TISSUE_CELL, t->cols - 1);
    const int64_t below = at_most((y + rows - 1) / TISSUE_CELL, t->rows - 1);
    for (int64_t r = y / TISSUE_CELL; r <= below; r++)
        for (int64_t c = x / TISSUE_CELL; c <= right; c++)
            if (t->mask[r * t->cols + c])
                return 1;
    return 0;
}
