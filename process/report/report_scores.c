/* report_scores.c - see report_scores.h. */
#include "process/report/report_scores.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a report is scored from, and the scores. */
struct work {
    const struct report_slides *slides;
    const struct report_groups *groups;
    const struct report_limits *limits;
    struct report_scores *out;
};

/* --- pools --- */

/* The resolution with two significant digits: scanners of one kind differ by less. */
static void name_resolution(const struct report_slide *s, char *out, size_t size)
{
    const double mpp = s->mpp * s->downsample;
    if (mpp > 0 && mpp < 1e6)
        snprintf(out, size, "%.2g um/px", mpp);
    else
        snprintf(out, size, "unknown um/px, level %" PRId64, s->level);
}

/* The pool of slide k, which may be new; -1: out of memory. */
static int32_t find_pool(const struct work *w, int64_t k, struct err *e)
{
    struct report_scores *out = w->out;
    const int32_t group = w->groups->of[k];
    char resolution[sizeof out->pool->resolution];
    name_resolution(&w->slides->slide[k], resolution, sizeof resolution);
    for (int32_t p = 0; p < out->n_pools; p++)
        if (out->pool[p].group == group && !strcmp(out->pool[p].resolution, resolution))
            return p;
    struct report_pool *more = realloc(out->pool, ((size_t)out->n_pools + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    out->pool = more;
    more[out->n_pools] = (struct report_pool){.group = group};
    memcpy(more[out->n_pools].resolution, resolution, sizeof resolution);
    return out->n_pools++;
}

/* Work memory for all pools. */
struct room {
    double *values, *work; /* [n] */
    int32_t *group;        /* [n] */
    const float **cdfs;    /* [n] */
    float *columns;        /* [STATS_BLOCK * n] */
};

static int room_alloc(struct room *m, int64_t n, int32_t groups, struct err *e)
{
    const size_t most = (size_t)n + 2 * (size_t)groups + 1;
    m->values = malloc(most * sizeof *m->values);
    m->work = malloc(most * sizeof *m->work);
    m->group = malloc(most * sizeof *m->group);
    m->cdfs = malloc(most * sizeof *m->cdfs);
    m->columns = malloc(STATS_BLOCK * most * sizeof *m->columns);
    return m->values && m->work && m->group && m->cdfs && m->columns ? 0
                                                                     : err_set(e, "out of memory");
}

static void room_free(struct room *m)
{
    free(m->values);
    free(m->work);
    free(m->group);
    free(m->cdfs);
    free(m->columns);
}

/* --- scores --- */

static void score_metric(const struct work *w, int32_t pool, int metric, struct room *m)
{
    const struct report_slides *s = w->slides;
    struct report_score *of = w->out->of;
    struct stats_summary *sum = &w->out->pool[pool].summary[metric];
    int64_t n = 0;
    for (int64_t k = 0; k < s->n; k++)
        if (of[k].pool == pool)
            m->values[n++] = s->slide[k].metric[metric];
    *sum = stats_summarise(m->values, n, m->work);
    for (int64_t k = 0; k < s->n && report_metric(metric)->low; k++) {
        if (of[k].pool != pool)
            continue;
        const double z = stats_z(sum, s->slide[k].metric[metric]);
        of[k].z[metric] = z;
        w->out->scored += !isnan(z);
        w->out->flags += fabs(z) > STATS_FLAG;
    }
}

static void summarise_profile(const struct work *w, int32_t pool, struct room *m)
{
    struct report_pool *q = &w->out->pool[pool];
    for (int j = 0; j < REPORT_OCTAVES; j++) {
        int64_t n = 0;
        for (int64_t k = 0; k < w->slides->n; k++)
            if (w->out->of[k].pool == pool)
                m->values[n++] = w->slides->slide[k].profile[j];
        const struct stats_summary s = stats_summarise(m->values, n, m->work);
        q->profile[0][j] = s.q25;
        q->profile[1][j] = s.q50;
        q->profile[2][j] = s.q75;
    }
}

/* The pool's median histogram, and the distance of each slide to it. */
static int measure_distances(const struct work *w, int32_t pool, struct room *m, struct err *e)
{
    const struct report_slides *s = w->slides;
    const struct result_params *p = &s->params;
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    struct report_pool *q = &w->out->pool[pool];
    struct report_score *of = w->out->of;
    for (int64_t k = 0; k < s->n; k++) {
        q->n += of[k].pool == pool;
        if (of[k].pool == pool && s->slide[k].cdf)
            m->cdfs[q->counted++] = s->slide[k].cdf;
    }
    if (q->counted == 0)
        return 0;
    q->median = malloc((size_t)p->bins * sizeof *q->median);
    if (!q->median)
        return err_set(e, "out of memory");
    stats_median_cdf(m->cdfs, q->counted, p->bins, q->median, m->columns);
    for (int64_t k = 0; k < s->n; k++)
        if (of[k].pool == pool && s->slide[k].cdf)
            of[k].w1 = stats_w1(s->slide[k].cdf, q->median, p->bins, width);
    return 0;
}

/* --- verdicts --- */

double report_value(const struct report_slides *s, const struct report_scores *scores, int64_t k,
                    int metric)
{
    return metric == REPORT_METRICS ? scores->of[k].w1 : s->slide[k].metric[metric];
}

/* A slide without a value of a metric that has a limit has no verdict, unless another fails. */
static enum report_verdict judge(const struct work *w, int64_t slide)
{
    bool unknown = false;
    int worst = REPORT_NO_VERDICT;
    for (int64_t k = 0; k < w->limits->n; k++) {
        const struct report_limit *l = &w->limits->limit[k];
        const double x = report_value(w->slides, w->out, slide, l->metric);
        if (!report_limit_holds(l, w->groups->of[slide]))
            continue;
        const int verdict = report_limit_breaks(l, x, l->fail)   ? REPORT_FAIL
                            : report_limit_breaks(l, x, l->warn) ? REPORT_WARN
                                                                 : REPORT_PASS;
        unknown = unknown || isnan(x);
        worst = verdict > worst ? verdict : worst;
    }
    return worst == REPORT_PASS && unknown ? REPORT_NO_VERDICT : (enum report_verdict)worst;
}

/* --- all --- */

static int score_pool(const struct work *w, int32_t pool, struct room *m, struct err *e)
{
    for (int metric = 0; metric < REPORT_METRICS; metric++)
        score_metric(w, pool, metric, m);
    summarise_profile(w, pool, m);
    return measure_distances(w, pool, m, e);
}

static void measure_groups(const struct work *w, struct room *m)
{
    const int64_t n = w->slides->n;
    for (int metric = 0; metric < REPORT_METRICS; metric++) {
        for (int64_t k = 0; k < n; k++) {
            m->values[k] = w->slides->slide[k].metric[metric];
            m->group[k] = w->out->of[k].pool;
        }
        w->out->eta[metric] = stats_eta_squared(m->values, m->group, n, w->out->n_pools, m->work);
    }
}

static int find_pools(const struct work *w, struct err *e)
{
    for (int64_t k = 0; k < w->slides->n; k++) {
        struct report_score *x = &w->out->of[k];
        for (int m = 0; m < REPORT_METRICS; m++)
            x->z[m] = NAN;
        x->w1 = NAN;
        if ((x->pool = find_pool(w, k, e)) < 0)
            return -1;
    }
    return 0;
}

int report_score(const struct report_slides *s, const struct report_groups *g,
                 const struct report_limits *l, struct report_scores *out, struct err *e)
{
    const struct work w = {s, g, l, out};
    struct room m = {0};
    out->of = calloc((size_t)s->n + 1, sizeof *out->of);
    int bad = out->of ? find_pools(&w, e) : err_set(e, "out of memory");
    bad = bad || room_alloc(&m, s->n, out->n_pools, e);
    for (int32_t p = 0; p < out->n_pools && !bad; p++)
        bad = score_pool(&w, p, &m, e);
    if (!bad)
        measure_groups(&w, &m);
    for (int64_t k = 0; k < s->n && !bad; k++)
        out->of[k].verdict = judge(&w, k);
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
