/* report_words.c - what the numbers of a report are called and mean; see report.h. */
#include "process/report/report.h"

#include "common/store/store.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct report_metric metrics[REPORT_METRICS + 1] = {
    [REPORT_MEAN] = {"mean_db", "dB", "less detail and contrast", "more detail, contrast or noise",
                     2, "mean of all log magnitudes of the slide"},
    [REPORT_STD] = {"std_db", "dB", "log magnitudes differ less", "log magnitudes differ more", 2,
                    "standard deviation of all log magnitudes of the slide"},
    [REPORT_FOCUS_P05] = {"focus_p05", "dB", "its least sharp windows are less sharp",
                          "even its least sharp windows are sharp", 2,
                          "5 % of the counted windows have a lower focus_db"},
    [REPORT_FOCUS_P50] = {"focus_p50", "dB", "less sharp overall", "sharper or noisier overall", 2,
                          "median of focus_db over the counted windows"},
    [REPORT_FOCUS_P95] = {"focus_p95", "dB", NULL, NULL, 2,
                          "95 % of the counted windows have a lower focus_db"},
    [REPORT_SLOPE] = {"slope", "", "its spectrum falls more slowly: noise or sharpening",
                      "its spectrum falls more steeply: blur or smoothing", 3,
                      "how steeply the level falls over four octaves of spatial frequency"},
    [REPORT_TISSUE] = {"tissue_fraction", "", "less tissue", "more tissue", 3,
                       "part of the slide's area that the tissue map marks"},
    [REPORT_METRICS] = {"w1_db", "dB", NULL, NULL, 3,
                        "W1 distance: area between the slide's cumulative histogram and the "
                        "pointwise median of the pool's; it ranks slides and sets no flag"},
};

const struct report_metric *report_metric(int metric)
{
    return &metrics[metric];
}

int report_find_metric(const char *name)
{
    for (int m = 0; m <= REPORT_METRICS; m++)
        if (!strcmp(metrics[m].name, name))
            return m;
    return -1;
}

double report_value(const struct report_slide *s, int metric)
{
    return metric == REPORT_METRICS ? s->w1 : s->metric[metric];
}

void report_pool_label(const struct report *r, const struct report_pool *p, char *out, size_t size)
{
    snprintf(out, size, "%s, %s", r->groups[p->group], p->resolution);
}

bool report_is_flagged(const struct report_slide *s)
{
    for (int m = 0; m < REPORT_METRICS; m++)
        if (fabs(s->z[m]) > STATS_FLAG)
            return true;
    return s->verdict > REPORT_PASS || s->damaged > 0;
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
    return *metrics[m].unit ? " dB" : "";
}

/* The flagged metric whose |z| comes after that of metric `last`, from large to small; the first if
 * `last` is -1. -1: no more. */
static int next_score(const struct report_slide *s, int last)
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
static bool say_scores(const struct report *r, const struct report_slide *s, struct wish *w)
{
    for (int m = next_score(s, -1); m >= 0; m = next_score(s, m))
        if (say(w, "%s: %s is %.*f%s, the median of its pool %.*f%s (robust z %+.1f)",
                s->z[m] < 0 ? metrics[m].low : metrics[m].high, metrics[m].name, metrics[m].digits,
                s->metric[m], unit_of(m), metrics[m].digits, r->pools[s->pool].summary[m].q50,
                unit_of(m), s->z[m]))
            return true;
    return false;
}

static bool say_limits(const struct report *r, const struct report_slide *s, struct wish *w)
{
    for (int64_t k = 0; k < r->n_limits; k++) {
        const struct report_limit *l = &r->limits[k];
        const double x = report_value(s, l->metric);
        const bool fail = report_limit_breaks(l, x, l->fail);
        const bool warn = report_limit_breaks(l, x, l->warn);
        const struct report_metric *m = &metrics[l->metric];
        if (report_limit_holds(l, s) && (fail || warn) &&
            say(w, "%s: %s is %.*f%s, %s the limit of %g", fail ? "fail" : "warn", m->name,
                m->digits, x, unit_of(l->metric), l->above ? "above" : "below",
                fail ? l->fail : l->warn))
            return true;
    }
    return false;
}

/* What the slide lacks. Only damage is a flag. */
static bool say_notes(const struct report *r, const struct report_slide *s, struct wish *w)
{
    const struct result_params *p = &r->params;
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

bool report_reason(const struct report *r, const struct report_slide *s, int k, char *out,
                   size_t size)
{
    struct wish w = {k, out, size};
    return say_scores(r, s, &w) || say_limits(r, s, &w) || say_notes(r, s, &w);
}
