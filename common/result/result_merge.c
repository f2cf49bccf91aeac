/*
 * result_merge.c - adds results up; see result_merge.h.
 *
 * First every file is looked at and its slides are listed: their number decides whether the output
 * is a table. Then slide after slide is added up from
 * the files that have parts of it, and written. So memory holds one slide at a time and a list of
 * names, and at most two files are open, however many there are (and some tables). Slides are
 * written in the order of their names: the order of the files on the command line makes no
 * difference.
 *
 * A table takes the rows of other tables as they are stored. One of them is the table that is to be
 * replaced: results whose path, size and time are those in its rows are not opened. So adding one
 * slide costs that slide, and the columns.
 */
#include "common/result/result_merge.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/base/version.h"
#include "common/result/report_numbers.h"
#include "common/result/result_features.h"
#include "common/result/result_read.h"
#include "common/result/result_table.h"
#include "common/result/result_write.h"
#include "common/result/same_resolution.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_TABLES = 256 }; /* that are open at a time */
#ifndef TABLE_FROM
#define TABLE_FROM 1000 /* from so many slides on the output is a table; a test program has 1 */
#endif

/* --- the table that is replaced: which of its rows are still right ---
 *
 * A row is right if its result has the same path, size and time as when it was read. Results of
 * which the table does not have all slides are read again.
 */

struct table_old {
    struct result *r;
    int64_t n;
    char **paths;  /* [n], sorted; owned */
    int64_t *rows; /* [n], in the same order */
};

struct sorted {
    char *path;
    int64_t row;
};

static int by_path(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    const int order = strcmp(x->path, y->path);
    return order ? order : x->row < y->row ? -1 : x->row > y->row;
}

static void sort_paths(struct table_old *o)
{
    struct sorted *list = memory_need((size_t)o->n + 1, sizeof *list);
    o->paths = memory_need((size_t)o->n + 1, sizeof *o->paths);
    o->rows = memory_need((size_t)o->n + 1, sizeof *o->rows);
    for (int64_t k = 0; k < o->n; k++) {
        char path[RESULT_ROW_PATH];
        struct result_stamp stamp;
        result_table_source(result_table_of(o->r), k, path, &stamp);
        list[k] = (struct sorted){memory_copy(path), k};
    }
    qsort(list, (size_t)o->n, sizeof *list, by_path);
    for (int64_t k = 0; k < o->n; k++) {
        o->paths[k] = list[k].path;
        o->rows[k] = list[k].row;
    }
    free(list);
}

static void table_old_close(struct table_old *o)
{
    if (!o)
        return;
    result_close(o->r);
    for (int64_t k = 0; o->paths && k < o->n; k++)
        free(o->paths[k]);
    free(o->paths);
    free(o->rows);
    free(o);
}

/* NULL if there is no such table, a damaged one, or one of another version of the program, which
 * may count differently. */
static struct table_old *table_old_open(const char *path)
{
    struct err e = {0};
    struct table_old *o = memory_need(1, sizeof *o);
    if ((o->r = result_open(path, &e)) && result_table_of(o->r) &&
        !strcmp(result_creator(o->r), "h5spec " WSI_VERSION)) {
        o->n = result_slides(o->r);
        sort_paths(o);
        return o;
    }
    table_old_close(o);
    return NULL;
}

static struct result *table_old_result(const struct table_old *o)
{
    return o->r;
}

/* The first row whose path is not less. */
static int64_t find_first(const struct table_old *o, const char *path)
{
    int64_t low = 0, high = o->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(o->paths[middle], path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Was the result of a row the same, and had it n slides? */
static bool is_same(const struct table_old *o, int64_t row, const struct result_stamp *now,
                    int64_t n)
{
    char path[RESULT_ROW_PATH];
    struct result_stamp then;
    result_table_source(result_table_of(o->r), row, path, &then);
    return then.bytes == now->bytes && then.mtime_ns == now->mtime_ns && then.slides == n;
}

/* The rows of a result, by its path from the folder of the table: their number, and *rows gets the
 * numbers of the rows. 0 if it is new or has changed. */
static int64_t table_old_find(const struct table_old *o, const char *path,
                              const struct result_stamp *now, const int64_t **rows)
{
    const int64_t first = find_first(o, path);
    int64_t end = first;
    *rows = o->rows + first;
    while (end < o->n && !strcmp(o->paths[end], path))
        end++;
    for (int64_t k = first; k < end; k++)
        if (!is_same(o, o->rows[k], now, end - first))
            return 0;
    return end - first;
}

bool result_merge_extends(const char *path)
{
    struct table_old *t = table_old_open(path);
    table_old_close(t);
    return t != NULL;
}

/* --- what is merged --- */

/* Some groups of a slide, in one file. */
struct part {
    char *name; /* of the slide; owned */
    int file;
    bool old;              /* unchanged: `index` is its row in the existing table */
    bool copied;           /* the file is a table: another one copies its row */
    int64_t index;         /* of the slide in the file */
    double um, downsample; /* if options.choose asks for them */
    bool left_out;         /* by options.choose */
    int64_t same;          /* the part of which this is a copy, or -1 */
};

struct merge {
    char *const *paths;
    struct result_merge_options options;
    bool table; /* the output is one; known when all parts are listed */
    struct result_params params;
    struct part *parts;
    int64_t n_parts;
    struct result *open;         /* the file that was read last, or NULL */
    int open_file;               /* its number */
    struct result_stamp *stamps; /* [files], before they are read */
    struct result **tables;      /* [files]: those of the inputs that are tables */
    int n_tables;
    struct table_old *old; /* the existing table, or NULL */
    struct stat out_file;  /* of it */
    uint8_t *kept;         /* [rows of old]: those that are taken over */
    int64_t n_kept;
    struct table_paths *result_paths;
    struct result_writer *out;
    void *seen; /* set of quickhashes of slides that have been written (memory_note) */
    int bad;    /* the file that cannot be used, or -1 */
    int *owner; /* [group_count] of the slide in hand: the file that brought the group */
};

static int by_name(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->file - y->file;
}

/* --- the list of parts --- */

/* Part p of slide p->index of a result. */
static int add_part(struct merge *m, struct result *r, const struct part *p, struct err *e)
{
    struct result_origin o = {0};
    if (m->options.choose && result_read_scale(r, p->index, &o, e))
        return -1;
    m->parts = memory_grow(m->parts, m->n_parts, sizeof *m->parts);
    struct part *new = &m->parts[m->n_parts++];
    *new = *p;
    new->name = memory_copy(result_slide_name(r, p->index));
    new->um = same_resolution_um(&o);
    new->downsample = o.downsample;
    new->same = -1;
    return 0;
}

static int list_slides(struct merge *m, int f, struct result *r, struct err *e)
{
    struct part p = {.file = f, .copied = result_table_of(r)};
    for (; p.index < result_slides(r); p.index++)
        if (add_part(m, r, &p, e))
            return -1;
    return 0;
}

/* What a file is like before it is read. Whether it can be read is found out later. */
static struct result_stamp stamp_of(const struct stat *st)
{
    return (struct result_stamp){st->st_size, clock_ns(&st->st_mtim), -1};
}

static int list_rows(struct merge *m, int f, const int64_t *rows, int64_t n, struct err *e)
{
    struct part p = {.file = f, .old = true};
    for (int64_t k = 0; k < n; k++) {
        p.index = rows ? rows[k] : k;
        if (add_part(m, table_old_result(m->old), &p, e))
            return -1;
    }
    return n > 0;
}

/* Lists the slides of file f by the rows of the existing table. 0: it is new; 1: listed. */
static int list_old(struct merge *m, int f, const struct stat *st, struct err *e)
{
    char path[RESULT_ROW_PATH];
    const int64_t *rows;
    if (!m->old)
        return 0;
    if (st->st_dev == m->out_file.st_dev && st->st_ino == m->out_file.st_ino)
        return list_rows(m, f, NULL, result_slides(table_old_result(m->old)), e);
    if (table_paths_find(m->result_paths, m->paths[f], path, sizeof path, NULL))
        return 0;
    const int64_t n = table_old_find(m->old, path, &m->stamps[f], &rows);
    return list_rows(m, f, rows, n, e);
}

static int take_params(struct merge *m, int f, const struct result *r, struct err *e)
{
    if (f == 0)
        m->params = *result_params(r);
    return result_same_params(&m->params, result_params(r), e)
               ? err_add(e, "%s and %s have different parameters", m->paths[0], m->paths[f])
               : 0;
}

static int list_new(struct merge *m, int f, struct err *e)
{
    struct result *r = result_open(m->paths[f], e);
    m->bad = f;
    if (!r)
        return -1;
    const bool keep = result_table_of(r) && m->n_tables < MOST_TABLES;
    int bad = list_slides(m, f, r, e);
    if (!bad) {
        m->bad = -1;
        bad = take_params(m, f, r, e);
    }
    m->stamps[f].slides = result_slides(r);
    if (keep) { /* its columns are in memory, and its slides may lie among others */
        m->tables[f] = r;
        m->n_tables++;
    } else
        result_close(r);
    return bad;
}

static int list_file(struct merge *m, int f, struct err *e)
{
    struct stat st;
    if (!stat(m->paths[f], &st)) {
        m->stamps[f] = stamp_of(&st);
        const int listed = list_old(m, f, &st, e);
        if (listed)
            return listed < 0 ? err_add(e, "the existing table")
                              : take_params(m, f, table_old_result(m->old), e);
    }
    return list_new(m, f, e);
}

static int list_all(struct merge *m, int n, struct err *e)
{
    for (int f = 0; f < n; f++)
        if (stop_check(e) || list_file(m, f, e))
            return -1;
    if (m->n_parts)
        qsort(m->parts, (size_t)m->n_parts, sizeof *m->parts, by_name);
    return 0;
}

/* --- one slide --- */

/* Has the file of a part what was listed? Buffers are sized by what was. */
static bool is_as_listed(const struct merge *m, const struct result *r, const struct part *p)
{
    const int64_t k = result_find_slide(r, p->name);
    return !result_same_params(&m->params, result_params(r), NULL) && k >= 0 &&
           (p->old || k == p->index) && (!p->copied || result_table_of(r));
}

/* The open file of a part. */
static struct result *file_of(struct merge *m, const struct part *p, struct err *e)
{
    if (m->tables[p->file])
        return m->tables[p->file];
    if (!m->open || m->open_file != p->file) {
        result_close(m->open);
        m->open_file = p->file;
        m->open = result_open(m->paths[p->file], e);
    }
    if (m->open && !is_as_listed(m, m->open, p)) {
        err_blame(e, ERR_TROUBLE, "%s: changed while it was read; run again", m->paths[p->file]);
        return NULL;
    }
    return m->open;
}

static int load_part(struct merge *m, const struct part *p, struct result_slide *s, struct err *e)
{
    m->bad = p->file;
    struct result *r = file_of(m, p, e);
    const unsigned parts = m->table ? report_numbers_parts() : RESULT_ALL_PARTS;
    if (!r || result_load_parts(r, result_find_slide(r, p->name), parts, s, e))
        return -1;
    m->bad = -1;
    return 0;
}

/* Are both of the same slide, cut into the same groups? */
static int check_same_source(const struct result_slide *a, const struct result_slide *b,
                             struct err *e)
{
    if (strcmp(a->source_name, b->source_name) || strcmp(a->quickhash, b->quickhash) ||
        a->source_bytes != b->source_bytes)
        return err_set(e,
                       "they are of different slides with one name; rename one of the stores and "
                       "run it again");
    if (a->level != b->level || a->width != b->width || a->height != b->height ||
        a->source_gray != b->source_gray)
        return err_set(e, "their levels or channels differ");
    if (a->group_rows != b->group_rows || a->group_count != b->group_count)
        return err_set(e, "their stores have different groups");
    if (a->content_crc32 != b->content_crc32)
        return err_set(e, "they are of different stores of one slide (tissue map, um per px or "
                          "tiles differ); run one store only");
    if (a->roi_crc32 != b->roi_crc32)
        return err_set(e, "their regions (--roi) differ; compute all groups with one file");
    return 0;
}

/* Adds the groups of s. No two files may have the same group. */
static int take_groups(struct merge *m, struct result_slide *sum, const struct result_slide *s,
                       int file, struct err *e)
{
    for (int64_t g = 0; g < s->group_count; g++) {
        if (!s->groups[g])
            continue;
        if (sum->groups[g])
            return err_set(
                e,
                "%s and %s: slide %s: both hold the same part of the slide (group %" PRId64
                "); leave one of them out",
                m->paths[m->owner[g]], m->paths[file], s->name, g + 1);
        sum->groups[g] = 1;
        m->owner[g] = file;
    }
    return 0;
}

/* Keeps a text that all parts have, or "several". */
static void keep_if_same(char *sum, const char *s, size_t size)
{
    if (strcmp(sum, s))
        snprintf(sum, size, "several");
}

/* sum += s, which comes from a file. */
static int sum_part(struct merge *m, struct result_slide *sum, const struct result_slide *s,
                    const struct part *first, int file, struct err *e)
{
    if (check_same_source(sum, s, e) || result_add_features(&m->params, sum, s, e))
        return err_add(e, "%s and %s: slide %s", m->paths[first->file], m->paths[file], s->name);
    if (take_groups(m, sum, s, file, e))
        return -1;
    result_add_counts(&sum->counts, &s->counts, m->params.bins);
    sum->seconds = result_seconds(sum->seconds, s->seconds);
    sum->tiles_on_host += s->tiles_on_host;
    for (int k = 0; k < RESULT_STAGES; k++)
        sum->stages[k] = result_seconds(sum->stages[k], s->stages[k]);
    for (int k = 0; k < RESULT_MAPS; k++)
        result_map_add(&sum->maps[k], &s->maps[k], s->nx * s->ny);
    keep_if_same(sum->backend, s->backend, sizeof sum->backend);
    keep_if_same(sum->device, s->device, sizeof sum->device);
    keep_if_same(sum->kernel, s->kernel, sizeof sum->kernel);
    keep_if_same(sum->io, s->io, sizeof sum->io);
    return 0;
}

static int check_whole(const struct merge *m, const struct result_slide *s, struct err *e)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    if (!missing[0] || m->options.partial)
        return 0;
    const bool several = strpbrk(missing, ",-") != NULL;
    return err_set(e,
                   "slide %s: group%s %s of %" PRId64 " %s missing; add the results with %s, or "
                   "use --partial",
                   s->name, several ? "s" : "", missing, s->group_count, several ? "are" : "is",
                   several ? "them" : "it");
}

/* A slide may be in the sum once only, whatever its name. 1: it is left out. */
static int check_duplicate(struct merge *m, struct part *p, const struct result_slide *s,
                           struct err *e)
{
    char number[32];
    if (m->options.allow_duplicates || !s->quickhash[0])
        return 0;
    snprintf(number, sizeof number, "%td", p - m->parts);
    const char *first = memory_note(&m->seen, s->quickhash, number);
    if (!first)
        return 0;
    const struct part *other = &m->parts[atoll(first)];
    p->same = other - m->parts;
    err_set(e, "%s: slide %s: copy of %s in %s%s", m->paths[p->file], p->name, other->name,
            m->paths[other->file],
            m->options.duplicate ? ", left out"
                                 : "; leave one of them out, or use --duplicates skip or count");
    if (!m->options.duplicate)
        return -1;
    m->options.duplicate(m->options.ctx, e);
    return 1;
}

/* 1: the slide is to be in the sum; 0: it is left out; -1: the merge fails. */
static int is_wanted(struct merge *m, struct part *p, const struct result_slide *s, struct err *e)
{
    const int same = check_duplicate(m, p, s, e);
    return same < 0 ? -1 : !same;
}

/* A row of the slide, which lies in one result. */
static int put_row(struct merge *m, const struct part *p, const struct result_slide *s,
                   struct err *e)
{
    struct report_numbers n;
    report_numbers_find(&m->params, s, &n);
    return result_put_row(m->out, s, &n, m->paths[p->file], &m->stamps[p->file], e);
}

/* Writes the sum of a slide's parts, of which p is the first. */
static int put_sum(struct merge *m, struct part *p, const struct result_slide *sum, const char *out,
                   struct err *e)
{
    const int wanted = is_wanted(m, p, sum, e);
    if (wanted <= 0)
        return wanted;
    if (check_whole(m, sum, e))
        return -1;
    const int bad = m->table ? put_row(m, p, sum, e) : result_put_slide(m->out, sum, e);
    return bad ? err_add(e, "%s", out) : 0;
}

/* The row of an unchanged result. Its histogram is not unpacked: see keep_histograms(). */
static int keep_row(struct merge *m, struct part *p, struct err *e)
{
    struct result_row row;
    struct result_table *t = result_table_of(table_old_result(m->old));
    if (result_table_load(t, p->index, NULL, &row, e))
        return err_add(e, "the existing table");
    const int wanted = is_wanted(m, p, &row.slide, e);
    if (wanted <= 0)
        return wanted;
    m->kept[p->index] = 1;
    m->n_kept++;
    return result_copy_row(m->out, t, p->index, row.result, e);
}

/* The row of an input, which is checked. */
static int copy_row(struct merge *m, struct part *p, uint64_t *histogram, struct err *e)
{
    char path[PATH_MAX], seen[RESULT_ROW_PATH];
    struct result_row row;
    m->bad = p->file;
    struct result *r = file_of(m, p, e);
    if (!r)
        return -1;
    struct result_table *t = result_table_of(r);
    if (result_table_load(t, p->index, histogram, &row, e) ||
        result_table_load_sharpness(t, p->index, &row.numbers, e))
        return err_add(e, "%s: slide %s", m->paths[p->file], p->name);
    m->bad = -1;
    const int wanted = is_wanted(m, p, &row.slide, e);
    if (wanted <= 0)
        return wanted;
    if (result_slide_path(r, p->index, path, sizeof path, e) ||
        table_paths_find(m->result_paths, path, seen, sizeof seen, e) ||
        result_copy_row(m->out, t, p->index, seen, e))
        return -1;
    result_add_histogram(m->out, histogram);
    return 0;
}

static int put_copy(struct merge *m, struct part *p, struct err *e)
{
    if (p->old)
        return keep_row(m, p, e);
    uint64_t *histogram = memory_need((size_t)m->params.bins, sizeof *histogram);
    const int bad = copy_row(m, p, histogram, e);
    free(histogram);
    return bad;
}

/* sum += the histograms of the rows of the existing table which are kept, or which are not. */
static int add_rows(struct merge *m, bool kept, uint64_t *sum, struct err *e)
{
    const int64_t n = result_slides(table_old_result(m->old)), bins = m->params.bins;
    uint64_t *one = memory_need((size_t)bins, sizeof *one);
    struct result_row row;
    int bad = 0;
    for (int64_t k = 0; k < n && !bad; k++) {
        if (m->kept[k] != kept)
            continue;
        bad = result_table_load(result_table_of(table_old_result(m->old)), k, one, &row, e);
        for (int64_t b = 0; b < bins && !bad; b++)
            sum[b] += one[b];
    }
    free(one);
    return bad;
}

/* Adds the histograms of the rows that were kept: of few of them one by one, of most of them as the
 * total less the others. */
static int keep_histograms(struct merge *m, struct err *e)
{
    const struct result *old = table_old_result(m->old);
    const int64_t bins = m->params.bins;
    const bool most = 2 * m->n_kept > result_slides(old);
    const uint64_t *total = result_totals(old)->histogram;
    uint64_t *sum = memory_need((size_t)bins, sizeof *sum);
    int bad = add_rows(m, !most, sum, e);
    for (int64_t b = 0; b < bins && most && !bad; b++) {
        if (sum[b] > total[b])
            bad = err_set(e, "its totals are damaged; delete it and merge again");
        sum[b] = total[b] - sum[b];
    }
    if (!bad)
        result_add_histogram(m->out, sum);
    free(sum);
    return bad ? err_add(e, "the existing table") : 0;
}

/* Adds up parts [a, b), which have one name, and writes the slide. */
static int merge_slide(struct merge *m, int64_t a, int64_t b, const char *out, struct err *e)
{
    struct result_slide sum, s;
    if (m->table && (m->parts[a].old || m->parts[a].copied))
        return put_copy(m, &m->parts[a], e) ? err_add(e, "%s", out) : 0;
    if (load_part(m, &m->parts[a], &sum, e))
        return -1;
    m->owner = memory_need((size_t)sum.group_count, sizeof *m->owner);
    int r = 0;
    for (int64_t g = 0; g < sum.group_count && r == 0; g++)
        m->owner[g] = m->parts[a].file;
    for (int64_t k = a + 1; k < b && r == 0; k++) {
        const struct part *p = &m->parts[k];
        if ((r = stop_check(e)) || (r = load_part(m, p, &s, e)))
            break;
        r = sum_part(m, &sum, &s, &m->parts[a], p->file, e);
        result_slide_free(&s);
    }
    if (r == 0)
        r = put_sum(m, &m->parts[a], &sum, out, e);
    result_slide_free(&sum);
    free(m->owner);
    return r;
}

static int merge_all(struct merge *m, const char *out, struct err *e)
{
    for (int64_t a = 0, b; a < m->n_parts; a = b) {
        for (b = a + 1; b < m->n_parts && !strcmp(m->parts[a].name, m->parts[b].name); b++)
            ;
        if (m->options.progress)
            m->options.progress(m->options.ctx, a, m->n_parts);
        if (stop_check(e) || (!m->parts[a].left_out && merge_slide(m, a, b, out, e)))
            return -1;
    }
    return 0;
}

static int write_sum(struct merge *m, const char *out, struct err *e)
{
    m->out = m->table ? result_create_table(out, &m->params, m->n_parts, e)
                      : result_create(out, &m->params, e);
    if (!m->out)
        return err_add(e, "%s", out);
    if (merge_all(m, out, e) || (m->n_kept > 0 && keep_histograms(m, e))) {
        result_abort(m->out);
        return -1;
    }
    return result_commit(m->out, e) ? err_add(e, "%s", out) : 0;
}

/* The existing table, and what is needed to find rows in it. */
static void begin(struct merge *m, const char *out, int n)
{
    m->stamps = memory_need((size_t)n + 1, sizeof *m->stamps);
    m->tables = memory_need((size_t)n + 1, sizeof *m->tables);
    m->result_paths = table_paths_create(out);
    if (stat(out, &m->out_file) || !(m->old = table_old_open(out)))
        return;
    m->kept = memory_need((size_t)result_slides(table_old_result(m->old)) + 1, 1);
}

static void merge_free(struct merge *m, int n)
{
    result_close(m->open);
    for (int f = 0; f < n && m->tables; f++)
        result_close(m->tables[f]);
    free(m->tables);
    free(m->stamps);
    free(m->kept);
    table_old_close(m->old);
    table_paths_free(m->result_paths);
    memory_forget(&m->seen);
    for (int64_t k = 0; k < m->n_parts; k++)
        free(m->parts[k].name);
    free(m->parts);
}

static int by_slide(const void *name, const void *part)
{
    return strcmp(name, ((const struct part *)part)->name);
}

static bool has_slide(const void *ctx, const char *slide)
{
    const struct merge *m = ctx;
    return m->n_parts && bsearch(slide, m->parts, (size_t)m->n_parts, sizeof *m->parts, by_slide);
}

static int check_replaced(const struct merge *m, const char *out, struct err *e)
{
    const struct result_merge_options *o = &m->options;
    return o->loses && result_check_replaced(out, has_slide, m, e) ? o->loses(o->ctx, e) : 0;
}

/* Can the slides be rows? The message says why not. */
static int check_rows(const struct merge *m, int n, struct err *e)
{
    char path[RESULT_ROW_PATH];
    if (m->options.partial)
        return err_set(e, "a table has whole slides only, not --partial ones");
    for (int64_t k = 1; k < m->n_parts; k++)
        if (!strcmp(m->parts[k - 1].name, m->parts[k].name))
            return err_set(e,
                           "%s and %s: slide %s is in both, and a table takes each slide from one "
                           "result: merge its parts first",
                           m->paths[m->parts[k - 1].file], m->paths[m->parts[k].file],
                           m->parts[k].name);
    for (int f = 0; f < n; f++)
        if (table_paths_find(m->result_paths, m->paths[f], path, sizeof path, e))
            return -1;
    return 0;
}

static int choose_form(struct merge *m, int n, struct err *e)
{
    const struct result_merge_options *o = &m->options;
    struct err why = {0};
    int64_t chosen = 0;
    for (int64_t k = 0; k < m->n_parts; k++)
        chosen += !m->parts[k].left_out;
    if (!o->extends && !o->table && chosen < TABLE_FROM)
        return 0;
    m->table = !check_rows(m, n, &why);
    if (!m->table && (o->extends || o->table))
        return err_copy(e, &why);
    if (!m->table && o->copies)
        o->copies(o->ctx, &why);
    return 0;
}

/* --- which slides --- */

/* Lets the caller choose. 1: nothing is to be written. */
static int choose_slides(struct merge *m, struct err *e)
{
    const struct result_merge_options *o = &m->options;
    struct result_merge_slide *slides = memory_need((size_t)m->n_parts + 1, sizeof *slides);
    int64_t n = 0;
    for (int64_t k = 0; k < m->n_parts; k++) {
        const struct part *p = &m->parts[k];
        if (k == 0 || strcmp(p->name, p[-1].name) != 0)
            slides[n++] = (struct result_merge_slide){
                .name = p->name, .path = m->paths[p->file], p->um, p->downsample};
    }
    const int r = o->choose ? o->choose(o->ctx, slides, n, e) : 0;
    for (int64_t k = 0, s = -1; k < m->n_parts; k++) {
        s += k == 0 || strcmp(m->parts[k].name, m->parts[k - 1].name) != 0;
        m->parts[k].left_out = slides[s].left_out;
    }
    free(slides);
    return r;
}

static void tell_fates(const struct merge *m)
{
    const struct part *first = m->parts;
    for (int64_t k = 0; k < m->n_parts && m->options.fate; k++) {
        const struct part *p = &m->parts[k];
        first = k > 0 && !strcmp(first->name, p->name) ? first : p;
        const struct part *same = first->same < 0 ? NULL : &m->parts[first->same];
        const struct result_merge_fate f = {.path = m->paths[p->file],
                                            .name = p->name,
                                            .left_out = p->left_out,
                                            .same_path = same ? m->paths[same->file] : NULL,
                                            .same_name = same ? same->name : NULL};
        m->options.fate(m->options.ctx, &f);
    }
}

/* Everything after the list of slides. */
static int write_chosen(struct merge *m, const char *out, int n, struct err *e)
{
    const int nothing = choose_slides(m, e);
    if (nothing)
        return nothing < 0 ? -1 : 0;
    if (choose_form(m, n, e) || check_replaced(m, out, e) || write_sum(m, out, e))
        return -1;
    tell_fates(m);
    return 0;
}

int result_merge(const char *out, char *const *paths, int n, const struct result_merge_options *o,
                 struct err *e)
{
    struct merge m = {.paths = paths, .options = *o, .bad = -1};
    begin(&m, out, n);
    const int r = list_all(&m, n, e) || write_chosen(&m, out, n, e) ? -1 : 0;
    if (o->kept)
        *o->kept = m.n_kept;
    if (o->bad)
        *o->bad = m.bad;
    merge_free(&m, n);
    return r;
}
