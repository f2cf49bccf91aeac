/* report_load.c - reads every slide of the results once; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "process/report/report_pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct loader {
    struct report *r;
    int file;             /* the one that is open, or the next */
    struct result *open;  /* NULL: none */
    int64_t next;         /* slide of it */
    int64_t slides, done; /* of all files so far; those loaded */
};

struct load_item {
    struct result_params params; /* of its result: the next one may have been opened meanwhile */
    struct result_slide slide;
    struct report_slide row; /* owned by the report once it is sunk */
};

/* --- lists --- */

int report_fail(struct report *r, const char *name, const char *path, const char *reason,
                struct err *e)
{
    struct report_failure *more = realloc(r->failures, (size_t)(r->n_failures + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    r->failures = more;
    struct report_failure *f = &more[r->n_failures++];
    *f = (struct report_failure){
        .name = strdup(name), .path = strdup(path), .reason = strdup(reason)};
    return f->name && f->path && f->reason ? 0 : err_set(e, "out of memory");
}

static int add_row(struct report *r, const struct report_slide *row, struct err *e)
{
    if (r->n == r->room) {
        const int64_t room = r->room ? 2 * r->room : 64;
        struct report_slide *more = realloc(r->slides, (size_t)room * sizeof *more);
        if (!more)
            return err_set(e, "out of memory");
        r->slides = more;
        r->room = room;
    }
    r->slides[r->n++] = *row;
    return 0;
}

static int add_creator(struct report *r, const char *creator, struct err *e)
{
    for (int k = 0; k < r->n_creators; k++)
        if (!strcmp(r->creators[k], creator))
            return 0;
    char **more = realloc(r->creators, ((size_t)r->n_creators + 1) * sizeof *more);
    if (!more || !(r->creators = more, more[r->n_creators] = strdup(creator)))
        return err_set(e, "out of memory");
    r->n_creators++;
    return 0;
}

/* --- source: the next slide that can be read --- */

/* Results with basic and with spectral features go together: the former show fewer numbers. */
static int same_params(const struct result_params *a, const struct result_params *b, struct err *e)
{
    struct result_params c = *b;
    memcpy(c.features, a->features, sizeof c.features);
    return result_same_params(a, &c, e);
}

/* What is needed of each slide: the map that is shown, and the thumbnail. Spectra are read again
 * for the page, one slide at a time; here they are checked, so that a damaged slide has no row. */
static unsigned parts_of(const struct report *r, const struct result *file)
{
    if (!r->spool)
        return 0;
    return RESULT_WITH_THUMBNAIL | RESULT_WITH_SPECTRA |
           (result_has_map(file, RESULT_FOCUS) ? RESULT_WITH_MAP(RESULT_FOCUS)
                                               : RESULT_WITH_MAP(RESULT_MEAN));
}

/* An input, or a slide of it, that cannot be used: it is reported and listed. The page does not
 * show the folder of `file`. */
static int cannot_use(struct report *r, int64_t file, const char *name, struct err *why,
                      struct err *e)
{
    cli_say("%s", why->msg);
    path_drop_folder(why->msg, r->setup->files[file]);
    r->bad++;
    return report_fail(r, name, r->setup->files[file], why->msg, e);
}

static int open_next(struct loader *l, struct err *e)
{
    struct report *r = l->r;
    const char *path = r->setup->files[l->file];
    struct err why = {""};
    l->next = 0;
    l->open = result_open(path, &why);
    if (l->open && r->begun && same_params(&r->params, result_params(l->open), &why)) {
        err_add(&why,
                "%s: parameters differ from those of the results before it; make a report "
                "of its own",
                path);
        result_close(l->open);
        l->open = NULL;
    }
    if (!l->open) {
        return cannot_use(r, l->file++, path_base_name(path), &why, e);
    }
    if (!r->begun)
        r->params = *result_params(l->open);
    if (!r->begun && r->setup->pictures != REPORT_NONE) {
        const int64_t n = result_slides(l->open) * (r->setup->n_files - l->file);
        if (!(r->spool = report_spool_create(r->setup, n, e)))
            return -1;
    }
    r->begun = true;
    return add_creator(r, result_creator(l->open), e);
}

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct loader *l = ctx;
    struct load_item *it = slot;
    (void)number;
    for (;;) {
        struct err why = {""};
        if (stop_check(e))
            return -1;
        if (l->open && l->next == result_slides(l->open)) {
            result_close(l->open);
            l->open = NULL;
            l->file++;
        } else if (!l->open && l->file == l->r->setup->n_files) {
            return PIPE_END;
        } else if (!l->open) {
            if (open_next(l, e))
                return -1;
        } else if (!result_load_parts(l->open, l->next++, parts_of(l->r, l->open), &it->slide,
                                      &why)) {
            it->row = (struct report_slide){.file = l->file, .version = result_version(l->open)};
            it->params = *result_params(l->open);
            return PIPE_ITEM;
        } else if (cannot_use(l->r, l->file, result_slide_name(l->open, l->next - 1), &why, e)) {
            return -1;
        }
    }
}

/* --- work: the numbers of a slide --- */

static void set_numbers(const struct result_slide *s, struct report_slide *row)
{
    row->width = s->width;
    row->height = s->height;
    row->nx = s->nx;
    row->ny = s->ny;
    row->level = s->level;
    row->windows = s->counts.windows;
    row->damaged = s->counts.touching[RESULT_DAMAGED];
    row->missing = s->counts.touching[RESULT_MISSING];
    row->groups = s->group_count;
    for (int64_t k = 0; k < s->group_count; k++)
        row->groups_missing += !s->groups[k];
    for (int m = 0; m < REPORT_METRICS; m++)
        row->metric[m] = row->z[m] = NAN;
    for (int j = 0; j < REPORT_OCTAVES; j++)
        row->profile[j] = NAN;
    row->w1 = NAN;
    row->mpp = s->origin.mpp_x;
    row->downsample = s->origin.downsample > 0 ? s->origin.downsample : 1;
    row->objective = s->origin.objective_power;
    row->metric[REPORT_TISSUE] = s->origin.tissue_fraction;
}

/* Of a slide with windows. */
static void set_metrics(const struct result_params *p, const struct result_slide *s,
                        struct report_slide *row)
{
    result_moments(p, s->counts.histogram, &row->metric[REPORT_MEAN], &row->metric[REPORT_STD]);
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    memcpy(row->profile, profile, sizeof row->profile);
    row->metric[REPORT_SLOPE] = features_slope(profile);
    row->metric[REPORT_FOCUS_P05] = s->quantiles[RESULT_FOCUS][0];
    row->metric[REPORT_FOCUS_P50] = s->quantiles[RESULT_FOCUS][1];
    row->metric[REPORT_FOCUS_P95] = s->quantiles[RESULT_FOCUS][2];
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct loader *l = ctx;
    struct load_item *it = slot;
    const struct result_params *p = &it->params;
    struct report_slide *row = &it->row;
    const struct result_slide *s = &it->slide;
    (void)thread;
    set_numbers(s, row);
    row->name = strdup(s->name);
    row->vendor = strdup(s->origin.vendor);
    if (!row->name || !row->vendor)
        return err_set(e, "out of memory");
    if (l->r->spool && report_pictures_make(l->r->spool, s, &row->pictures, e))
        return -1;
    if (s->counts.windows == 0)
        return 0;
    set_metrics(p, s, row);
    row->cdf = malloc((size_t)p->bins * sizeof *row->cdf);
    if (!row->cdf)
        return err_set(e, "out of memory");
    stats_cdf(s->counts.histogram, p->bins, s->counts.underflow, s->counts.overflow, row->cdf);
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct loader *l = ctx;
    struct load_item *it = slot;
    const int bad = (l->r->spool && report_pictures_keep(l->r->spool, it->row.pictures, e)) ||
                    add_row(l->r, &it->row, e);
    result_slide_free(&it->slide);
    return bad;
}

/* --- all --- */

static int by_name(const void *a, const void *b)
{
    const struct report_slide *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->file < y->file ? -1 : x->file > y->file;
}

void report_slide_free(struct report_slide *s)
{
    free(s->name);
    free(s->shown);
    free(s->vendor);
    free(s->cdf);
    report_pictures_free(s->pictures);
}

/* A slide may be in one result only: counted twice, it would weigh twice. */
static int drop_duplicates(struct report *r, struct err *e)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < r->n; k++) {
        struct err why = {""};
        struct report_slide *s = &r->slides[k];
        if (kept == 0 || strcmp(r->slides[kept - 1].name, s->name)) {
            r->slides[kept++] = *s;
            continue;
        }
        const char *other = r->setup->files[r->slides[kept - 1].file];
        err_set(&why,
                "%s: slide %s is in %s, too; only the first is used (parts of a slide are "
                "added up by h5spec merge)",
                r->setup->files[s->file], s->name, other);
        const int bad = cannot_use(r, s->file, s->name, &why, e);
        if (!bad)
            path_drop_folder(r->failures[r->n_failures - 1].reason, other);
        report_slide_free(s);
        if (bad)
            return -1;
    }
    r->n = kept;
    return 0;
}

int report_load(struct report *r, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int depth = 2 * r->setup->threads;
    struct loader l = {.r = r};
    struct load_item *items = calloc((size_t)depth, sizeof *items);
    int bad = items ? 0 : err_set(e, "out of memory");
    bad = bad || pipe_run(&ops, &l, items, sizeof *items, depth, r->setup->threads, e);
    for (int k = 0; items && bad && k < depth; k++)
        result_slide_free(&items[k].slide);
    free(items);
    result_close(l.open);
    if (bad)
        return -1;
    if (r->n > 0)
        qsort(r->slides, (size_t)r->n, sizeof *r->slides, by_name);
    return drop_duplicates(r, e);
}
