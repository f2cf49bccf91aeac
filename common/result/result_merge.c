/*
 * result_merge.c - adds results up; see result_merge.h.
 *
 * First every file is looked at and its slides are listed. Then slide after slide is added up from
 * the files that have parts of it, and written. So memory holds one slide at a time and a list of
 * names, and at most two files are open, however many there are. Slides are written in the order of
 * their names: the order of the files on the command line makes no difference.
 */
#include "common/result/result_merge.h"

#include "common/base/stop.h"
#include "common/result/result_features.h"
#include "common/result/result_read.h"
#include "common/result/result_write.h"

#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some groups of a slide, in one file. */
struct part {
    char *name; /* of the slide; owned */
    int file;
    int64_t index; /* of the slide in the file */
};

/* A slide that has been written. */
struct seen {
    char quickhash[sizeof((struct result_slide){0}.quickhash)];
    const struct part *part;
};

struct merge {
    char *const *paths;
    struct result_merge_options options;
    struct result_params params;
    struct part *parts;
    int64_t n_parts;
    struct result *open; /* the file that was read last, or NULL */
    int open_file;       /* its number */
    struct result_writer *out;
    void *seen; /* tree of struct seen; owned */
    int *owner; /* [group_count] of the slide in hand: the file that brought the group */
};

static int by_name(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->file - y->file;
}

/* --- the list of parts --- */

static int list_slides(struct merge *m, int f, const struct result *r, struct err *e)
{
    const int64_t n = result_slides(r);
    struct part *more = realloc(m->parts, (size_t)(m->n_parts + n + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    m->parts = more;
    for (int64_t k = 0; k < n; k++) {
        char *name = strdup(result_slide_name(r, k));
        if (!name)
            return err_set(e, "out of memory");
        m->parts[m->n_parts++] = (struct part){name, f, k};
    }
    return 0;
}

/* Results of one version have the same maps. */
static int check_version(const struct merge *m, const struct result *r, struct err *e)
{
    const int first = result_version_of(&m->params);
    return result_version(r) == first
               ? 0
               : err_set(e,
                         "format_version is %d and %" PRId64
                         "; compute the older one again with this version of h5spec run",
                         first, result_version(r));
}

static int list_all(struct merge *m, int n, struct err *e)
{
    for (int f = 0; f < n; f++) {
        struct result *r = stop_check(e) ? NULL : result_open(m->paths[f], e);
        if (!r)
            return -1;
        if (f == 0)
            m->params = *result_params(r);
        int bad = result_same_params(&m->params, result_params(r), e) || check_version(m, r, e);
        if (bad)
            err_add(e, "%s and %s have different parameters", m->paths[0], m->paths[f]);
        bad = bad || list_slides(m, f, r, e);
        result_close(r);
        if (bad)
            return -1;
    }
    if (m->n_parts)
        qsort(m->parts, (size_t)m->n_parts, sizeof *m->parts, by_name);
    return 0;
}

/* --- one slide --- */

static int load_part(struct merge *m, const struct part *p, struct result_slide *s, struct err *e)
{
    if (!m->open || m->open_file != p->file) {
        result_close(m->open);
        m->open_file = p->file;
        if (!(m->open = result_open(m->paths[p->file], e)))
            return -1;
    }
    if (p->index >= result_slides(m->open) || strcmp(result_slide_name(m->open, p->index), p->name))
        return err_set(e, "%s: has changed since the merge began; run again", m->paths[p->file]);
    const unsigned parts = m->options.table ? 0 : RESULT_ALL_PARTS;
    return result_load_parts(m->open, p->index, parts, s, e);
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
                e, "%s and %s: slide %s: both have group %" PRId64 "; leave one of them out",
                m->paths[m->owner[g]], m->paths[file], s->name, g + 1);
        sum->groups[g] = 1;
        m->owner[g] = file;
    }
    return 0;
}

/* What the parts were computed with, or "several". */
static void keep_if_same(char *sum, const char *s, size_t size)
{
    if (strcmp(sum, s))
        snprintf(sum, size, "several");
}

/* sum += s, which comes from a file. */
static int add_part(struct merge *m, struct result_slide *sum, const struct result_slide *s,
                    const struct part *first, int file, struct err *e)
{
    if (check_same_source(sum, s, e) || result_add_features(&m->params, sum, s, e))
        return err_add(e, "%s and %s: slide %s", m->paths[first->file], m->paths[file], s->name);
    if (take_groups(m, sum, s, file, e))
        return -1;
    result_add_counts(&sum->counts, &s->counts, m->params.bins);
    sum->seconds = result_seconds(sum->seconds, s->seconds);
    const bool known = sum->tiles_on_host >= 0 && s->tiles_on_host >= 0;
    sum->tiles_on_host = known ? sum->tiles_on_host + s->tiles_on_host : -1;
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
    return err_set(e,
                   "slide %s: group %s of %" PRId64 " is missing; add the results with it, or "
                   "use --partial",
                   s->name, missing, s->group_count);
}

static int by_hash(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->quickhash, ((const struct seen *)b)->quickhash);
}

/* A slide may be in the sum once only, whatever its name. 1: it is left out. */
static int check_duplicate(struct merge *m, const struct part *p, const struct result_slide *s,
                           struct err *e)
{
    if (m->options.allow_duplicates || !s->quickhash[0])
        return 0;
    struct seen *new = malloc(sizeof *new);
    if (!new)
        return err_set(e, "out of memory");
    snprintf(new->quickhash, sizeof new->quickhash, "%s", s->quickhash);
    new->part = p;
    struct seen **node = tsearch(new, &m->seen, by_hash);
    if (node && *node == new)
        return 0;
    free(new);
    if (!node)
        return err_set(e, "out of memory");
    const struct part *old = (*node)->part;
    err_set(e, "%s of %s and %s of %s are the same slide (quickhash %.12s...)%s", old->name,
            m->paths[old->file], p->name, m->paths[p->file], s->quickhash,
            m->options.duplicate
                ? ""
                : "; leave one of them out, or use --skip-duplicates or --allow-duplicates");
    if (!m->options.duplicate)
        return -1;
    m->options.duplicate(m->options.ctx, e);
    return 1;
}

static int put_row(const struct merge *m, const struct part *p, const struct result_slide *s,
                   struct err *e)
{
    char path[PATH_MAX];
    return result_slide_path(m->open, p->index, path, sizeof path, e) ||
                   result_put_row(m->out, s, path, e)
               ? -1
               : 0;
}

/* Writes the sum of a slide's parts, of which p is the first. */
static int put_sum(struct merge *m, const struct part *p, const struct result_slide *sum,
                   const char *out, struct err *e)
{
    const struct result_merge_options *o = &m->options;
    if (o->accepts && !o->accepts(o->ctx, m->paths[p->file], sum))
        return 0;
    const int same = check_duplicate(m, p, sum, e);
    if (same)
        return same < 0 ? -1 : 0;
    if (check_whole(m, sum, e))
        return -1;
    const int bad = o->table ? put_row(m, p, sum, e) : result_put_slide(m->out, sum, e);
    return bad ? err_add(e, "%s", out) : 0;
}

/* A row refers to one result. */
static int check_parts(const struct merge *m, const struct part *p, int64_t n, struct err *e)
{
    return n == 1 || !m->options.table
               ? 0
               : err_set(e,
                         "%s and %s: slide %s is in both; a table takes each slide from one "
                         "result: merge its parts first, without --table",
                         m->paths[p[0].file], m->paths[p[1].file], p->name);
}

/* Adds up parts [a, b), which have one name, and writes the slide. */
static int merge_slide(struct merge *m, int64_t a, int64_t b, const char *out, struct err *e)
{
    struct result_slide sum, s;
    if (check_parts(m, &m->parts[a], b - a, e) || load_part(m, &m->parts[a], &sum, e))
        return -1;
    m->owner = malloc((size_t)sum.group_count * sizeof *m->owner);
    int r = m->owner ? 0 : err_set(e, "out of memory");
    for (int64_t g = 0; g < sum.group_count && r == 0; g++)
        m->owner[g] = m->parts[a].file;
    for (int64_t k = a + 1; k < b && r == 0; k++) {
        const struct part *p = &m->parts[k];
        if ((r = stop_check(e)) || (r = load_part(m, p, &s, e)))
            break;
        r = add_part(m, &sum, &s, &m->parts[a], p->file, e);
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
        if (stop_check(e) || merge_slide(m, a, b, out, e))
            return -1;
    }
    return 0;
}

static int write_sum(struct merge *m, const char *out, struct err *e)
{
    m->out = m->options.table ? result_create_table(out, &m->params, m->n_parts, e)
                              : result_create(out, &m->params, e);
    if (!m->out)
        return err_add(e, "%s", out);
    if (merge_all(m, out, e)) {
        result_abort(m->out);
        return -1;
    }
    return result_commit(m->out, e) ? err_add(e, "%s", out) : 0;
}

int result_merge(const char *out, char *const *paths, int n, const struct result_merge_options *o,
                 struct err *e)
{
    struct merge m = {.paths = paths, .options = *o};
    const int r = list_all(&m, n, e) || write_sum(&m, out, e) ? -1 : 0;
    result_close(m.open);
    tdestroy(m.seen, free);
    for (int64_t k = 0; k < m.n_parts; k++)
        free(m.parts[k].name);
    free(m.parts);
    return r;
}
