/* report.c - the steps of a report; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/text_file.h"
#include "process/draw/page.h"
#include "process/report/report_pictures.h"

#include <inttypes.h>
#include <stdlib.h>

#define CSV_HEAD "slide,group,resolution,windows,"
#define KEY_HEAD "number,slide,result"

void report_lists_free(struct report *r)
{
    for (int32_t k = 0; k < r->n_groups; k++) {
        free(r->groups[k]);
        if (r->group_names)
            free(r->group_names[k]);
    }
    for (int64_t k = 0; k < r->n_failures; k++) {
        free(r->failures[k].name);
        free(r->failures[k].path);
        free(r->failures[k].reason);
        free(r->failures[k].shown);
    }
    for (int64_t k = 0; k < r->n_limits; k++)
        free(r->limits[k].group_name);
    free(r->groups);
    free(r->group_names);
    free(r->failures);
    free(r->limits);
}

static void report_free(struct report *r)
{
    for (int64_t k = 0; k < r->n; k++)
        report_slide_free(&r->slides[k]);
    for (int32_t p = 0; p < r->n_pools; p++) {
        free(r->pools[p].median);
        free(r->pools[p].bands);
    }
    for (int k = 0; k < r->n_creators; k++)
        free(r->creators[k]);
    report_spool_free(r->spool);
    free(r->slides);
    free(r->pools);
    free(r->creators);
    report_lists_free(r);
}

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

static int write_one(const struct report *r, const char *path,
                     int (*put)(const struct report *r, FILE *f, struct err *e), struct err *e)
{
    struct text_file t;
    if (text_file_begin(&t, path, e))
        return -1;
    if (!put(r, t.f, e))
        return text_file_commit(&t, e);
    text_file_abort(&t);
    return err_add(e, "%s", path);
}

/* Writes the page, with less and less in it until it fits. */
static int write_page(struct report *r, struct err *e)
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
static int write_all(struct report *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    if ((o->number_names && write_one(r, o->key, report_key, e)) ||
        (o->csv && write_one(r, o->csv, report_csv, e)) || (o->multiqc && report_multiqc(r, e)))
        return -1;
    return write_page(r, e);
}

static int make(struct report *r, struct err *e)
{
    if (check_targets(r->setup, e) || report_read_limits(r, e) || report_load(r, e) ||
        report_group(r, e) || report_name(r, e) || report_place_limits(r, e) ||
        report_score(r, e) || report_cells(r, e))
        return -1;
    return write_all(r, e);
}

int report_write(const struct report_setup *setup, int64_t *bad, int64_t *failing, struct err *e)
{
    struct report r = {.setup = setup};
    const int status = make(&r, e);
    *bad = r.bad;
    *failing = 0;
    for (int64_t k = 0; k < r.n; k++)
        *failing += r.slides[k].verdict == REPORT_FAIL;
    report_free(&r);
    return status;
}
