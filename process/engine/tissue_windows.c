/* tissue_windows.c - see tissue_windows.h. */
#include "process/engine/tissue_windows.h"

#include "common/base/memory.h"
#include "common/base/stop.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a table of sums: row r has, for each corner of cells, the tissue cells above r and left
 * of the corner. The rows that a window needs are kept; they come in order. */
struct tissue_rows {
    const uint8_t *mask; /* [rows][cols] */
    int64_t cols, rows, cell;
    int64_t *kept; /* [n][cols + 1], row r in r % n */
    int64_t n, last;
};

static int64_t *row_of_table(struct tissue_rows *t, int64_t r)
{
    const int64_t pitch = t->cols + 1;
    for (; t->last < r; t->last++) {
        const int64_t *above = t->kept + t->last % t->n * pitch;
        int64_t *row = t->kept + (t->last + 1) % t->n * pitch, in_row = 0;
        const uint8_t *mask = t->mask + t->last * t->cols;
        for (int64_t c = 0; c < t->cols; c++) {
            in_row += mask[c] != 0;
            row[c + 1] = above[c + 1] + in_row;
        }
    }
    return t->kept + r % t->n * pitch;
}

/* Adds to sums[corner] `sign` times the tissue above y and left of the corner, in cells times px of
 * height. */
static void add_above(struct tissue_rows *t, int64_t y, int64_t sign, int64_t *sums)
{
    const bool below = y / t->cell >= t->rows;
    const int64_t r = below ? t->rows : y / t->cell, dy = below ? 0 : y % t->cell;
    const int64_t *b = row_of_table(t, dy ? r + 1 : r), *a = row_of_table(t, r);
    for (int64_t c = 0; c <= t->cols; c++)
        sums[c] += sign * (t->cell * a[c] + dy * (b[c] - a[c]));
}

/* Where x lies: right of a corner by some px. */
struct place {
    int64_t corner, px;
};

static struct place place_of(const struct tissue_rows *t, int64_t x)
{
    const bool right = x / t->cell >= t->cols;
    return right ? (struct place){t->cols, 0} : (struct place){x / t->cell, x % t->cell};
}

/* Px of tissue left of a place, where sums[] is as above. */
static int64_t tissue_left(const int64_t *sums, struct place p, int64_t cell)
{
    const int64_t own = p.px ? sums[p.corner + 1] - sums[p.corner] : 0;
    return cell * sums[p.corner] + p.px * own;
}

static int choose_rows(const struct result_params *p, struct tissue_rows *t, int64_t *sums,
                       struct place *places, int64_t nx, int64_t ny, uint8_t *wanted,
                       uint8_t *percent, struct err *e)
{
    const int64_t all = p->window * p->window;
    const double least = p->min_tissue * (double)p->window * (double)p->window;
    for (int64_t i = 0; i < nx; i++) {
        places[2 * i] = place_of(t, i * p->stride);
        places[2 * i + 1] = place_of(t, i * p->stride + p->window);
    }
    for (int64_t j = 0; j < ny; j++) {
        memset(sums, 0, (size_t)(t->cols + 1) * sizeof *sums);
        add_above(t, j * p->stride, -1, sums);
        add_above(t, j * p->stride + p->window, 1, sums);
        for (int64_t i = 0; i < nx; i++) {
            const int64_t area = tissue_left(sums, places[2 * i + 1], t->cell) -
                                 tissue_left(sums, places[2 * i], t->cell);
            wanted[j * nx + i] = (double)area >= least;
            percent[j * nx + i] = features_percent(area, all);
        }
        if (stop_check(e))
            return -1;
    }
    return 0;
}

int tissue_windows_find(const struct result_params *p, const uint8_t *mask, int64_t cols,
                        int64_t rows, int64_t cell, int64_t nx, int64_t ny, uint8_t *wanted,
                        uint8_t *percent, struct err *e)
{
    struct tissue_rows t = {mask, cols, rows, cell, .n = p->window / cell + 3};
    t.kept = memory_try_zero((size_t)(t.n * (cols + 1)), sizeof *t.kept, e);
    int64_t *sums = memory_try((size_t)(cols + 1), sizeof *sums, e);
    struct place *places = memory_try((size_t)(2 * nx + 1), sizeof *places, e);
    const int r = t.kept && sums && places
                      ? choose_rows(p, &t, sums, places, nx, ny, wanted, percent, e)
                      : -1;
    free(t.kept);
    free(sums);
    free(places);
    return r;
}
