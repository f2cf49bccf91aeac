/* report_tables.c - a report as tables for other programs: --csv, --multiqc; see report.h. */
#include "process/report/report.h"

#include "common/base/csv.h"
#include "common/base/text_file.h"
#include "common/base/version.h"
#include "process/draw/html.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const verdicts[] = {"", "pass", "warn", "fail"};

/* --- CSV --- */

static void next_real(FILE *f, double x)
{
    putc(',', f);
    csv_number(f, x);
}

static void put_reasons(FILE *f, const struct report *r, const struct report_slide *s)
{
    char all[4096] = "", text[1024];
    for (int k = 0; report_reason(r, s, k, text, sizeof text); k++) {
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", n ? "; " : "", text);
    }
    putc(',', f);
    csv_text(f, all);
}

static void put_slide(FILE *f, const struct report *r, const struct report_slide *s)
{
    csv_text(f, s->shown);
    putc(',', f);
    csv_text(f, r->groups[s->group]);
    putc(',', f);
    csv_text(f, r->pools[s->pool].resolution);
    fprintf(f, ",%" PRId64 ",%" PRId64 ",", s->windows, s->groups_missing);
    if (s->damaged >= 0)
        fprintf(f, "%" PRId64, s->damaged);
    for (int m = 0; m <= REPORT_METRICS; m++)
        next_real(f, report_value(s, m));
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_metric(m)->low)
            next_real(f, s->z[m]);
    fprintf(f, ",0,%d,%s", report_is_flagged(s), verdicts[s->verdict]);
    put_reasons(f, r, s);
    putc('\n', f);
}

/* Without numbers: only the name, failed and the reason. */
static void put_failed(FILE *f, const struct report *r, const struct report_failure *x)
{
    csv_text(f, x->shown);
    fputs(",,,,,", f);
    for (int m = 0; m <= REPORT_METRICS; m++)
        putc(',', f);
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_metric(m)->low)
            putc(',', f);
    fputs(",1,,,", f);
    csv_text(f, report_failure_reason(r, x));
    putc('\n', f);
}

int report_csv(const struct report *r, FILE *f, struct err *e)
{
    (void)e;
    fputs("slide,group,resolution,windows,groups_missing,windows_damaged", f);
    for (int m = 0; m <= REPORT_METRICS; m++)
        fprintf(f, ",%s", report_metric(m)->name);
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_metric(m)->low)
            fprintf(f, ",z_%s", report_metric(m)->name);
    fputs(",failed,flagged,verdict,reasons\n", f);
    for (int64_t k = 0; k < r->n; k++)
        put_slide(f, r, &r->slides[k]);
    for (int64_t k = 0; k < r->n_failures; k++)
        put_failed(f, r, &r->failures[k]);
    return 0;
}

/* --- MultiQC's custom content: files that end in _mqc.json --- */

#define MULTIQC_HEAD "{\"id\": \"h5spec_"

static void put_value(FILE *f, bool *first, const char *name, double x)
{
    if (!isfinite(x))
        return;
    fprintf(f, "%s\"%s\": %.10g", *first ? "" : ", ", name, x);
    *first = false;
}

/* MultiQC puts names into its page as they are, as HTML. */
static void put_name(FILE *f, const char *name)
{
    char *text = NULL;
    size_t n;
    FILE *m = open_memstream(&text, &n);
    if (m) {
        html_text(m, name);
        fclose(m);
    }
    html_json(f, text ? text : "out of memory");
    free(text);
}

static void put_statistics(const struct report *r, FILE *f)
{
    fputs(MULTIQC_HEAD "statistics\", \"plot_type\": \"generalstats\", \"pconfig\": [", f);
    for (int m = 0; m <= REPORT_METRICS; m++) {
        const struct report_metric *x = report_metric(m);
        fprintf(f,
                "%s\n{\"%s\": {\"title\": \"%s\", \"namespace\": \"h5spec\", \"description\": "
                "\"%s\", \"format\": \"{:,.%df}\"%s%s}}",
                m ? "," : "", x->name, x->name, x->definition, x->digits,
                *x->unit ? ", \"suffix\": \" dB\"" : "", x->low ? "" : ", \"hidden\": true");
    }
    fputs("],\n\"data\": {", f);
    for (int64_t k = 0; k < r->n; k++) {
        bool first = true;
        fputs(k ? ",\n" : "\n", f);
        put_name(f, r->slides[k].shown);
        fputs(": {", f);
        for (int m = 0; m <= REPORT_METRICS; m++)
            put_value(f, &first, report_metric(m)->name, report_value(&r->slides[k], m));
        putc('}', f);
    }
    fputs("}}\n", f);
}

static double cell_middle(const struct report *r, int64_t cell)
{
    const double width = (r->params.high_db - r->params.low_db) / (double)r->params.bins;
    return r->params.low_db + width * (double)r->cell_bins * ((double)(r->first_cell + cell) + 0.5);
}

static void put_lines(const struct report *r, FILE *f)
{
    bool first = true;
    fputs(MULTIQC_HEAD
          "histograms\", \"section_name\": \"Spectral histograms\", \"description\": "
          "\"Share of the log magnitudes of all windows, per dB.\", \"plot_type\": \"linegraph\", "
          "\"pconfig\": {\"id\": \"h5spec_histograms_plot\", \"title\": \"h5spec: spectral "
          "histograms\", \"xlab\": \"log magnitude (dB)\", \"ylab\": \"share per dB\"},\n"
          "\"data\": {",
          f);
    for (int64_t k = 0; k < r->n; k++) {
        const struct report_slide *s = &r->slides[k];
        if (!s->cdf)
            continue;
        fputs(first ? "\n" : ",\n", f);
        first = false;
        put_name(f, s->shown);
        fputs(": {", f);
        for (int64_t c = 0; c < r->cells; c++)
            fprintf(f, "%s\"%.6g\": %.5g", c ? ", " : "", cell_middle(r, c), report_share(r, s, c));
        putc('}', f);
    }
    fputs("}}\n", f);
}

static int write_one(const struct report *r, const char *name,
                     void (*put)(const struct report *r, FILE *f), struct err *e)
{
    struct text_file t = {0};
    char *path;
    if (asprintf(&path, "%s/%s", r->setup->multiqc, name) < 0)
        return err_set(e, "out of memory");
    int bad = text_file_check(path, MULTIQC_HEAD, "custom content made by h5spec", e) ||
              text_file_begin(&t, path, e);
    if (!bad) {
        put(r, t.f);
        bad = text_file_commit(&t, e);
    }
    free(path);
    return bad ? -1 : 0;
}

int report_multiqc(const struct report *r, struct err *e)
{
    if (mkdir(r->setup->multiqc, 0777) && errno != EEXIST)
        return err_sys(e, "%s: cannot be made", r->setup->multiqc);
    return write_one(r, "h5spec_statistics_mqc.json", put_statistics, e) ||
                   write_one(r, "h5spec_histograms_mqc.json", put_lines, e)
               ? -1
               : 0;
}
