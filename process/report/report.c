/* report.c - the steps of a report; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/publish.h"
#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_library.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"
#include "process/draw/html.h"
#include "process/report/numbers/report_pictures.h"
#include "process/report/numbers/report_reread.h"
#include "process/report/numbers/report_setup.h"
#include "process/report/numbers/report_slides.h"
#include "process/report/page/report_page.h"
#include "process/report/page/report_tables.h"
#include "process/report/python/report_python.h"
#include "process/report/words/report_reasons.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Reads every slide of the results once: numbers, histogram, pictures.
 */

struct loader {
    const struct report_setup *setup;
    struct report_slides *slides;
    struct report_failures *failures;
    struct report_spool *spool; /* NULL: no pictures */
    bool for_python;            /* slides become rows, not curves */
    struct report_rows *rows;   /* of slides that are in no table; NULL: none yet */
    int64_t bad;                /* inputs that could not be used */
    int file;                   /* the one that is open, or the next */
    struct result *open;        /* NULL: none */
    int64_t next;               /* slide of it */
    bool *changed;              /* of a table: whose rows must not be used; NULL: all are right */
};

struct load_item {
    struct result_params params; /* of its result: the next one may have been opened meanwhile */
    struct result_slide slide;
    struct report_numbers numbers;
    bool has_numbers;        /* else they follow from the slide */
    float *cdf;              /* [bins], owned; NULL without windows */
    struct report_slide row; /* owned by the report once it is sunk */
};

/* --- source: the next slide that can be read --- */

/* Are pictures made of each slide, before it is known which slides show them? */
static bool makes_pictures(const struct loader *l)
{
    return l->spool && !report_spool_is_late(l->spool);
}

/* Loads what is needed of slide k: a table has the numbers. A slide whose data are damaged has no
 * row; so both spectra are looked at, which are read again for the page, one slide at a time. */
static int load_slide(struct loader *l, int64_t k, struct load_item *it, struct err *why)
{
    if (l->changed && l->changed[k])
        return result_refuse_changed(l->open, k, why);
    const int has = result_read_numbers(l->open, k, &it->numbers, why);
    unsigned parts = makes_pictures(l) ? REPORT_PARTS_OF_PICTURES : 0;
    if (has < 0)
        return -1;
    if (!has)
        parts |= report_numbers_parts() | RESULT_WITH_SPECTRA;
    it->has_numbers = has;
    return result_load_parts(l->open, k, parts, &it->slide, why);
}

/* An input, or a slide of it, that cannot be used: it is reported and listed. The page does not
 * show the folder of `file`. */
static void cannot_use(struct loader *l, int64_t file, const char *name, struct err *why)
{
    if (!l->setup->silent)
        cli_say("%s", why->msg);
    l->failures->trouble |= err_is_trouble(why);
    path_drop_folder(why->msg, l->setup->files[file]);
    l->bad++;
    report_failures_add(l->failures, name, l->setup->files[file], why->msg);
}

/* Takes the parameters, which all results share, from the first. */
static int begin(struct loader *l, struct err *e)
{
    l->slides->params = *result_params(l->open);
    l->slides->begun = true;
    if (!l->for_python && !(l->slides->curves = report_curves_create(l->slides->params.bins, e)))
        return -1;
    if (l->setup->max_size == 0)
        return 0;
    const int64_t least = result_slides(l->open);
    l->spool = report_spool_create(l->setup, least, least * (l->setup->n_files - l->file), e);
    return l->spool ? 0 : -1;
}

static int open_next(struct loader *l, struct err *e)
{
    struct report_slides *s = l->slides;
    const char *path = l->setup->files[l->file];
    struct err why = {0};
    l->next = 0;
    l->open = result_open(path, &why);
    if (l->open && s->begun && result_same_params(&s->params, result_params(l->open), &why)) {
        err_add(&why,
                "%s: parameters differ from those of the results before it; make a report "
                "of its own",
                path);
        result_close(l->open);
        l->open = NULL;
    }
    if (!l->open) {
        cannot_use(l, l->file++, path_base_name(path), &why);
        return 0;
    }
    l->changed = result_find_changed(l->open, &why);
    if (*why.msg && !l->setup->silent && !l->setup->quiet)
        cli_say("%s", why.msg);
    if (!s->begun && begin(l, e))
        return -1;
    report_slides_add_creator(s, result_creator(l->open));
    return 0;
}

/* Loads the next slide that can be used. */
static int load_next(struct loader *l, struct load_item *it, struct err *e)
{
    for (;;) {
        struct err why = {0};
        if (stop_check(e))
            return -1;
        if (l->open && l->next == result_slides(l->open)) {
            result_close(l->open);
            free(l->changed);
            l->open = NULL;
            l->changed = NULL;
            l->file++;
        } else if (!l->open && l->file == l->setup->n_files) {
            return PIPE_END;
        } else if (!l->open) {
            if (open_next(l, e))
                return -1;
        } else if (!load_slide(l, l->next++, it, &why)) {
            it->row = (struct report_slide){
                .file = l->file, .curves = -1, .row = l->next - 1, .in_table = it->has_numbers};
            it->params = *result_params(l->open);
            return PIPE_ITEM;
        } else {
            cannot_use(l, l->file, result_slide_name(l->open, l->next - 1), &why);
        }
    }
}

/* On any thread, each of which must keep the library quiet. */
static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    (void)number;
    h5_lock();
    const int r = load_next(ctx, slot, e);
    h5_unlock();
    return r;
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
    row->missing = s->origin.tiles_missing > 0;
    row->brightfield = result_is_brightfield(s);
    row->groups = s->group_count;
    for (int64_t k = 0; k < s->group_count; k++)
        row->groups_missing += !s->groups[k];
    for (int m = 0; m < REPORT_METRICS; m++)
        row->metric[m] = NAN;
    for (int j = 0; j < RESULT_SPECTRUM_OCTAVES; j++)
        row->octaves[j] = NAN;
    row->um = same_resolution_um(&s->origin);
    row->downsample = s->origin.downsample > 0 ? s->origin.downsample : 1;
    row->objective = s->origin.objective_power;
    row->bounds_x = s->origin.bounds_x;
    row->bounds_y = s->origin.bounds_y;
    row->tile_rows = s->origin.chunk_rows;
    row->tile_cols = s->origin.chunk_cols;
    row->metric[REPORT_TISSUE] = s->origin.tissue_fraction;
    row->metric[REPORT_TWICE] = s->origin.jpeg_twice;
    memcpy(row->glass, s->origin.glass, sizeof row->glass);
    row->metric[REPORT_GLASS] = row->glass[GLASS_STD];
    row->metric[REPORT_GLASS_RANGE] = row->glass[GLASS_RANGE];
    row->metric[REPORT_GLASS_LINES] = fmax(row->glass[GLASS_ROWS], row->glass[GLASS_COLUMNS]);
    row->metric[REPORT_GLASS_GRAY] = row->glass[GLASS_GRAY];
    if (s->origin.jpeg_quality > 0)
        row->metric[REPORT_QUALITY] = (double)s->origin.jpeg_quality;
    memcpy(row->subsampling, s->origin.jpeg_subsampling, sizeof row->subsampling);
}

/* What was never scanned is of one colour, and its edges are no steps of the light. The thumbnail
 * shows it whichever windows count. */
static void set_light(const struct report_numbers *n, struct report_slide *row)
{
    const double *step = n->light.step;
    row->light = n->light;
    if (!row->missing)
        row->metric[REPORT_LIGHT] = fmax(fabs(step[0]), fmax(fabs(step[1]), fabs(step[2])));
}

/* Of a slide with windows. */
static void set_metrics(const struct load_item *it, struct report_slide *row)
{
    const struct result_params *p = &it->params;
    const struct result_slide *s = &it->slide;
    const struct report_numbers *n = &it->numbers;
    result_moments(p, s->counts.histogram, &row->metric[REPORT_MEAN], &row->metric[REPORT_STD]);
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    row->metric[REPORT_SLOPE] = features_slope(profile);
    row->metric[REPORT_FOCUS_P50] = s->quantiles[RESULT_FOCUS][1];
    row->metric[REPORT_SHARP_P50] = s->quantiles[RESULT_SHARP][1];
    row->metric[REPORT_SHARP_P05] = s->quantiles[RESULT_SHARP][0];
    row->metric[REPORT_FINE_P50] = s->quantiles[RESULT_FINE][1];
    row->metric[REPORT_DETAIL_4] = s->of_spectra.detail_4px_db;
    row->metric[REPORT_DETAIL_7] = s->of_spectra.detail_7px_db;
    row->metric[REPORT_FALL] = s->of_spectra.detail_4px_db - s->of_spectra.detail_7px_db;
    memcpy(row->octaves, n->octaves, sizeof row->octaves);
    if (row->brightfield && !row->missing) {
        row->metric[REPORT_GRAY_LOW] = s->of_spectra.gray_low;
        row->metric[REPORT_GRAY_HIGH] = s->of_spectra.gray_high;
    }
    row->metric[REPORT_LINES] = s->of_spectra.lines_db;
    row->metric[REPORT_DIRECTION] = s->of_spectra.direction_db;
    row->metric[REPORT_SEAMS] = s->of_spectra.seam_rows + s->of_spectra.seam_columns;
    row->of_spectra = s->of_spectra;
    row->metric[REPORT_STAIN] = n->stain_density;
    row->metric[REPORT_HUE] = n->stain_hue;
    row->metric[REPORT_GRAY] = n->gray_share;
    row->metric[REPORT_INK] = n->ink_share;
    set_light(n, row);
    row->metric[REPORT_COLOURLESS] = n->colourless_share;
    row->metric[REPORT_PIECES] = n->pieces_sharp;
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
    row->name = memory_copy(s->name);
    row->vendor = memory_copy(s->origin.vendor);
    if (makes_pictures(l) && report_pictures_make(l->spool, s, &row->pictures, e))
        return -1;
    if (!it->has_numbers)
        report_numbers_find(p, s, &it->numbers);
    if (s->counts.windows == 0)
        return 0;
    set_metrics(it, row);
    if (l->for_python)
        return 0;
    it->cdf = memory_need((size_t)p->bins, sizeof *it->cdf);
    stats_cdf(s->counts.histogram, p->bins, s->counts.underflow, s->counts.overflow, it->cdf);
    return 0;
}

/* A slide of a table has a row there. */
static int put_row(struct loader *l, struct load_item *it, struct err *e)
{
    if (!l->for_python || it->has_numbers)
        return 0;
    if (!l->rows && !(l->rows = report_rows_create(&it->params, e)))
        return -1;
    return report_rows_add(l->rows, &it->slide, &it->numbers, &it->row.row, e);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct loader *l = ctx;
    struct load_item *it = slot;
    const int bad = put_row(l, it, e) ||
                    (it->cdf && report_curves_add(l->slides->curves, it->cdf, it->numbers.sharp,
                                                  &it->row.curves, e)) ||
                    (l->spool && report_pictures_keep(l->spool, it->row.pictures, e));
    if (!bad)
        report_slides_add(l->slides, &it->row);
    l->slides->n_older += !bad && it->slide.numbers_missing > 0;
    result_slide_free(&it->slide);
    free(it->cdf);
    it->cdf = NULL;
    return bad;
}

/* --- all --- */

/* The same slide with the same numbers: of a merged result beside those that it was made of. */
static bool is_copy(const struct report_slide *a, const struct report_slide *b)
{
    bool same = a->windows == b->windows;
    for (int m = 0; m < REPORT_METRICS; m++) /* results of earlier versions may lack some */
        same &= a->metric[m] == b->metric[m] || isnan(a->metric[m]) || isnan(b->metric[m]);
    return same;
}

/* A slide may be in one result only: counted twice, it would weigh twice. */
static void drop_duplicates(struct loader *l)
{
    struct report_slides *all = l->slides;
    int64_t kept = 0;
    for (int64_t k = 0; k < all->n; k++) {
        struct err why = {0};
        struct report_slide *s = &all->slide[k];
        if (kept == 0 || strcmp(all->slide[kept - 1].name, s->name)) {
            all->slide[kept++] = *s;
            continue;
        }
        const char *other = l->setup->files[all->slide[kept - 1].file];
        if (is_copy(&all->slide[kept - 1], s)) {
            report_slide_free(s);
            continue;
        }
        err_set(&why,
                "%s: slide %s is in %s, too; only the first is used (parts of a slide are "
                "added up by h5spec merge)",
                l->setup->files[s->file], s->name, other);
        cannot_use(l, s->file, s->name, &why);
        path_drop_folder(l->failures->failure[l->failures->n - 1].reason, other);
        report_slide_free(s);
    }
    all->n = kept;
}

/* *s and *f start as {0} and are to be freed in any case; *spool (NULL: no pictures), too, and *rows,
 * which get the slides of results; NULL: they are for this program. Inputs
 * that cannot be used go to *f, and *bad gets their number. -1: the disk is full, or stopped. */
static int load_slides(const struct report_setup *o, struct report_slides *s,
                       struct report_failures *f, struct report_spool **spool,
                       struct report_rows **rows, int64_t *bad, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int depth = 2 * o->threads;
    struct loader l = {.setup = o, .slides = s, .failures = f, .for_python = rows};
    struct load_item *items = memory_need((size_t)depth, sizeof *items);
    int status = pipe_run(&ops, &l, items, sizeof *items, depth, o->threads, e);
    for (int k = 0; status && k < depth; k++) {
        result_slide_free(&items[k].slide);
        free(items[k].cdf);
    }
    if (!status && s->curves)
        status = report_curves_map(s->curves, e);
    if (!status && l.rows)
        status = report_rows_finish(l.rows, e);
    free(items);
    result_close(l.open);
    free(l.changed);
    if (!status) {
        report_slides_sort(s);
        drop_duplicates(&l);
    }
    *spool = l.spool;
    if (rows)
        *rows = l.rows;
    *bad = l.bad;
    return status ? -1 : 0;
}

/* --- pictures of the slides that show them --- */

/* Loads the pictures of slides that do not pass (verdicts[slides]), if there are very many slides;
 * else all are loaded already. *bad grows by the number of slides whose result cannot be read. */
static int load_pictures(const struct report_setup *o, struct report_slides *s,
                         const uint8_t *verdicts, struct report_spool *spool, int64_t *bad,
                         struct err *e)
{
    struct report_reread reread = {.files = o->files, .params = &s->params};
    int r = 0;
    if (!spool || !report_spool_is_late(spool))
        return 0;
    for (int64_t k = 0; k < s->n && r >= 0; k++) {
        r = stop_check(e) ? -1 : 0;
        if (r || verdicts[k] < REPORT_REVIEW)
            continue;
        r = report_reread_pictures(&reread, &s->slide[k], spool, e);
        *bad += r > 0;
    }
    report_reread_end(&reread);
    return r < 0 ? -1 : 0;
}

#define CSV_HEAD "slide,group,resolution,windows,"
#define KEY_HEAD "number,slide,result"

/* All files that are to be written, known before anything is read. */
static int check_targets(const struct report_setup *o, struct err *e)
{
    if (text_file_check(o->output, PAGE_REPORT_HEAD, "a report made by h5spec", e))
        return -1;
    if (o->csv && text_file_check(o->csv, CSV_HEAD, "a table of a report", e))
        return -1;
    return o->key ? text_file_check(o->key, KEY_HEAD, "a key of a report", e) : 0;
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
    for (r->trim = REPORT_WHOLE;; r->trim++) {
        struct text_file t;
        if (text_file_begin(&t, o->output, e))
            return -1;
        if (report_page(r, t.f, e)) {
            text_file_abort(&t);
            return err_add(e, "%s", o->output);
        }
        const int64_t bytes = ftello(t.f);
        const bool fits = bytes <= o->max_size || o->max_size == 0;
        if (!fits && r->trim == REPORT_LESS_TABLE)
            cli_say("%s: %" PRId64 " bytes, more than --max-size %" PRId64
                    "; a page of these slides cannot be smaller",
                    o->output, bytes, o->max_size);
        if (fits || r->trim == REPORT_LESS_TABLE)
            return text_file_commit(&t, e);
        text_file_abort(&t);
    }
}

/* The page comes last: when it exists, so do the other files. */
static int write_all(struct report_view *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    if ((o->key && write_one(r, o->key, report_key, e)) ||
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
    struct report_clusters clusters;
    struct report_places places;
    uint8_t *verdicts;
    struct report_spool *spool;
};

static void values_free(struct values *v)
{
    report_slides_free(&v->slides);
    report_failures_free(&v->failures);
    report_groups_free(&v->groups);
    report_names_free(&v->names);
    report_limits_free(&v->limits);
    report_scores_free(&v->scores);
    report_clusters_free(&v->clusters);
    report_places_free(&v->places);
    free(v->verdicts);
    report_spool_free(v->spool);
}

static int make_values(const struct report_setup *o, struct values *v, int64_t *bad, struct err *e)
{
    if (check_targets(o, e) || report_limits_read(o->limits, &v->limits, e) ||
        load_slides(o, &v->slides, &v->failures, &v->spool, NULL, bad, e) ||
        report_group(o, &v->slides, &v->groups, e) ||
        report_read_failed(o, &v->slides, &v->failures, e))
        return -1;
    report_name(o, &v->slides, &v->groups, &v->failures, &v->names);
    if (report_limits_place(o->limits, &v->slides, &v->groups, &v->limits, e) ||
        report_score(&v->slides, &v->groups, o->accepted, &v->scores, e))
        return -1;
    report_find_clusters(&v->slides, &v->scores, &v->clusters);
    return report_find_places(o, &v->slides, &v->scores, &v->places, bad, e);
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
                               .clusters = &v->clusters,
                               .places = &v->places,
                               .spool = v->spool};
    if (!(view.verdicts = v->verdicts = report_judge(&view)))
        return err_memory(e);
    if (load_pictures(o, &v->slides, v->verdicts, v->spool, bad, e))
        return -1;
    for (int64_t k = 0; k < v->slides.n; k++)
        verdicts[v->verdicts[k]]++;
    verdicts[REPORT_FAIL] += v->failures.n;
    return write_all(&view, e);
}

/* Reads the results, and lets the program in Python do the rest. */
static int run_python(const struct report_setup *o, struct values *v, int64_t *bad,
                      int64_t verdicts[REPORT_VERDICTS], int *status, struct err *e)
{
    struct report_rows *rows = NULL;
    struct report_python *python = check_targets(o, e) ? NULL : report_python_start(e);
    int r = python ? load_slides(o, &v->slides, &v->failures, &v->spool, &rows, bad, e) ||
                         report_read_failed(o, &v->slides, &v->failures, e)
                   : -1;
    if (!r) {
        const struct report_python_input in = {o, &v->slides, &v->failures, rows, v->spool, *bad};
        r = report_python_run(python, &in, bad, verdicts, status, e);
    }
    report_python_end(python);
    report_rows_free(rows);
    return r ? -1 : 0;
}

int report_write(const struct report_setup *setup, int64_t *bad, bool *trouble,
                 int64_t verdicts[REPORT_VERDICTS], int *ended, struct err *e)
{
    struct values v = {0};
    *bad = *ended = 0;
    memset(verdicts, 0, REPORT_VERDICTS * sizeof *verdicts);
    const int status = report_python_is_chosen() ? run_python(setup, &v, bad, verdicts, ended, e)
                       : make_values(setup, &v, bad, e) || write_values(setup, &v, bad, verdicts, e)
                           ? -1
                           : 0;
    *trouble = v.failures.trouble;
    values_free(&v);
    return status;
}

/* --- for other commands --- */

struct report_blur {
    struct values v;
};

struct report_blur *report_blur_open(char *const *files, int n_files, struct err *e)
{
    const struct report_setup o = {
        .files = files, .n_files = n_files, .silent = true, .threads = pipe_cpus()};
    struct report_blur *b = memory_need(1, sizeof *b);
    struct values *v = &b->v;
    int64_t bad = 0;
    if (!load_slides(&o, &v->slides, &v->failures, &v->spool, NULL, &bad, e) &&
        !report_group(&o, &v->slides, &v->groups, e) &&
        !report_score(&v->slides, &v->groups, NULL, &v->scores, e))
        return b;
    report_blur_close(b);
    return NULL;
}

double report_blur_below(const struct report_blur *b, const char *slide)
{
    const int64_t k = report_find_slide(&b->v.slides, slide);
    return k < 0 ? NAN : report_blur_limit(&b->v.scores, b->v.scores.of[k].pool);
}

void report_blur_close(struct report_blur *b)
{
    if (b)
        values_free(&b->v);
    free(b);
}
