/* score_map.c - see score_map.h: which cells there are, and two passes over the file or more. */
#include "process/scores/score_map.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define HIGH 4096.0 /* of cos and gauss */
#define LOW 4.0     /* the least of gauss */

static const char *const names[WEIGHTS_KINDS] = {"none", "box", "tent", "cos", "gauss"};

const char *weights_name(enum weights w)
{
    return names[w];
}

int64_t weights_of_cell(enum weights w, int64_t m, int64_t k)
{
    const double at = (double)m, n = (double)k;
    switch (w) {
    case WEIGHTS_TENT: return 2 * m + 1 < 2 * k - 2 * m - 1 ? 2 * m + 1 : 2 * k - 2 * m - 1;
    case WEIGHTS_COS: return llround(HIGH * pow(sin(PI * (at + 0.5) / n), 2));
    case WEIGHTS_GAUSS: {
        const double z = (at - (n - 1) / 2) / (n / 8);
        const int64_t v = llround(HIGH * exp(-z * z / 2));
        return v > (int64_t)LOW ? v : (int64_t)LOW;
    }
    default: return 1;
    }
}

/* The integral of max(LOW, HIGH exp(-z^2 / 2)), z = (q - n/2) / (n/8), over q = 0 .. p <= n/2. */
static double left_of_gauss(double p, double n)
{
    const double sigma = n / 8, bend = sqrt(2 * log(HIGH / LOW)); /* |z| beyond it: LOW */
    const double z = (p - n / 2) / sigma, first = n / 2 - bend * sigma;
    if (p <= first)
        return LOW * p;
    return LOW * first + HIGH * sigma * sqrt(PI / 2) * (erf(z / sqrt(2)) + erf(bend / sqrt(2)));
}

int64_t weights_before(enum weights w, int64_t p, int64_t n)
{
    const double at = (double)p, size = (double)n;
    const int64_t rest = n - p;
    switch (w) {
    case WEIGHTS_TENT: return p <= rest ? p * p : n / 2 * (n / 2) * 2 + n % 2 * n - rest * rest;
    case WEIGHTS_COS: return llround(HIGH * (at / 2 - size * sin(2 * PI * at / size) / (4 * PI)));
    case WEIGHTS_GAUSS:
        if (p <= rest)
            return llround(left_of_gauss(at, size));
        return llround(2 * left_of_gauss(size / 2, size) - left_of_gauss((double)rest, size));
    default: return p;
    }
}

/*
 * The cells of a map of scores (score_map.h), band by band, and the temporary file that they go
 * to.
 */

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

static void score_cells_free(struct score_cells *c)
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

/* For m's slide, cells and values. A band takes `memory` bytes, or one row of cells. NULL on
 * failure. */
static struct score_cells *score_cells_create(const struct score_map *m, enum weights weights,
                                              int64_t memory, struct err *e)
{
    struct score_cells *c = memory_need(1, sizeof *c);
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
    c->cells = memory_try((size_t)c->band, line, e);
    c->x.weight = memory_try((size_t)c->cols, sizeof *c->x.weight, e);
    c->x.px = memory_try((size_t)c->cols, sizeof *c->x.px, e);
    c->y.weight = memory_try((size_t)c->rows, sizeof *c->y.weight, e);
    c->y.px = memory_try((size_t)c->rows, sizeof *c->y.px, e);
    c->row = memory_try(2 * (size_t)c->cols, sizeof *c->row, e);
    if (c->cells && c->x.weight && c->x.px && c->y.weight && c->y.px && c->row &&
        (c->spool = temporary_open("the map", e)))
        return c;
    score_cells_free(c);
    return NULL;
}

/* NULL is fine */
/* Begins the next band; false: all rows are made. */
static bool score_cells_begin_band(struct score_cells *c)
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

/* Adds a patch, of which any part may lie in the band. */
static int score_cells_add(struct score_cells *c, const struct score_patch *p, struct err *e)
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

static int score_cells_end_band(struct score_cells *c, struct err *e)
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

/* As score_map_row(). */
static int score_cells_row(const struct score_cells *c, int value, int64_t row, float *values,
                           float *coverage, struct err *e)
{
    const size_t bytes = (size_t)c->cols * sizeof *values;
    const uint64_t at = (uint64_t)(row * c->n + value) * 2 * bytes;
    if (read_at(fileno(c->spool), at, values, bytes) != bytes ||
        (coverage && read_at(fileno(c->spool), at + bytes, coverage, bytes) != bytes))
        return err_sys(e, "the temporary file of the map cannot be read");
    return 0;
}

enum { LEAST_CELL = 32, STOP = 1 << 12 /* rows between looks at signals */ };

/* A pass over the file. */
struct pass {
    const struct score_map_setup *o;
    struct score_map *m;
    struct score_file *file;
    /* the slide; while its size is not known, as large as it can be */
    int64_t width, height;
};

/* --- rows of the file --- */

static bool is_outside(const struct pass *p, const struct score_patch *a)
{
    return a->x >= p->width || a->y >= p->height || a->x + a->size <= 0 || a->y + a->size <= 0;
}

/* The next patch that can be used. Only the first pass counts those that cannot. */
static enum score_next next_patch(struct pass *p, struct score_patch *a, bool count, struct err *e)
{
    for (;;) {
        struct err why = {0};
        enum score_next n = score_file_next(p->file, a, &why);
        if (n == SCORE_PATCH && is_outside(p, a)) {
            err_set(&why,
                    "the patch of %" PRId64 " px at (%" PRId64 ", %" PRId64
                    ") lies outside of the slide of %" PRId64 " x %" PRId64
                    " px; are its coordinates those of level 0?",
                    a->size, a->x, a->y, p->width, p->height);
            n = score_file_blame(p->file, a, &why);
        }
        if (n == SCORE_BAD && p->o->lenient) {
            p->m->bad += count;
            continue;
        }
        if (n == SCORE_BAD) {
            err_set(e, "%s; --partial leaves such rows out", why.msg);
            return SCORE_FAILED;
        }
        if (n == SCORE_FAILED)
            *e = why;
        return n;
    }
}

static void note_values(struct score_map *m, const struct score_patch *a)
{
    for (int k = 0; k < m->n; k++) {
        if (isnan(a->value[k]))
            continue;
        m->low[k] = m->low[k] <= a->value[k] ? m->low[k] : a->value[k];
        m->high[k] = m->high[k] >= a->value[k] ? m->high[k] : a->value[k];
    }
}

/* The first pass: checks every row, and finds how far the patches go. */
static int survey(struct pass *p, struct err *e)
{
    struct score_map *m = p->m;
    struct score_patch a;
    int64_t right = 0, bottom = 0;
    enum score_next n;
    while ((n = next_patch(p, &a, true, e)) == SCORE_PATCH) {
        if (m->patches++ % STOP == 0 && stop_check(e))
            return -1;
        right = a.x + a.size > right ? a.x + a.size : right;
        bottom = a.y + a.size > bottom ? a.y + a.size : bottom;
        m->smallest = m->patches == 1 || a.size < m->smallest ? a.size : m->smallest;
        m->largest = a.size > m->largest ? a.size : m->largest;
        note_values(m, &a);
    }
    m->width = p->o->width ? p->o->width : right;
    m->height = p->o->height ? p->o->height : bottom;
    return n == SCORE_FAILED ? -1 : 0;
}

/* --- the cells --- */

static int64_t cells_along(int64_t px, int64_t cell)
{
    return (px + cell - 1) / cell;
}

static int set_cells(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    const int64_t longest = m->width > m->height ? m->width : m->height;
    m->cell = o->cell ? o->cell : LEAST_CELL;
    while (!o->cell && cells_along(longest, m->cell) > o->side)
        m->cell *= 2;
    m->cols = cells_along(m->width, m->cell);
    m->rows = cells_along(m->height, m->cell);
    if (cells_along(longest, m->cell) > SCORES_MOST_SIDE || m->cols * m->rows > SCORES_MOST_CELLS)
        return err_set(e,
                       "%s: --cell %" PRId64 " makes %" PRId64 " x %" PRId64
                       " cells; at most %d along a side and %d in all are made",
                       o->path, m->cell, m->cols, m->rows, SCORES_MOST_SIDE, SCORES_MOST_CELLS);
    return 0;
}

static int fill_band(struct pass *p, struct err *e)
{
    struct score_patch a;
    enum score_next n;
    int64_t k = 0;
    if (score_file_rewind(p->file, e))
        return -1;
    while ((n = next_patch(p, &a, false, e)) == SCORE_PATCH)
        if ((k++ % STOP == 0 && stop_check(e)) || score_cells_add(p->m->cells, &a, e))
            return -1;
    return n == SCORE_FAILED ? -1 : 0;
}

static int fill(struct pass *p, struct err *e)
{
    struct score_map *m = p->m;
    if (!(m->cells = score_cells_create(m, p->o->weights, p->o->memory, e)))
        return -1;
    while (score_cells_begin_band(m->cells))
        if (fill_band(p, e) || score_cells_end_band(m->cells, e))
            return -1;
    return 0;
}

/* --- all --- */

static int check_count(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    char bad[64] = "";
    if (m->bad)
        snprintf(bad, sizeof bad, "%" PRId64 " row%s left out", m->bad, m->bad == 1 ? "" : "s");
    snprintf(m->missing, sizeof m->missing, "%s", bad);
    if (!o->patches || m->patches == o->patches)
        return 0;
    snprintf(m->missing, sizeof m->missing, "%" PRId64 " of %" PRId64 " patches%s%s", m->patches,
             o->patches, *bad ? ", " : "", bad);
    return o->lenient
               ? 0
               : err_set(e, "%s: has %" PRId64 " patches, not %" PRId64 "; --partial maps them",
                         o->path, m->patches, o->patches);
}

int score_map_make(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    *m = (struct score_map){.smallest = o->file.patch, .largest = 0};
    struct pass p = {.o = o,
                     .m = m,
                     .width = o->width ? o->width : INT64_MAX / 2,
                     .height = o->height ? o->height : INT64_MAX / 2};
    if (!(p.file = score_file_open(o->path, &o->file, e)))
        return -1;
    m->n = score_file_values(p.file);
    for (int k = 0; k < m->n; k++) {
        memcpy(m->name[k], score_file_name(p.file, k), SCORES_NAME);
        m->low[k] = m->high[k] = NAN;
    }
    const int bad =
        survey(&p, e) || check_count(o, m, e) || set_cells(o, m, e) || (m->cols && fill(&p, e));
    score_file_close(p.file);
    return bad ? -1 : 0;
}

void score_map_free(struct score_map *m)
{
    score_cells_free(m->cells);
    m->cells = NULL;
}

int score_map_row(const struct score_map *m, int value, int64_t row, float *values, float *coverage,
                  struct err *e)
{
    return score_cells_row(m->cells, value, row, values, coverage, e);
}

void score_map_range(const struct score_map *m, int value, double *low, double *high)
{
    const double a = m->low[value], b = m->high[value];
    const bool share = isnan(a) || (a >= 0 && b <= 1);
    *low = share ? 0 : a;
    *high = share ? 1 : b > a ? b : a + 1;
}
