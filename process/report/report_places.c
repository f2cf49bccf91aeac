/* report_places.c - see report_places.h. */
#include "process/report/report_places.h"

#include "common/base/cli.h"
#include "process/report/report_again.h"

#include <math.h>
#include <stdlib.h>

/* Windows farther from their mean place than this, of the slide's width and height (root mean
 * square), are in many places. */
#define SPREAD 0.3

static bool is_blurred(const struct result_slide *s, int64_t k, double below)
{
    const double x = result_map_value(&s->maps[RESULT_FOCUS], k);
    return x < below && result_is_tissue(s, k); /* false for NaN */
}

/* The blurred window that is nearest to (x, y), as parts of the slide's width and height. */
static void go_to_nearest(const struct result_slide *s, double below, double x, double y,
                          struct report_place *p)
{
    double best = INFINITY;
    for (int64_t k = 0; k < s->nx * s->ny; k++) {
        const double u = ((double)(k % s->nx) + 0.5) / (double)s->nx;
        const double v = ((double)(k / s->nx) + 0.5) / (double)s->ny;
        const double d = hypot(u - x, v - y);
        if (d >= best || !is_blurred(s, k, below))
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

static struct report_place find_place(const struct result_slide *s, double below)
{
    struct report_place p = {.x = NAN, .y = NAN};
    double x = 0, y = 0, square = 0, n = 0;
    for (int64_t k = 0; s->maps[RESULT_FOCUS].values && k < s->nx * s->ny; k++) {
        if (!is_blurred(s, k, below))
            continue;
        const double u = ((double)(k % s->nx) + 0.5) / (double)s->nx;
        const double v = ((double)(k / s->nx) + 0.5) / (double)s->ny;
        x += u;
        y += v;
        square += u * u + v * v;
        n++;
    }
    if (n == 0)
        return p;
    x /= n;
    y /= n;
    go_to_nearest(s, below, x, y, &p);
    p.where = square / n - x * x - y * y > SPREAD * SPREAD ? "in many places" : name_place(x, y);
    return p;
}

int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out, struct err *e)
{
    struct report_again again = {.files = o->files};
    int bad =
        (out->of = calloc((size_t)s->n + 1, sizeof *out->of)) ? 0 : err_set(e, "out of memory");
    for (int64_t k = 0; k < s->n && !bad; k++) {
        struct result_slide loaded;
        out->of[k] = (struct report_place){.x = NAN, .y = NAN};
        if (report_excess(s, scores, k, REPORT_BLURRED) <= 1)
            continue;
        const unsigned maps = RESULT_WITH_MAP(RESULT_FOCUS) |
                              (s->slide[k].version >= 3 ? RESULT_WITH_MAP(RESULT_TISSUE) : 0);
        struct err why = {""};
        if (report_load_again(&again, &s->slide[k], maps, &loaded, &why)) {
            cli_say("%s; where it is blurred is not known", why.msg);
            continue;
        }
        out->of[k] = find_place(&loaded, scores->pool[scores->of[k].pool].blurred_below);
        result_slide_free(&loaded);
    }
    report_again_end(&again);
    return bad ? -1 : 0;
}

void report_places_free(struct report_places *p)
{
    free(p->of);
}
