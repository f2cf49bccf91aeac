/* report_page.c - see report_page.h. */
#include "process/report/report_page.h"

#include "common/base/version.h"
#include "process/draw/html.h"
#include "process/draw/page.h"
#include "process/report/report_album.h"
#include "process/report/report_data.h"
#include "process/report/report_reasons.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_PLAIN_ROWS = 5000 }; /* of the table without JavaScript */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- counts --- */

struct tally {
    int64_t flagged, empty, partial, damaged, old, glass, verdicts[4];
};

static struct tally count(const struct report_view *r)
{
    struct tally t = {0};
    for (int64_t k = 0; k < r->slides->n; k++) {
        const struct report_slide *s = &r->slides->slide[k];
        t.flagged += report_is_flagged(r, k);
        t.empty += s->windows == 0;
        t.partial += s->groups_missing > 0;
        t.damaged += s->damaged > 0;
        t.old += s->version < 2;
        t.glass += s->metric[REPORT_TISSUE] < 0.5; /* false if it is not known */
        t.verdicts[r->scores->of[k].verdict]++;
    }
    return t;
}

/* page.js makes a filter of it, by the word `show`. */
static void item(FILE *f, int64_t n, const char *show, const char *one, const char *many)
{
    if (n > 0)
        fprintf(f, "<li data-show=\"%s\"><b>%" PRId64 "</b> %s</li>\n", show, n,
                n == 1 ? one : many);
}

static void put_counts(FILE *f, const struct report_view *r, const struct tally *t)
{
    fputs("<ul id=\"counts\">\n", f);
    fprintf(f, "<li data-show=\"all\"><b>%" PRId64 "</b> slide%s</li>\n", r->slides->n,
            plural(r->slides->n));
    item(f, t->flagged + r->failures->n, "flagged", "needs a look", "need a look");
    item(f, r->failures->n, "failed", "failed (listed below)", "failed (listed below)");
    item(f, t->empty, "empty", "without a counted window", "without a counted window");
    item(f, t->partial, "partial", "incomplete: groups are missing",
         "incomplete: groups are missing");
    item(f, t->damaged, "damaged", "with damaged tiles", "with damaged tiles");
    if (r->limits->n > 0)
        fprintf(f,
                "<li>limits: <b>%" PRId64 "</b> pass, <b>%" PRId64 "</b> warn, <b>%" PRId64
                "</b> fail, <b>%" PRId64 "</b> without a value</li>\n",
                t->verdicts[REPORT_PASS], t->verdicts[REPORT_WARN], t->verdicts[REPORT_FAIL],
                t->verdicts[REPORT_NO_VERDICT]);
    fputs("</ul>\n", f);
}

/* Why no value has a score. */
static void put_too_few(FILE *f, const struct report_view *r)
{
    int64_t most = 0;
    for (int32_t p = 0; p < r->scores->n_pools; p++)
        most = r->scores->pool[p].counted > most ? r->scores->pool[p].counted : most;
    if (most < STATS_LEAST)
        fprintf(f,
                "<p id=\"chance\">There are too few slides to score: a pool (one group, one "
                "resolution) needs %d slides with windows, and the largest has %" PRId64
                ". No slide is flagged as unusual, however it looks.</p>\n",
                STATS_LEAST, most);
    else
        fputs("<p id=\"chance\">No value could be scored: in each pool, more than half of the "
              "values of each metric are equal, or the pool has too few slides.</p>\n",
              f);
}

static void put_chance(FILE *f, const struct report_view *r)
{
    if (r->scores->scored == 0) {
        put_too_few(f, r);
        return;
    }
    fprintf(f,
            "<p id=\"chance\">%" PRId64 " value%s of %" PRId64 " %s flagged (|z| &gt; %.1f). "
            "Chance alone would flag about <b>%.1f</b>, if values were normally distributed. "
            "A flag means \"look at this slide\". It is not a verdict.</p>\n",
            r->scores->flags, plural(r->scores->flags), r->scores->scored,
            r->scores->flags == 1 ? "is" : "are", STATS_FLAG,
            (double)r->scores->scored * STATS_BY_CHANCE);
}

/* --- what cannot be claimed --- */

static void put_unscored(FILE *f, const struct report_view *r)
{
    int64_t small = 0, slides = 0;
    for (int32_t p = 0; p < r->scores->n_pools; p++)
        if (r->scores->pool[p].counted < STATS_LEAST) {
            small++;
            slides += r->scores->pool[p].n;
        }
    if (small > 0)
        fprintf(f,
                "<li>%" PRId64 " slide%s in %" PRId64 " pool%s of fewer than %d slides with "
                "windows: no scores, because so few say too little about what is usual.</li>\n",
                slides, plural(slides), small, plural(small), STATS_LEAST);
    for (int32_t p = 0; p < r->scores->n_pools; p++)
        for (int m = 0; m < REPORT_METRICS; m++) {
            const struct stats_summary *s = &r->scores->pool[p].summary[m];
            char label[512];
            if (!report_metric(m)->low || s->n < STATS_LEAST || s->mad > 0)
                continue;
            report_pool_label(r, p, label, sizeof label);
            fprintf(f, "<li>%s has no scores in pool ", report_metric(m)->name);
            html_text(f, label);
            fputs(": more than half of its values are equal (MAD = 0).</li>\n", f);
        }
}

/* Results do not say which of the counted windows are tissue: window_flags has that only for those
 * that --tissue-only left out. */
static void put_glass(FILE *f, const struct tally *t)
{
    fputs("<li>How sharp the tissue of a slide with much glass is. All windows count: focus_p05, "
          "focus_p50 and focus_p95 are quantiles over tissue and glass together, and glass has "
          "high focus_db. Results do not say which windows are tissue; h5spec run --tissue-only "
          "leaves the others out.",
          f);
    if (t->glass > 0)
        fprintf(f, " <b>%" PRId64 "</b> slide%s less than half tissue.", t->glass,
                t->glass == 1 ? " is" : "s are");
    fputs("</li>\n", f);
}

static void put_cannot(FILE *f, const struct report_view *r, const struct tally *t)
{
    fputs("<section id=\"cannot\"><h2>What this report cannot tell</h2>\n<ul>\n"
          "<li>Whether a slide is in focus in an absolute sense. A sharp slide of one tissue can "
          "have a lower focus_db than a blurred slide of another. Slides are compared with those "
          "of their pool only: one group, one resolution.</li>\n"
          "<li>Why groups differ. Scanner, stain, tissue and laboratory change together.</li>\n"
          "<li>Anything about a diagnosis.</li>\n",
          f);
    if (!r->slides->params.tissue_only)
        put_glass(f, t);
    if (r->scores->n_pools > 1)
        fprintf(f,
                "<li>Anything across its %d pools: slides of different resolution or group are "
                "never pooled.</li>\n",
                r->scores->n_pools);
    put_unscored(f, r);
    if (t->old > 0)
        fprintf(f,
                "<li>Focus and slope of %" PRId64 " slide%s: the results are of format_version "
                "1. Compute them again with h5spec run to add these numbers.</li>\n",
                t->old, plural(t->old));
    if (t->partial > 0)
        fprintf(f,
                "<li>%" PRId64 " slide%s incomplete: the numbers are those of the groups at "
                "hand.</li>\n",
                t->partial, t->partial == 1 ? " is" : "s are");
    fputs("</ul></section>\n", f);
}

/* --- the table without JavaScript --- */

static void put_plain_row(FILE *f, const struct report_view *r, int64_t k)
{
    char text[1024];
    fputs("<tr><td>", f);
    html_text(f, r->names->slide[k]);
    fputs("</td><td>", f);
    report_pool_label(r, r->scores->of[k].pool, text, sizeof text);
    html_text(f, text);
    fprintf(f, "</td><td>%" PRId64 "</td>", r->slides->slide[k].windows);
    for (int m = 0; m <= REPORT_METRICS; m++)
        if (isnan(report_value(r->slides, r->scores, k, m)))
            fputs("<td></td>", f);
        else
            fprintf(f, "<td>%.*f</td>", report_metric(m)->digits,
                    report_value(r->slides, r->scores, k, m));
    fputs("<td>", f);
    for (int n = 0; report_reason(r, k, n, text, sizeof text); n++) {
        fputs(n ? "; " : "", f);
        html_text(f, text);
    }
    fputs("</td></tr>\n", f);
}

static void put_plain_table(FILE *f, const struct report_view *r)
{
    const bool all = r->slides->n <= MOST_PLAIN_ROWS && r->lean < REPORT_LESS_TABLE;
    char text[1024];
    fprintf(f,
            "<noscript>\n<h2>Slides</h2>\n<p>JavaScript is off: this is a plain table%s.</p>\n"
            "<table class=\"plain\">\n<tr><th>slide</th><th>pool</th><th>windows</th>",
            all ? "" : " of the slides that have a reason to look at them or lack something");
    for (int m = 0; m <= REPORT_METRICS; m++)
        fprintf(f, "<th>%s</th>", report_metric(m)->name);
    fputs("<th>reasons</th></tr>\n", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        if (all || report_reason(r, k, 0, text, sizeof text))
            put_plain_row(f, r, k);
    fputs("</table>\n</noscript>\n", f);
}

/* --- failures, definitions --- */

static void put_failures(FILE *f, const struct report_view *r)
{
    if (r->failures->n == 0)
        return;
    fputs("<section id=\"failed\"><h2>Failed</h2>\n<p>These have no numbers.</p>\n"
          "<table class=\"plain\">\n<tr><th>slide or file</th><th>reason</th></tr>\n",
          f);
    for (int64_t k = 0; k < r->failures->n; k++) {
        fputs("<tr><td>", f);
        html_text(f, r->names->failure[k]);
        fputs("</td><td>", f);
        html_text(f, report_failure_reason(r, k));
        fputs("</td></tr>\n", f);
    }
    fputs("</table></section>\n", f);
}

static void define(FILE *f, const char *name, const char *text)
{
    fprintf(f, "<dt>%s</dt><dd>%s</dd>\n", name, text);
}

static void put_definitions(FILE *f, const struct report_view *r)
{
    fputs("<dl>\n", f);
    for (int m = 0; m <= REPORT_METRICS; m++) {
        const bool glass =
            m >= REPORT_FOCUS_P05 && m <= REPORT_FOCUS_P95 && !r->slides->params.tissue_only;
        fprintf(f, "<dt>%s</dt><dd>%s%s</dd>\n", report_metric(m)->name,
                report_metric(m)->definition, glass ? "; windows of glass count, too" : "");
    }
    define(f, "focus_db",
           "mean level at 1/8 to 1/4 cycles/px minus the mean level at 1/64 to 1/32 "
           "cycles/px, of one window: sharpness with contrast removed");
    define(f, "profile", "mean level of the octaves 1/128 to 1/64, ... 1/4 to 1/2 cycles/px");
    define(f, "pool",
           "the slides of one group that have the same resolution in um/px of the "
           "computed level, with two significant digits");
    define(f, "z",
           "robust score 0.6745 (x - median) / MAD within the pool. MAD is the median of "
           "|x - median|. A pool has scores from ten slides on, if its MAD is not 0");
    define(f, "median histogram",
           "in each cell, the median of the slides' shares; the bands hold "
           "25 to 75 % and 5 to 95 % of the slides");
    define(f, "eta&sup2;",
           "between-pool part of a metric's sum of squares, 0 to 1. It says how much "
           "pools differ, not why");
    define(f, "map",
           "mean of focus_db (of mean_db, if the result has no focus_db) over blocks of "
           "windows; hatched where no window counts");
    fputs("</dl>\n", f);
}

static void put_parameters(FILE *f, const struct report_view *r)
{
    const struct result_params *p = &r->slides->params;
    if (!r->slides->begun)
        return;
    fprintf(f,
            "<p id=\"parameters\">Window %" PRId64 " px, stride %" PRId64 " px, Gaussian "
            "smoothing sigma %g px (radius %" PRId64 "), %s taper, dB = 20 log10(|F| + %g), "
            "%" PRId64 " bins from %g to %g dB, ",
            p->window, p->stride, p->sigma, p->radius, p->taper, p->offset, p->bins, p->low_db,
            p->high_db);
    if (p->tissue_only)
        fprintf(f, "only windows with at least %g %% tissue", 100 * p->min_tissue);
    else
        fputs("all windows", f);
    if (p->roi)
        fprintf(f, ", inside regions (at least %g %% of the area)%s", 100 * p->min_roi,
                *p->roi_class ? " of class " : "");
    html_text(f, p->roi_class);
    fprintf(f, "%s.</p>\n<p>Results made by ",
            p->skip_damaged ? ", without those that touch damaged tiles" : "");
    for (int k = 0; k < r->slides->n_creators; k++) {
        fputs(k ? ", " : "", f);
        html_text(f, r->slides->creators[k]);
    }
    fputs("; report made by h5spec " WSI_VERSION ".</p>\n", f);
}

static void put_limits(FILE *f, const struct report_view *r)
{
    for (int64_t k = 0; k < r->limits->n; k++) {
        const struct report_limit *l = &r->limits->limit[k];
        fprintf(f, k ? "<br>%s %s: " : "<p>Limits: %s %s: ", report_metric(l->metric)->name,
                l->above ? "above" : "below");
        if (!isnan(l->warn))
            fprintf(f, "%g warns ", l->warn);
        if (!isnan(l->fail))
            fprintf(f, "%g fails ", l->fail);
        if (l->group >= 0) {
            fputs("in group ", f);
            html_text(f, r->names->group[l->group]);
        }
        if (l->group == REPORT_NO_GROUP)
            fputs("in a group that no slide is in", f);
    }
    fputs(r->limits->n ? "</p>\n" : "", f);
}

/* --- the page --- */

static void put_title(FILE *f, const struct report_view *r, char *out, size_t size)
{
    if (r->setup->title)
        snprintf(out, size, "%s", r->setup->title);
    else
        snprintf(out, size, "Spectra of %" PRId64 " slide%s", r->slides->n, plural(r->slides->n));
    page_begin(f, PAGE_REPORT, out);
    fputs("<h1>", f);
    html_text(f, out);
    fputs("</h1>\n", f);
}

int report_page(const struct report_view *r, FILE *f, struct err *e)
{
    const struct tally t = count(r);
    char title[1024];
    put_title(f, r, title, sizeof title);
    put_counts(f, r, &t);
    put_chance(f, r);
    fputs("<main id=\"app\" hidden></main>\n", f);
    put_plain_table(f, r);
    put_failures(f, r);
    put_cannot(f, r, &t);
    fputs("<section id=\"definitions\"><h2>Definitions and parameters</h2>\n", f);
    put_definitions(f, r);
    put_parameters(f, r);
    put_limits(f, r);
    fputs("</section>\n<script type=\"application/json\" id=\"data\">", f);
    report_data(r, f);
    fputs("</script>\n", f);
    if (!r->spool)
        page_script(f, PAGE_REPORT);
    else if (report_album_write(r, f, e))
        return -1;
    fputs("</body>\n</html>\n", f);
    return 0;
}
