/* map_blend.c - see map_blend.h. */
#include "process/map/map_blend.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct map_blend {
    struct map_blend_setup s;
    int64_t k, t, rows; /* cells along a window and along a stride; rows of windows in memory */
    int64_t next;       /* row of windows that is added next */
    int64_t *weights;   /* [k] */
    int64_t *fits;      /* [cols]: sums of weights of the windows of a row */
    int64_t *a, *b;     /* [rows][cols]: of weight * Q and of weight, where there are values */
};

static void add_fits(struct map_blend *b)
{
    for (int64_t i = 0; i < b->s.nx; i++)
        for (int64_t m = 0; m < b->k; m++)
            b->fits[i * b->t + m] += b->weights[m];
}

struct map_blend *map_blend_create(const struct map_blend_setup *setup, struct err *e)
{
    struct map_blend *b = calloc(1, sizeof *b);
    if (!b) {
        err_set(e, "out of memory");
        return NULL;
    }
    b->s = *setup;
    b->k = setup->window / setup->cell;
    b->t = setup->stride / setup->cell;
    b->rows = (b->k - 1) / b->t + 1;
    const size_t cols = (size_t)setup->cols;
    b->weights = calloc((size_t)b->k, sizeof *b->weights);
    b->fits = calloc(cols, sizeof *b->fits);
    b->a = calloc((size_t)b->rows * cols, sizeof *b->a);
    b->b = calloc((size_t)b->rows * cols, sizeof *b->b);
    if (!b->weights || !b->fits || !b->a || !b->b) {
        map_blend_free(b);
        err_set(e, "out of memory");
        return NULL;
    }
    for (int64_t m = 0; m < b->k; m++)
        b->weights[m] = weights_of_cell(setup->weights, m, b->k);
    add_fits(b);
    return b;
}

void map_blend_free(struct map_blend *b)
{
    if (!b)
        return;
    free(b->weights);
    free(b->fits);
    free(b->a);
    free(b->b);
    free(b);
}

/* The last row of windows that covers this row of cells. */
static int64_t last_of(const struct map_blend *b, int64_t row)
{
    const int64_t last = row / b->t;
    return last < b->s.ny ? last : b->s.ny - 1;
}

bool map_blend_wants(const struct map_blend *b, int64_t row)
{
    return b->next <= last_of(b, row);
}

void map_blend_add(struct map_blend *b, const float *values)
{
    const size_t cols = (size_t)b->s.cols, at = (size_t)(b->next % b->rows) * cols;
    int64_t *sum_a = b->a + at, *sum_b = b->b + at;
    memset(sum_a, 0, cols * sizeof *sum_a);
    memset(sum_b, 0, cols * sizeof *sum_b);
    for (int64_t i = 0; i < b->s.nx; i++) {
        if (isnan(values[i]))
            continue;
        assert(fabsf(values[i]) <= MAP_BLEND_MOST);
        const int64_t q = llround(1000.0 * (double)values[i]);
        for (int64_t m = 0; m < b->k; m++) {
            sum_a[i * b->t + m] += b->weights[m] * q;
            sum_b[i * b->t + m] += b->weights[m];
        }
    }
    b->next++;
}

void map_blend_row(const struct map_blend *b, int64_t row, float *values, float *coverage)
{
    const int64_t last = last_of(b, row);
    int64_t first = row < b->k ? 0 : (row - b->k) / b->t + 1;
    for (int64_t c = 0; c < b->s.cols; c++) {
        int64_t a = 0, w = 0, f = 0;
        for (int64_t j = first; j <= last; j++) {
            const int64_t m = row - j * b->t, at = j % b->rows * b->s.cols + c;
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
