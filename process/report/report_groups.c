/* report_groups.c - which group a slide belongs to; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/path.h"
#include "common/base/table.h"

#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 256 };

/* The number of the group of this name, which may be new; -1 on failure. */
static int32_t find_group(struct report *r, const char *name, struct err *e)
{
    for (int32_t k = 0; k < r->n_groups; k++)
        if (!strcmp(r->groups[k], name))
            return k;
    if (r->n_groups == MOST_GROUPS)
        return err_set(e, "more than %d groups; group by something with fewer values", MOST_GROUPS);
    char **more = realloc(r->groups, ((size_t)r->n_groups + 1) * sizeof *more);
    if (!more || !(r->groups = more, more[r->n_groups] = strdup(name)))
        return err_set(e, "out of memory");
    return r->n_groups++;
}

/* --- by a table --- */

static int compare_name(const void *name, const void *slide)
{
    return strcmp(name, ((const struct report_slide *)slide)->name);
}

static struct report_slide *find_slide(const struct report *r, const char *name)
{
    return r->n ? bsearch(name, r->slides, (size_t)r->n, sizeof *r->slides, compare_name) : NULL;
}

/* A table may name the slide's file: "A.svs" is slide A. */
static struct report_slide *find_slide_or_file(const struct report *r, const char *name)
{
    struct report_slide *s = find_slide(r, name);
    const char *dot = strrchr(name, '.');
    char stem[256];
    if (s || !dot || dot == name || (size_t)(dot - name) >= sizeof stem)
        return s;
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    return find_slide(r, stem);
}

/* Puts a slide into the group of a row. A slide has one row, or rows that agree. */
static int place(struct report *r, const struct table *t, int64_t row, int64_t column,
                 struct report_slide *s, int64_t *first, struct err *e)
{
    const int32_t group = find_group(r, table_cell(t, row, column), e);
    if (group < 0)
        return -1;
    if (*first > 0 && s->group != group)
        return err_set(
            e,
            "line %" PRId64 ": slide %s has %s %s, but %s in line %" PRId64 "; keep one of the two",
            t->lines[row], s->name, r->setup->group, r->groups[group], r->groups[s->group], *first);
    *first = t->lines[row];
    s->group = group;
    return 0;
}

static int place_all(struct report *r, const struct table *t, int64_t slide, int64_t column,
                     struct err *e)
{
    int64_t unknown = 0, repeated = 0;
    int64_t *first = calloc((size_t)r->n + 1, sizeof *first); /* lines of slides; 0: none yet */
    int bad = first ? 0 : err_set(e, "out of memory");
    for (int64_t k = 1; !bad && k <= t->rows; k++) {
        struct report_slide *s = find_slide_or_file(r, table_cell(t, k, slide));
        unknown += !s;
        repeated += s && first[s - r->slides] > 0;
        bad = s ? place(r, t, k, column, s, &first[s - r->slides], e) : 0;
    }
    if (!bad && unknown > 0)
        cli_say("%s: %" PRId64 " row%s for slides that no result has", r->setup->meta, unknown,
                unknown == 1 ? "" : "s");
    if (!bad && repeated > 0)
        cli_say("%s: %" PRId64 " row%s for slides that have one already; they agree",
                r->setup->meta, repeated, repeated == 1 ? "" : "s");
    free(first);
    return bad ? err_add(e, "%s", r->setup->meta) : 0;
}

static int group_by_table(struct report *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    struct table t = {0};
    int64_t slide = 0, column = 0;
    int bad = table_read(&t, o->meta, e);
    if (!bad && (column = table_column(&t, o->group)) < 0)
        bad = err_set(e, "%s: has no column %s", o->meta, o->group);
    if (!bad && (slide = table_column(&t, "slide")) < 0)
        bad = err_set(e, "%s: has no column slide", o->meta);
    bad = bad || find_group(r, "not in the table", e) < 0 || place_all(r, &t, slide, column, e);
    table_free(&t);
    return bad ? -1 : 0;
}

/* --- by a pattern --- */

static int group_by_pattern(struct report *r, struct err *e)
{
    regex_t re;
    char text[512];
    int bad = regcomp(&re, r->setup->group_regex, REG_EXTENDED);
    if (bad) {
        regerror(bad, &re, text, sizeof text);
        return err_set(e, "--group-regex %s: %s", r->setup->group_regex, text);
    }
    bad = find_group(r, "no match", e) < 0;
    for (int64_t k = 0; k < r->n && !bad; k++) {
        struct report_slide *s = &r->slides[k];
        regmatch_t m[2];
        if (regexec(&re, s->name, 2, m, 0))
            continue;
        const regmatch_t *part = re.re_nsub > 0 && m[1].rm_so >= 0 ? &m[1] : &m[0];
        snprintf(text, sizeof text, "%.*s", (int)(part->rm_eo - part->rm_so),
                 s->name + part->rm_so);
        bad = (s->group = find_group(r, text, e)) < 0;
    }
    regfree(&re);
    return bad ? -1 : 0;
}

/* --- by a property of the slide --- */

static const char *property(const struct report *r, const struct report_slide *s, char buf[64])
{
    const char *name = r->setup->group;
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
    if (r->setup->number_names)
        snprintf(buf, 64, "result %" PRId64, s->file + 1);
    return r->setup->number_names ? buf : path_base_name(r->setup->files[s->file]);
}

static int group_by_property(struct report *r, struct err *e)
{
    char buf[64];
    for (int64_t k = 0; k < r->n; k++) {
        const char *name = property(r, &r->slides[k], buf);
        if (!name)
            return err_set(e,
                           "--group %s: not vendor, objective_power or result; a column of a "
                           "table needs --meta FILE.csv",
                           r->setup->group);
        if ((r->slides[k].group = find_group(r, name, e)) < 0)
            return -1;
    }
    return 0;
}

/* --- all --- */

int report_group(struct report *r, struct err *e)
{
    const struct report_setup *o = r->setup;
    if (o->meta)
        return group_by_table(r, e);
    if (o->group_regex)
        return group_by_pattern(r, e);
    if (o->group)
        return group_by_property(r, e);
    return find_group(r, "all slides", e) < 0 ? -1 : 0;
}
