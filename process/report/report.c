/* report.c - the steps of a report; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/text_file.h"
#include "process/draw/page.h"
#include "process/report/report_load.h"
#include "process/report/report_more.h"
#include "process/report/report_page.h"
#include "process/report/report_reasons.h"
#include "process/report/report_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CSV_HEAD "slide,group,resolution,windows,"
#define KEY_HEAD "number,slide,result"

/* All files that are to be written, known before anything is read. */
static int check_targets(const struct report_setup *o, struct err *e)
{
    if (text_file_check(o->output, PAGE_REPORT_HEAD, "a report made by h5spec", e))
        return -1;
    if (o->csv && text_file_check(o->csv, CSV_HEAD, "a table of a report", e))
        return -1;
    return o->key && o->number_names ? text_file_check(o->key, KEY_HEAD, "a key of a report", e)
                                     : 0;
}

static int write_one(const struct report_view *r, const char *path,
                     int (*put)(const struct report_view *r, FILE *f, struct err *e), struct err *e)
{
    struct text_file t;
    if (text_file_begin(&t, path, e))
        return -1;
    if ((put != report_key || !publish_make_private(t.publish.fd, e)) && !put(r, t.f, e))
        return text_file_commit(&t, e);
    text_file_abort(&t);
    return err_add(e, "%s", path);
}

/* Writes the page, with less and less in it until it fits. */
static int write_page(struct report_view *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    for (r->lean = REPORT_WHOLE;; r->lean++) {
        struct text_file t;
        if (text_file_begin(&t, o->output, e))
            return -1;
        if (report_page(r, t.f, e)) {
            text_file_abort(&t);
            return err_add(e, "%s", o->output);
        }
        const int64_t bytes = ftello(t.f);
        const bool fits = bytes <= o->max_size || o->pictures == REPORT_ALL;
        if (!fits && r->lean == REPORT_NO_CURVES)
            cli_say("%s: %" PRId64 " bytes, more than --max-size %" PRId64
                    "; a page of these slides cannot be smaller",
                    o->output, bytes, o->max_size);
        if (fits || r->lean == REPORT_NO_CURVES)
            return text_file_commit(&t, e);
        text_file_abort(&t);
    }
}

/* The page comes last: when it is there, so is the rest. */
static int write_all(struct report_view *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    if ((o->number_names && write_one(r, o->key, report_key, e)) ||
        (o->csv && write_one(r, o->csv, report_csv, e)) || (o->multiqc && report_multiqc(r, e)))
        return -1;
    return write_page(r, e);
}

/* The values of a report, which a view shows. */
struct values {
    struct report_slides slides;
    struct report_failures failures;
    struct report_groups groups;
    struct report_names names;
    struct report_limits limits;
    struct report_scores scores;
    struct report_cells cells;
    struct report_clusters clusters;
    struct report_places places;
    uint8_t *verdicts;
    struct report_spool *spool;
    struct report_more more;
};

static void values_free(struct values *v)
{
    report_slides_free(&v->slides);
    report_failures_free(&v->failures);
    report_groups_free(&v->groups);
    report_names_free(&v->names);
    report_limits_free(&v->limits);
    report_scores_free(&v->scores);
    report_cells_free(&v->cells);
    report_clusters_free(&v->clusters);
    report_places_free(&v->places);
    free(v->verdicts);
    report_spool_free(v->spool);
    report_more_free(&v->more);
}

static int make_values(const struct report_setup *o, struct values *v, int64_t *bad, struct err *e)
{
    return check_targets(o, e) || report_limits_read(o->limits, &v->limits, e) ||
                   report_load(o, &v->slides, &v->failures, &v->spool, bad, e) ||
                   report_group(o, &v->slides, &v->groups, e) ||
                   report_read_failed(o, &v->failures, e) ||
                   report_name(o, &v->slides, &v->groups, &v->failures, &v->names, e) ||
                   report_limits_place(o->limits, &v->slides, &v->groups, &v->limits, e) ||
                   report_score(&v->slides, &v->groups, o->accepted, &v->scores, e) ||
                   report_find_clusters(&v->slides, &v->scores, &v->clusters, e) ||
                   report_find_places(o, &v->slides, &v->scores, &v->places, bad, e) ||
                   report_cells(&v->slides, &v->scores, &v->cells, e)
               ? -1
               : 0;
}

static int write_values(const struct report_setup *o, struct values *v, int64_t *bad,
                        int64_t verdicts[REPORT_VERDICTS], struct err *e)
{
    struct report_view view = {.setup = o,
                               .slides = &v->slides,
                               .failures = &v->failures,
                               .groups = &v->groups,
                               .names = &v->names,
                               .limits = &v->limits,
                               .scores = &v->scores,
                               .cells = &v->cells,
                               .clusters = &v->clusters,
                               .places = &v->places,
                               .spool = v->spool};
    if (!(view.verdicts = v->verdicts = report_judge(&view)))
        return err_set(e, "out of memory");
    if (report_load_pictures(o, &v->slides, v->verdicts, v->spool, bad, e) ||
        report_add_maps(&view, &v->more, bad, e))
        return -1;
    view.more = &v->more;
    for (int64_t k = 0; k < v->slides.n; k++)
        verdicts[v->verdicts[k]]++;
    verdicts[REPORT_FAIL] += v->failures.n;
    return write_all(&view, e);
}

int report_write(const struct report_setup *setup, int64_t *bad, bool *trouble,
                 int64_t verdicts[REPORT_VERDICTS], struct err *e)
{
    struct values v = {0};
    *bad = 0;
    memset(verdicts, 0, REPORT_VERDICTS * sizeof *verdicts);
    const int status =
        make_values(setup, &v, bad, e) || write_values(setup, &v, bad, verdicts, e) ? -1 : 0;
    *trouble = v.failures.trouble;
    values_free(&v);
    return status;
}
