/* report_page.c - see report_page.h. */
#include "process/report/page/report_page.h"

#include "common/base/version.h"
#include "process/draw/html.h"
#include "process/draw/raster.h"
#include "process/report/numbers/report_pictures.h"
#include "process/report/page/report_data.h"
#include "process/report/words/report_reasons.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/*
 * Which pictures fit into a page, and these pictures.
 */

enum { PER_BLOCK = 64 }; /* slides per script element */

/* Which slides get pictures, and of which size. */
struct choice {
    int size; /* 0 .. TRIED - 1; -1: none */
    bool all; /* of all slides, not only of those to look at */
};

static int64_t total_bytes(const struct report_view *r, struct choice c)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < r->slides->n; k++) {
        const struct report_picture *p = r->slides->slide[k].pictures;
        if (p && (c.all || r->verdicts[k] >= REPORT_REVIEW))
            sum += report_pictures_bytes(p, c.size);
    }
    return sum;
}

static struct choice choose(const struct report_view *r, int64_t room)
{
    struct choice c = {.all = true};
    for (int all = !report_spool_is_late(r->spool); all >= 0; all--)
        for (c.size = 0; c.size < report_spool_sizes(r->spool); c.size++) {
            c.all = all;
            if (total_bytes(r, c) <= room)
                return c;
        }
    return (struct choice){.size = -1};
}

static void put_head(FILE *f, struct choice c)
{
    const struct result_map_kind *focus = result_map_kind(RESULT_FOCUS);
    fprintf(f,
            "<script type=\"application/json\" id=\"pictures\">{\"per\":%d,"
            "\"low\":%g,\"high\":%g,\"colours\":\"",
            PER_BLOCK, focus->low, focus->high);
    uint32_t palette[COLOURS_PALETTE];
    colours_palette(palette, 255);
    for (int k = 0; k < COLOURS_MAP; k++)
        fprintf(f, "%06" PRIx32, palette[k] >> 8);
    fputs("\",\"note\":\"", f);
    if (c.size < 0)
        fputs("No pictures fit into --max-size.", f);
    else if (!c.all)
        fputs("Pictures of slides that pass are left out: they do not fit into --max-size.", f);
    fputs("\"}</script>\n", f);
}

/* A line per slide: "MAP THUMB", or empty. */
static int put_blocks(const struct report_view *r, FILE *f, struct choice c, struct err *e)
{
    int bad = 0;
    for (int64_t k = 0; k < r->slides->n && !bad; k++) {
        const struct report_picture *p = r->slides->slide[k].pictures;
        if (k % PER_BLOCK == 0)
            fprintf(f, "%s<script type=\"text/plain\" id=\"p%" PRId64 "\">", k ? "</script>\n" : "",
                    k / PER_BLOCK);
        if (p && (c.all || r->verdicts[k] >= REPORT_REVIEW))
            bad = report_pictures_put(r->spool, p, c.size, f, e);
        putc('\n', f);
    }
    fputs(r->slides->n ? "</script>\n" : "", f);
    return bad;
}

/* Writes the script elements with the pictures that fit, given what the page has already. */
static int write_album(const struct report_view *r, FILE *f, struct err *e)
{
    const int64_t others = 50000 + 2 * r->slides->n; /* bytes of script and elements */
    const struct choice c = choose(r, r->setup->max_size - ftello(f) - others);
    put_head(f, c);
    page_script(f, PAGE_REPORT);
    return c.size < 0 ? 0 : put_blocks(r, f, c, e);
}

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
enum { MOST_PLAIN_ROWS = 5000 }; /* of the table without JavaScript */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- counts --- */

struct tally {
    int64_t empty, partial, damaged, other, blurred, verdicts[REPORT_VERDICTS];
};

/* Is the strongest reason that the tissue is not sharp? */
static bool is_blurred(const struct report_view *r, int64_t k)
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    return report_reasons(r, k, reasons) > 0 && reasons[0].unsharp;
}

static struct tally count(const struct report_view *r)
{
    struct tally t = {0};
    for (int64_t k = 0; k < r->slides->n; k++) {
        const struct report_slide *s = &r->slides->slide[k];
        t.empty += s->windows == 0;
        t.partial += s->groups_missing > 0;
        t.damaged += s->damaged > 0 || s->damaged_tiles > 0;
        t.other += r->clusters->other[k] == KIND_SMALLER;
        t.blurred += r->verdicts[k] == REPORT_REVIEW && is_blurred(r, k);
        t.verdicts[r->verdicts[k]]++;
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
    const int64_t all = r->slides->n + r->failures->n;
    fprintf(f, "<li data-show=\"all\"><b>%" PRId64 "</b> slide%s</li>\n", all, plural(all));
    item(f, t->verdicts[REPORT_FAIL] + r->failures->n, "fail", "fails", "fail");
    item(f, t->verdicts[REPORT_REVIEW], "review", "for review", "for review");
    item(f, t->verdicts[REPORT_PASS], "pass", "passes", "pass");
    item(f, t->verdicts[REPORT_NOT_JUDGED], "unjudged", "not judged", "not judged");
    if (t->verdicts[REPORT_FAIL] > 0)
        item(f, r->failures->n, "failed", "without numbers", "without numbers");
    if (r->failures->n_copies > 0) /* not among the slides */
        fprintf(f, "<li><b>%" PRId64 "</b> %s, left out</li>\n", r->failures->n_copies,
                r->failures->n_copies == 1 ? "copy" : "copies");
    item(f, t->other, "other", "of the smaller of two kinds", "of the smaller of two kinds");
    item(f, t->empty, "empty", "without a measured place", "without a measured place");
    item(f, t->partial, "partial", "incomplete", "incomplete");
    item(f, t->damaged, "damaged", "with damaged tiles", "with damaged tiles");
    fputs("</ul>\n", f);
}

/* The first line: what to look at. */
static void put_headline(FILE *f, const struct report_view *r, const struct tally *t)
{
    const int64_t all = r->slides->n + r->failures->n,
                  bad = t->verdicts[REPORT_FAIL] + r->failures->n,
                  flagged = t->verdicts[REPORT_REVIEW] + bad;
    fputs("<p id=\"headline\">", f);
    if (t->blurred > 0)
        fprintf(f, "<b>%" PRId64 " of %" PRId64 " slide%s %s blurred.</b> ", t->blurred, all,
                plural(all), t->blurred == 1 ? "is" : "are");
    if (t->blurred > 0) /* page.js makes a button of it */
        fprintf(f, "<span data-show=\"blurred\" hidden>See %s.</span> ",
                t->blurred == 1 ? "it" : "them");
    if (bad > 0)
        fprintf(f, "<b>%" PRId64 " slide%s fail%s.</b> ", bad, plural(bad), bad == 1 ? "s" : "");
    const int64_t others = flagged - t->blurred - bad;
    if (others > 0)
        fprintf(f, "%" PRId64 " %s%s%s a look. ", others, t->blurred + bad > 0 ? "more" : "slide",
                t->blurred + bad > 0 ? "" : plural(others), others == 1 ? " needs" : " need");
    if (flagged == 0 && t->verdicts[REPORT_PASS] > 0)
        fputs("Nothing unusual was found. ", f);
    if (t->verdicts[REPORT_NOT_JUDGED] > 0)
        fprintf(f,
                "%" PRId64 " slide%s not judged: a slide is compared with others of its "
                "resolution, and needs %d of them. Limits (h5spec report --limits) judge single "
                "slides.",
                t->verdicts[REPORT_NOT_JUDGED],
                t->verdicts[REPORT_NOT_JUDGED] == 1 ? " is" : "s are", STATS_LEAST);
    fputs("</p>\n", f);
}

/* Slides whose um per px nobody states are compared all the same. */
static void put_unknown(FILE *f, const struct report_view *r)
{
    int64_t n = 0;
    int sets = 0;
    for (int32_t p = 0; p < r->scores->n_pools; p++) {
        const struct report_pool *q = &r->scores->pool[p];
        n += q->unknown ? q->n : 0;
        sets += q->unknown;
    }
    if (n < 2)
        return;
    fprintf(
        f,
        "<p id=\"unknown-um\"><b>The magnification of %" PRId64 " slides is unknown and assumed "
        "to be equal</b>: their files state no um per px. If they are of several "
        "magnifications, sharpness cannot be compared. State it: wsi2h5 --mpp-override.%s</p>\n",
        n,
        sets < 2 ? ""
        : r->groups->asked
            ? ""
            : " Slides of different formats, and of sizes that differ by a "
              "factor of 4, are compared apart; a table (--meta) says which to compare.");
}

/* Slides that are the same as others, which count once. */
static void put_copies(FILE *f, const struct report_view *r)
{
    const struct report_failures *all = r->failures;
    if (all->n_copies == 0 || r->setup->key)
        return;
    fputs("<p id=\"copies\">Left out, because the same slide counts once: ", f);
    for (int64_t k = 0; k < all->n_copies; k++) {
        fputs(k ? "; " : "", f);
        html_text(f, report_shown_path(all->copy[k].name));
        fputs(": ", f);
        html_text(f, all->copy[k].reason);
    }
    fputs(".</p>\n", f);
}

static void put_left_out(FILE *f, const struct report_view *r)
{
    if (!r->failures->left_out || r->setup->key)
        return;
    fputs("<p id=\"left-out\">Not part of this report: ", f);
    html_text(f, r->failures->left_out);
    fputs(".</p>\n", f);
}

/* Numbers that are unusual, and how many chance alone would make so. */
static void put_chance(FILE *f, const struct report_view *r)
{
    int64_t scored = 0, set = 0;
    double by_chance = 0;
    for (int64_t k = 0; k < r->slides->n; k++)
        for (int m = 0; m < REPORT_METRICS; m++) {
            const struct report_score *s = &r->scores->of[k];
            if (isnan(s->z[m]) || report_separates_kinds(r->clusters, s->pool, m))
                continue;
            scored++;
            set += report_excess(r->slides, r->scores, k, m) > 1;
            const double sides = !!report_metric(m)->low + !!report_metric(m)->high;
            by_chance += sides / 2 * stats_by_chance(r->scores->pool[s->pool].summary[m].n);
        }
    if (scored > 0)
        fprintf(f,
                "<p id=\"chance\">%" PRId64 " number%s of %" PRId64 " %s unusual: more than %.1f "
                "times the usual spread from the median, and farther where numbers are skewed. "
                "Chance alone would make at most about %.1f, if numbers were normally distributed."
                "</p>\n",
                set, plural(set), scored, set == 1 ? "is" : "are", STATS_FLAG, by_chance);
}

/* --- what cannot be claimed --- */

static void put_unscored(FILE *f, const struct report_view *r)
{
    for (int32_t p = 0; p < r->scores->n_pools; p++)
        for (int m = 0; m < REPORT_METRICS; m++) {
            const struct stats_summary *s = &r->scores->pool[p].summary[m];
            char label[512];
            if (!report_is_scored(m) || s->n < STATS_LEAST || s->mad > 0)
                continue;
            report_pool_label(r, p, label, sizeof label);
            fprintf(f, "<li>%s: not compared in ", report_metric(m)->title);
            html_text(f, label);
            fputs(": more than half of the slides have the same value.</li>\n", f);
        }
}

enum { MOST_NAMES = 12 };

/* "slide-1, slide-2 and 3 more": the slides of one kind, of which there are so many. */
static void put_others(FILE *f, const struct report_view *r, int32_t pool, uint8_t kind,
                       int64_t others)
{
    int64_t shown = 0;
    for (int64_t k = 0; k < r->slides->n && shown < MOST_NAMES; k++) {
        if (r->scores->of[k].pool != pool || r->clusters->other[k] != kind)
            continue;
        fputs(shown++ ? ", " : "", f);
        html_text(f, r->names->slide[k]);
    }
    if (others > shown)
        fprintf(f, " and %" PRId64 " more", others - shown);
}

/* Of two kinds of one size that of the first slide; else 0. */
static uint8_t first_half(const struct report_view *r, int32_t pool)
{
    for (int64_t k = 0; k < r->slides->n; k++)
        if (r->scores->of[k].pool == pool && r->clusters->other[k] >= KIND_HALF)
            return r->clusters->other[k];
    return 0;
}

static void put_clusters(FILE *f, const struct report_view *r)
{
    for (int32_t p = 0; p < r->scores->n_pools; p++) {
        const struct report_cluster *c = &r->clusters->of[p];
        char label[512];
        if (!c->number)
            continue;
        report_pool_label(r, p, label, sizeof label);
        fputs("<p class=\"clusters\">The slides of <b>", f);
        html_text(f, label);
        fprintf(f,
                "</b> are of two kinds: %" PRId64 " of %" PRId64 " differ in %s%s%s. Another "
                "scanner, setting, stain, tissue or magnification? Slides of one kind hide what is "
                "unusual in the other: judge them apart (--group). ",
                c->others, c->n, c->number, c->second ? " together with " : "",
                c->second ? c->second : "");
        const uint8_t first = first_half(r, p);
        if (first) {
            fprintf(f, "Both have %" PRId64 " slides: ", c->others);
            put_others(f, r, p, first, c->others);
            fputs("; ", f);
            put_others(f, r, p, first == KIND_HALF ? KIND_OTHER_HALF : KIND_HALF, c->others);
        } else {
            fprintf(f, "The %" PRId64 " are ", c->others);
            put_others(f, r, p, KIND_SMALLER, c->others);
        }
        fputs(".</p>\n", f);
    }
}

static void put_cannot(FILE *f, const struct report_view *r, const struct tally *t)
{
    fputs("<section id=\"cannot\" aria-label=\"what this report cannot tell\"><h2>What this report "
          "cannot tell</h2>\n<ul>\n"
          "<li>Whether a slide is in focus in an absolute sense. A sharp slide of one tissue can "
          "have a lower sharpness than a blurred slide of another. Slides are compared with those "
          "of their comparison group only: one group, one resolution.</li>\n"
          "<li>Whether what is usual is good. If most slides are blurred, blur is usual; "
          "--accepted names slides that are good.</li>\n"
          "<li>Why groups differ. Scanner, stain, tissue and laboratory change together.</li>\n"
          "<li>Anything about a diagnosis.</li>\n",
          f);
    if (r->scores->n_pools > 1)
        fprintf(f,
                "<li>Anything across its %d comparison groups: slides of different resolution or "
                "group are "
                "never pooled.</li>\n",
                r->scores->n_pools);
    put_unscored(f, r);
    if (t->partial > 0)
        fprintf(f,
                "<li>%" PRId64 " slide%s incomplete: the numbers are those of the parts at "
                "hand.</li>\n",
                t->partial, t->partial == 1 ? " is" : "s are");
    if (r->slides->n_older > 0)
        fprintf(f,
                "<li>Everything about %" PRId64
                " slide%s: results of an earlier version lack numbers; "
                "h5spec run --force computes them.</li>\n",
                r->slides->n_older, r->slides->n_older == 1 ? "" : "s");
    fputs("</ul></section>\n", f);
}

/* --- the table without JavaScript --- */

/* With a shape for those who do not see colours, as in page.js. */
static void put_plain_row(FILE *f, const char *name, enum report_verdict v, const char *reason)
{
    static const char *const shapes[] = {"&#9679;", "&#9675;", "&#9650;", "&#10005;"};
    fputs("<tr><td>", f);
    html_text(f, name);
    fprintf(f, "</td><td class=\"verdict\">%s %s</td><td>", shapes[v], report_verdict_name(v));
    html_text(f, reason);
    fputs("</td></tr>\n", f);
}

static void put_plain_table(FILE *f, const struct report_view *r)
{
    const bool all = r->slides->n <= MOST_PLAIN_ROWS && r->trim < REPORT_LESS_TABLE;
    fprintf(f,
            "<noscript>\n<h2>Slides</h2>\n<p>JavaScript is off: this is a plain table%s.</p>\n"
            "<table class=\"plain\">\n<tr><th>slide</th><th>verdict</th><th>reason</th></tr>\n",
            all ? "" : " of the slides that do not pass");
    for (int64_t k = 0; k < r->failures->n; k++)
        put_plain_row(f, r->names->failure[k], REPORT_FAIL, report_failure_reason(r, k));
    for (int v = REPORT_FAIL; v >= REPORT_PASS; v--)
        for (int64_t k = 0; k < r->slides->n; k++) {
            struct report_reason reasons[REPORT_MOST_REASONS];
            if (r->verdicts[k] != v || (!all && v == REPORT_PASS))
                continue;
            const int n = report_reasons(r, k, reasons);
            put_plain_row(f, r->names->slide[k], r->verdicts[k], n > 0 ? reasons[0].text : "");
        }
    fputs("</table>\n</noscript>\n", f);
}

/* --- definitions --- */

static void define(FILE *f, const char *name, const char *text)
{
    fprintf(f, "<dt>%s</dt><dd>%s</dd>\n", name, text);
}

static void put_definitions(FILE *f)
{
    fputs("<dl>\n", f);
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        const struct report_metric *x = report_metric(m);
        if (!report_is_on_page(m))
            continue;
        fprintf(f, "<dt id=\"%s\">%s <code>%s</code></dt><dd>%s", x->name, x->title, x->name,
                x->definition);
        if (x->most > 0)
            fprintf(f, "; above %g%s it needs review", x->most * (report_is_share(m) ? 100 : 1),
                    x->unit);
        if (x->least > 0)
            fprintf(f, "; unusual only if it differs from the median by %g%s or more",
                    x->least * (x->ratio ? 100 : 1), x->ratio ? " %" : x->unit);
        if (x->times > 0)
            fprintf(f, "; unusual only if it is %g times the median, or the median %g times it",
                    x->times, x->times);
        fputs("</dd>\n", f);
    }
    define(f, "focus_db",
           "mean level at 1/8 to 1/4 cycles/px minus the mean level at 1/64 to 1/32 "
           "cycles/px, of one window: sharpness with contrast removed");
    define(f, "sharp_db",
           "mean level at 1/8 to 1/4 cycles/px minus 3/4 of that at 1/16 to 1/8 and 1/4 of that at "
           "1/64 to 1/32 cycles/px, of one window: it sees slighter blur than focus_db");
    define(f, "fine_db",
           "mean level at 1/4 to 1/2 cycles/px minus the mean level at 1/8 to 1/4 cycles/px, of "
           "one window: the first that slight blur takes away");
    define(f, "comparison group",
           "the slides of one group whose um/px of the computed level differ by at most 10 %");
    define(
        f, "unusual",
        "robust z = 0.6745 (x - median) / MAD within the comparison group. MAD is the median of "
        "|x - median|. Ten slides are needed, and a MAD that is not 0. Above 3.5 (more on the long "
        "side of a skewed number), or above what an accepted slide has, needs review");
    define(f, "map",
           "mean of focus_db (of mean_db, if the result has no focus_db) over blocks of "
           "windows of tissue; hatched where there is none");
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
    fprintf(f, "%s.</p>\n", p->skip_damaged ? ", without those that touch damaged tiles" : "");
}

/* A word of the command line as a shell takes it, without the folders of an absolute path. */
static void put_word(FILE *f, const char *word)
{
    const char *equals = *word == '-' ? strchr(word, '=') : NULL;
    const char *value = equals                                      ? equals + 1
                        : *word == '-' && word[1] && word[1] != '-' ? word + 2
                                                                    : word;
    const char *shown = report_shown_path(value);
    const bool plain = *word && !shown[strspn(shown, PLAIN)];
    fprintf(f, " %.*s%s", (int)(value - word), word, plain ? "" : "&#39;");
    for (const char *at = shown, *quote; *at; at = quote + 1) {
        char part[1024];
        quote = strchrnul(at, '\'');
        snprintf(part, sizeof part, "%.*s", (int)(quote - at), at);
        html_text(f, part);
        if (!*quote)
            break;
        fputs("&#39;\\&#39;&#39;", f);
    }
    fputs(plain ? "" : "&#39;", f);
}

/* When the page was made, and how. Where names are hidden, so is what may hold one. */
static void put_foot(FILE *f, const struct report_view *r)
{
    const struct report_setup *o = r->setup;
    const time_t now = time(NULL);
    char date[32] = "";
    struct tm tm;
    if (localtime_r(&now, &tm))
        strftime(date, sizeof date, "%Y-%m-%d", &tm);
    fprintf(f, "<footer id=\"made\"><p>Made on %s by h5spec " WSI_VERSION, date);
    for (int k = 0; k < r->slides->n_creators; k++) {
        fputs(k ? ", " : "; results made by ", f);
        html_text(f, r->slides->creators[k]);
    }
    fputs(".</p>\n", f);
    for (int k = 0; k < o->n_folders && !o->key; k++) {
        fputs(k ? ", " : "<p>Folders: ", f);
        html_text(f, report_shown_path(o->folders[k]));
    }
    fputs(o->n_folders && !o->key ? "</p>\n" : "", f);
    if (!o->key) {
        fputs("<p><code>h5spec report", f);
        for (int k = 0; k < o->n_words; k++)
            put_word(f, o->words[k]);
        fputs("</code></p>\n", f);
    }
    fputs("</footer>\n", f);
}

static void put_limits(FILE *f, const struct report_view *r)
{
    for (int64_t k = 0; k < r->limits->n; k++) {
        const struct report_limit *l = &r->limits->limit[k];
        fprintf(f, k ? "<br>%s %s: " : "<p>Limits: %s %s: ", report_metric(l->metric)->title,
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
    const int64_t all = r->slides->n + r->failures->n;
    if (r->setup->title)
        snprintf(out, size, "%s", r->setup->title);
    else
        snprintf(out, size, "Quality of %" PRId64 " slide%s", all, plural(all));
    page_begin(f, PAGE_REPORT, out);
    fputs("<header>\n<h1>", f);
    html_text(f, out);
    fputs("</h1>\n", f);
}

int report_page(const struct report_view *r, FILE *f, struct err *e)
{
    const struct tally t = count(r);
    char title[1024];
    put_title(f, r, title, sizeof title);
    put_headline(f, r, &t);
    put_unknown(f, r);
    put_copies(f, r);
    put_left_out(f, r);
    put_counts(f, r, &t);
    put_clusters(f, r);
    fputs("</header>\n<main id=\"app\" hidden></main>\n", f);
    put_plain_table(f, r);
    put_cannot(f, r, &t);
    fputs("<section id=\"definitions\" aria-label=\"definitions\"><details><summary>For experts: "
          "definitions and parameters</summary>\n",
          f);
    put_chance(f, r);
    put_definitions(f);
    put_parameters(f, r);
    fputs("</details>\n", f);
    put_limits(f, r);
    fputs("</section>\n", f);
    put_foot(f, r);
    fputs("<script type=\"application/json\" id=\"data\">", f);
    report_data(r, f);
    fputs("</script>\n", f);
    if (!r->spool)
        page_script(f, PAGE_REPORT);
    else if (write_album(r, f, e))
        return -1;
    fputs("</body>\n</html>\n", f);
    return 0;
}
