/* report_data.c - the numbers of a report's page as JSON; see report_data.h. */
#include "process/report/page/report_data.h"

#include "process/draw/html.h"
#include "process/report/words/report_reasons.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Without zeros at the end. */
static void put_fixed(FILE *f, double x, int digits)
{
    char text[350] = "null";
    int n = isfinite(x) ? snprintf(text, sizeof text, "%.*f", digits, x) : 0;
    while (n > 0 && strchr(text, '.') && strchr("0.", text[n - 1])) {
        const bool point = text[n - 1] == '.';
        text[--n] = 0;
        if (point)
            break;
    }
    fputs(text, f);
}

/* --- what all slides share --- */

static void put_metrics(FILE *f)
{
    const char *before = "\"metrics\":[";
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        const struct report_metric *x = report_metric(m);
        if (!report_is_on_page(m))
            continue;
        fprintf(f, "%s{\"name\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\",\"digits\":%d}", before,
                x->name, x->title, x->unit, x->digits);
        before = ",\n";
    }
    putc(']', f);
}

/* Of each number that has a median: [slides with it, quartiles]. */
static void put_pool(FILE *f, const struct report_view *r, int32_t pool)
{
    const struct report_pool *p = &r->scores->pool[pool];
    bool any = false;
    char label[512];
    report_pool_label(r, pool, label, sizeof label);
    fputs("{\"label\":", f);
    html_json(f, label);
    fprintf(f, ",\"n\":%" PRId64 ",\"counted\":%" PRId64 ",\"m\":[", p->n, p->counted);
    for (int m = 0; m < REPORT_METRICS; m++) {
        const struct stats_summary *s = &p->summary[m];
        const double v[] = {s->q25, s->q50, s->q75};
        if (!report_is_on_page(m))
            continue;
        fprintf(f, "%s[%" PRId64, any ? "," : "", s->n);
        any = true;
        for (int k = 0; k < 3; k++) {
            putc(',', f);
            html_number(f, report_metric(m)->angle ? fmod(v[k] + 360, 360) : v[k], 5);
        }
        putc(']', f);
    }
    fputs("],\"below\":", f); /* dB of focus_db, from which on a window is not blurred */
    html_number(f, report_blur_limit(r->scores, pool), 5);
    putc('}', f);
}

static void put_shared(FILE *f, const struct report_view *r)
{
    const struct result_params *p = &r->slides->params;
    put_metrics(f);
    const struct report_setup *o = r->setup;
    const char *input = o->n_folders ? o->folders[0] : o->n_files ? o->files[0] : "";
    fputs(",\n\"results\":", f); /* for commands; "": names are hidden */
    html_json(f, o->key ? "" : report_shown_path(input));
    fprintf(f, ",\n\"window\":%" PRId64 ",\"stride\":%" PRId64 ",\"pools\":[", p->window,
            p->stride);
    for (int32_t k = 0; k < r->scores->n_pools; k++) {
        fputs(k ? ",\n" : "\n", f);
        put_pool(f, r, k);
    }
    putc(']', f);
}

/* --- slides --- */

/* With one digit more than the page shows, so that few slides are equal. */
static void put_metric_columns(FILE *f, const struct report_view *r)
{
    bool any = false;
    fputs(",\n\"m\":[", f);
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        if (!report_is_on_page(m))
            continue;
        fputs(any ? ",\n[" : "[", f);
        any = true;
        for (int64_t k = 0; k < r->slides->n; k++) {
            if (k)
                putc(',', f);
            put_fixed(f, report_value(r->slides, r->scores, k, m),
                      report_metric(m)->digits + (report_is_share(m) ? 3 : 1));
        }
        putc(']', f);
    }
    putc(']', f);
}

/* [text, picture that shows it, x, y], x and y as parts of the slide's size. */
static void put_reason(FILE *f, const struct report_reason *x)
{
    putc('[', f);
    html_json(f, x->text);
    fprintf(f, ",%d", x->picture);
    if (!isnan(x->x))
        fprintf(f, ",%.4f,%.4f", x->x, x->y);
    putc(']', f);
}

static void put_reasons(FILE *f, const struct report_view *r)
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    bool any = false;
    fputs(",\n\"strength\":[", f); /* of the first reason: the order of the slides */
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%.3g", k ? "," : "",
                report_reasons(r, k, reasons) > 0 ? fmin(reasons[0].strength, 1e7) : 0);
    putc(']', f);
    fputs(",\n\"why\":{", f);
    for (int64_t k = 0; k < r->slides->n; k++) {
        const int n = report_reasons(r, k, reasons);
        for (int i = 0; i < n; i++) {
            if (i == 0)
                fprintf(f, "%s\"%" PRId64 "\":[", any ? ",\n" : "\n", k);
            else
                putc(',', f);
            any = true;
            put_reason(f, &reasons[i]);
        }
        fputs(n > 0 ? "]" : "", f);
    }
    putc('}', f);
}

/* The whole-number columns; `px`: of the stored level in the result, of level 0 on the page. */
static const struct {
    const char *name;
    size_t offset;
    bool px;
} columns[] = {
    {"windows", offsetof(struct report_slide, windows), false},
    {"width", offsetof(struct report_slide, width), true},
    {"height", offsetof(struct report_slide, height), true},
    {"nx", offsetof(struct report_slide, nx), false},
    {"ny", offsetof(struct report_slide, ny), false},
    {"damaged", offsetof(struct report_slide, damaged), false},
    {"damagedTiles", offsetof(struct report_slide, damaged_tiles), false},
    {"partial", offsetof(struct report_slide, groups_missing), false},
};

static void put_columns(FILE *f, const struct report_view *r)
{
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        fprintf(f, ",\n\"%s\":", columns[c].name);
        for (int64_t k = 0; k < r->slides->n; k++) {
            const struct report_slide *s = &r->slides->slide[k];
            const char *at = (const char *)s + columns[c].offset;
            const int64_t n = *(const int64_t *)(const void *)at;
            fprintf(f, "%c%" PRId64, k ? ',' : '[',
                    columns[c].px ? (int64_t)llround((double)n * s->downsample) : n);
        }
        fputs(r->slides->n ? "]" : "[]", f);
    }
    fputs(",\n\"downsample\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++) {
        if (k)
            putc(',', f);
        html_number(f, r->slides->slide[k].downsample, 9);
    }
    fputs("],\n\"bounds\":{", f);
    for (int64_t k = 0, n = 0; k < r->slides->n && !r->setup->no_bounds; k++) {
        const struct report_slide *s = &r->slides->slide[k];
        if (s->bounds_x || s->bounds_y)
            fprintf(f, "%s\"%" PRId64 "\":[%" PRId64 ",%" PRId64 "]", n++ ? "," : "", k,
                    s->bounds_x, s->bounds_y);
    }
    fputs("},\n\"pool\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->scores->of[k].pool);
    fputs("],\n\"other\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->clusters->other[k] == KIND_SMALLER);
    fputs("],\n\"verdict\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->verdicts[k]);
    putc(']', f);
}

static void put_slides(FILE *f, const struct report_view *r)
{
    fputs(",\n\"names\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++) {
        if (k)
            putc(',', f);
        html_json(f, r->names->slide[k]);
    }
    putc(']', f);
    put_columns(f, r);
    put_metric_columns(f, r);
    put_reasons(f, r);
}

/* Inputs without numbers: [name, reason]. */
static void put_failures(FILE *f, const struct report_view *r)
{
    fputs(",\n\"failed\":[", f);
    for (int64_t k = 0; k < r->failures->n; k++) {
        fputs(k ? ",\n[" : "[", f);
        html_json(f, r->names->failure[k]);
        putc(',', f);
        html_json(f, report_failure_reason(r, k));
        putc(']', f);
    }
    putc(']', f);
}

void report_data(const struct report_view *r, FILE *f)
{
    putc('{', f);
    put_shared(f, r);
    put_slides(f, r);
    put_failures(f, r);
    fputs("}\n", f);
}
