/* report_groups.c - see report_groups.h. */
#include "process/report/report_groups.h"

#include "common/base/cli.h"
#include "common/base/path.h"
#include "common/base/table.h"

#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 256 };

/* The number of the group of this name, which may be new; -1 on failure. */
static int32_t find_group(struct report_groups *g, const char *name, struct err *e)
{
    for (int32_t k = 0; k < g->n; k++)
        if (!strcmp(g->name[k], name))
            return k;
    if (g->n == MOST_GROUPS)
        return err_set(e, "more than %d groups; group by something with fewer values", MOST_GROUPS);
    char **more = realloc(g->name, ((size_t)g->n + 1) * sizeof *more);
    if (!more || !(g->name = more, more[g->n] = strdup(name)))
        return err_set(e, "out of memory");
    return g->n++;
}

/* --- by a table --- */

static int compare_name(const void *name, const void *slide)
{
    return strcmp(name, ((const struct report_slide *)slide)->name);
}

/* The number of a slide; -1: none. */
static int64_t find_slide(const struct report_slides *s, const char *name)
{
    const struct report_slide *found =
        s->n ? bsearch(name, s->slide, (size_t)s->n, sizeof *s->slide, compare_name) : NULL;
    return found ? found - s->slide : -1;
}

/* A table may name the slide's file: "A.svs" is slide A. */
static int64_t find_slide_or_file(const struct report_slides *s, const char *name)
{
    const int64_t k = find_slide(s, name);
    const char *dot = strrchr(name, '.');
    char stem[256];
    if (k >= 0 || !dot || dot == name || (size_t)(dot - name) >= sizeof stem)
        return k;
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    return find_slide(s, stem);
}

/* What a grouping works on. */
struct work {
    const struct report_setup *setup;
    const struct report_slides *slides;
    struct report_groups *groups;
};

/* Puts slide k into the group of a row. A slide has one row, or rows that agree. */
static int place(const struct work *w, const struct table *t, int64_t row, int64_t column,
                 int64_t k, int64_t *first, struct err *e)
{
    struct report_groups *g = w->groups;
    const int32_t group = find_group(g, table_cell(t, row, column), e);
    if (group < 0)
        return -1;
    if (*first > 0 && g->of[k] != group)
        return err_set(e,
                       "line %" PRId64 ": slide %s has %s %s, but %s in line %" PRId64
                       "; keep one of the two",
                       t->lines[row], w->slides->slide[k].name, w->setup->group, g->name[group],
                       g->name[g->of[k]], *first);
    *first = t->lines[row];
    g->of[k] = group;
    return 0;
}

static int place_all(const struct work *w, const struct table *t, int64_t slide, int64_t column,
                     struct err *e)
{
    const char *meta = w->setup->meta;
    int64_t unknown = 0, repeated = 0;
    int64_t *first = calloc((size_t)w->slides->n + 1, sizeof *first); /* lines; 0: none yet */
    int bad = first ? 0 : err_set(e, "out of memory");
    for (int64_t row = 1; !bad && row <= t->rows; row++) {
        const int64_t k = find_slide_or_file(w->slides, table_cell(t, row, slide));
        unknown += k < 0;
        repeated += k >= 0 && first[k] > 0;
        bad = k >= 0 ? place(w, t, row, column, k, &first[k], e) : 0;
    }
    if (!bad && unknown > 0)
        cli_say("%s: %" PRId64 " row%s for slides that no result has", meta, unknown,
                unknown == 1 ? "" : "s");
    if (!bad && repeated > 0)
        cli_say("%s: %" PRId64 " row%s for slides that have one already; they agree", meta,
                repeated, repeated == 1 ? "" : "s");
    free(first);
    return bad ? err_add(e, "%s", meta) : 0;
}

static int group_by_table(const struct work *w, struct err *e)
{
    const struct report_setup *o = w->setup;
    struct table t = {0};
    int64_t slide = 0, column = 0;
    int bad = table_read(&t, o->meta, e);
    if (!bad && (column = table_column(&t, o->group)) < 0)
        bad = err_set(e, "%s: has no column %s", o->meta, o->group);
    if (!bad && (slide = table_column(&t, "slide")) < 0)
        bad = err_set(e, "%s: has no column slide", o->meta);
    bad = bad || find_group(w->groups, "not in the table", e) < 0 ||
          place_all(w, &t, slide, column, e);
    table_free(&t);
    return bad ? -1 : 0;
}

/* --- by a pattern --- */

static int group_by_pattern(const struct work *w, struct err *e)
{
    const char *pattern = w->setup->group_regex;
    regex_t re;
    char text[512];
    int bad = regcomp(&re, pattern, REG_EXTENDED);
    if (bad) {
        regerror(bad, &re, text, sizeof text);
        return err_set(e, "--group-regex %s: %s", pattern, text);
    }
    bad = find_group(w->groups, "no match", e) < 0;
    for (int64_t k = 0; k < w->slides->n && !bad; k++) {
        const char *name = w->slides->slide[k].name;
        regmatch_t m[2];
        if (regexec(&re, name, 2, m, 0))
            continue;
        const regmatch_t *part = re.re_nsub > 0 && m[1].rm_so >= 0 ? &m[1] : &m[0];
        snprintf(text, sizeof text, "%.*s", (int)(part->rm_eo - part->rm_so), name + part->rm_so);
        bad = (w->groups->of[k] = find_group(w->groups, text, e)) < 0;
    }
    regfree(&re);
    return bad ? -1 : 0;
}

/* --- by a property of the slide --- */

static const char *property(const struct report_setup *o, const struct report_slide *s,
                            char buf[64])
{
    const char *name = o->group;
    if (!strcmp(name, "vendor"))
        return *s->vendor ? s->vendor : "unknown vendor";
    if (!strcmp(name, "objective_power")) {
        if (s->objective > 0)
            snprintf(buf, 64, "%gx", s->objective);
        else
            snprintf(buf, 64, "unknown objective");
        return buf;
    }
    if (strcmp(name, "result"))
        return NULL;
    if (o->number_names)
        snprintf(buf, 64, "result %" PRId64, s->file + 1);
    return o->number_names ? buf : path_base_name(o->files[s->file]);
}

static int group_by_property(const struct work *w, struct err *e)
{
    char buf[64];
    for (int64_t k = 0; k < w->slides->n; k++) {
        const char *name = property(w->setup, &w->slides->slide[k], buf);
        if (!name)
            return err_set(e,
                           "--group %s: not vendor, objective_power or result; a column of a "
                           "table needs --meta FILE.csv",
                           w->setup->group);
        if ((w->groups->of[k] = find_group(w->groups, name, e)) < 0)
            return -1;
    }
    return 0;
}

/* --- all --- */

int report_group(const struct report_setup *o, const struct report_slides *s,
                 struct report_groups *g, struct err *e)
{
    const struct work w = {o, s, g};
    if (!(g->of = calloc((size_t)s->n + 1, sizeof *g->of)))
        return err_set(e, "out of memory");
    if (o->meta)
        return group_by_table(&w, e);
    if (o->group_regex)
        return group_by_pattern(&w, e);
    if (o->group)
        return group_by_property(&w, e);
    return find_group(g, "all slides", e) < 0 ? -1 : 0;
}

void report_groups_free(struct report_groups *g)
{
    for (int32_t k = 0; k < g->n; k++)
        free(g->name[k]);
    free(g->name);
    free(g->of);
}
