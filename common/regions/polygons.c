/* polygons.c - see polygons.h. A sweep over rows, with a list of the edges that cross the row. */
#include "common/regions/polygons.h"

#include "common/codec/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Rows that all edges together may cross: minutes of work at most. */
#define MOST_CROSSINGS (INT64_C(1) << 32)

void polygons_free(struct polygons *p)
{
    free(p->edges);
    *p = POLYGONS_NONE;
}

static void extend(struct polygons *p, const double a[2])
{
    const bool first = p->left > p->right;
    p->left = first || a[0] < p->left ? a[0] : p->left;
    p->right = first || a[0] > p->right ? a[0] : p->right;
    p->top = first || a[1] < p->top ? a[1] : p->top;
    p->below = first || a[1] > p->below ? a[1] : p->below;
}

int polygons_add_edge(struct polygons *p, const double a[2], const double b[2])
{
    const double *upper = a[1] < b[1] ? a : b, *lower = upper == a ? b : a;
    extend(p, a);
    extend(p, b);
    if (upper[1] == lower[1])
        return 0;
    if (p->n == p->room) {
        const int64_t room = p->room ? 2 * p->room : 64;
        void *more = realloc(p->edges, (size_t)room * sizeof *p->edges);
        if (!more)
            return -1;
        p->edges = more;
        p->room = room;
    }
    p->edges[p->n++] = (struct polygons_edge){upper[0], upper[1], lower[0], lower[1], p->count - 1};
    return 0;
}

uint32_t polygons_crc32(const struct polygons *p)
{
    _Static_assert(sizeof(struct polygons_edge) == 40, "no padding");
    return codec_crc32(p->edges, (size_t)p->n * sizeof *p->edges);
}

void polygons_shrink(struct polygons *p, double by)
{
    for (int64_t k = 0; k < p->n; k++) {
        struct polygons_edge *e = &p->edges[k];
        e->x0 /= by;
        e->y0 /= by;
        e->x1 /= by;
        e->y1 /= by;
    }
    p->left /= by;
    p->top /= by;
    p->right /= by;
    p->below /= by;
}

int polygons_check_place(const struct polygons *p, double width, double height, struct err *e)
{
    if (p->left < width && p->right > 0 && p->top < height && p->below > 0)
        return 0;
    return err_set(e,
                   "all polygons (x %g to %g, y %g to %g) lie outside of the slide, which has "
                   "%.0f x %.0f level-0 px; is it the file of another slide?",
                   p->left, p->right, p->top, p->below, width, height);
}

/* --- rows --- */

struct crossing {
    int64_t polygon;
    double x;
};

struct polygons_rows {
    const struct polygons *p;
    int64_t width, height;
    int64_t *order; /* [p->n] edges, by the row that they begin in */
    int64_t next;   /* the first of `order` that has not begun */
    int64_t *active;
    int64_t n_active;
    struct crossing *crossings;  /* [p->n] */
    struct polygons_span *spans; /* [p->n] */
};

/* The first row or column whose centre is at or beyond v, from 0 to `most`. */
static int64_t first_from(double v, int64_t most)
{
    const double k = ceil(v - 0.5);
    return k <= 0 ? 0 : k >= (double)most ? most : (int64_t)k;
}

static int64_t first_row(const struct polygons_edge *e, int64_t height)
{
    return first_from(e->y0, height);
}

static int64_t end_row(const struct polygons_edge *e, int64_t height)
{
    return first_from(e->y1, height);
}

static int by_top(const void *a, const void *b, void *ctx)
{
    const struct polygons_edge *edges = ctx;
    const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const double x = edges[i].y0, y = edges[j].y0;
    return x < y ? -1 : x > y ? 1 : i < j ? -1 : i > j;
}

static int check_work(const struct polygons *p, int64_t height, struct err *e)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < p->n; k++)
        sum += end_row(&p->edges[k], height) - first_row(&p->edges[k], height);
    return sum <= MOST_CROSSINGS
               ? 0
               : err_set(e, "too complex: its %" PRId64 " edges cross %" PRId64 " rows of pixels",
                         p->n, sum);
}

struct polygons_rows *polygons_open(const struct polygons *p, int64_t width, int64_t height,
                                    struct err *e)
{
    const size_t n = (size_t)p->n + 1;
    if (check_work(p, height, e))
        return NULL;
    struct polygons_rows *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, "out of memory");
        return NULL;
    }
    *r = (struct polygons_rows){.p = p, .width = width, .height = height};
    r->order = malloc(n * sizeof *r->order);
    r->active = malloc(n * sizeof *r->active);
    r->crossings = malloc(n * sizeof *r->crossings);
    r->spans = malloc(n * sizeof *r->spans);
    if (!r->order || !r->active || !r->crossings || !r->spans) {
        err_set(e, "out of memory");
        polygons_close(r);
        return NULL;
    }
    for (int64_t k = 0; k < p->n; k++)
        r->order[k] = k;
    if (p->n > 0)
        qsort_r(r->order, (size_t)p->n, sizeof *r->order, by_top, p->edges);
    return r;
}

void polygons_close(struct polygons_rows *r)
{
    if (!r)
        return;
    free(r->order);
    free(r->active);
    free(r->crossings);
    free(r->spans);
    free(r);
}

/* Updates the list of the edges that cross row y. */
static void choose_active(struct polygons_rows *r, int64_t y)
{
    const struct polygons_edge *edges = r->p->edges;
    int64_t kept = 0;
    for (int64_t k = 0; k < r->n_active; k++)
        if (end_row(&edges[r->active[k]], r->height) > y)
            r->active[kept++] = r->active[k];
    for (; r->next < r->p->n; r->next++) {
        const int64_t k = r->order[r->next];
        if (first_row(&edges[k], r->height) > y)
            break;
        if (end_row(&edges[k], r->height) > y)
            r->active[kept++] = k;
    }
    r->n_active = kept;
}

static int by_polygon(const void *a, const void *b)
{
    const struct crossing *c = a, *d = b;
    if (c->polygon != d->polygon)
        return c->polygon < d->polygon ? -1 : 1;
    return c->x < d->x ? -1 : c->x > d->x;
}

static int by_first(const void *a, const void *b)
{
    const struct polygons_span *s = a, *t = b;
    return s->first < t->first ? -1 : s->first > t->first;
}

/* Where the edges cross the middle of row y. */
static void find_crossings(struct polygons_rows *r, int64_t y)
{
    const double middle = (double)y + 0.5;
    for (int64_t k = 0; k < r->n_active; k++) {
        const struct polygons_edge *e = &r->p->edges[r->active[k]];
        const double share = (middle - e->y0) / (e->y1 - e->y0);
        r->crossings[k] = (struct crossing){e->polygon, e->x0 + share * (e->x1 - e->x0)};
    }
    qsort(r->crossings, (size_t)r->n_active, sizeof *r->crossings, by_polygon);
}

/* Sorts n spans and unites those that overlap or touch. Returns how many are left. */
static int64_t unite(struct polygons_span *spans, int64_t n)
{
    int64_t last = 0;
    if (n == 0)
        return 0;
    qsort(spans, (size_t)n, sizeof *spans, by_first);
    for (int64_t k = 1; k < n; k++) {
        if (spans[k].first > spans[last].end)
            spans[++last] = spans[k];
        else if (spans[k].end > spans[last].end)
            spans[last].end = spans[k].end;
    }
    return last + 1;
}

const struct polygons_span *polygons_row(struct polygons_rows *r, int64_t y, int64_t *n)
{
    int64_t spans = 0;
    choose_active(r, y);
    *n = 0;
    if (r->n_active == 0)
        return r->spans;
    find_crossings(r, y);
    /* Rings are closed, so each polygon has an even number of crossings. */
    for (int64_t k = 0; k + 1 < r->n_active; k += 2) {
        const struct polygons_span s = {first_from(r->crossings[k].x, r->width),
                                        first_from(r->crossings[k + 1].x, r->width)};
        if (s.first < s.end)
            r->spans[spans++] = s;
    }
    *n = unite(r->spans, spans);
    return r->spans;
}
