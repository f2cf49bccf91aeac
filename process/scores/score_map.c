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

/* Of the first p of n px, 0 <= p <= n. At most 2^11 n, of tents n^2 / 2. */
static int64_t weights_before(enum weights w, int64_t p, int64_t n)
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
    whole a, b; /* sums of w Q and of w */
};

/* Where a patch lies along one axis: the cells it covers, and their weights. */
struct axis_part {
    int64_t first, last; /* cells; none if last < first */
    int64_t *weight;     /* [cells along the axis], by cell */
};

/* What patches with a value cover of some rows of px, and their area in each cell. A bit is a unit
 * of px that no edge of a patch or cell divides. */
struct cover {
    int layers;             /* n, or 1 if every patch has every value */
    int64_t unit_x, unit_y; /* px of a unit */
    int64_t words, rows;    /* 64-bit words of a row of units; rows of units in memory */
    int64_t top, bottom;    /* rows of px in memory: [top, bottom) */
    uint64_t *bits;         /* [layers][rows][words] */
    int64_t *area;          /* [band][layers][cols], px */
};

struct score_cells {
    int n;
    int64_t width, height, cell, cols, rows;
    enum weights weights;
    int64_t band, top, bottom; /* rows of a band; of this one, [top, bottom) */
    struct cell *cells;        /* [band][n][cols] */
    bool adding;               /* to the cells of this band, not only to its cover */
    struct cover cover;
    struct axis_part x, y;
    float *row;  /* [2][cols] */
    FILE *spool; /* [rows][n][2][cols] */
};

static void score_cells_free(struct score_cells *c)
{
    if (!c)
        return;
    free(c->cells);
    free(c->cover.bits);
    free(c->cover.area);
    free(c->x.weight);
    free(c->y.weight);
    free(c->row);
    if (c->spool)
        fclose(c->spool);
    free(c);
}

/* Rows of a band and of its cover, so that both take `memory` bytes, or as little as can be. */
static void set_bands(struct score_cells *c, int64_t memory)
{
    struct cover *v = &c->cover;
    const int64_t area = c->cols * v->layers * (int64_t)sizeof *v->area;
    const int64_t line = c->cols * c->n * (int64_t)sizeof *c->cells + area;
    const int64_t units = c->cell / v->unit_y, unit = v->layers * v->words * 8;
    const int64_t fit = memory / (line + units * unit);
    c->band = fit < 1 ? 1 : fit < c->rows ? fit : c->rows;
    const int64_t rest = (memory - line) / unit;
    v->rows = fit > 0 ? c->band * units : rest < 1 ? 1 : rest < units ? rest : units;
}

/* Facts about all patches, from a pass over the file. */
struct edges {
    int64_t step_x, step_y; /* px that divide the places of all edges; 0: there is none */
    bool gaps;              /* a patch lacks a value */
};

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For m's slide, cells and values. NULL on failure. */
static struct score_cells *score_cells_create(const struct score_map *m, const struct edges *edges,
                                              enum weights weights, int64_t memory, struct err *e)
{
    struct score_cells *c = memory_need(1, sizeof *c);
    *c = (struct score_cells){.n = m->n,
                              .width = m->width,
                              .height = m->height,
                              .cell = m->cell,
                              .cols = m->cols,
                              .rows = m->rows,
                              .weights = weights};
    struct cover *v = &c->cover;
    v->layers = edges->gaps ? c->n : 1;
    v->unit_x = common_divisor(edges->step_x, c->cell);
    v->unit_y = common_divisor(edges->step_y, c->cell);
    v->words = (c->width / v->unit_x + 64) / 64;
    set_bands(c, memory);
    c->cells = memory_try((size_t)(c->band * c->n * c->cols), sizeof *c->cells, e);
    v->bits = memory_try((size_t)(v->layers * v->rows * v->words), sizeof *v->bits, e);
    v->area = memory_try((size_t)(c->band * v->layers * c->cols), sizeof *v->area, e);
    c->x.weight = memory_try((size_t)c->cols, sizeof *c->x.weight, e);
    c->y.weight = memory_try((size_t)c->rows, sizeof *c->y.weight, e);
    c->row = memory_try(2 * (size_t)c->cols, sizeof *c->row, e);
    if (c->cells && v->bits && v->area && c->x.weight && c->y.weight && c->row &&
        (c->spool = temporary_open("the map", e)))
        return c;
    score_cells_free(c);
    return NULL;
}

/* Goes on with the rows of px from `top`. False: the band has no more. */
static bool cover_begin(struct score_cells *c, int64_t top)
{
    struct cover *v = &c->cover;
    const int64_t end = c->bottom * c->cell < c->height ? c->bottom * c->cell : c->height;
    v->top = top;
    v->bottom = top + v->rows * v->unit_y < end ? top + v->rows * v->unit_y : end;
    memset(v->bits, 0, (size_t)(v->layers * v->rows * v->words) * sizeof *v->bits);
    return v->top < v->bottom;
}

/* Begins the next band; false: all rows are made. */
static bool score_cells_begin_band(struct score_cells *c)
{
    c->top = c->bottom;
    c->bottom = c->top + c->band < c->rows ? c->top + c->band : c->rows;
    c->adding = true;
    const size_t places = (size_t)(c->bottom - c->top) * (size_t)c->cols;
    memset(c->cells, 0, places * (size_t)c->n * sizeof *c->cells);
    memset(c->cover.area, 0, places * (size_t)c->cover.layers * sizeof *c->cover.area);
    return cover_begin(c, c->top * c->cell);
}

/* Bits a to b - 1 of a word, 0 <= a < b <= 64. */
static uint64_t mask_of(int64_t a, int64_t b)
{
    return (~UINT64_C(0) >> (64 - (b - a))) << a;
}

static void set_bits(uint64_t *row, int64_t a, int64_t b)
{
    for (int64_t w = a / 64; w * 64 < b; w++)
        row[w] |= mask_of(a > w * 64 ? a - w * 64 : 0, b < w * 64 + 64 ? b - w * 64 : 64);
}

static int64_t count_bits(const uint64_t *row, int64_t a, int64_t b)
{
    int64_t n = 0;
    for (int64_t w = a / 64; w * 64 < b; w++)
        n += __builtin_popcountll(
            row[w] & mask_of(a > w * 64 ? a - w * 64 : 0, b < w * 64 + 64 ? b - w * 64 : 64));
    return n;
}

/* Marks the rows of a patch that are in memory. */
static void cover_add(struct score_cells *c, const struct score_patch *p, int layer)
{
    struct cover *v = &c->cover;
    const int64_t left = p->x > 0 ? p->x : 0, top = p->y > v->top ? p->y : v->top;
    const int64_t right = p->x + p->size < c->width ? p->x + p->size : c->width;
    const int64_t bottom = p->y + p->size < v->bottom ? p->y + p->size : v->bottom;
    uint64_t *rows = v->bits + layer * v->rows * v->words;
    for (int64_t y = top; y < bottom; y += v->unit_y)
        set_bits(rows + (y - v->top) / v->unit_y * v->words, left / v->unit_x,
                 (right + v->unit_x - 1) / v->unit_x);
}

/* Adds a row of units to the areas of its cells. The last unit may reach beyond the slide. */
static void cover_count_row(const struct score_cells *c, int64_t y, const uint64_t *row,
                            int64_t *area)
{
    const struct cover *v = &c->cover;
    const int64_t height = y + v->unit_y < c->height ? v->unit_y : c->height - y;
    const int64_t units = (c->width + v->unit_x - 1) / v->unit_x, per_cell = c->cell / v->unit_x;
    for (int64_t k = 0; k < c->cols; k++) {
        const int64_t end = (k + 1) * per_cell < units ? (k + 1) * per_cell : units;
        area[k] += count_bits(row, k * per_cell, end) * v->unit_x * height;
    }
    if (count_bits(row, units - 1, units))
        area[c->cols - 1] -= (units * v->unit_x - c->width) * height;
}

/* The areas of what is marked, and the next rows of the band; false: there are none. */
static bool cover_next(struct score_cells *c)
{
    struct cover *v = &c->cover;
    for (int64_t y = v->top; y < v->bottom; y += v->unit_y)
        for (int k = 0; k < v->layers; k++)
            cover_count_row(c, y, v->bits + (k * v->rows + (y - v->top) / v->unit_y) * v->words,
                            v->area + ((y / c->cell - c->top) * v->layers + k) * c->cols);
    c->adding = false;
    return cover_begin(c, v->bottom);
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
        const int64_t to = (k + 1) * c->cell < right ? (k + 1) * c->cell : right;
        const int64_t after = weights_before(c->weights, to - at, n);
        a->weight[k] = after - before;
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
    for (int v = 0; v < c->cover.layers; v++)
        if (!isnan(p->value[v]))
            cover_add(c, p, v);
    if (!c->adding)
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
    const int layers = c->cover.layers, layer = v < layers ? v : 0;
    const int64_t *area = c->cover.area + ((y - c->top) * layers + layer) * c->cols;
    for (int64_t x = 0; x < c->cols; x++) {
        const double px = (double)px_of(c, x, c->width) * (double)px_of(c, y, c->height);
        c->row[x] = row[x].b ? (float)((double)row[x].a / (double)row[x].b / SCALE) : NAN;
        c->row[c->cols + x] = row[x].b ? (float)((double)area[x] / px) : 0;
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
    struct edges edges;
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

static void note_edge(int64_t *step, int64_t at, int64_t size)
{
    if (at > 0 && at < size)
        *step = common_divisor(*step, at);
}

static void note_edges(struct pass *p, const struct score_patch *a)
{
    struct edges *all = &p->edges;
    note_edge(&all->step_x, a->x, p->width);
    note_edge(&all->step_x, a->x + a->size, p->width);
    note_edge(&all->step_y, a->y, p->height);
    note_edge(&all->step_y, a->y + a->size, p->height);
    for (int k = 0; k < p->m->n; k++)
        all->gaps |= isnan(a->value[k]);
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
        note_edges(p, &a);
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
    if (!(m->cells = score_cells_create(m, &p->edges, p->o->weights, p->o->memory, e)))
        return -1;
    while (score_cells_begin_band(m->cells)) {
        do {
            if (fill_band(p, e))
                return -1;
        } while (cover_next(m->cells));
        if (score_cells_end_band(m->cells, e))
            return -1;
    }
    return 0;
}

/* --- all --- */

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
    const int bad = survey(&p, e) || set_cells(o, m, e) || (m->cols && fill(&p, e));
    if (m->bad)
        snprintf(m->missing, sizeof m->missing, "%" PRId64 " row%s left out", m->bad,
                 m->bad == 1 ? "" : "s");
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
