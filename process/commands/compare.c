/* compare.c - see compare.h. */
#include "process/commands/compare.h"

#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/result/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = RESULT_WITH_MAP(RESULT_MEAN) | RESULT_WITH_MAP(RESULT_FOCUS) };

struct both {
    struct result *file[2];
    float *cdf[2]; /* [bins] */
    struct compare *out;
};

/* --- one slide --- */

static void add_change(struct compare_change *c, double a, double b)
{
    if (isnan(a) || isnan(b))
        return;
    const double off = fabs(b - a);
    c->windows++;
    c->changed += off > 0;
    c->mean += off;
    c->most = off > c->most ? off : c->most;
}

static double value_of(const struct result_map *m, int64_t k)
{
    if (m->kind->type == RESULT_FLOAT32)
        return (double)((const float *)m->values)[k];
    const int16_t v = ((const int16_t *)m->values)[k];
    return v == (int16_t)m->kind->fill ? NAN : v * m->kind->scale;
}

static struct compare_change change_of(const struct result_slide *a, const struct result_slide *b,
                                       int map)
{
    struct compare_change c = {0};
    for (int64_t k = 0; k < a->nx * a->ny; k++)
        add_change(&c, value_of(&a->maps[map], k), value_of(&b->maps[map], k));
    c.mean = c.windows ? c.mean / (double)c.windows : NAN;
    c.most = c.windows ? c.most : NAN;
    return c;
}

static double w1_of(const struct both *r, const struct result_params *p,
                    const struct result_counts *a, const struct result_counts *b)
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    if (a->windows == 0 || b->windows == 0)
        return a->windows == b->windows ? 0 : NAN;
    stats_cdf(a->histogram, p->bins, a->underflow, a->overflow, r->cdf[0]);
    stats_cdf(b->histogram, p->bins, b->underflow, b->overflow, r->cdf[1]);
    return stats_w1(r->cdf[0], r->cdf[1], p->bins, width);
}

/* Is every window's value the same, or missing in both? */
static bool same_map(const struct result_slide *a, const struct result_slide *b, int map)
{
    for (int64_t k = 0; k < a->nx * a->ny; k++) {
        const double x = value_of(&a->maps[map], k), y = value_of(&b->maps[map], k);
        if (isnan(x) != isnan(y) || x < y || x > y)
            return false;
    }
    return true;
}

static bool same_counts(const struct result_params *p, const struct result_counts *a,
                        const struct result_counts *b)
{
    return a->windows == b->windows && a->underflow == b->underflow && a->overflow == b->overflow &&
           !memcmp(a->histogram, b->histogram, (size_t)p->bins * sizeof *a->histogram);
}

static void compare_slides(const struct both *r, const struct result_slide *a,
                           const struct result_slide *b, struct compare_slide *s)
{
    const struct result_params *p = result_params(r->file[0]);
    double mean[2], std[2];
    result_moments(p, a->counts.histogram, &mean[0], &std[0]);
    result_moments(p, b->counts.histogram, &mean[1], &std[1]);
    snprintf(s->name, sizeof s->name, "%s", a->name);
    s->windows_a = a->counts.windows;
    s->windows_b = b->counts.windows;
    s->mean_db = mean[1] - mean[0];
    s->std_db = std[1] - std[0];
    s->w1_db = w1_of(r, p, &a->counts, &b->counts);
    s->mpp_a = a->origin.mpp_x * a->origin.downsample;
    s->mpp_b = b->origin.mpp_x * b->origin.downsample;
    s->other_resolution = fabs(s->mpp_a - s->mpp_b) > 1e-6 * s->mpp_a; /* false for NaN */
    s->same_shape = a->nx == b->nx && a->ny == b->ny;
    if (!s->same_shape)
        return;
    s->maps[COMPARE_MEAN] = change_of(a, b, RESULT_MEAN);
    if (r->out->focus)
        s->maps[COMPARE_FOCUS] = change_of(a, b, RESULT_FOCUS);
    s->identical = same_counts(p, &a->counts, &b->counts) && same_map(a, b, RESULT_MEAN) &&
                   (!r->out->focus || same_map(a, b, RESULT_FOCUS));
}

/* --- all slides --- */

static int add_pair(const struct both *r, int64_t i, int64_t j, struct err *e)
{
    struct result_slide a, b;
    if (stop_check(e) || result_load_parts(r->file[0], i, PARTS, &a, e))
        return -1;
    const int bad = result_load_parts(r->file[1], j, PARTS, &b, e);
    if (!bad) {
        compare_slides(r, &a, &b, &r->out->slides[r->out->n++]);
        result_slide_free(&b);
    }
    result_slide_free(&a);
    return bad;
}

static int add_only(struct compare *c, int side, const char *name, struct err *e)
{
    char *copy = strdup(name);
    if (!copy)
        return err_set(e, "out of memory");
    c->only[side][c->n_only[side]++] = copy;
    return 0;
}

/* Both lists are sorted by name. */
static int pair_up(const struct both *r, struct err *e)
{
    const int64_t n = result_slides(r->file[0]), m = result_slides(r->file[1]);
    int bad = 0;
    for (int64_t i = 0, j = 0; (i < n || j < m) && !bad;) {
        const int order =
            i == n   ? 1
            : j == m ? -1
                     : strcmp(result_slide_name(r->file[0], i), result_slide_name(r->file[1], j));
        if (order == 0)
            bad = add_pair(r, i++, j++, e);
        else if (order < 0)
            bad = add_only(r->out, 0, result_slide_name(r->file[0], i++), e);
        else
            bad = add_only(r->out, 1, result_slide_name(r->file[1], j++), e);
    }
    return bad;
}

/* Worst first; what has no distance is worse than any that has; equal ones by name. */
static int by_distance(const void *x, const void *y)
{
    const struct compare_slide *a = x, *b = y;
    const double p = isnan(a->w1_db) ? INFINITY : a->w1_db;
    const double q = isnan(b->w1_db) ? INFINITY : b->w1_db;
    return p > q ? -1 : p < q ? 1 : strcmp(a->name, b->name);
}

static int check_parameters(const struct both *r, const char *a, const char *b, struct err *e)
{
    struct result_params p = *result_params(r->file[0]);
    memcpy(p.features, result_params(r->file[1])->features, sizeof p.features);
    return result_same_params(&p, result_params(r->file[1]), e)
               ? err_add(e, "%s and %s cannot be compared: different parameters", a, b)
               : 0;
}

static int compare_all(struct both *r, struct err *e)
{
    struct compare *c = r->out;
    const size_t bins = (size_t)result_params(r->file[0])->bins;
    int64_t slides[2];
    for (int k = 0; k < 2; k++) {
        slides[k] = result_slides(r->file[k]);
        c->only[k] = calloc((size_t)slides[k] + 1, sizeof *c->only[k]);
        r->cdf[k] = malloc(bins * sizeof *r->cdf[k]);
    }
    c->slides = calloc((size_t)slides[0] + 1, sizeof *c->slides);
    if (!c->slides || !c->only[0] || !c->only[1] || !r->cdf[0] || !r->cdf[1])
        return err_set(e, "out of memory");
    c->focus = result_has_map(r->file[0], RESULT_FOCUS) && result_has_map(r->file[1], RESULT_FOCUS);
    if (pair_up(r, e))
        return -1;
    qsort(c->slides, (size_t)c->n, sizeof *c->slides, by_distance);
    return 0;
}

int compare_results(const char *a, const char *b, struct compare *c, struct err *e)
{
    struct both r = {.out = c};
    *c = (struct compare){0};
    int bad = !(r.file[0] = result_open(a, e)) || !(r.file[1] = result_open(b, e)) ||
              check_parameters(&r, a, b, e) || compare_all(&r, e);
    for (int k = 0; k < 2; k++) {
        result_close(r.file[k]);
        free(r.cdf[k]);
    }
    return bad ? -1 : 0;
}

void compare_free(struct compare *c)
{
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < c->n_only[k]; i++)
            free(c->only[k][i]);
        free(c->only[k]);
    }
    free(c->slides);
}
