/*
 * report_data.c - the numbers of a page, as JSON for process/draw/page.js; see report.h.
 *
 * Slides are columns: arrays with one element per slide, in the order of `names`. Histograms are
 * one text: two characters per cell, which count from 0 to 4095 in base 64; 4095 is `max` per dB.
 * The text is empty if they do not fit into --max-size.
 */
#include "process/report/report.h"

#include "common/base/version.h"
#include "process/draw/html.h"
#include "process/report/report_pictures.h"

#include <inttypes.h>
#include <math.h>

static void put_fixed(FILE *f, double x, int digits)
{
    if (isfinite(x))
        fprintf(f, "%.*f", digits, x);
    else
        fputs("null", f);
}

/* Of numbers, `stride` apart. */
static void put_array(FILE *f, const double *v, int64_t n, int digits)
{
    for (int64_t k = 0; k < n; k++) {
        putc(k ? ',' : '[', f);
        html_number(f, v[k], digits);
    }
    fputs(n ? "]" : "[]", f);
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
    for (int m = 0; m <= REPORT_METRICS; m++) {
        const struct report_metric *x = report_metric(m);
        fprintf(f, "%s{\"name\":\"%s\",\"unit\":\"%s\",\"digits\":%d,\"scored\":%s}", m ? "," : "",
                x->name, x->unit, x->digits, x->low ? "true" : "false");
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

static void put_pool(FILE *f, const struct report *r, const struct report_pool *p)
{
    char label[512];
    report_pool_label(r, p, label, sizeof label);
    fputs("{\"label\":", f);
    html_json(f, label);
    fprintf(f, ",\"n\":%" PRId64 ",\"counted\":%" PRId64 ",\"m\":[", p->n, p->counted);
    for (int m = 0; m < REPORT_METRICS; m++) {
        if (m)
            putc(',', f);
        put_summary(f, &p->summary[m]);
    }
    fputs("],\"profile\":[", f);
    for (int q = 0; q < 3; q++) {
        if (q)
            putc(',', f);
        put_array(f, p->profile[q], REPORT_OCTAVES, 5);
    }
    fputs("],\"bands\":[", f);
    for (int b = 0; b < REPORT_BANDS; b++) {
        fputs(b ? ",[" : "[", f);
        for (int64_t c = 0; c < r->cells; c++) {
            if (c)
                putc(',', f);
            html_number(f, (double)p->bands[b * r->cells + c], 4);
        }
        putc(']', f);
    }
    fputs("]}", f);
}

static void put_shared(FILE *f, const struct report *r)
{
    const struct result_params *p = &r->params;
    const double bin = r->begun ? (p->high_db - p->low_db) / (double)p->bins : 1;
    put_metrics(f);
    fputs(",\n\"eta\":", f);
    put_array(f, r->eta, REPORT_METRICS, 3);
    fprintf(f, ",\n\"window\":%" PRId64 ",\"stride\":%" PRId64 ",\"limits\":%s,\"cells\":{\"low\":",
            p->window, p->stride, r->n_limits ? "true" : "false");
    html_number(f, p->low_db + bin * (double)(r->first_cell * r->cell_bins), 9);
    fputs(",\"step\":", f);
    html_number(f, bin * (double)r->cell_bins, 9);
    fprintf(f, ",\"n\":%" PRId64 ",\"max\":", r->cells);
    html_number(f, r->most_share, 6);
    fputs("},\n\"pools\":[", f);
    for (int32_t k = 0; k < r->n_pools; k++) {
        fputs(k ? ",\n" : "\n", f);
        put_pool(f, r, &r->pools[k]);
    }
    putc(']', f);
}

/* --- slides --- */

static void put_metric_columns(FILE *f, const struct report *r)
{
    fputs(",\n\"m\":[", f);
    for (int m = 0; m <= REPORT_METRICS; m++) {
        fputs(m ? ",\n[" : "[", f);
        for (int64_t k = 0; k < r->n; k++) {
            if (k)
                putc(',', f);
            put_fixed(f, report_value(&r->slides[k], m), report_metric(m)->digits);
        }
        putc(']', f);
    }
    putc(']', f);
}

static void put_histograms(FILE *f, const struct report *r)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const double scale = r->most_share > 0 ? 4095 / r->most_share : 0;
    fputs(",\n\"hist\":\"", f);
    for (int64_t k = 0; k < r->n && r->lean < REPORT_NO_CURVES; k++)
        for (int64_t c = 0; c < r->cells; c++) {
            const struct report_slide *s = &r->slides[k];
            const double x = s->cdf ? fmin(4095, round(scale * report_share(r, s, c))) : 0;
            const unsigned at = (unsigned)x;
            putc(set[at >> 6], f);
            putc(set[at & 63], f);
        }
    putc('"', f);
}

static void put_reasons(FILE *f, const struct report *r)
{
    char text[1024];
    bool any = false;
    fputs(",\n\"why\":{", f);
    for (int64_t k = 0; k < r->n; k++)
        for (int n = 0; report_reason(r, &r->slides[k], n, text, sizeof text); n++) {
            if (n == 0)
                fprintf(f, "%s\"%" PRId64 "\":[", any ? "],\n" : "\n", k);
            else
                putc(',', f);
            any = true;
            html_json(f, text);
        }
    fputs(any ? "]}" : "}", f);
}

static void put_profiles(FILE *f, const struct report *r)
{
    fputs(",\n\"profile\":[", f);
    for (int64_t k = 0; k < r->n; k++) {
        if (k)
            putc(',', f);
        if (r->lean >= REPORT_NO_CURVES || isnan(r->slides[k].profile[REPORT_OCTAVES - 1]))
            putc('0', f);
        else
            put_array(f, r->slides[k].profile, REPORT_OCTAVES, 4);
    }
    putc(']', f);
}

/* The whole-number columns. */
static const struct {
    const char *name;
    size_t offset;
} columns[] = {
    {"windows", offsetof(struct report_slide, windows)},
    {"width", offsetof(struct report_slide, width)},
    {"height", offsetof(struct report_slide, height)},
    {"nx", offsetof(struct report_slide, nx)},
    {"ny", offsetof(struct report_slide, ny)},
    {"version", offsetof(struct report_slide, version)},
    {"damaged", offsetof(struct report_slide, damaged)},
    {"partial", offsetof(struct report_slide, groups_missing)},
};

static void put_columns(FILE *f, const struct report *r)
{
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        fprintf(f, ",\n\"%s\":", columns[c].name);
        for (int64_t k = 0; k < r->n; k++) {
            const char *at = (const char *)&r->slides[k] + columns[c].offset;
            fprintf(f, "%c%" PRId64, k ? ',' : '[', *(const int64_t *)(const void *)at);
        }
        fputs(r->n ? "]" : "[]", f);
    }
    fputs(",\n\"downsample\":[", f);
    for (int64_t k = 0; k < r->n; k++) {
        if (k)
            putc(',', f);
        html_number(f, r->slides[k].downsample, 9);
    }
    fputs("],\n\"pool\":[", f);
    for (int64_t k = 0; k < r->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->slides[k].pool);
    fputs("],\n\"verdict\":[", f);
    for (int64_t k = 0; k < r->n; k++)
        fprintf(f, "%s%d", k ? "," : "", r->slides[k].verdict);
    fputs("],\n\"flagged\":[", f);
    for (int64_t k = 0; k < r->n; k++)
        fprintf(f, "%s%d", k ? "," : "", report_is_flagged(&r->slides[k]));
    putc(']', f);
}

static void put_slides(FILE *f, const struct report *r)
{
    fputs(",\n\"names\":[", f);
    for (int64_t k = 0; k < r->n; k++) {
        if (k)
            putc(',', f);
        html_json(f, r->slides[k].shown);
    }
    putc(']', f);
    put_columns(f, r);
    put_metric_columns(f, r);
    put_profiles(f, r);
    put_histograms(f, r);
    put_reasons(f, r);
}

/* Inputs without numbers: [name, reason]. */
static void put_failures(FILE *f, const struct report *r)
{
    fputs(",\n\"failed\":[", f);
    for (int64_t k = 0; k < r->n_failures; k++) {
        fputs(k ? ",\n[" : "[", f);
        html_json(f, r->failures[k].shown);
        putc(',', f);
        html_json(f, report_failure_reason(r, &r->failures[k]));
        putc(']', f);
    }
    putc(']', f);
}

void report_data(const struct report *r, FILE *f)
{
    fputs("{\"format\":1,\n\"creators\":", f);
    put_texts(f, r->creators, r->n_creators);
    put_shared(f, r);
    put_slides(f, r);
    put_failures(f, r);
    fputs("}\n", f);
}
