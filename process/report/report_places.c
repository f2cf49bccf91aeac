/* report_places.c - see report_view.h. */
#include "process/report/report_view.h"

#include "common/base/cli.h"
#include "common/base/folder.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "process/report/report_pictures.h"
#include "process/report/report_slides.h"
#include "process/scores/score_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Windows farther from their mean place than this, of the slide's width and height (root mean
 * square), are in many places. */
#define SPREAD 0.3

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
    p.where = square / n - x * x - y * y > SPREAD * SPREAD ? "in many places" : name_place(x, y);
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
    want[REPORT_PLACE_DULL] = is_reason(s, scores, k, REPORT_FOCUS_P05, true) ||
                              is_reason(s, scores, k, REPORT_FOCUS_P50, true);
    want[REPORT_PLACE_DAMAGED] = s->slide[k].damaged > 0;
    want[REPORT_PLACE_HUE] = report_excess(s, scores, k, REPORT_HUE) > 1;
    want[REPORT_PLACE_DENSE] = is_reason(s, scores, k, REPORT_STAIN, false);
}

/* What of the slide is read for that. */
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
static int find_places(struct report_again *again, const struct report_slides *s,
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
    struct err why = {""};
    if (!parts)
        return 0;
    if (report_load_again(again, &s->slide[k], parts, &loaded, &why)) {
        if (err_is_trouble(&why))
            return err_set(e, "%s", why.msg);
        cli_say("%s; the places of its reasons are not known", why.msg);
        return 1;
    }
    struct windows w = {result_params(again->open), &loaded, REPORT_PLACE_BLURRED,
                        pool->blurred_below};
    if (want[REPORT_PLACE_BLURRED])
        of[REPORT_PLACE_BLURRED] = find_place(&w);
    if (want[REPORT_PLACE_DULL])
        of[REPORT_PLACE_DULL] = find_dull(&w);
    w.what = REPORT_PLACE_DAMAGED;
    if (want[REPORT_PLACE_DAMAGED])
        of[REPORT_PLACE_DAMAGED] = find_place(&w);
    for (int p = REPORT_PLACE_HUE; p <= REPORT_PLACE_DENSE; p++)
        if (want[p])
            result_stain_place(w.params, &loaded,
                               p == REPORT_PLACE_HUE ? pool->summary[REPORT_HUE].q50 : NAN,
                               &of[p].x, &of[p].y);
    result_slide_free(&loaded);
    return 0;
}

int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out, int64_t *bad,
                       struct err *e)
{
    struct report_again again = {.files = o->files, .params = &s->params};
    int r = (out->of = calloc((size_t)s->n + 1, sizeof *out->of)) ? 0 : err_set(e, "out of memory");
    for (int64_t k = 0; k < s->n && r >= 0; k++) {
        r = find_places(&again, s, scores, k, out->of[k], e);
        *bad += r > 0;
    }
    report_again_end(&again);
    return r < 0 ? -1 : 0;
}

void report_places_free(struct report_places *p)
{
    free(p->of);
}

enum { MEMORY = 16 << 20 }; /* of the cells of scores */

/* --- noise of the glass --- */

static bool needs_noise(const struct report_view *r, int64_t k)
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    const int n = report_reasons(r, k, reasons);
    for (int i = 0; i < n; i++)
        if (reasons[i].look == REPORT_LOOK_NOISE)
            return true;
    return false;
}

/* level_db of the windows without tissue. */
static float *noise_of(const struct result_slide *s)
{
    const int64_t n = s->nx * s->ny;
    const uint8_t *tissue = s->maps[RESULT_TISSUE].values;
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t k = 0; values && k < n; k++)
        values[k] = tissue[k] ? NAN : (float)result_map_value(&s->maps[RESULT_LEVEL], k);
    return values;
}

/* 1: the slide's result cannot be read again. */
static int add_noise(const struct report_view *r, int64_t k, struct report_again *again,
                     struct err *e)
{
    const struct report_slide *s = &r->slides->slide[k];
    struct result_slide loaded;
    struct err why = {""};
    const unsigned maps = RESULT_WITH_MAP(RESULT_LEVEL) | RESULT_WITH_MAP(RESULT_TISSUE);
    if (report_load_again(again, s, maps, &loaded, &why)) {
        if (err_is_trouble(&why))
            return err_set(e, "%s", why.msg);
        cli_say("%s; the page does not show the noise of its glass", why.msg);
        return 1;
    }
    float *values = noise_of(&loaded);
    const struct report_raster raster = {loaded.nx, loaded.ny, values, REPORT_NOISE_LOW,
                                         REPORT_NOISE_HIGH};
    const int bad = values
                        ? report_pictures_add(r->spool, s->pictures, REPORT_MORE_NOISE, &raster, e)
                        : err_set(e, "out of memory");
    free(values);
    result_slide_free(&loaded);
    return bad;
}

/* --- scores --- */

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The file with the scores of slide k, to be free()d; NULL: there is none. */
static char *file_of(const struct report_view *r, int64_t k)
{
    static const char *const endings[] = {".csv", ".npy", ".h5", ".hdf5"};
    const char *given = r->setup->scores, *name = r->slides->slide[k].name;
    char file[300];
    if (!is_folder(given)) {
        const char *base = path_base_name(given), *dot = strrchr(base, '.');
        const size_t n = dot ? (size_t)(dot - base) : strlen(base);
        return !strncmp(name, base, n) && !name[n] ? strdup(given) : NULL;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(file, sizeof file, "%s%s", name, endings[i]);
        char *path = strchr(name, '/') ? NULL : folder_join(given, file);
        if (path && !access(path, F_OK))
            return path;
        free(path);
    }
    return NULL;
}

static int make_map(const struct report_view *r, int64_t k, const char *path, struct score_map *m,
                    struct err *e)
{
    const struct report_slide *s = &r->slides->slide[k];
    const struct score_map_setup o = {.path = path,
                                      .file = {.limit = -1},
                                      .weights = WEIGHTS_BOX,
                                      .width = llround((double)s->width * s->downsample),
                                      .height = llround((double)s->height * s->downsample),
                                      .side = report_spool_side(r->spool),
                                      .memory = MEMORY};
    return score_map_make(&o, m, e);
}

static int add_map(const struct report_view *r, int64_t k, const struct score_map *m,
                   struct report_more *more, struct err *e)
{
    float *values = malloc((size_t)(m->cols * m->rows) * sizeof *values);
    int bad = values ? 0 : err_set(e, "out of memory");
    for (int64_t y = 0; y < m->rows && !bad; y++)
        bad = score_map_row(m, 0, y, values + y * m->cols, NULL, e);
    const struct report_raster raster = {m->cols, m->rows, values, more->low, more->high};
    bad = bad || report_pictures_add(r->spool, r->slides->slide[k].pictures, REPORT_MORE_SCORES,
                                     &raster, e);
    more->of[k].cell = m->cell;
    memcpy(more->of[k].name, m->name[0], SCORES_NAME);
    free(values);
    return bad ? -1 : 0;
}

/* One pass over the files of all slides. Colours run from 0 to 1 unless a value lies outside: then
 * low and high become the ends of all values, and another pass is needed. */
struct sweep {
    const struct report_view *r;
    struct report_more *more;
    double low, high; /* of all values */
    int64_t n, bad;
};

static int sweep_slide(struct sweep *w, int64_t k, struct err *e)
{
    struct err why = {""};
    struct score_map m;
    char *path = w->r->slides->slide[k].pictures ? file_of(w->r, k) : NULL;
    int bad = 0;
    if (!path)
        return 0;
    if (make_map(w->r, k, path, &m, &why)) {
        cli_say("%s", why.msg);
        w->bad++;
    } else {
        w->n++;
        w->low = w->low <= m.low[0] ? w->low : m.low[0];
        w->high = w->high >= m.high[0] ? w->high : m.high[0];
        bad = add_map(w->r, k, &m, w->more, e);
    }
    score_map_free(&m);
    free(path);
    return bad;
}

static int sweep(struct sweep *w, struct err *e)
{
    w->n = w->bad = 0;
    w->low = w->high = NAN;
    for (int64_t k = 0; k < w->r->slides->n; k++)
        if (stop_check(e) || sweep_slide(w, k, e))
            return -1;
    return 0;
}

static int add_scores(const struct report_view *r, struct report_more *more, int64_t *bad,
                      struct err *e)
{
    struct sweep w = {.r = r, .more = more};
    more->low = 0;
    more->high = 1;
    if (!(more->of = calloc((size_t)r->slides->n + 1, sizeof *more->of)))
        return err_set(e, "out of memory");
    if (sweep(&w, e))
        return -1;
    *bad += w.bad;
    if (w.n + w.bad == 0)
        return err_set(e, "--scores %s: has no NAME.csv, NAME.npy or NAME.h5 of a slide",
                       r->setup->scores);
    if (!(w.low < 0 || w.high > 1))
        return 0;
    more->low = w.low;
    more->high = w.high > w.low ? w.high : w.low + 1;
    return sweep(&w, e);
}

/* --- all --- */

int report_add_maps(const struct report_view *r, struct report_more *more, int64_t *bad,
                    struct err *e)
{
    struct report_again again = {.files = r->setup->files, .params = &r->slides->params};
    int failed = 0;
    if (!r->spool)
        return 0;
    for (int64_t k = 0; k < r->slides->n && failed >= 0; k++)
        if (r->slides->slide[k].pictures && needs_noise(r, k)) {
            failed = add_noise(r, k, &again, e);
            *bad += failed > 0;
        }
    report_again_end(&again);
    return failed < 0 || (r->setup->scores && add_scores(r, more, bad, e)) ? -1 : 0;
}

void report_more_free(struct report_more *m)
{
    free(m->of);
    m->of = NULL;
}
