/* report_scores.c - pools, scores, distances and verdicts; see report.h. */
#include "process/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static int find_pool(struct report *r, struct report_slide *s, struct err *e)
{
    char resolution[sizeof r->pools->resolution];
    name_resolution(s, resolution, sizeof resolution);
    for (int32_t k = 0; k < r->n_pools; k++)
        if (r->pools[k].group == s->group && !strcmp(r->pools[k].resolution, resolution))
            return s->pool = k, 0;
    struct report_pool *more = realloc(r->pools, ((size_t)r->n_pools + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    r->pools = more;
    more[r->n_pools] = (struct report_pool){.group = s->group};
    memcpy(more[r->n_pools].resolution, resolution, sizeof resolution);
    s->pool = r->n_pools++;
    return 0;
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

static void score_metric(struct report *r, int32_t pool, int metric, struct room *m)
{
    struct stats_summary *sum = &r->pools[pool].summary[metric];
    int64_t n = 0;
    for (int64_t k = 0; k < r->n; k++)
        if (r->slides[k].pool == pool)
            m->values[n++] = r->slides[k].metric[metric];
    *sum = stats_summarise(m->values, n, m->work);
    for (int64_t k = 0; k < r->n && report_metric(metric)->low; k++) {
        struct report_slide *s = &r->slides[k];
        if (s->pool != pool)
            continue;
        s->z[metric] = stats_z(sum, s->metric[metric]);
        r->scored += !isnan(s->z[metric]);
        r->flags += fabs(s->z[metric]) > STATS_FLAG;
    }
}

static void summarise_profile(struct report *r, int32_t pool, struct room *m)
{
    for (int j = 0; j < REPORT_OCTAVES; j++) {
        int64_t n = 0;
        for (int64_t k = 0; k < r->n; k++)
            if (r->slides[k].pool == pool)
                m->values[n++] = r->slides[k].profile[j];
        const struct stats_summary s = stats_summarise(m->values, n, m->work);
        r->pools[pool].profile[0][j] = s.q25;
        r->pools[pool].profile[1][j] = s.q50;
        r->pools[pool].profile[2][j] = s.q75;
    }
}

/* The pool's median histogram, and the distance of each slide to it. */
static int measure_distances(struct report *r, int32_t pool, struct room *m, struct err *e)
{
    const struct result_params *p = &r->params;
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    struct report_pool *q = &r->pools[pool];
    for (int64_t k = 0; k < r->n; k++) {
        q->n += r->slides[k].pool == pool;
        if (r->slides[k].pool == pool && r->slides[k].cdf)
            m->cdfs[q->counted++] = r->slides[k].cdf;
    }
    if (q->counted == 0)
        return 0;
    q->median = malloc((size_t)p->bins * sizeof *q->median);
    if (!q->median)
        return err_set(e, "out of memory");
    stats_median_cdf(m->cdfs, q->counted, p->bins, q->median, m->columns);
    for (int64_t k = 0; k < r->n; k++)
        if (r->slides[k].pool == pool && r->slides[k].cdf)
            r->slides[k].w1 = stats_w1(r->slides[k].cdf, q->median, p->bins, width);
    return 0;
}

/* --- verdicts --- */

/* A slide without a value of a metric that has a limit has no verdict, unless another fails. */
static void judge(struct report *r, struct report_slide *s)
{
    bool unknown = false;
    int worst = REPORT_NO_VERDICT;
    for (int64_t k = 0; k < r->n_limits; k++) {
        const struct report_limit *l = &r->limits[k];
        const double x = report_value(s, l->metric);
        if (!report_limit_holds(l, s))
            continue;
        const int verdict = report_limit_breaks(l, x, l->fail)   ? REPORT_FAIL
                            : report_limit_breaks(l, x, l->warn) ? REPORT_WARN
                                                                 : REPORT_PASS;
        unknown = unknown || isnan(x);
        worst = verdict > worst ? verdict : worst;
    }
    s->verdict = worst == REPORT_PASS && unknown ? REPORT_NO_VERDICT : (enum report_verdict)worst;
}
/* --- all --- */

static int score_pool(struct report *r, int32_t pool, struct room *m, struct err *e)
{
    for (int metric = 0; metric < REPORT_METRICS; metric++)
        score_metric(r, pool, metric, m);
    summarise_profile(r, pool, m);
    return measure_distances(r, pool, m, e);
}

static void measure_groups(struct report *r, struct room *m)
{
    for (int metric = 0; metric < REPORT_METRICS; metric++) {
        for (int64_t k = 0; k < r->n; k++) {
            m->values[k] = r->slides[k].metric[metric];
            m->group[k] = r->slides[k].pool;
        }
        r->eta[metric] = stats_eta_squared(m->values, m->group, r->n, r->n_pools, m->work);
    }
}

int report_score(struct report *r, struct err *e)
{
    struct room m = {0};
    int bad = 0;
    for (int64_t k = 0; k < r->n && !bad; k++)
        bad = find_pool(r, &r->slides[k], e);
    bad = bad || room_alloc(&m, r->n, r->n_pools, e);
    for (int32_t p = 0; p < r->n_pools && !bad; p++)
        bad = score_pool(r, p, &m, e);
    if (!bad)
        measure_groups(r, &m);
    for (int64_t k = 0; k < r->n && !bad; k++)
        judge(r, &r->slides[k]);
    room_free(&m);
    return bad ? -1 : 0;
}
