/* curves.c - see curves.h. */
#include "process/plot/curves.h"

#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "process/options/list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CELL_DB 0.5 /* width of a cell, if bins are not wider */
#define TAIL 0.0005 /* share of the values that may lie outside the axis, on each side */

/* --- cells --- */

static double bin_width(const struct curves *c)
{
    return (c->params.high_db - c->params.low_db) / (double)c->params.bins;
}

static void set_cells(struct curves *c)
{
    const double bins = floor(CELL_DB / bin_width(c) * (1 + 1e-9));
    c->cell_bins = bins < 1 ? 1 : bins > (double)c->params.bins ? c->params.bins : (int64_t)bins;
    c->cells = (c->params.bins + c->cell_bins - 1) / c->cell_bins;
}

double curves_low(const struct curves *c, int64_t cell)
{
    return c->params.low_db + bin_width(c) * (double)(cell * c->cell_bins);
}

double curves_high(const struct curves *c, int64_t cell)
{
    return cell + 1 < c->cells ? curves_low(c, cell + 1) : c->params.high_db;
}

static double *shares_of(const struct curves *c, const struct result_counts *counts)
{
    double *share = memory_need((size_t)c->cells, sizeof *share);
    const double all = (double)result_samples(&c->params, counts);
    for (int64_t k = 0; k < c->cells; k++) {
        uint64_t n = 0;
        for (int64_t b = k * c->cell_bins; b < (k + 1) * c->cell_bins && b < c->params.bins; b++)
            n += counts->histogram[b];
        share[k] = (double)n / all / (curves_high(c, k) - curves_low(c, k));
    }
    return share;
}

/* --- loading --- */

static bool misses_a_group(const struct result_slide *s)
{
    return memchr(s->groups, 0, (size_t)s->group_count) != NULL;
}

static void add_slide(struct curves *c, const char *file, const struct result_slide *s)
{
    if (s->counts.windows == 0) {
        c->empty++;
        return;
    }
    c->list = memory_grow(c->list, c->n, sizeof *c->list);
    struct curve *one = &c->list[c->n++];
    *one = (struct curve){.file = file,
                          .windows = s->counts.windows,
                          .name = memory_copy(s->name),
                          .share = shares_of(c, &s->counts)};
    result_moments(&c->params, s->counts.histogram, &one->mean, &one->std);
    result_add_counts(&c->all, &s->counts, c->params.bins);
    c->partial += misses_a_group(s);
    c->gray += s->source_gray;
}

static int load_slide(struct curves *c, struct result *r, int64_t k, const char *file, bool keep,
                      struct err *e)
{
    struct result_slide s;
    if (result_load_parts(r, k, result_parts_here(r), &s, e))
        return -1;
    add_slide(c, file, &s);
    if (keep)
        c->slide = s;
    else
        result_slide_free(&s);
    return 0;
}

static void begin(struct curves *c, const struct result_params *p)
{
    c->params = *p;
    c->all.histogram = memory_need((size_t)p->bins, sizeof *c->all.histogram);
    set_cells(c);
}

static int load_file(struct curves *c, const char *file, struct choice *w, bool keep, struct err *e)
{
    struct result *r = result_open(file, e);
    int bad = r ? 0 : -1;
    if (r && c->cells == 0)
        begin(c, result_params(r));
    else if (r && result_same_params(&c->params, result_params(r), e))
        bad = err_add(e, "%s: parameters differ from those of the results before it", file);
    for (int64_t k = 0; !bad && k < result_slides(r); k++) {
        if (!choice_has(w, result_slide_name(r, k)))
            continue;
        if (stop_check(e))
            bad = -1;
        else if (keep && c->n + c->empty > 0)
            bad = err_set(e, "--map shows one slide, but several are chosen; name it with --slide");
        else
            bad = load_slide(c, r, k, file, keep, e);
    }
    result_close(r);
    return bad;
}

static int check_choice(const struct curves *c, const struct choice *w, const char *file,
                        struct err *e)
{
    if (choice_check(w, e))
        return -1;
    if (c->n > 0)
        return 0;
    return err_set(e, "%s: nothing to draw: %s", file,
                   c->empty ? "no window of the slide was counted" : "the result has no slide");
}

int curves_load(struct curves *c, char *const *files, int n_files, const char *const *patterns,
                int n_patterns, bool keep, struct err *e)
{
    struct choice w;
    *c = (struct curves){0};
    int bad = 0;
    choice_begin(&w, patterns, n_patterns);
    for (int k = 0; k < n_files && !bad; k++)
        bad = load_file(c, files[k], &w, keep, e);
    if (!bad)
        bad = check_choice(c, &w, files[0], e);
    choice_end(&w);
    return bad;
}

void curves_free(struct curves *c)
{
    for (int64_t k = 0; k < c->n; k++) {
        free(c->list[k].name);
        free(c->list[k].share);
    }
    free(c->list);
    free(c->all.histogram);
    result_slide_free(&c->slide);
    *c = (struct curves){0};
}

/* --- statistics over the curves --- */

void curves_mean(const struct curves *c, double *out)
{
    for (int64_t cell = 0; cell < c->cells; cell++) {
        double sum = 0;
        for (int64_t k = 0; k < c->n; k++)
            sum += c->list[k].share[cell];
        out[cell] = sum / (double)c->n;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of n sorted values. */
static double quantile(const double *sorted, int64_t n, double q)
{
    const double at = q * (double)(n - 1);
    const int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

void curves_quantiles(const struct curves *c, const double *q, int n, double *const *out)
{
    double *values = memory_need((size_t)c->n, sizeof *values);
    for (int64_t cell = 0; cell < c->cells; cell++) {
        for (int64_t k = 0; k < c->n; k++)
            values[k] = c->list[k].share[cell];
        qsort(values, (size_t)c->n, sizeof *values, by_value);
        for (int k = 0; k < n; k++)
            out[k][cell] = quantile(values, c->n, q[k]);
    }
    free(values);
}

/* Part of the values in a cell. */
static double mass(const struct curves *c, const double *share, int64_t cell)
{
    return share[cell] * (curves_high(c, cell) - curves_low(c, cell));
}

void curves_fit(const struct curves *c, const double *share, double *low, double *high)
{
    int64_t first = 0, last = c->cells - 1;
    double below = 0, above = 0;
    while (first < last && (below += mass(c, share, first)) <= TAIL)
        first++;
    while (last > first && (above += mass(c, share, last)) <= TAIL)
        last--;
    *low = fmin(*low, curves_low(c, first));
    *high = fmax(*high, curves_high(c, last));
}

double curves_outside(const struct curves *c, const double *share, double low, double high)
{
    double inside = 0;
    for (int64_t k = 0; k < c->cells; k++)
        if (curves_low(c, k) >= low - 1e-9 && curves_high(c, k) <= high + 1e-9)
            inside += mass(c, share, k);
    return fmax(0, 1 - inside);
}
