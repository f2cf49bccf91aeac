/* report_tables.c - a report as CSV, as its key, and for MultiQC; see report_tables.h. */
#include "process/report/page/report_tables.h"

#include "common/base/csv.h"
#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/version.h"
#include "process/draw/html.h"
#include "process/report/words/report_reasons.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- CSV --- */

static void next_real(FILE *f, double x)
{
    putc(',', f);
    csv_number(f, x);
}

static const char *reasons_of(const struct report_view *r, int64_t k, char all[4096])
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    const int n = report_reasons(r, k, reasons);
    size_t used = 0;
    *all = 0;
    for (int i = 0; i < n && used < 4096; i++)
        used += (size_t)snprintf(all + used, 4096 - used, "%s%s", i ? "; " : "", reasons[i].text);
    return all;
}

static void put_slide(FILE *f, const struct report_view *r, int64_t k)
{
    const struct report_slide *s = &r->slides->slide[k];
    const struct report_score *score = &r->scores->of[k];
    char reasons[4096];
    csv_text(f, r->names->slide[k]);
    putc(',', f);
    csv_text(f, r->names->group[r->groups->of[k]]);
    putc(',', f);
    csv_text(f, r->scores->pool[score->pool].resolution);
    fprintf(f, ",%" PRId64 ",%" PRId64 ",", s->windows, s->groups_missing);
    if (s->damaged >= 0)
        fprintf(f, "%" PRId64, s->damaged);
    for (int m = 0; m < REPORT_NUMBERS; m++)
        next_real(f, report_value(r->slides, r->scores, k, m));
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_is_scored(m))
            next_real(f, score->z[m]);
    fprintf(f, ",%d,%s", r->clusters->other[k] == KIND_SMALLER,
            report_verdict_name(r->verdicts[k]));
    putc(',', f);
    csv_text(f, reasons_of(r, k, reasons));
    putc('\n', f);
}

/* Without numbers: only the name, the verdict and the reason. */
static void put_bare(FILE *f, const char *name, const char *verdict, const char *reason)
{
    csv_text(f, name);
    fputs(",,,,,", f);
    for (int m = 0; m < REPORT_NUMBERS; m++)
        putc(',', f);
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_is_scored(m))
            putc(',', f);
    fprintf(f, ",,%s,", verdict);
    csv_text(f, reason);
    putc('\n', f);
}

int report_csv(const struct report_view *r, FILE *f, struct err *e)
{
    (void)e;
    fputs("slide,group,resolution,windows,groups_missing,windows_damaged", f);
    for (int m = 0; m < REPORT_NUMBERS; m++)
        fprintf(f, ",%s", report_metric(m)->name);
    for (int m = 0; m < REPORT_METRICS; m++)
        if (report_is_scored(m))
            fprintf(f, ",z_%s", report_metric(m)->name);
    fputs(",other_kind,verdict,reasons\n", f);
    for (int64_t k = 0; k < r->slides->n; k++)
        put_slide(f, r, k);
    for (int64_t k = 0; k < r->failures->n; k++)
        put_bare(f, r->names->failure[k], "fail", report_failure_reason(r, k));
    for (int64_t k = 0; k < r->failures->n_copies && !r->setup->key; k++)
        put_bare(f, report_shown_path(r->failures->copy[k].name), "copy",
                 r->failures->copy[k].reason);
    return 0;
}

/* --- the key --- */

static void put_row(FILE *f, const char *const *cells, int n)
{
    for (int k = 0; k < n; k++) {
        if (k)
            putc(',', f);
        csv_exact(f, cells[k]);
    }
    putc('\n', f);
}

int report_key(const struct report_view *r, FILE *f, struct err *e)
{
    (void)e;
    fputs("number,slide,result,group,group_name,reason\n", f);
    for (int64_t k = 0; k < r->slides->n; k++) {
        const struct report_slide *s = &r->slides->slide[k];
        const int32_t group = r->groups->of[k];
        put_row(f,
                (const char *[]){r->names->slide[k], s->name, r->setup->files[s->file],
                                 r->names->group[group], r->groups->name[group],
                                 s->failed ? s->failed : ""},
                6);
    }
    for (int64_t k = 0; k < r->failures->n; k++) {
        const struct report_failure *x = &r->failures->failure[k];
        put_row(f, (const char *[]){r->names->failure[k], x->name, x->path, "", "", x->reason}, 6);
    }
    return 0;
}

/* --- MultiQC's custom content: a file that ends in _mqc.json --- */

static void put_value(FILE *f, const char *name, double x)
{
    if (isfinite(x))
        fprintf(f, ", \"%s\": %.10g", name, x);
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

/* Columns that are texts. */
static void put_text_columns(FILE *f)
{
    fputs("\n{\"verdict\": {\"title\": \"verdict\", \"namespace\": \"h5spec\", \"description\": "
          "\"pass, not judged, review or fail\"}},\n"
          "{\"reasons\": {\"title\": \"reasons\", \"namespace\": \"h5spec\", \"description\": "
          "\"why to look at the slide, the strongest reason first\"}},",
          f);
}

static void begin_row(FILE *f, const char *name, bool first, const char *verdict,
                      const char *reasons)
{
    fputs(first ? "\n" : ",\n", f);
    put_name(f, name);
    fprintf(f, ": {\"verdict\": \"%s\", \"reasons\": ", verdict);
    put_name(f, reasons);
}

/* Without being asked for: what a reader wants first. */
static bool is_shown(int metric)
{
    return metric == REPORT_FOCUS_P50 || metric == REPORT_BLURRED || metric == REPORT_STAIN ||
           metric == REPORT_TISSUE || metric == REPORT_W1;
}

static void put_statistics(const struct report_view *r, FILE *f)
{
    char reasons[4096];
    fputs(REPORT_MULTIQC_HEAD "statistics\", \"plot_type\": \"generalstats\", \"pconfig\": [", f);
    put_text_columns(f);
    for (int m = 0; m < REPORT_NUMBERS; m++) {
        const struct report_metric *x = report_metric(m);
        fprintf(f,
                "%s\n{\"%s\": {\"title\": \"%s\", \"namespace\": \"h5spec\", \"description\": "
                "\"%s\", \"format\": \"{:,.%df}\", \"suffix\": \"%s\"%s}}",
                m ? "," : "", x->name, x->title, x->definition, report_is_share(m) ? 3 : x->digits,
                report_is_share(m) ? "" : x->unit, is_shown(m) ? "" : ", \"hidden\": true");
    }
    fputs("],\n\"data\": {", f);
    for (int64_t k = 0; k < r->slides->n; k++) {
        begin_row(f, r->names->slide[k], k == 0, report_verdict_name(r->verdicts[k]),
                  reasons_of(r, k, reasons));
        for (int m = 0; m < REPORT_NUMBERS; m++)
            put_value(f, report_metric(m)->name, report_value(r->slides, r->scores, k, m));
        putc('}', f);
    }
    for (int64_t k = 0; k < r->failures->n; k++) {
        begin_row(f, r->names->failure[k], k + r->slides->n == 0, "fail",
                  report_failure_reason(r, k));
        putc('}', f);
    }
    fputs("}}\n", f);
}

int report_multiqc(const struct report_view *r, struct err *e)
{
    struct text_file t = {0};
    const char *folder = r->setup->multiqc;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return err_sys(e, "%s: cannot be made", folder);
    char *path = memory_print("%s/h5spec_statistics_mqc.json", folder);
    int bad = text_file_check(path, REPORT_MULTIQC_HEAD, "custom content made by h5spec", e) ||
              text_file_begin(&t, path, e);
    if (!bad) {
        put_statistics(r, t.f);
        bad = text_file_commit(&t, e);
    }
    free(path);
    return bad ? -1 : 0;
}
