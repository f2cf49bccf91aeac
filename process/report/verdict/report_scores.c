/* report_scores.c - see report_scores.h. */
#include "process/report/verdict/report_scores.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/result/same_resolution.h"
#include "process/report/numbers/report_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_BYTES = 64 << 20 }; /* of cumulative histograms that are in memory at a time */

/* What a report is scored from, and the scores. */
struct work {
    const struct report_slides *slides;
    const struct report_groups *groups;
    struct report_scores *out;
};

/* --- pools --- */

/* A slide on its way to a pool. */
struct place {
    int32_t group;
    bool known;   /* is the um per pixel known? */
    double value; /* um per pixel; if it is not known, the downsample, 1 if that is not known */
    const char *vendor; /* "" and 0 where the user says what goes together, or the um is known */
    double side;        /* the longer one, px of level 0 */
    int64_t slide;      /* its number */
    int64_t set;        /* number of the slides of its group that have its resolution */
};

static int by_resolution(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->known != y->known)
        return x->known ? -1 : 1;
    if (strcmp(x->vendor, y->vendor) != 0)
        return strcmp(x->vendor, y->vendor);
    return x->value < y->value ? -1 : x->value > y->value;
}

static int by_size(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    return x->side < y->side ? -1 : x->side > y->side;
}

static int by_slide(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->slide < y->slide ? -1 : x->slide > y->slide;
}

/* Numbers the sets of n places, which are sorted by resolution. Returns how many there are. */
static int64_t find_sets(struct place *p, int64_t n)
{
    double *value = memory_need((size_t)n, sizeof *value);
    int64_t *set = memory_need((size_t)n, sizeof *set), sets = 0;
    for (int64_t k = 0; k < n;) {
        int64_t m = 0;
        for (; k + m < n && p[k + m].group == p[k].group && p[k + m].known == p[k].known &&
               !strcmp(p[k + m].vendor, p[k].vendor);
             m++)
            value[m] = p[k + m].value;
        sets = same_resolution_sets(value, m, sets, set);
        for (int64_t j = 0; j < m; j++)
            p[k++].set = set[j];
    }
    free(value);
    free(set);
    return sets;
}

/* Cuts n places of one set, sorted by size, at the widest gaps until no set spans
 * RULE_UNKNOWN_SIZES. */
static void cut_by_size(struct place *p, int64_t n, int64_t *sets)
{
    int64_t cut = 0;
    double widest = 1;
    if (n < 2 || !(p[n - 1].side >= RULE_UNKNOWN_SIZES * p[0].side) || !(p[0].side > 0))
        return;
    for (int64_t k = 1; k < n; k++)
        if (p[k].side / p[k - 1].side > widest) {
            widest = p[k].side / p[k - 1].side;
            cut = k;
        }
    for (int64_t k = cut; k < n; k++)
        p[k].set = *sets;
    ++*sets;
    cut_by_size(p, cut, sets);
    cut_by_size(p + cut, n - cut, sets);
}

static int64_t cut_sets(struct place *p, int64_t n, int64_t sets)
{
    qsort(p, (size_t)n, sizeof *p, by_size);
    for (int64_t k = 0, m; k < n; k += m) {
        const int64_t set = p[k].set;
        for (m = 1; k + m < n && p[k + m].set == set; m++)
            ;
        cut_by_size(p + k, m, &sets);
    }
    return sets;
}

/* With two significant digits, and more where another pool of the group has the same ones. */
static void name_resolution(struct report_scores *out, struct report_pool *q, const struct place *p,
                            bool several)
{
    for (int digits = 2; digits <= 9; digits++) {
        bool taken = false;
        if (p->known)
            snprintf(q->resolution, sizeof q->resolution, "%.*g um/px", digits, p->value);
        else if (several)
            snprintf(q->resolution, sizeof q->resolution, "unknown um/px, %.16s, %.*g px",
                     p->vendor, digits, p->side);
        else
            snprintf(q->resolution, sizeof q->resolution,
                     p->value == 1 ? "unknown um/px" : "unknown um/px, downsampled by %.*g", digits,
                     p->value);
        for (const struct report_pool *x = out->pool; x < q; x++)
            taken |= x->group == q->group && !strcmp(x->resolution, q->resolution);
        if (!taken)
            return;
    }
}

/* Is another set of the group's slides of unknown um per px of the same downsample? */
static bool has_others(const struct place *p, int64_t n, const struct place *of)
{
    for (int64_t k = 0; k < n && !of->known; k++)
        if (!p[k].known && p[k].group == of->group && p[k].set != of->set &&
            p[k].value == of->value)
            return true;
    return false;
}

/* Makes a pool of each set, in the order of their first slides. */
static void make_pools(struct report_scores *out, const struct place *p, int64_t n, int64_t sets)
{
    int32_t *pool = memory_need((size_t)sets, sizeof *pool);
    out->pool = memory_need((size_t)sets, sizeof *out->pool);
    for (int64_t k = 0; k < sets; k++)
        pool[k] = -1;
    for (int64_t k = 0; k < n; k++) {
        int32_t *of = &pool[p[k].set];
        if (*of < 0) {
            struct report_pool *q = &out->pool[ *of = out->n_pools++];
            q->group = p[k].group;
            q->unknown = !p[k].known;
            name_resolution(out, q, &p[k], has_others(p, n, &p[k]));
        }
        out->of[k].pool = *of;
    }
    free(pool);
}

static void find_pools(const struct work *w)
{
    const int64_t n = w->slides->n;
    struct place *p = memory_need((size_t)n, sizeof *p);
    for (int64_t k = 0; k < n; k++) {
        const struct report_slide *s = &w->slides->slide[k];
        const bool known = s->um > 0 && s->um < 1e6;
        const double value = known ? s->um : s->downsample;
        p[k] =
            (struct place){.group = w->groups->of[k], .known = known, .value = value, .slide = k};
        p[k].vendor = "";
        if (!known && !w->groups->asked) {
            p[k].vendor = s->vendor;
            p[k].side = s->downsample * (double)(s->width > s->height ? s->width : s->height);
        }
    }
    qsort(p, (size_t)n, sizeof *p, by_resolution);
    const int64_t sets = cut_sets(p, n, find_sets(p, n));
    qsort(p, (size_t)n, sizeof *p, by_slide);
    make_pools(w->out, p, n, sets);
    free(p);
}

/* Work memory for all pools. */
struct room {
    double *values, *work; /* [n] */
    const float **cdfs;    /* [n] */
    float *columns;        /* [STATS_BLOCK * n] */
};

static int room_alloc(struct room *m, int64_t n, struct err *e)
{
    const size_t most = (size_t)n + 1;
    m->values = malloc(most * sizeof *m->values);
    m->work = malloc(most * sizeof *m->work);
    m->cdfs = malloc(most * sizeof *m->cdfs);
    m->columns = malloc(STATS_BLOCK * most * sizeof *m->columns);
    return m->values && m->work && m->cdfs && m->columns ? 0 : err_memory(e);
}

static void room_free(struct room *m)
{
    free(m->values);
    free(m->work);
    free(m->cdfs);
    free(m->columns);
}

/* --- scores --- */

/* Does slide k say what is usual in its pool? */
static bool is_reference(const struct work *w, int64_t k, int32_t pool)
{
    const struct report_score *x = &w->out->of[k];
    return x->pool == pool && (w->out->pool[pool].accepted == 0 || x->accepted);
}

/* What half of a group shows is no reason against one slide of it: limits of values give way. */
static void spare_half(const struct work *w, int32_t pool, int m)
{
    struct report_pool *q = &w->out->pool[pool];
    int64_t n = 0, below = 0, above = 0;
    for (int64_t k = 0; k < w->slides->n; k++) {
        const double value = report_value(w->slides, w->out, k, m);
        if (!is_reference(w, k, pool) || isnan(value))
            continue;
        n++;
        below += value < q->least[m];
        above += value > q->most[m];
    }
    if (below > 1 && 2 * below >= n)
        q->least[m] = 0;
    if (above > 1 && 2 * above >= n)
        q->most[m] = fmax(q->most[m], RULE_SHARE_OF_GROUP * q->summary[m].q75);
}

/* Finds the usual range, once z is known. */
static void find_usual(const struct work *w, int32_t pool, int m)
{
    struct report_pool *q = &w->out->pool[pool];
    const struct report_metric *of = report_metric(m);
    for (int side = 0; side < 2; side++)
        q->usual[m][side] = of->skewed ? stats_limit(&q->summary[m], side, of->floor)
                            : side && of->unsure
                                ? STATS_FLAG * (1 + RULE_FEW / (double)q->summary[m].n)
                                : STATS_FLAG;
    q->most[m] = of->most > 0 ? of->most : NAN;
    if (of->widens && q->summary[m].n >= STATS_LEAST)
        q->most[m] =
            fmin(RULE_MOST_WIDENED * of->most,
                 fmax(of->most, q->summary[m].q50 + STATS_FLAG * q->summary[m].mad / 0.6745));
    if (of->spreads)
        q->most[m] = q->summary[m].n < STATS_LEAST
                         ? fmax(of->most, RULE_SHARE_ALONE)
                         : fmax(of->most, RULE_SHARE_OF_GROUP * q->summary[m].q75);
    q->least[m] = of->least_value;
    spare_half(w, pool, m);
    for (int64_t k = 0; k < w->slides->n; k++) {
        const struct report_score *x = &w->out->of[k];
        if (x->pool != pool || !x->accepted)
            continue;
        q->usual[m][0] = fmax(q->usual[m][0], -x->z[m]);
        q->usual[m][1] = fmax(q->usual[m][1], x->z[m]);
        if (!isnan(q->most[m]))
            q->most[m] = fmax(q->most[m], report_value(w->slides, w->out, k, m));
    }
}

static double difference(const struct report_metric *x, double value, double usually)
{
    return x->angle ? stats_turn(value, usually) : value - usually;
}

static void score_metric(const struct work *w, int32_t pool, int metric, struct room *m)
{
    const struct report_metric *x = report_metric(metric);
    const struct report_slides *s = w->slides;
    struct report_score *of = w->out->of;
    struct stats_summary *sum = &w->out->pool[pool].summary[metric];
    int64_t n = 0;
    for (int64_t k = 0; k < s->n; k++)
        if (is_reference(w, k, pool))
            m->values[n++] = report_value(s, w->out, k, metric);
    if (x->angle)
        stats_unwrap(m->values, n, m->work);
    *sum = stats_summarise(m->values, n, m->work);
    if (sum->mad < x->floor)
        sum->mad = x->floor;
    for (int64_t k = 0; k < s->n && report_is_scored(metric); k++)
        if (of[k].pool == pool)
            of[k].z[metric] = stats_z(
                sum, sum->q50 + difference(x, report_value(s, w->out, k, metric), sum->q50));
    find_usual(w, pool, metric);
}

/* --- blur --- */

/* The bin that holds value number `rank` of those counted in bins, from 0. */
static int find_rank(const uint64_t *bins, int n, uint64_t rank)
{
    uint64_t sum = 0;
    for (int k = 0; k < n; k++)
        if ((sum += bins[k]) > rank)
            return k;
    return n - 1;
}

/* Median less 3.5 robust standard deviations, as a bin: values in bins before it are blurred. -1:
 * not known. */
static int find_blurred(const uint64_t *bins)
{
    uint64_t away[RESULT_SHARP_BINS] = {0}, n = 0;
    for (int k = 0; k < RESULT_SHARP_BINS; k++)
        n += bins[k];
    if (n == 0)
        return -1;
    const int middle = find_rank(bins, RESULT_SHARP_BINS, n / 2);
    for (int k = 0; k < RESULT_SHARP_BINS; k++)
        away[abs(k - middle)] += bins[k];
    const int mad = find_rank(away, RESULT_SHARP_BINS, n / 2);
    const double below = middle - STATS_FLAG * mad / 0.6745;
    return mad == 0 ? -1 : below < 0 ? 0 : (int)below;
}

/* Part of a slide's windows in bins before `end`; *windows: how many these are. */
static double part_before(const uint32_t *bins, int end, uint64_t *windows)
{
    uint64_t n = 0, blurred = 0;
    for (int k = 0; k < RESULT_SHARP_BINS; k++) {
        n += bins[k];
        blurred += k < end ? bins[k] : 0;
    }
    *windows = blurred;
    return n > 0 ? (double)blurred / (double)n : NAN;
}

static void measure_blur(const struct work *w, int32_t pool)
{
    struct report_pool *q = &w->out->pool[pool];
    uint64_t bins[RESULT_SHARP_BINS] = {0};
    int64_t slides = 0;
    q->blurred_below = NAN;
    for (int64_t k = 0; k < w->slides->n; k++) {
        const uint32_t *own = is_reference(w, k, pool) ? report_sharp(w->slides, k) : NULL;
        if (!own)
            continue;
        slides++;
        for (int b = 0; b < RESULT_SHARP_BINS; b++)
            bins[b] += own[b];
    }
    const int end = slides < STATS_LEAST ? -1 : find_blurred(bins);
    if (end < 0)
        return;
    q->blurred_below = RESULT_SHARP_LOW + RESULT_SHARP_STEP * end;
    for (int64_t k = 0; k < w->slides->n; k++) {
        const uint32_t *own = w->out->of[k].pool == pool ? report_sharp(w->slides, k) : NULL;
        if (own)
            w->out->of[k].blurred = part_before(own, end, &w->out->of[k].blurred_windows);
    }
}

/* The pointwise median of the cumulative histograms of the slides that say what is usual, some bins
 * at a time. -1: no memory. */
static int find_median(const struct work *w, int32_t pool, int64_t slides, struct room *m)
{
    const struct report_slides *s = w->slides;
    const struct report_pool *q = &w->out->pool[pool];
    const int64_t bins = s->params.bins, room = TILE_BYTES / (int64_t)sizeof(float) / slides;
    const int64_t width = room < STATS_BLOCK ? STATS_BLOCK : room < bins ? room : bins;
    float *tile = malloc((size_t)slides * (size_t)width * sizeof *tile);
    if (!tile)
        return -1;
    for (int64_t first = 0; first < bins; first += width) {
        const int64_t cols = bins - first < width ? bins - first : width;
        int64_t n = 0;
        for (int64_t k = 0; k < s->n; k++) {
            const float *cdf = is_reference(w, k, pool) ? report_cdf(s, k) : NULL;
            if (!cdf)
                continue;
            m->cdfs[n] = memcpy(tile + n * width, cdf + first, (size_t)cols * sizeof *tile);
            n++;
        }
        stats_median_cdf(m->cdfs, n, cols, q->median + first, m->columns);
    }
    free(tile);
    return 0;
}

/* The pool's median histogram, and the distance of each slide to it. */
static int measure_distances(const struct work *w, int32_t pool, struct room *m, struct err *e)
{
    const struct report_slides *s = w->slides;
    const struct result_params *p = &s->params;
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    struct report_pool *q = &w->out->pool[pool];
    struct report_score *of = w->out->of;
    int64_t references = 0;
    for (int64_t k = 0; k < s->n; k++) {
        q->n += of[k].pool == pool;
        q->counted += of[k].pool == pool && s->slide[k].curves >= 0;
        references += is_reference(w, k, pool) && s->slide[k].curves >= 0;
    }
    if (references == 0)
        return 0;
    q->median = malloc((size_t)p->bins * sizeof *q->median);
    if (!q->median || find_median(w, pool, references, m))
        return err_memory(e);
    for (int64_t k = 0; k < s->n; k++) {
        const float *cdf = of[k].pool == pool ? report_cdf(s, k) : NULL;
        if (cdf)
            of[k].w1 = stats_w1(cdf, q->median, p->bins, width);
    }
    return 0;
}

/* --- values --- */

/* Too few slides have no median that says what is usual. */
static double distance(const struct report_scores *scores, int64_t k)
{
    const struct report_score *x = &scores->of[k];
    return scores->pool[x->pool].counted < STATS_LEAST ? NAN : x->w1;
}

double report_value(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                    int m)
{
    return m == REPORT_W1        ? distance(scores, k)
           : m == REPORT_BLURRED ? scores->of[k].blurred
                                 : s->slide[k].metric[m];
}

/* Does it differ from what is usual by enough to matter, whatever its z? */
static bool matters(const struct report_metric *x, double value, double usually)
{
    const double least = x->least * (x->ratio ? usually : 1);
    const double low = fmin(value, usually), high = fmax(value, usually);
    return fabs(difference(x, value, usually)) >= least &&
           (x->low_below == 0 || value > usually || value < x->low_below) &&
           (x->times == 0 || high >= x->times * low);
}

double report_excess(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                     int m)
{
    const struct report_pool *q = &scores->pool[scores->of[k].pool];
    const struct report_metric *x = report_metric(m);
    const double z = scores->of[k].z[m], value = report_value(s, scores, k, m);
    const double limit = isnan(value)          ? 0
                         : value < q->least[m] ? q->least[m] / fmax(value, 1)
                         : q->most[m] > 0      ? value / q->most[m]
                                               : 0;
    if (m == REPORT_BLURRED && scores->of[k].blurred_windows < RULE_LEAST_BLURRED)
        return 0;
    if (isnan(z) || !(z < 0 ? x->low : x->high) || !matters(x, value, q->summary[m].q50))
        return limit;
    return fmax(limit, fabs(z) / q->usual[m][z > 0]);
}

double report_blur_limit(const struct report_scores *scores, int32_t pool)
{
    return scores->pool[pool].blurred_below;
}

/* --- all --- */

static int score_pool(const struct work *w, int32_t pool, struct room *m, struct err *e)
{
    measure_blur(w, pool);
    for (int metric = 0; metric < REPORT_METRICS; metric++)
        score_metric(w, pool, metric, m);
    return measure_distances(w, pool, m, e);
}

/* --- accepted slides --- */

struct accepting {
    const struct work *w;
    int64_t unknown; /* names that no result has */
    char first[300]; /* the first of them */
};

static int accept_one(void *ctx, const char *name, struct err *e)
{
    struct accepting *a = ctx;
    struct report_scores *out = a->w->out;
    const int64_t k = report_find_slide(a->w->slides, name);
    (void)e;
    if (k < 0 && a->unknown++ == 0)
        snprintf(a->first, sizeof a->first, "%s", name);
    if (k >= 0 && !out->of[k].accepted) {
        out->of[k].accepted = true;
        out->pool[out->of[k].pool].accepted++;
    }
    return 0;
}

static int accept(const struct work *w, const char *path, struct err *e)
{
    struct accepting a = {.w = w};
    if (!path)
        return 0;
    if (cli_list(path, accept_one, &a, e))
        return -1;
    if (a.unknown > 0)
        cli_say("%s: %" PRId64 " name%s that no result has%s: %s", path, a.unknown,
                a.unknown == 1 ? "" : "s", a.unknown == 1 ? "" : ", the first", a.first);
    return 0;
}

int report_score(const struct report_slides *s, const struct report_groups *g, const char *accepted,
                 struct report_scores *out, struct err *e)
{
    const struct work w = {s, g, out};
    struct room m = {0};
    out->of = memory_need((size_t)s->n, sizeof *out->of);
    for (int64_t k = 0; k < s->n; k++) {
        struct report_score *x = &out->of[k];
        for (int metric = 0; metric < REPORT_METRICS; metric++)
            x->z[metric] = NAN;
        x->w1 = x->blurred = NAN;
    }
    find_pools(&w);
    int bad = accept(&w, accepted, e) || room_alloc(&m, s->n, e);
    for (int32_t p = 0; p < out->n_pools && !bad; p++)
        bad = score_pool(&w, p, &m, e);
    room_free(&m);
    return bad ? -1 : 0;
}

void report_scores_free(struct report_scores *s)
{
    for (int32_t p = 0; p < s->n_pools; p++)
        free(s->pool[p].median);
    free(s->pool);
    free(s->of);
}
