/* polygons.c - see polygons.h. A sweep over rows, with a list of the edges that cross the row. */
#include "common/regions/polygons.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Rows that all edges together may cross: about 40 s of work. */
#define MOST_CROSSINGS (INT64_C(1) << 31)

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

void polygons_add_edge(struct polygons *p, const double a[2], const double b[2])
{
    const double *upper = a[1] < b[1] ? a : b, *lower = upper == a ? b : a;
    extend(p, a);
    extend(p, b);
    if (upper[1] == lower[1])
        return;
    p->edges = memory_grow(p->edges, p->n, sizeof *p->edges);
    p->edges[p->n++] = (struct polygons_edge){upper[0], upper[1], lower[0], lower[1], p->count - 1};
}

uint32_t polygons_crc32(const struct polygons *p)
{
    _Static_assert(sizeof(struct polygons_edge) == 40, "no padding");
    return codec_crc32(p->edges, (size_t)p->n * sizeof *p->edges);
}

void polygons_move(struct polygons *p, double x, double y)
{
    for (int64_t k = 0; k < p->n; k++) {
        struct polygons_edge *e = &p->edges[k];
        e->x0 += x;
        e->y0 += y;
        e->x1 += x;
        e->y1 += y;
    }
    p->left += x;
    p->top += y;
    p->right += x;
    p->below += y;
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

/*
 * A span begins and ends at the first pixel whose centre is at or beyond a crossing. These are
 * whole numbers, so a row's crossings are sorted as numbers polygon << 32 | column, by digits: the
 * time is in proportion to the crossings, however the edges lie.
 */
struct polygons_rows {
    const struct polygons *p;
    int64_t width, height;
    uint64_t *order; /* [n] first row << 32 | edge, ascending: edges that cross a row */
    int64_t n, next; /* the first of `order` that has not begun */
    struct polygons_edge *active; /* [n_active] that cross the row */
    int64_t n_active;
    uint64_t *keys, *spare;      /* [n] */
    struct polygons_span *spans; /* [n] */
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

static bool crosses_row(const struct polygons_edge *e, int64_t y)
{
    return e->y1 - 0.5 > (double)y; /* as end_row() > y */
}

static int check_work(const struct polygons *p, int64_t height, int64_t *crossing, struct err *e)
{
    int64_t sum = 0;
    *crossing = 0;
    for (int64_t k = 0; k < p->n; k++) {
        const int64_t rows = end_row(&p->edges[k], height) - first_row(&p->edges[k], height);
        *crossing += rows > 0;
        sum += rows;
    }
    if (sum <= MOST_CROSSINGS)
        return 0;
    return err_set(e,
                   "too complex: its %" PRId64 " edges cross %" PRId64
                   " rows of pixels, and at most "
                   "%" PRId64 " are possible; simplify the polygons",
                   p->n, sum, MOST_CROSSINGS);
}

/* --- sorting --- */

static void insert_sort(uint64_t *keys, int64_t n)
{
    for (int64_t k = 1; k < n; k++) {
        const uint64_t key = keys[k];
        int64_t at = k;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* One pass: by the byte at `shift`. `count` [256] says how often each value occurs. */
static void sort_byte(const uint64_t *from, uint64_t *to, int64_t n, int shift, int64_t *count)
{
    int64_t at = 0;
    for (int b = 0; b < 256; b++) {
        const int64_t here = count[b];
        count[b] = at;
        at += here;
    }
    for (int64_t k = 0; k < n; k++)
        to[count[from[k] >> shift & 255]++] = from[k];
}

/* Sorts n keys, byte by byte from the lowest; bytes that are the same in all keys are skipped.
 * spare [n] is overwritten. */
static void sort_keys(uint64_t *keys, uint64_t *spare, int64_t n)
{
    enum { FEW = 48 };
    uint64_t *from = keys, *to = spare, differ = 0;
    if (n <= FEW) {
        insert_sort(keys, n);
        return;
    }
    for (int64_t k = 1; k < n; k++)
        differ |= keys[k] ^ keys[0];
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t count[256] = {0};
        if (!(differ >> shift & 255))
            continue;
        for (int64_t k = 0; k < n; k++)
            count[from[k] >> shift & 255]++;
        sort_byte(from, to, n, shift, count);
        uint64_t *other = from;
        from = to;
        to = other;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)n * sizeof *keys);
}

/* --- rows in order --- */

static void order_edges(struct polygons_rows *r)
{
    int64_t n = 0;
    for (int64_t k = 0; k < r->p->n; k++) {
        const int64_t first = first_row(&r->p->edges[k], r->height);
        if (end_row(&r->p->edges[k], r->height) > first)
            r->order[n++] = (uint64_t)first << 32 | (uint64_t)k;
    }
    sort_keys(r->order, r->keys, n);
}

struct polygons_rows *polygons_open(const struct polygons *p, int64_t width, int64_t height,
                                    struct err *e)
{
    int64_t crossing;
    if (check_work(p, height, &crossing, e))
        return NULL;
    const size_t room = (size_t)crossing + 1;
    struct polygons_rows *r = memory_need(1, sizeof *r);
    *r = (struct polygons_rows){.p = p, .width = width, .height = height, .n = crossing};
    if (!(r->order = memory_try(room, sizeof *r->order, e)) ||
        !(r->active = memory_try(room, sizeof *r->active, e)) ||
        !(r->keys = memory_try(room, sizeof *r->keys, e)) ||
        !(r->spare = memory_try(room, sizeof *r->spare, e)) ||
        !(r->spans = memory_try(room, sizeof *r->spans, e))) {
        polygons_close(r);
        return NULL;
    }
    order_edges(r);
    return r;
}

void polygons_close(struct polygons_rows *r)
{
    if (!r)
        return;
    free(r->order);
    free(r->active);
    free(r->keys);
    free(r->spare);
    free(r->spans);
    free(r);
}

/* Updates the list of the edges that cross row y. */
static void choose_active(struct polygons_rows *r, int64_t y)
{
    const struct polygons_edge *edges = r->p->edges;
    int64_t kept = 0;
    for (int64_t k = 0; k < r->n_active; k++)
        if (crosses_row(&r->active[k], y))
            r->active[kept++] = r->active[k];
    for (; r->next < r->n && (int64_t)(r->order[r->next] >> 32) <= y; r->next++) {
        const struct polygons_edge *e = &edges[r->order[r->next] & UINT32_MAX];
        if (crosses_row(e, y))
            r->active[kept++] = *e;
    }
    r->n_active = kept;
}

/* Where the edges cross the middle of row y: the first pixel at or beyond, of each polygon. */
static void find_crossings(struct polygons_rows *r, int64_t y)
{
    const double middle = (double)y + 0.5;
    for (int64_t k = 0; k < r->n_active; k++) {
        const struct polygons_edge *e = &r->active[k];
        const double share = (middle - e->y0) / (e->y1 - e->y0);
        const int64_t x = first_from(e->x0 + share * (e->x1 - e->x0), r->width);
        r->keys[k] = (uint64_t)e->polygon << 32 | (uint64_t)x;
    }
    sort_keys(r->keys, r->spare, r->n_active);
}

/* Turns the crossings into spans first << 32 | end, in no order; returns how many. Rings are
 * closed, so each polygon has an even number of crossings. */
static int64_t find_spans(struct polygons_rows *r)
{
    int64_t n = 0;
    for (int64_t k = 0; k + 1 < r->n_active; k += 2) {
        const uint64_t first = r->keys[k] & UINT32_MAX, end = r->keys[k + 1] & UINT32_MAX;
        if (first < end)
            r->keys[n++] = first << 32 | end;
    }
    return n;
}

/* Sorts the n spans and unites those that overlap or touch. Returns how many are left. */
static int64_t unite(struct polygons_rows *r, int64_t n)
{
    int64_t last = -1;
    sort_keys(r->keys, r->spare, n);
    for (int64_t k = 0; k < n; k++) {
        const struct polygons_span s = {(int64_t)(r->keys[k] >> 32),
                                        (int64_t)(r->keys[k] & UINT32_MAX)};
        if (last < 0 || s.first > r->spans[last].end)
            r->spans[++last] = s;
        else if (s.end > r->spans[last].end)
            r->spans[last].end = s.end;
    }
    return last + 1;
}

const struct polygons_span *polygons_row(struct polygons_rows *r, int64_t y, int64_t *n)
{
    choose_active(r, y);
    find_crossings(r, y);
    *n = unite(r, find_spans(r));
    return r->spans;
}
