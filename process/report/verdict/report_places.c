/* report_places.c - see report_places.h. */
#include "process/report/verdict/report_places.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/result/result_read.h"
#include "process/report/numbers/report_reread.h"
#include "process/report/numbers/report_rules.h"
#include "process/report/numbers/report_slides.h"

#include <math.h>
#include <stdlib.h>

/* Windows that have something in common. */
struct windows {
    const struct result_params *params;
    const struct result_slide *s;
    enum report_place_of what;
    double below; /* focus_db of blurred windows */
};

static bool is_one(const struct windows *w, int64_t k)
{
    const struct result_slide *s = w->s;
    if (w->what == REPORT_PLACE_DAMAGED)
        return ((const uint8_t *)s->maps[RESULT_FLAGS].values)[k] & RESULT_FLAG_DAMAGED;
    const double x = result_map_value(&s->maps[RESULT_FOCUS], k);
    return x < w->below && result_is_tissue(s, k); /* false for NaN */
}

/* The middle of window k, as parts of the slide's width and height. */
static double middle_x(const struct windows *w, int64_t k)
{
    const struct result_params *p = w->params;
    return ((double)(k % w->s->nx * p->stride) + (double)p->window / 2) / (double)w->s->width;
}

static double middle_y(const struct windows *w, int64_t k)
{
    const struct result_params *p = w->params;
    return ((double)(k / w->s->nx * p->stride) + (double)p->window / 2) / (double)w->s->height;
}

/* The one of the windows that is nearest to (x, y), as parts of the slide's width and height. */
static void go_to_nearest(const struct windows *w, double x, double y, struct report_place *p)
{
    double best = INFINITY;
    for (int64_t k = 0; k < w->s->nx * w->s->ny; k++) {
        const double u = middle_x(w, k), v = middle_y(w, k), d = hypot(u - x, v - y);
        if (d >= best || !is_one(w, k))
            continue;
        best = d;
        p->x = u;
        p->y = v;
    }
}

static const char *name_place(double x, double y)
{
    static const char *const names[3][3] = {
        {"in the upper left", "at the top", "in the upper right"},
        {"on the left", "in the middle", "on the right"},
        {"in the lower left", "at the bottom", "in the lower right"},
    };
    return names[y < 1 / 3.0 ? 0 : y < 2 / 3.0 ? 1 : 2][x < 1 / 3.0 ? 0 : x < 2 / 3.0 ? 1 : 2];
}

static struct report_place find_place(const struct windows *w)
{
    struct report_place p = {.x = NAN, .y = NAN};
    double x = 0, y = 0, square = 0, n = 0;
    for (int64_t k = 0; k < w->s->nx * w->s->ny; k++) {
        if (!is_one(w, k))
            continue;
        const double u = middle_x(w, k), v = middle_y(w, k);
        x += u;
        y += v;
        square += u * u + v * v;
        n++;
    }
    if (n == 0)
        return p;
    x /= n;
    y /= n;
    go_to_nearest(w, x, y, &p);
    p.where = square / n - x * x - y * y > RULE_SPREAD * RULE_SPREAD ? "in many places"
                                                                     : name_place(x, y);
    return p;
}

static struct report_place find_dull(const struct windows *w)
{
    const struct result_slide *s = w->s;
    struct report_place p = {.x = NAN, .y = NAN};
    double least = INFINITY;
    for (int64_t k = 0; k < s->nx * s->ny; k++) {
        const double x = result_map_value(&s->maps[RESULT_FOCUS], k);
        if (!(x < least) || !result_is_tissue(s, k))
            continue;
        least = x;
        p.x = middle_x(w, k);
        p.y = middle_y(w, k);
        p.where = name_place(p.x, p.y);
    }
    return p;
}

/* Is number m a reason, below or above what is usual? */
static bool is_reason(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                      int m, bool below)
{
    return (scores->of[k].z[m] < 0) == below && report_excess(s, scores, k, m) > 1;
}

/* The places that the reasons of slide k need. */
static void wanted(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                   bool want[REPORT_PLACES])
{
    want[REPORT_PLACE_BLURRED] = report_excess(s, scores, k, REPORT_BLURRED) > 1;
    want[REPORT_PLACE_DULL] = is_reason(s, scores, k, REPORT_FOCUS_P50, true);
    want[REPORT_PLACE_DAMAGED] = s->slide[k].damaged > 0;
    want[REPORT_PLACE_HUE] = report_excess(s, scores, k, REPORT_HUE) > 1;
    want[REPORT_PLACE_DENSE] = is_reason(s, scores, k, REPORT_STAIN, false);
}

/* The parts of the slide that are read for that. */
static unsigned parts_for(const bool want[REPORT_PLACES])
{
    const bool focus = want[REPORT_PLACE_BLURRED] || want[REPORT_PLACE_DULL];
    const bool stain = want[REPORT_PLACE_HUE] || want[REPORT_PLACE_DENSE];
    return (focus ? RESULT_WITH_MAP(RESULT_FOCUS) : 0) |
           (focus || stain ? RESULT_WITH_MAP(RESULT_TISSUE) : 0) |
           (stain ? RESULT_WITH_THUMBNAIL : 0) |
           (want[REPORT_PLACE_DAMAGED] ? RESULT_WITH_MAP(RESULT_FLAGS) : 0);
}

/* Reads the slide's maps, if a reason needs them. 1: they cannot be read any more. */
static int find_places(struct report_reread *reread, const struct report_slides *s,
                       const struct report_scores *scores, int64_t k,
                       struct report_place of[REPORT_PLACES], struct err *e)
{
    const struct report_pool *pool = &scores->pool[scores->of[k].pool];
    bool want[REPORT_PLACES] = {false};
    struct result_slide loaded;
    for (int p = 0; p < REPORT_PLACES; p++)
        of[p] = (struct report_place){.x = NAN, .y = NAN};
    wanted(s, scores, k, want);
    const unsigned parts = parts_for(want);
    struct err why = {0};
    if (!parts)
        return 0;
    if (report_reread_load(reread, &s->slide[k], parts, &loaded, &why)) {
        if (err_is_trouble(&why))
            return err_copy(e, &why);
        cli_say("%s; the places of its reasons are not known", why.msg);
        return 1;
    }
    struct windows w = {result_params(reread->open), &loaded, REPORT_PLACE_BLURRED,
                        report_blur_limit(scores, scores->of[k].pool)};
    if (want[REPORT_PLACE_BLURRED])
        of[REPORT_PLACE_BLURRED] = find_place(&w);
    if (want[REPORT_PLACE_DULL])
        of[REPORT_PLACE_DULL] = find_dull(&w);
    w.what = REPORT_PLACE_DAMAGED;
    if (want[REPORT_PLACE_DAMAGED])
        of[REPORT_PLACE_DAMAGED] = find_place(&w);
    for (int p = REPORT_PLACE_HUE; p <= REPORT_PLACE_DENSE; p++)
        if (want[p])
            report_numbers_stain_place(w.params, &loaded,
                                       p == REPORT_PLACE_HUE ? pool->summary[REPORT_HUE].q50 : NAN,
                                       &of[p].x, &of[p].y);
    result_slide_free(&loaded);
    return 0;
}

int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out, int64_t *bad,
                       struct err *e)
{
    struct report_reread reread = {.files = o->files, .params = &s->params};
    int r = 0;
    out->of = memory_need((size_t)s->n, sizeof *out->of);
    for (int64_t k = 0; k < s->n && r >= 0; k++) {
        r = find_places(&reread, s, scores, k, out->of[k], e);
        *bad += r > 0;
    }
    report_reread_end(&reread);
    return r < 0 ? -1 : 0;
}

void report_places_free(struct report_places *p)
{
    free(p->of);
}
