/* map_source.c - see map_source.h. */
#include "process/map/map_source.h"

#include "common/base/memory.h"
#include "common/result/features.h"
#include "common/result/result_read.h"
#include "process/draw/feature.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * --- cells from windows that overlap: integer sums, so that no order changes a bit ---
 *
 * Cells of C px begin at the slide's origin; C divides the window N and the stride S. K = N/C. Each
 * of the K x K cells of a window has a weight w (weights_of_cell). With Q = round(1000 q) of a
 * window's value q (half away from zero), A = sum of w Q and B = sum of w over the windows with a
 * value that cover a cell, F = sum of w over all windows that fit, in int64: the cell's value is A
 * / (1000 B), none if B = 0, and its coverage B / F. |q| is at most BLEND_MOST, so that no sum
 * overflows.
 *
 * Memory: the rows of windows that one row of cells needs, ceil(N/S) of them.
 */

enum { BLEND_MOST = 2000 };

struct blend {
    int64_t nx, ny, cols; /* windows; cells of a row */
    int64_t k, t, rows;   /* cells along a window and along a stride; rows of windows in memory */
    int64_t next;         /* row of windows that is added next */
    int64_t *weights;     /* [k] */
    int64_t *fits;        /* [cols]: sums of weights of the windows of a row */
    int64_t *a, *b;       /* [rows][cols]: of weight * Q and of weight, where there are values */
};

static void blend_free(struct blend *b)
{
    if (!b)
        return;
    free(b->weights);
    free(b->fits);
    free(b->a);
    free(b->b);
    free(b);
}

/* NULL when out of memory. */
static struct blend *blend_create(const struct map_slide *m, struct err *e)
{
    const int64_t cell = (int64_t)m->pitch;
    const size_t cols = (size_t)m->cols;
    struct blend *b = memory_need(1, sizeof *b);
    *b = (struct blend){.nx = m->s.nx,
                        .ny = m->s.ny,
                        .cols = m->cols,
                        .k = m->params.window / cell,
                        .t = m->params.stride / cell};
    b->rows = (b->k - 1) / b->t + 1;
    b->weights = memory_need((size_t)b->k, sizeof *b->weights);
    b->fits = memory_try_zero(cols, sizeof *b->fits, e);
    b->a = memory_try_zero((size_t)b->rows * cols, sizeof *b->a, e);
    b->b = memory_try_zero((size_t)b->rows * cols, sizeof *b->b, e);
    if (!b->fits || !b->a || !b->b) {
        blend_free(b);
        return NULL;
    }
    for (int64_t k = 0; k < b->k; k++)
        b->weights[k] = weights_of_cell(m->weights, k, b->k);
    for (int64_t i = 0; i < b->nx; i++)
        for (int64_t k = 0; k < b->k; k++)
            b->fits[i * b->t + k] += b->weights[k];
    return b;
}

/* The last row of windows that covers this row of cells. */
static int64_t last_of(const struct blend *b, int64_t row)
{
    const int64_t last = row / b->t;
    return last < b->ny ? last : b->ny - 1;
}

/* The row of windows that comes next is needed before row `row` of cells can be made. Rows of cells
 * are made in order. */
static bool blend_wants(const struct blend *b, int64_t row)
{
    return b->next <= last_of(b, row);
}

/* Adds the next row of windows: values[nx], NaN where there is none. */
static void blend_add(struct blend *b, const float *values)
{
    const size_t cols = (size_t)b->cols, at = (size_t)(b->next % b->rows) * cols;
    int64_t *sum_a = b->a + at, *sum_b = b->b + at;
    memset(sum_a, 0, cols * sizeof *sum_a);
    memset(sum_b, 0, cols * sizeof *sum_b);
    for (int64_t i = 0; i < b->nx; i++) {
        if (isnan(values[i]))
            continue;
        assert(fabsf(values[i]) <= BLEND_MOST);
        const int64_t q = llround(1000.0 * (double)values[i]);
        for (int64_t m = 0; m < b->k; m++) {
            sum_a[i * b->t + m] += b->weights[m] * q;
            sum_b[i * b->t + m] += b->weights[m];
        }
    }
    b->next++;
}

/* Makes a row of cells: values[cols], NaN where there is none, and coverage[cols] (may be NULL). */
static void blend_row(const struct blend *b, int64_t row, float *values, float *coverage)
{
    const int64_t last = last_of(b, row);
    int64_t first = row < b->k ? 0 : (row - b->k) / b->t + 1;
    for (int64_t c = 0; c < b->cols; c++) {
        int64_t a = 0, w = 0, f = 0;
        for (int64_t j = first; j <= last; j++) {
            const int64_t m = row - j * b->t, at = j % b->rows * b->cols + c;
            if (m >= b->k)
                continue;
            a += b->weights[m] * b->a[at];
            w += b->weights[m] * b->b[at];
            f += b->weights[m] * b->fits[c];
        }
        values[c] = w ? (float)((double)a / (1000.0 * (double)w)) : NAN;
        if (coverage)
            coverage[c] = f ? (float)((double)w / (double)f) : 0;
    }
}

enum { READ_ROWS = 64 }; /* rows of windows that are read in one go */

/* --- slides --- */

int64_t map_cell(const struct result_params *p, int64_t cell, struct err *e)
{
    int64_t a = p->window, b = p->stride; /* the largest cell is their greatest common divisor */
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (cell == 0)
        return a;
    if (a % cell == 0)
        return cell;
    return err_set(e,
                   "--cell %" PRId64 ": must divide the window of %" PRId64
                   " px and the stride of %" PRId64 " px; %" PRId64 " px does",
                   cell, p->window, p->stride, a);
}

static int set_grid(struct map_slide *m, int64_t cell, struct err *e)
{
    const struct result_params *p = &m->params;
    if (m->weights == WEIGHTS_NONE) {
        m->cols = m->s.nx;
        m->rows = m->s.ny;
        m->left = m->top = (double)(p->window - p->stride) / 2;
        m->pitch = (double)p->stride;
    } else {
        if ((cell = map_cell(p, cell, e)) < 1)
            return -1;
        m->cols = (m->s.width + cell - 1) / cell;
        m->rows = (m->s.height + cell - 1) / cell;
        m->pitch = (double)cell;
    }
    if (m->s.nx < 1 || m->s.ny < 1)
        m->cols = m->rows = 0;
    return 0;
}

static void set_scale(struct map_slide *m)
{
    const struct result_origin *o = &m->s.origin;
    m->downsample = isnan(o->downsample) && m->s.level == 0 ? 1 : o->downsample;
    m->mpp_x = o->mpp_x * m->downsample;
    m->mpp_y = o->mpp_y * m->downsample;
}

int map_slide_open(struct map_slide *m, struct result *r, int64_t k, enum weights weights,
                   int64_t cell, struct err *e)
{
    *m = (struct map_slide){.result = r, .k = k, .params = *result_params(r), .weights = weights};
    if (result_load_parts(r, k, 0, &m->s, e))
        return -1;
    m->partial = memchr(m->s.groups, 0, (size_t)m->s.group_count) != NULL;
    result_missing_text(m->s.groups, m->s.group_count, m->missing, sizeof m->missing);
    if (m->partial)
        snprintf(m->lacks, sizeof m->lacks, "missing groups %s", m->missing);
    set_scale(m);
    if (!set_grid(m, cell, e))
        return 0;
    err_add(e, "slide %s", m->s.name);
    map_slide_free(m);
    return -1;
}

void map_slide_of_scores(struct map_slide *m, const struct score_map *scores, const char *name,
                         enum weights weights, double mpp_x, double mpp_y)
{
    *m = (struct map_slide){.scores = scores,
                            .blurred_below = NAN,
                            .s = {.width = scores->width, .height = scores->height},
                            .weights = weights,
                            .cols = scores->cols,
                            .rows = scores->rows,
                            .pitch = (double)scores->cell,
                            .downsample = 1,
                            .mpp_x = mpp_x,
                            .mpp_y = mpp_y,
                            .partial = scores->missing[0] != 0};
    snprintf(m->s.name, sizeof m->s.name, "%s", name);
    snprintf(m->lacks, sizeof m->lacks, "%s", scores->missing);
}

void map_slide_free(struct map_slide *m)
{
    result_slide_free(&m->s);
}

/* --- features --- */

const char *map_feature_name(const struct map_slide *m, int map)
{
    return m->scores ? m->scores->name[map] : feature_name(map);
}

const char *map_feature_unit(const struct map_slide *m, int map)
{
    return m->scores ? "" : result_map_kind(map)->unit;
}

void map_feature_range(const struct map_slide *m, int map, double *low, double *high)
{
    if (m->scores) {
        score_map_range(m->scores, map, low, high);
        return;
    }
    *low = result_map_kind(map)->low;
    *high = result_map_kind(map)->high;
}

/* --- rows --- */

struct map_rows {
    const struct map_slide *m;
    int map;
    const struct result_map_kind *kind; /* the rest: NULL of scores */
    struct result_rows *stored;
    struct result_rows *tissue; /* NULL: all windows have values */
    uint8_t *percent;           /* [nx], of tissue */
    void *read;                 /* [READ_ROWS][nx] as stored */
    float *windows;             /* [nx] */
    struct blend *blend;        /* NULL for a raw map */
    int64_t next;               /* row of the map */
    int64_t next_stored;        /* row of windows */
};

struct map_rows *map_rows_open(const struct map_slide *m, int map, struct err *e)
{
    struct map_rows *r = memory_need(1, sizeof *r);
    r->m = m;
    r->map = map;
    if (m->scores)
        return r;
    r->kind = result_map_kind(map);
    r->stored = result_open_rows(m->result, m->k, map, &m->s, e);
    if (!r->stored)
        goto fail;
    r->read = memory_try(READ_ROWS, result_rows_bytes(r->stored), e);
    r->windows = memory_try((size_t)m->s.nx, sizeof *r->windows, e);
    if (!r->read || !r->windows)
        goto fail;
    if (m->weights == WEIGHTS_NONE || (r->blend = blend_create(m, e)))
        return r;
fail:
    map_rows_close(r);
    return NULL;
}

bool map_hides_glass(const struct map_slide *m, int map)
{
    return !m->scores && result_is_sharpness(map);
}

struct map_rows *map_rows_open_tissue(const struct map_slide *m, int map, struct err *e)
{
    struct map_rows *r = map_rows_open(m, map, e);
    if (!r || !map_hides_glass(m, map))
        return r;
    r->percent = memory_try((size_t)m->s.nx, 1, e);
    r->tissue = r->percent ? result_open_rows(m->result, m->k, RESULT_TISSUE, &m->s, e) : NULL;
    if (r->tissue)
        return r;
    map_rows_close(r);
    return NULL;
}

void map_rows_close(struct map_rows *r)
{
    if (!r)
        return;
    result_close_rows(r->stored);
    result_close_rows(r->tissue);
    free(r->percent);
    blend_free(r->blend);
    free(r->read);
    free(r->windows);
    free(r);
}

/* Numbers as they are stored, to values in the map's unit. */
static void convert(const struct result_map_kind *kind, const void *row, int64_t n, float *out)
{
    const float *real = row;
    const int16_t *whole = row;
    const uint8_t *byte = row;
    if (kind->type == RESULT_FLOAT32) {
        memcpy(out, real, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int stored = kind->type == RESULT_INT16 ? whole[i] : byte[i];
        out[i] = stored == (int)kind->fill ? NAN : (float)(stored * kind->scale);
    }
}

static int next_windows(struct map_rows *r, float *out, struct err *e)
{
    const int64_t ny = r->m->s.ny, at = r->next_stored % READ_ROWS;
    if (at == 0) {
        const int64_t left = ny - r->next_stored, n = left < READ_ROWS ? left : READ_ROWS;
        if (result_read_rows(r->stored, r->next_stored, n, r->read, e))
            return -1;
    }
    const char *row = (const char *)r->read + (size_t)at * result_rows_bytes(r->stored);
    convert(r->kind, row, r->m->s.nx, out);
    if (r->tissue && result_read_rows(r->tissue, r->next_stored, 1, r->percent, e))
        return -1;
    for (int64_t i = 0; r->tissue && i < r->m->s.nx; i++)
        if (!features_is_tissue(r->percent[i]))
            out[i] = NAN;
    for (int64_t i = 0; i < r->m->s.nx; i++)
        if (fabsf(out[i]) > BLEND_MOST) /* a NaN is not */
            return err_set(e,
                           "%s is damaged: it has a value of %g %s; compute it again "
                           "(h5spec run --force)",
                           r->kind->name, (double)out[i], r->kind->unit);
    r->next_stored++;
    return 0;
}

int map_rows_next(struct map_rows *r, float *values, float *coverage, struct err *e)
{
    const int64_t row = r->next++;
    if (r->m->scores)
        return score_map_row(r->m->scores, r->map, row, values, coverage, e);
    if (!r->blend) {
        if (next_windows(r, values, e))
            return -1;
        for (int64_t i = 0; coverage && i < r->m->cols; i++)
            coverage[i] = isnan(values[i]) ? 0.0f : 1.0f;
        return 0;
    }
    while (blend_wants(r->blend, row)) {
        if (next_windows(r, r->windows, e))
            return -1;
        blend_add(r->blend, r->windows);
    }
    blend_row(r->blend, row, values, coverage);
    return 0;
}
