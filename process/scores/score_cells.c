/* score_cells.c - see score_cells.h. */
#include "process/scores/score_cells.h"

#include "common/base/read_at.h"
#include "common/base/temporary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 whole; /* no sum of a file that fits a disk is larger; checked all the same */

#define SCALE 4294967296.0 /* 2^32 */

struct cell {
    whole a, b;   /* sums of w Q and of w */
    int64_t area; /* px that patches cover */
};

/* Where a patch lies along one axis: the cells it covers, their weights and px. */
struct axis_part {
    int64_t first, last; /* cells; none if last < first */
    int64_t *weight;     /* [cells along the axis], by cell */
    int64_t *px;
};

struct score_cells {
    int n;
    int64_t width, height, cell, cols, rows;
    enum weights weights;
    int64_t band, top, bottom; /* rows of a band; of this one, [top, bottom) */
    struct cell *cells;        /* [band][n][cols] */
    struct axis_part x, y;
    float *row;  /* [2][cols] */
    FILE *spool; /* [rows][n][2][cols] */
};

struct score_cells *score_cells_create(const struct score_map *m, enum weights weights,
                                       int64_t memory, struct err *e)
{
    struct score_cells *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(e, "out of memory");
        return NULL;
    }
    *c = (struct score_cells){.n = m->n,
                              .width = m->width,
                              .height = m->height,
                              .cell = m->cell,
                              .cols = m->cols,
                              .rows = m->rows,
                              .weights = weights};
    const size_t line = (size_t)c->cols * (size_t)c->n * sizeof *c->cells;
    c->band = memory / (int64_t)line;
    c->band = c->band < 1 ? 1 : c->band < c->rows ? c->band : c->rows;
    c->cells = malloc((size_t)c->band * line);
    c->x.weight = malloc((size_t)c->cols * sizeof *c->x.weight);
    c->x.px = malloc((size_t)c->cols * sizeof *c->x.px);
    c->y.weight = malloc((size_t)c->rows * sizeof *c->y.weight);
    c->y.px = malloc((size_t)c->rows * sizeof *c->y.px);
    c->row = malloc(2 * (size_t)c->cols * sizeof *c->row);
    if (!c->cells || !c->x.weight || !c->x.px || !c->y.weight || !c->y.px || !c->row)
        err_set(e, "out of memory");
    else if ((c->spool = temporary_open("the map", e)))
        return c;
    score_cells_free(c);
    return NULL;
}

void score_cells_free(struct score_cells *c)
{
    if (!c)
        return;
    free(c->cells);
    free(c->x.weight);
    free(c->x.px);
    free(c->y.weight);
    free(c->y.px);
    free(c->row);
    if (c->spool)
        fclose(c->spool);
    free(c);
}

bool score_cells_begin_band(struct score_cells *c)
{
    c->top = c->bottom;
    c->bottom = c->top + c->band < c->rows ? c->top + c->band : c->rows;
    memset(c->cells, 0, (size_t)(c->bottom - c->top) * (size_t)(c->n * c->cols) * sizeof *c->cells);
    return c->top < c->bottom;
}

/* The part of a patch of n px at `at` that lies in cells [low, high) of a slide of `size` px. */
static void set_part(struct axis_part *a, const struct score_cells *c, int64_t at, int64_t n,
                     int64_t size, int64_t low, int64_t high)
{
    const int64_t left = at > low * c->cell ? at : low * c->cell;
    const int64_t edge = high * c->cell < size ? high * c->cell : size;
    const int64_t right = at + n < edge ? at + n : edge;
    a->first = left / c->cell;
    a->last = right > left ? (right - 1) / c->cell : a->first - 1;
    int64_t before = weights_before(c->weights, left - at, n);
    for (int64_t k = a->first; k <= a->last; k++) {
        const int64_t from = k * c->cell > left ? k * c->cell : left;
        const int64_t to = (k + 1) * c->cell < right ? (k + 1) * c->cell : right;
        const int64_t after = weights_before(c->weights, to - at, n);
        a->weight[k] = after - before;
        a->px[k] = to - from;
        before = after;
    }
}

/* Adds a value to the cells of one row. */
static int add_row(struct score_cells *c, struct cell *row, int64_t y, int64_t q)
{
    bool over = false;
    for (int64_t k = c->x.first; k <= c->x.last; k++) {
        const int64_t w = c->x.weight[k] * c->y.weight[y];
        over |= __builtin_add_overflow(row[k].a, (whole)w * q, &row[k].a);
        row[k].b += w;
        row[k].area += c->x.px[k] * c->y.px[y];
    }
    return over ? -1 : 0;
}

int score_cells_add(struct score_cells *c, const struct score_patch *p, struct err *e)
{
    int64_t q[SCORES_MOST];
    set_part(&c->y, c, p->y, p->size, c->height, c->top, c->bottom);
    if (c->y.last < c->y.first)
        return 0;
    set_part(&c->x, c, p->x, p->size, c->width, 0, c->cols);
    for (int v = 0; v < c->n; v++)
        q[v] = isnan(p->value[v]) ? 0 : llround(p->value[v] * SCALE);
    for (int64_t y = c->y.first; y <= c->y.last; y++)
        for (int v = 0; v < c->n; v++) {
            struct cell *row = c->cells + ((y - c->top) * c->n + v) * c->cols;
            if (!isnan(p->value[v]) && add_row(c, row, y, q[v]))
                return err_set(e, "too many patches on one place of the slide");
        }
    return 0;
}

/* px of cell k that lie on the slide. */
static int64_t px_of(const struct score_cells *c, int64_t k, int64_t size)
{
    const int64_t left = size - k * c->cell;
    return left < c->cell ? left : c->cell;
}

static void make_row(struct score_cells *c, int64_t y, int v)
{
    const struct cell *row = c->cells + ((y - c->top) * c->n + v) * c->cols;
    for (int64_t x = 0; x < c->cols; x++) {
        const double px = (double)px_of(c, x, c->width) * (double)px_of(c, y, c->height);
        c->row[x] = row[x].b ? (float)((double)row[x].a / (double)row[x].b / SCALE) : NAN;
        c->row[c->cols + x] = row[x].b ? (float)fmin(1, (double)row[x].area / px) : 0;
    }
}

int score_cells_end_band(struct score_cells *c, struct err *e)
{
    const size_t n = 2 * (size_t)c->cols;
    for (int64_t y = c->top; y < c->bottom; y++)
        for (int v = 0; v < c->n; v++) {
            make_row(c, y, v);
            if (fwrite(c->row, sizeof *c->row, n, c->spool) != n)
                return temporary_failed("the map", e);
        }
    return fflush(c->spool) ? temporary_failed("the map", e) : 0;
}

int score_cells_row(const struct score_cells *c, int value, int64_t row, float *values,
                    float *coverage, struct err *e)
{
    const size_t bytes = (size_t)c->cols * sizeof *values;
    const uint64_t at = (uint64_t)(row * c->n + value) * 2 * bytes;
    if (read_at(fileno(c->spool), at, values, bytes) != bytes ||
        (coverage && read_at(fileno(c->spool), at + bytes, coverage, bytes) != bytes))
        return err_sys(e, "the temporary file of the map cannot be read");
    return 0;
}
