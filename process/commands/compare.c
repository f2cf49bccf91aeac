/* compare.c - see compare.h. */
#include "process/commands/compare.h"

#include "common/base/csv.h"
#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The maps that are compared. */
static unsigned parts(const struct compare *c)
{
    unsigned bits = 0;
    for (int m = 0; m < RESULT_MAPS; m++)
        bits |= c->maps[m] ? RESULT_WITH_MAP(m) : 0;
    return bits;
}

struct both {
    struct result *file[2];
    float *cdf[2];    /* [bins] */
    int64_t *rest[2]; /* [n_rest] slides whose name the other file does not have */
    int64_t n_rest[2];
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

static struct compare_change change_of(const struct result_slide *a, const struct result_slide *b,
                                       int map)
{
    struct compare_change c = {0};
    for (int64_t k = 0; k < a->nx * a->ny; k++)
        add_change(&c, result_map_value(&a->maps[map], k), result_map_value(&b->maps[map], k));
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
        const double x = result_map_value(&a->maps[map], k), y = result_map_value(&b->maps[map], k);
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
    snprintf(s->name_b, sizeof s->name_b, "%s", b->name);
    s->windows_a = a->counts.windows;
    s->windows_b = b->counts.windows;
    s->mean_db = mean[1] - mean[0];
    s->std_db = std[1] - std[0];
    s->w1_db = w1_of(r, p, &a->counts, &b->counts);
    s->mpp_a = same_resolution_um(&a->origin);
    s->mpp_b = same_resolution_um(&b->origin);
    s->other_resolution = same_resolution_differ(s->mpp_a, s->mpp_b);
    s->same_shape = a->nx == b->nx && a->ny == b->ny;
    if (!s->same_shape)
        return;
    s->identical = same_counts(p, &a->counts, &b->counts);
    for (int m = 0; m < RESULT_MAPS; m++)
        if (r->out->maps[m]) {
            s->maps[m] = change_of(a, b, m);
            s->identical = s->identical && same_map(a, b, m);
        }
}

/* --- pairs of slides --- */

static int add_pair(const struct both *r, int64_t i, int64_t j, struct err *e)
{
    struct result_slide a, b;
    if (stop_check(e) || result_load_parts(r->file[0], i, parts(r->out), &a, e))
        return -1;
    const int bad = result_load_parts(r->file[1], j, parts(r->out), &b, e);
    if (!bad) {
        compare_slides(r, &a, &b, &r->out->slides[r->out->n++]);
        result_slide_free(&b);
    }
    result_slide_free(&a);
    return bad;
}

/* Both lists are sorted by name. */
static int pair_names(struct both *r, struct err *e)
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
            r->rest[0][r->n_rest[0]++] = i++;
        else
            r->rest[1][r->n_rest[1]++] = j++;
    }
    return bad;
}

/* The slides of each row of a table. */
static int pair_rows(struct both *r, const struct table *t, const char *path, struct err *e)
{
    const char *const names[] = {"a", "b"};
    int64_t column[2], k[2];
    for (int side = 0; side < 2; side++)
        if ((column[side] = table_column(t, names[side])) < 0)
            return err_set(e, "%s: has no column %s", path, names[side]);
    for (int64_t row = 1; row <= t->rows; row++) {
        for (int side = 0; side < 2; side++) {
            const char *name = table_cell(t, row, column[side]);
            if ((k[side] = result_find_slide(r->file[side], name)) < 0)
                return err_set(e, "%s: line %" PRId64 ": no slide %s in %s", path, t->lines[row],
                               name, side ? "B" : "A");
        }
        if (add_pair(r, k[0], k[1], e))
            return -1;
    }
    return 0;
}

/* --- slides with other names --- */

/* A slide whose name only one file has. */
struct rest {
    char quickhash[sizeof((struct result_slide){0}.quickhash)];
    int64_t k; /* its number in the file */
    int side;
};

static int by_quickhash(const void *x, const void *y)
{
    return strcmp(((const struct rest *)x)->quickhash, ((const struct rest *)y)->quickhash);
}

static int by_number(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static int load_rest(const struct both *r, struct rest *out, struct err *e)
{
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < r->n_rest[side]; i++, out++) {
            struct result_slide s;
            if (stop_check(e) || result_load_parts(r->file[side], r->rest[side][i], 0, &s, e))
                return -1;
            *out = (struct rest){.k = r->rest[side][i], .side = side};
            snprintf(out->quickhash, sizeof out->quickhash, "%s", s.quickhash);
            result_slide_free(&s);
        }
    return 0;
}

/* How many of the sorted slides have the quickhash of the first. */
static int64_t run_of(const struct rest *s, int64_t n)
{
    int64_t k = 1;
    while (k < n && !strcmp(s[k].quickhash, s->quickhash))
        k++;
    return k;
}

/* Compares slides of equal quickhash; the others stay in `rest`. */
static int pair_sorted(struct both *r, const struct rest *s, int64_t n, struct err *e)
{
    r->n_rest[0] = r->n_rest[1] = 0;
    for (int64_t k = 0, run; k < n; k += run) {
        run = run_of(s + k, n - k);
        if (run == 2 && s[k].quickhash[0] && s[k].side != s[k + 1].side) {
            const int first = s[k].side; /* 1: that of the second file comes first */
            r->out->n_renamed++;
            if (add_pair(r, s[k + first].k, s[k + !first].k, e))
                return -1;
            continue;
        }
        for (int64_t i = k; i < k + run; i++)
            r->rest[s[i].side][r->n_rest[s[i].side]++] = s[i].k;
    }
    return 0;
}

static int pair_quickhashes(struct both *r, struct err *e)
{
    const int64_t n = r->n_rest[0] + r->n_rest[1];
    if (r->n_rest[0] == 0 || r->n_rest[1] == 0)
        return 0;
    struct rest *s = malloc((size_t)n * sizeof *s);
    int bad = s ? load_rest(r, s, e) : err_set(e, "out of memory");
    if (!bad) {
        qsort(s, (size_t)n, sizeof *s, by_quickhash);
        bad = pair_sorted(r, s, n, e);
    }
    free(s);
    return bad;
}

/* The names of the slides that are in one file only. */
static int note_rest(struct both *r, struct err *e)
{
    for (int side = 0; side < 2; side++) {
        qsort(r->rest[side], (size_t)r->n_rest[side], sizeof *r->rest[side], by_number);
        for (int64_t i = 0; i < r->n_rest[side]; i++) {
            char *copy = strdup(result_slide_name(r->file[side], r->rest[side][i]));
            if (!copy)
                return err_set(e, "out of memory");
            r->out->only[side][r->out->n_only[side]++] = copy;
        }
    }
    return 0;
}

/* --- all slides --- */

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
    return result_same_params(result_params(r->file[0]), result_params(r->file[1]), e)
               ? err_add(e, "%s and %s cannot be compared: different parameters", a, b)
               : 0;
}

static int pair_all(struct both *r, const struct table *t, const char *pairs, struct err *e)
{
    if (pairs)
        return pair_rows(r, t, pairs, e);
    if (result_slides(r->file[0]) == 1 && result_slides(r->file[1]) == 1)
        return add_pair(r, 0, 0, e);
    return pair_names(r, e) || pair_quickhashes(r, e) || note_rest(r, e) ? -1 : 0;
}

static int compare_all(struct both *r, const struct table *t, const char *pairs, struct err *e)
{
    struct compare *c = r->out;
    const size_t bins = (size_t)result_params(r->file[0])->bins;
    int64_t slides[2];
    for (int k = 0; k < 2; k++) {
        slides[k] = result_slides(r->file[k]);
        c->only[k] = calloc((size_t)slides[k] + 1, sizeof *c->only[k]);
        r->cdf[k] = malloc(bins * sizeof *r->cdf[k]);
        r->rest[k] = malloc(((size_t)slides[k] + 1) * sizeof *r->rest[k]);
    }
    c->slides = calloc((size_t)(pairs ? t->rows : slides[0]) + 1, sizeof *c->slides);
    if (!c->slides || !c->only[0] || !c->only[1] || !r->cdf[0] || !r->cdf[1] || !r->rest[0] ||
        !r->rest[1])
        return err_set(e, "out of memory");
    for (int m = 0; m < RESULT_MAPS; m++)
        c->maps[m] = result_map_kind(m)->change != NULL;
    if (pair_all(r, t, pairs, e))
        return -1;
    qsort(c->slides, (size_t)c->n, sizeof *c->slides, by_distance);
    return 0;
}

int compare_results(const char *a, const char *b, const char *pairs, struct compare *c,
                    struct err *e)
{
    struct both r = {.out = c};
    struct table t = {0};
    *c = (struct compare){0};
    int bad = !(r.file[0] = result_open(a, e)) || !(r.file[1] = result_open(b, e)) ||
              check_parameters(&r, a, b, e) || (pairs && table_read(&t, pairs, e)) ||
              compare_all(&r, &t, pairs, e);
    table_free(&t);
    for (int k = 0; k < 2; k++) {
        result_close(r.file[k]);
        free(r.cdf[k]);
        free(r.rest[k]);
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
