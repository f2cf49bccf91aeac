/* report_reasons.c - see report_reasons.h. */
#include "process/report/report_reasons.h"

#include "common/store/store.h"

#include <inttypes.h>
#include <math.h>

void report_pool_label(const struct report_view *r, int32_t pool, char *out, size_t size)
{
    const struct report_pool *p = &r->scores->pool[pool];
    snprintf(out, size, "%s, %s", r->names->group[p->group], p->resolution);
}

const char *report_failure_reason(const struct report_view *r, int64_t failure)
{
    return r->setup->number_names ? "not shown, because it may contain names; see the key"
                                  : r->failures->failure[failure].reason;
}

bool report_is_flagged(const struct report_view *r, int64_t k)
{
    const struct report_score *score = &r->scores->of[k];
    for (int m = 0; m < REPORT_METRICS; m++)
        if (fabs(score->z[m]) > STATS_FLAG)
            return true;
    return score->verdict > REPORT_PASS || r->slides->slide[k].damaged > 0;
}

/* --- reasons --- */

/* Collects the reason of number `left`. */
struct wish {
    int left;
    char *out;
    size_t size;
};

static bool say(struct wish *w, const char *fmt, ...) ERR_PRINTF(2, 3);
static bool say(struct wish *w, const char *fmt, ...)
{
    va_list ap;
    if (w->left-- > 0)
        return false;
    va_start(ap, fmt);
    vsnprintf(w->out, w->size, fmt, ap);
    va_end(ap);
    return true;
}

static const char *unit_of(int m)
{
    return *report_metric(m)->unit ? " dB" : "";
}

/* The flagged metric whose |z| comes after that of metric `last`, from large to small; the first if
 * `last` is -1. -1: no more. */
static int next_score(const struct report_score *s, int last)
{
    int best = -1;
    for (int m = 0; m < REPORT_METRICS; m++) {
        const double z = fabs(s->z[m]), limit = last < 0 ? INFINITY : fabs(s->z[last]);
        if (z > STATS_FLAG && (z < limit || (z == limit && m > last)) &&
            (best < 0 || z > fabs(s->z[best])))
            best = m;
    }
    return best;
}

/* The strongest first. */
static bool say_scores(const struct report_view *r, int64_t k, struct wish *w)
{
    const struct report_score *s = &r->scores->of[k];
    for (int m = next_score(s, -1); m >= 0; m = next_score(s, m)) {
        const struct report_metric *x = report_metric(m);
        if (say(w, "%s: %s is %.*f%s, the median of its pool %.*f%s (robust z %+.1f)",
                s->z[m] < 0 ? x->low : x->high, x->name, x->digits, r->slides->slide[k].metric[m],
                unit_of(m), x->digits, r->scores->pool[s->pool].summary[m].q50, unit_of(m),
                s->z[m]))
            return true;
    }
    return false;
}

static bool say_limits(const struct report_view *r, int64_t k, struct wish *w)
{
    for (int64_t n = 0; n < r->limits->n; n++) {
        const struct report_limit *l = &r->limits->limit[n];
        const double x = report_value(r->slides, r->scores, k, l->metric);
        const bool fail = report_limit_breaks(l, x, l->fail);
        const bool warn = report_limit_breaks(l, x, l->warn);
        const struct report_metric *m = report_metric(l->metric);
        if (report_limit_holds(l, r->groups->of[k]) && (fail || warn) &&
            say(w, "%s: %s is %.*f%s, %s the limit of %g", fail ? "fail" : "warn", m->name,
                m->digits, x, unit_of(l->metric), l->above ? "above" : "below",
                fail ? l->fail : l->warn))
            return true;
    }
    return false;
}

/* What the slide lacks. Only damage is a flag. */
static bool say_notes(const struct report_view *r, const struct report_slide *s, struct wish *w)
{
    const struct result_params *p = &r->slides->params;
    if (s->nx * s->ny == 0 &&
        say(w,
            "no numbers: %" PRId64 " x %" PRId64 " px, smaller than one window of %" PRId64 " px",
            s->width, s->height, p->window))
        return true;
    if (s->nx * s->ny > 0 && s->windows == 0 &&
        say(w, s->groups_missing ? "no numbers: no window of the groups at hand counted"
               : p->roi          ? "no numbers: no window inside the regions counted"
               : p->tissue_only  ? "no numbers: no window has enough tissue"
                                 : "no numbers: no window counted"))
        return true;
    char shows[64];
    if (store_doubts_tissue(s->metric[REPORT_TISSUE], shows, sizeof shows) &&
        say(w, "the tissue map shows %s and may be wrong", shows))
        return true;
    if (s->version >= 2 && isnan(s->metric[REPORT_TISSUE]) && say(w, "there is no tissue map"))
        return true;
    if (s->groups_missing > 0 && say(w, "incomplete: %" PRId64 " of %" PRId64 " groups are missing",
                                     s->groups_missing, s->groups))
        return true;
    if (s->damaged > 0 &&
        say(w, "%" PRId64 " of %" PRId64 " windows touch damaged tiles", s->damaged, s->windows))
        return true;
    return s->version < 2 &&
           say(w, "result of format_version 1: no focus, no slope; compute it again to add them");
}

bool report_reason(const struct report_view *r, int64_t k, int n, char *out, size_t size)
{
    struct wish w = {n, out, size};
    return say_scores(r, k, &w) || say_limits(r, k, &w) || say_notes(r, &r->slides->slide[k], &w);
}
