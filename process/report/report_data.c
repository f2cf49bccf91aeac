/* report_data.c - see report_page.h. */
#include "process/report/report_page.h"

#include "process/draw/html.h"
#include "process/report/report_view.h"

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

static void put_texts(FILE *f, char *const *texts, int64_t n)
{
    putc('[', f);
    for (int64_t k = 0; k < n; k++) {
        if (k)
            putc(',', f);
        html_json(f, texts[k]);
    }
    putc(']', f);
}

/* --- what all slides share --- */

static void put_metrics(FILE *f)
{
    fputs(",\n\"metrics\":[", f);
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        const struct report_metric *x = report_metric(m);
        fprintf(f,
                "%s{\"name\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\",\"digits\":%d,"
                "\"scored\":%s,\"least\":%g,\"ratio\":%s,\"times\":%g}",
                m ? ",\n" : "", x->name, x->title, x->unit, x->digits,
                report_is_scored(m) ? "true" : "false", x->least, x->ratio ? "true" : "false",
                x->times);
    }
    putc(']', f);
}

static void put_summary(FILE *f, const struct stats_summary *s)
{
    fprintf(f, "[%" PRId64, s->n);
    const double v[] = {s->q25, s->q50, s->q75, s->mad};
    for (int k = 0; k < 4; k++) {
        putc(',', f);
        html_number(f, v[k], 7);
    }
    putc(']', f);
}

static void put_pool(FILE *f, const struct report_view *r, int32_t pool)
{
    const struct report_pool *p = &r->scores->pool[pool];
    const float *bands = r->cells->bands[pool];
    char label[512];
    report_pool_label(r, pool, label, sizeof label);
    fputs("{\"label\":", f);
    html_json(f, label);
    fprintf(f, ",\"n\":%" PRId64 ",\"counted\":%" PRId64 ",\"m\":[", p->n, p->counted);
    for (int m = 0; m < REPORT_METRICS; m++) {
        if (m)
            putc(',', f);
        put_summary(f, &p->summary[m]);
    }
    fputs("],\"bands\":[", f);
    for (int b = 0; b < REPORT_BANDS; b++) {
        fputs(b ? ",[" : "[", f);
        for (int64_t c = 0; c < r->cells->n; c++) {
            if (c)
                putc(',', f);
            html_number(f, (double)bands[b * r->cells->n + c], 4);
        }
        putc(']', f);
    }
    fputs("]}", f);
}

static void put_shared(FILE *f, const struct report_view *r)
{
    const struct result_params *p = &r->slides->params;
    const struct report_cells *c = r->cells;
    const double bin = r->slides->begun ? (p->high_db - p->low_db) / (double)p->bins : 1;
    put_metrics(f);
    fprintf(f, ",\n\"window\":%" PRId64 ",\"stride\":%" PRId64 ",\"limits\":%s,\"cells\":{\"low\":",
            p->window, p->stride, r->limits->n ? "true" : "false");
    html_number(f, p->low_db + bin * (double)(c->first * c->bins), 9);
    fputs(",\"step\":", f);
    html_number(f, bin * (double)c->bins, 9);
    fprintf(f, ",\"n\":%" PRId64 ",\"max\":", c->n);
    html_number(f, c->most_share, 6);
    fputs("},\n\"pools\":[", f);
    for (int32_t k = 0; k < r->scores->n_pools; k++) {
        fputs(k ? ",\n" : "\n", f);
        put_pool(f, r, k);
    }
    putc(']', f);
}

/* --- slides --- */

/* The page computes z of scored numbers, from one digit more than it shows. */
static void put_metric_columns(FILE *f, const struct report_view *r)
{
    fputs(",\n\"m\":[", f);
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        fputs(m ? ",\n[" : "[", f);
        for (int64_t k = 0; k < r->slides->n; k++) {
            if (k)
                putc(',', f);
            put_fixed(f, report_value(r->slides, r->scores, k, m),
                      report_metric(m)->digits + report_is_scored(m));
        }
        putc(']', f);
    }
    putc(']', f);
}

static void put_histograms(FILE *f, const struct report_view *r)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const double scale = r->cells->most_share > 0 ? 4095 / r->cells->most_share : 0;
    fputs(",\n\"hist\":\"", f);
    for (int64_t k = 0; k < r->slides->n && r->lean < REPORT_NO_CURVES; k++) {
        const float *cdf = report_cdf(r->slides, k);
        for (int64_t c = 0; c < r->cells->n; c++) {
            const double x = cdf ? fmin(4095, round(scale * report_share(r->cells, cdf, c))) : 0;
            const unsigned at = (unsigned)x;
            putc(set[at >> 6], f);
            putc(set[at & 63], f);
        }
    }
    putc('"', f);
}

/* [text, picture that shows it, x, y], x and y as parts of the slide's size. */
static void put_reason(FILE *f, const struct report_reason *x)
{
    putc('[', f);
    html_json(f, x->text);
    fprintf(f, ",%d", x->look);
    if (!isnan(x->x))
        fprintf(f, ",%.4f,%.4f", x->x, x->y);
    putc(']', f);
}

static void put_reasons(FILE *f, const struct report_view *r)
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    bool any = false;
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
    {"version", offsetof(struct report_slide, version), false},
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
    fputs("],\n\"pool\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->scores->of[k].pool);
    fputs("],\n\"other\":[", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->clusters->other[k]);
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
    put_histograms(f, r);
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
    fputs("{\"format\":1,\n\"creators\":", f);
    put_texts(f, r->slides->creators, r->slides->n_creators);
    put_shared(f, r);
    put_slides(f, r);
    put_failures(f, r);
    fputs("}\n", f);
}
