/* report_groups.c - see report_groups.h. */
#include "process/report/verdict/report_groups.h"

#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/failed_list.h"
#include "common/base/memory.h"
#include "common/base/path.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GROUPS = 256 };

/* The number of the group of this name, which may be new; -1 on failure. */
static int32_t find_group(struct report_groups *g, const char *name, struct err *e)
{
    for (int32_t k = 0; k < g->n; k++)
        if (!strcmp(g->name[k], name))
            return k;
    if (g->n == MOST_GROUPS)
        return err_set(e, "more than %d groups; group by something with fewer values", MOST_GROUPS);
    g->name = memory_grow(g->name, g->n, sizeof *g->name);
    g->name[g->n] = memory_copy(name);
    return g->n++;
}

/* --- by a table --- */

/* The data of a grouping. */
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
    int64_t *first = memory_need((size_t)w->slides->n + 1, sizeof *first); /* lines; 0: none yet */
    int bad = 0;
    for (int64_t row = 1; !bad && row <= t->rows; row++) {
        const int64_t k = report_find_slide(w->slides, table_cell(t, row, slide));
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
    if (o->key)
        snprintf(buf, 64, "result %" PRId64, s->file + 1);
    return o->key ? buf : path_base_name(o->files[s->file]);
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
    g->of = memory_need((size_t)s->n + 1, sizeof *g->of);
    g->asked = o->group != NULL;
    if (o->meta)
        return group_by_table(&w, e);
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

/* --- lists of failures --- */

const char *report_bare_reason(const char *name, const char *reason)
{
    const char *const names[] = {name, path_base_name(name)};
    for (int k = 0; k < 2; k++) {
        const size_t n = strlen(names[k]);
        const char *end = reason + n; /* of "SLIDE: " or "SLIDE to STORE: " */
        if (!n || strncmp(reason, names[k], n))
            continue;
        if (!strncmp(end, " to ", 4) && strstr(end, ": "))
            end = strstr(end, ": ");
        if (!strncmp(end, ": ", 2))
            return end + 2;
    }
    return reason;
}

static bool is_listed(const struct report_failures *f, const char *name, const char *reason)
{
    for (int64_t k = 0; k < f->n; k++)
        if (!strcmp(f->failure[k].name, name) && !strcmp(f->failure[k].reason, reason))
            return true;
    return false;
}

struct failed_rows {
    const struct report_setup *setup;
    struct report_slides *slides;
    struct report_failures *failures;
    const char *folder; /* of the list; NULL: it belongs to none */
    bool of_results;    /* that folder has results; else it may have the stores of all */
    bool any;           /* the results of the report lie in one folder */
};

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == '/' || (n > 0 && folder[n - 1] == '/'));
}

static bool has_results(const struct failed_rows *r, const char *folder)
{
    for (int64_t k = 0; k < r->slides->n; k++)
        if (is_below(r->setup->files[r->slides->slide[k].file], folder))
            return true;
    return false;
}

static bool has_file(const char *folder, const char *name)
{
    char *path = folder_join(folder, name);
    const bool has = access(path, F_OK) == 0;
    free(path);
    return has;
}

/* The slide whose result is that of a row, by the name of the result. NULL: there is none. */
static struct report_slide *with_result(const struct failed_rows *r, const char *output)
{
    const int64_t k = *output ? report_find_slide(r->slides, path_base_name(output)) : -1;
    struct report_slide *s = k < 0 ? NULL : &r->slides->slide[k];
    if (!s || !r->folder || !r->of_results)
        return s && r->any && (!r->folder || has_file(r->folder, output)) ? s : NULL;
    return is_below(r->setup->files[s->file], r->folder) ? s : NULL;
}

/* A row without a slide: what else lies where the slides are. */
static void add_left_out(struct report_failures *f, const char *reason)
{
    char *all = f->left_out ? memory_print("%s; %s", f->left_out, reason) : memory_copy(reason);
    free(f->left_out);
    f->left_out = all;
}

/* A copy that has a result all the same, such as one of an earlier run, is a slide of the report. */
static void add_copy(struct report_failures *f, const struct report_slide *s, const char *name,
                     const char *reason)
{
    for (int64_t k = 0; k < f->n_copies; k++)
        if (!strcmp(f->copy[k].name, name))
            return;
    if (s)
        return;
    f->copy = memory_grow(f->copy, f->n_copies, sizeof *f->copy);
    f->copy[f->n_copies++] =
        (struct report_failure){memory_copy(name), memory_copy(""), memory_copy(reason)};
}

/* A row of a list. Several lists may have it: that of the stores, and that of the results. The page
 * does not show folders; a message has the path as err_clean() makes it. */
static int take_failed(void *ctx, const char *name, const char *output, const char *reason,
                       struct err *e)
{
    const struct failed_rows *r = ctx;
    struct report_slide *s = with_result(r, output);
    (void)e;
    if (!*name) {
        add_left_out(r->failures, reason);
        return 0;
    }
    char *shown = memory_copy(reason), *path = memory_copy(name);
    err_clean(path);
    path_drop_folder(shown, name);
    path_drop_folder(shown, path);
    const char *bare = report_bare_reason(path, report_bare_reason(name, shown));
    if (failed_list_is_copy(name, reason))
        add_copy(r->failures, s, name, bare);
    else if (s && !s->failed)
        s->failed = memory_copy(bare);
    else if (!s && !is_listed(r->failures, name, bare))
        report_failures_add(r->failures, name, "", bare);
    free(shown);
    free(path);
    return 0;
}

/* Drops inputs that are no results, but stores of slides of which a list says that they failed. */
static void join_inputs(struct failed_rows *r)
{
    struct report_failures *f = r->failures;
    int64_t kept = 0;
    for (int64_t k = 0; k < f->n; k++) {
        struct report_failure *x = &f->failure[k];
        const struct report_slide *s = *x->path ? with_result(r, x->name) : NULL;
        if (s && s->failed && strcmp(r->setup->files[s->file], x->path) != 0)
            report_failure_free(x);
        else
            f->failure[kept++] = *x;
    }
    f->n = kept;
}

int report_read_failed(const struct report_setup *o, struct report_slides *s,
                       struct report_failures *f, struct err *e)
{
    struct failed_rows r = {.setup = o, .slides = s, .failures = f};
    int with = 0;
    for (int k = 0; k < o->n_folders; k++)
        with += has_results(&r, o->folders[k]);
    r.any = with < 2;
    if (o->failed && failed_list_rows(o->failed, take_failed, &r, e))
        return -1;
    for (int k = 0; k < o->n_folders; k++) {
        r.folder = o->folders[k];
        r.of_results = has_results(&r, r.folder);
        if (failed_list_read(r.folder, take_failed, &r, e))
            return -1;
    }
    r.folder = NULL;
    join_inputs(&r);
    return 0;
}

/* --- slides and failures --- */

static void name_slides(const struct report_setup *o, const struct report_slides *s,
                        struct report_names *names)
{
    int digits = 1;
    for (int64_t n = s->n; n >= 10; n /= 10)
        digits++;
    names->slide = memory_need((size_t)s->n + 1, sizeof *names->slide);
    for (names->slides = 0; names->slides < s->n; names->slides++) {
        const int64_t k = names->slides;
        char number[64];
        snprintf(number, sizeof number, "slide %0*" PRId64, digits % 20, k + 1);
        names->slide[k] = memory_copy(o->key ? number : s->slide[k].name);
    }
}

const char *report_shown_path(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    return *path == '/' ? path + n : path;
}

/* Bytes of the folder that the failures have in common, of those that have one. */
static size_t common_folder(const struct report_failures *f)
{
    const char *first = NULL;
    size_t n = 0;
    for (int64_t k = 0; k < f->n; k++) {
        const char *name = f->failure[k].name;
        size_t same = 0, folder = 0;
        if (!strchr(name, '/'))
            continue;
        if (!first) {
            first = name;
            n = (size_t)(path_base_name(name) - name);
            continue;
        }
        for (; same < n && name[same] == first[same]; same++)
            if (name[same] == '/')
                folder = same + 1;
        n = folder;
    }
    return n;
}

static void name_failures(const struct report_setup *o, const struct report_failures *f,
                          struct report_names *names)
{
    const size_t folder = common_folder(f);
    names->failure = memory_need((size_t)f->n + 1, sizeof *names->failure);
    for (names->failures = 0; names->failures < f->n; names->failures++) {
        const int64_t k = names->failures;
        const char *whole = f->failure[k].name,
                   *name = strchr(whole, '/') ? report_shown_path(whole + folder) : whole;
        char number[64];
        snprintf(number, sizeof number, "input without numbers %" PRId64, k + 1);
        names->failure[k] = memory_copy(o->key ? number : name);
    }
}

/* --- groups --- */

enum { LEAST_WORD = 3 };

static bool is_in_a_name(const struct report_slides *s, const char *word)
{
    for (int64_t k = 0; k < s->n; k++)
        if (strcasestr(s->slide[k].name, word))
            return true;
    return false;
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

static bool holds_a_name(const struct report_slides *s, const char *label)
{
    for (int64_t k = 0; k < s->n; k++)
        if (strcasestr(label, s->slide[k].name))
            return true;
    return false;
}

/* Does a label say something about names: is it part of one, or has it a word in common? */
static bool is_telling(const struct report_slides *s, const char *label)
{
    bool tells = is_in_a_name(s, label) || holds_a_name(s, label);
    for (const char *at = label; *at && !tells; at++) {
        size_t n = 0;
        char word[256];
        while (is_of_word(at[n]))
            n++;
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        tells = n >= LEAST_WORD && is_in_a_name(s, word);
        at += n > 0 ? n - 1 : 0;
    }
    return tells;
}

/* What the program calls group 0 itself: "not in the table", "all slides". */
static bool is_own_label(const struct report_setup *o, int32_t group)
{
    return group == 0 && (o->meta || !o->group);
}

/* With one label that is telling, all are hidden: a gap in a list tells, too. */
static bool must_hide_groups(const struct report_setup *o, const struct report_slides *s,
                             const struct report_groups *g)
{
    if (!o->key)
        return false;
    for (int32_t k = 0; k < g->n; k++)
        if (!is_own_label(o, k) && is_telling(s, g->name[k]))
            return true;
    return false;
}

static void name_groups(const struct report_setup *o, const struct report_slides *s,
                        const struct report_groups *g, struct report_names *names)
{
    const bool hide = must_hide_groups(o, s, g);
    names->group = memory_need((size_t)g->n + 1, sizeof *names->group);
    for (names->groups = 0; names->groups < g->n; names->groups++) {
        const int32_t k = (int32_t)names->groups;
        char label[32];
        snprintf(label, sizeof label, "group %" PRId32, k + !is_own_label(o, 0));
        names->group[k] = memory_copy(hide && !is_own_label(o, k) ? label : g->name[k]);
    }
}

/* --- all --- */

void report_name(const struct report_setup *o, const struct report_slides *s,
                 const struct report_groups *g, const struct report_failures *f,
                 struct report_names *names)
{
    name_slides(o, s, names);
    name_failures(o, f, names);
    name_groups(o, s, g, names);
}

static void free_texts(char **texts, int64_t n)
{
    for (int64_t k = 0; texts && k < n; k++)
        free(texts[k]);
    free(texts);
}

void report_names_free(struct report_names *names)
{
    free_texts(names->slide, names->slides);
    free_texts(names->group, names->groups);
    free_texts(names->failure, names->failures);
}
