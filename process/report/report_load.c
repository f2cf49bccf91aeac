/* report_load.c - see report_load.h. */
#include "process/report/report_load.h"

#include "common/base/cli.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Windows without tissue: for a number of the slide, and for telling two kinds apart. */
enum { LEAST_GLASS = 20, SOME_GLASS = 3 };

struct loader {
    const struct report_setup *setup;
    struct report_slides *slides;
    struct report_failures *failures;
    struct report_spool *spool; /* NULL: no pictures */
    int64_t bad;                /* inputs that could not be used */
    int file;                   /* the one that is open, or the next */
    struct result *open;        /* NULL: none */
    int64_t next;               /* slide of it */
};

struct load_item {
    struct result_params params; /* of its result: the next one may have been opened meanwhile */
    struct result_slide slide;
    struct report_slide row; /* owned by the report once it is sunk */
};

/* --- source: the next slide that can be read --- */

/* Results of all versions go together: older ones show fewer numbers. */
static int same_params(const struct result_params *a, const struct result_params *b, struct err *e)
{
    struct result_params c = *b;
    memcpy(c.features, a->features, sizeof c.features);
    c.spectral = a->spectral;
    return result_same_params(a, &c, e);
}

/* What is needed of each slide. A slide whose data are damaged has no row. Spectra are read again
 * for the page, one slide at a time. */
static unsigned parts_of(const struct result *file)
{
    const int map = result_has_map(file, RESULT_FOCUS) ? RESULT_FOCUS : RESULT_MEAN;
    return RESULT_WITH_THUMBNAIL | RESULT_WITH_SPECTRA | RESULT_WITH_MAP(map) |
           (result_has_map(file, RESULT_TISSUE) ? RESULT_WITH_MAP(RESULT_TISSUE) : 0);
}

/* An input, or a slide of it, that cannot be used: it is reported and listed. The page does not
 * show the folder of `file`. */
static int cannot_use(struct loader *l, int64_t file, const char *name, struct err *why,
                      struct err *e)
{
    cli_say("%s", why->msg);
    path_drop_folder(why->msg, l->setup->files[file]);
    l->bad++;
    return report_failures_add(l->failures, name, l->setup->files[file], why->msg, e);
}

/* What all results have in common is that of the first. */
static int begin(struct loader *l, struct err *e)
{
    l->slides->params = *result_params(l->open);
    l->slides->begun = true;
    if (l->setup->pictures == REPORT_NONE)
        return 0;
    const int64_t n = result_slides(l->open) * (l->setup->n_files - l->file);
    return (l->spool = report_spool_create(l->setup, n, e)) ? 0 : -1;
}

static int open_next(struct loader *l, struct err *e)
{
    struct report_slides *s = l->slides;
    const char *path = l->setup->files[l->file];
    struct err why = {""};
    l->next = 0;
    l->open = result_open(path, &why);
    if (l->open && s->begun && same_params(&s->params, result_params(l->open), &why)) {
        err_add(&why,
                "%s: parameters differ from those of the results before it; make a report "
                "of its own",
                path);
        result_close(l->open);
        l->open = NULL;
    }
    if (!l->open)
        return cannot_use(l, l->file++, path_base_name(path), &why, e);
    if (!s->begun && begin(l, e))
        return -1;
    return report_slides_add_creator(s, result_creator(l->open), e);
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
        } else if (!l->open && l->file == l->setup->n_files) {
            return PIPE_END;
        } else if (!l->open) {
            if (open_next(l, e))
                return -1;
        } else if (!result_load_parts(l->open, l->next++, parts_of(l->open), &it->slide, &why)) {
            it->row = (struct report_slide){.file = l->file, .version = result_version(l->open)};
            it->params = *result_params(l->open);
            return PIPE_ITEM;
        } else if (cannot_use(l, l->file, result_slide_name(l->open, l->next - 1), &why, e)) {
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
    row->damaged_tiles = s->origin.tiles_damaged;
    row->missing = s->counts.touching[RESULT_MISSING];
    row->groups = s->group_count;
    for (int64_t k = 0; k < s->group_count; k++)
        row->groups_missing += !s->groups[k];
    for (int m = 0; m < REPORT_METRICS; m++)
        row->metric[m] = NAN;
    for (int j = 0; j < REPORT_OCTAVES; j++)
        row->profile[j] = NAN;
    for (int j = 0; j < REPORT_SPECTRUM_OCTAVES; j++)
        row->octaves[j] = NAN;
    row->some_glass = NAN;
    row->mpp = s->origin.mpp_x;
    row->downsample = s->origin.downsample > 0 ? s->origin.downsample : 1;
    row->objective = s->origin.objective_power;
    row->metric[REPORT_TISSUE] = s->origin.tissue_fraction;
    row->metric[REPORT_TWICE] = s->origin.jpeg_twice;
    if (s->origin.jpeg_quality > 0)
        row->metric[REPORT_QUALITY] = (double)s->origin.jpeg_quality;
    memcpy(row->subsampling, s->origin.jpeg_subsampling, sizeof row->subsampling);
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
    row->metric[REPORT_SHARP_P50] = s->quantiles[RESULT_SHARP][1];
    row->metric[REPORT_FINE_P50] = s->quantiles[RESULT_FINE][1];
    row->metric[REPORT_GLASS] = report_glass(s, LEAST_GLASS);
    row->some_glass = report_glass(s, SOME_GLASS);
    report_octaves(p, s, row->octaves);
    row->metric[REPORT_GRID] = report_grid(p, s);
    report_stain(p, s, &row->metric[REPORT_STAIN], &row->metric[REPORT_HUE]);
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
    if (l->spool && report_pictures_make(l->spool, s, &row->pictures, e))
        return -1;
    if (s->counts.windows == 0)
        return 0;
    set_metrics(p, s, row);
    row->cdf = malloc((size_t)p->bins * sizeof *row->cdf);
    row->sharp = calloc(REPORT_SHARP_BINS, sizeof *row->sharp);
    if (!row->cdf || !row->sharp)
        return err_set(e, "out of memory");
    report_count_sharp(s, row->sharp);
    stats_cdf(s->counts.histogram, p->bins, s->counts.underflow, s->counts.overflow, row->cdf);
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct loader *l = ctx;
    struct load_item *it = slot;
    const int bad = (l->spool && report_pictures_keep(l->spool, it->row.pictures, e)) ||
                    report_slides_add(l->slides, &it->row, e);
    result_slide_free(&it->slide);
    return bad;
}

/* --- all --- */

/* A slide may be in one result only: counted twice, it would weigh twice. */
static int drop_duplicates(struct loader *l, struct err *e)
{
    struct report_slides *all = l->slides;
    int64_t kept = 0;
    for (int64_t k = 0; k < all->n; k++) {
        struct err why = {""};
        struct report_slide *s = &all->slide[k];
        if (kept == 0 || strcmp(all->slide[kept - 1].name, s->name)) {
            all->slide[kept++] = *s;
            continue;
        }
        const char *other = l->setup->files[all->slide[kept - 1].file];
        err_set(&why,
                "%s: slide %s is in %s, too; only the first is used (parts of a slide are "
                "added up by h5spec merge)",
                l->setup->files[s->file], s->name, other);
        const int bad = cannot_use(l, s->file, s->name, &why, e);
        if (!bad)
            path_drop_folder(l->failures->failure[l->failures->n - 1].reason, other);
        report_slide_free(s);
        if (bad)
            return -1;
    }
    all->n = kept;
    return 0;
}

int report_load(const struct report_setup *o, struct report_slides *s, struct report_failures *f,
                struct report_spool **spool, int64_t *bad, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int depth = 2 * o->threads;
    struct loader l = {.setup = o, .slides = s, .failures = f};
    struct load_item *items = calloc((size_t)depth, sizeof *items);
    int status = items ? 0 : err_set(e, "out of memory");
    status = status || pipe_run(&ops, &l, items, sizeof *items, depth, o->threads, e);
    for (int k = 0; items && status && k < depth; k++)
        result_slide_free(&items[k].slide);
    free(items);
    result_close(l.open);
    if (!status) {
        report_slides_sort(s);
        status = drop_duplicates(&l, e);
    }
    *spool = l.spool;
    *bad = l.bad;
    return status ? -1 : 0;
}
