/*
 * result_merge.c - adds results up; see result.h.
 *
 * First every file is looked at and its slides listed, then slide after slide is added up from the
 * files that have parts of it and written. So memory holds one slide at a time and a list of names,
 * and two files are open at once, however many there are. Slides are written in the order of their names:
 * the order of the files on the command line makes no difference.
 */
#include "common/result.h"

#include "common/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part {
    char *name;       /* of the slide; owned */
    int file;
    int64_t index;    /* of the slide in the file */
};

struct merge {
    char *const *paths;
    struct result_params params;
    struct part *parts;
    int64_t n_parts;
    bool partial;
    struct result_writer *out;
    int *owner; /* [group_count] of the slide under way: the file that brought the group */
};

static int by_name(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->file - y->file;
}

/* Notes the slides of file f. */
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

static int list_all(struct merge *m, int n, struct err *e)
{
    for (int f = 0; f < n; f++) {
        struct result *r = cli_check_stop(e) ? NULL : result_open(m->paths[f], e);
        if (!r)
            return -1;
        if (f == 0)
            m->params = *result_params(r);
        int bad = result_same_params(&m->params, result_params(r), e);
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

static int load_part(const struct merge *m, const struct part *p, struct result_slide *s,
                     struct err *e)
{
    struct result *r = result_open(m->paths[p->file], e);
    if (!r)
        return -1;
    int bad = p->index >= result_slides(r) || strcmp(result_slide_name(r, p->index), p->name)
                  ? err_set(e, "%s: has been changed meanwhile", m->paths[p->file])
                  : result_load_slide(r, p->index, s, e);
    result_close(r);
    return bad;
}

/* The same slide, cut into the same groups? */
static int check_same_source(const struct result_slide *a, const struct result_slide *b,
                             struct err *e)
{
    if (strcmp(a->source_name, b->source_name) || strcmp(a->quickhash, b->quickhash) ||
        a->source_bytes != b->source_bytes)
        return err_set(e, "they are of different slides with one name");
    if (a->level != b->level || a->width != b->width || a->height != b->height ||
        a->source_gray != b->source_gray)
        return err_set(e, "they are of different levels or colours of the slide");
    if (a->group_rows != b->group_rows || a->group_count != b->group_count)
        return err_set(e, "they are of stores with different groups");
    return 0;
}

/* Notes whose the groups of s are. No two files may have the same. */
static int take_groups(struct merge *m, struct result_slide *sum, const struct result_slide *s, int file,
                       struct err *e)
{
    for (int64_t g = 0; g < s->group_count; g++) {
        if (!s->groups[g])
            continue;
        if (sum->groups[g])
            return err_set(e, "%s and %s: slide %s: both have group %" PRId64, m->paths[m->owner[g]],
                           m->paths[file], s->name, g + 1);
        sum->groups[g] = 1;
        m->owner[g] = file;
    }
    return 0;
}

/* What two parts were computed by, or "several". */
static void keep_if_same(char *sum, const char *s, size_t size)
{
    if (strcmp(sum, s))
        snprintf(sum, size, "several");
}

/* sum += s, which comes from a file. */
static int add_part(struct merge *m, struct result_slide *sum, const struct result_slide *s,
                    const struct part *first, int file, struct err *e)
{
    if (check_same_source(sum, s, e))
        return err_add(e, "%s and %s: slide %s", m->paths[first->file], m->paths[file], s->name);
    if (take_groups(m, sum, s, file, e))
        return -1;
    result_add_counts(&sum->counts, &s->counts, m->params.bins);
    sum->seconds = result_seconds(sum->seconds, s->seconds);
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
    if (!missing[0] || m->partial)
        return 0;
    return err_set(e, "slide %s: group %s of %" PRId64 " is missing; add the results with it, or "
                      "take --partial", s->name, missing, s->group_count);
}

/* Adds up parts [a, b), which have one name, and writes the slide. */
static int merge_slide(struct merge *m, int64_t a, int64_t b, struct err *e)
{
    struct result_slide sum, s;
    if (load_part(m, &m->parts[a], &sum, e))
        return -1;
    m->owner = malloc((size_t)sum.group_count * sizeof *m->owner);
    int r = m->owner ? 0 : err_set(e, "out of memory");
    for (int64_t g = 0; g < sum.group_count && r == 0; g++)
        m->owner[g] = m->parts[a].file;
    for (int64_t k = a + 1; k < b && r == 0; k++) {
        const struct part *p = &m->parts[k];
        if ((r = cli_check_stop(e)) || (r = load_part(m, p, &s, e)))
            break;
        r = add_part(m, &sum, &s, &m->parts[a], p->file, e);
        result_slide_free(&s);
    }
    if (r == 0)
        r = check_whole(m, &sum, e) || result_put_slide(m->out, &sum, e) ? -1 : 0;
    result_slide_free(&sum);
    free(m->owner);
    return r;
}

static int merge_all(struct merge *m, struct err *e)
{
    for (int64_t a = 0, b; a < m->n_parts; a = b) {
        for (b = a + 1; b < m->n_parts && !strcmp(m->parts[a].name, m->parts[b].name); b++)
            ;
        if (cli_check_stop(e) || merge_slide(m, a, b, e))
            return -1;
    }
    return 0;
}

int result_merge(const char *out, char *const *paths, int n, bool partial, struct err *e)
{
    struct merge m = {.paths = paths, .partial = partial};
    int r = list_all(&m, n, e);
    if (r == 0 && !(m.out = result_create(out, &m.params, e)))
        r = -1;
    if (r == 0)
        r = merge_all(&m, e);
    if (r == 0)
        r = result_commit(m.out, e);
    else
        result_abort(m.out);
    for (int64_t k = 0; k < m.n_parts; k++)
        free(m.parts[k].name);
    free(m.parts);
    return r;
}
