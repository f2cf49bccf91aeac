/* report_names.c - what slides, groups and failures are called; see report.h. */
#include "process/report/report.h"

#include "common/base/csv.h"
#include "common/base/path.h"
#include "common/base/table.h"
#include "process/options/failures.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- slides --- */

static int name_slides(struct report *r, struct err *e)
{
    int digits = 1;
    for (int64_t n = r->n; n >= 10; n /= 10)
        digits++;
    for (int64_t k = 0; k < r->n; k++) {
        struct report_slide *s = &r->slides[k];
        char number[64];
        snprintf(number, sizeof number, "slide %0*" PRId64, digits % 20, k + 1);
        if (!(s->shown = strdup(r->setup->number_names ? number : s->name)))
            return err_set(e, "out of memory");
    }
    return 0;
}

/* --- failures --- */

static bool is_listed(const struct report *r, const char *name, const char *reason)
{
    for (int64_t k = 0; k < r->n_failures; k++)
        if (!strcmp(r->failures[k].name, name) && !strcmp(r->failures[k].reason, reason))
            return true;
    return false;
}

/* A row of a list. Several lists may have it: that of the stores, and that of the results. The page
 * does not show folders; a message has the path as err_clean() makes it. */
static int take_failed(void *ctx, const char *name, const char *reason, struct err *e)
{
    struct report *r = ctx;
    char *shown = strdup(reason), *path = strdup(name);
    int bad = shown && path ? 0 : err_set(e, "out of memory");
    if (!bad) {
        err_clean(path);
        path_drop_folder(shown, name);
        path_drop_folder(shown, path);
        bad = is_listed(r, name, shown) ? 0 : report_fail(r, name, "", shown, e);
    }
    free(shown);
    free(path);
    return bad;
}

static int read_folders(struct report *r, struct err *e)
{
    for (int k = 0; k < r->setup->n_folders; k++)
        if (failures_read(r->setup->folders[k], take_failed, r, e))
            return -1;
    return 0;
}

static int read_failed(struct report *r, struct err *e)
{
    const char *path = r->setup->failed;
    struct table t = {0};
    int bad = table_read(&t, path, e);
    const int64_t slide = bad ? 0 : table_column(&t, "slide");
    const int64_t reason = bad ? 0 : table_column(&t, "reason");
    if (!bad && (slide < 0 || reason < 0))
        bad = err_set(e, "%s: the header is not slide,reason", path);
    for (int64_t k = 1; !bad && k <= t.rows; k++)
        bad = take_failed(r, table_cell(&t, k, slide), table_cell(&t, k, reason), e);
    table_free(&t);
    return bad ? -1 : 0;
}

static int name_failures(struct report *r, struct err *e)
{
    for (int64_t k = 0; k < r->n_failures; k++) {
        struct report_failure *f = &r->failures[k];
        char number[64];
        snprintf(number, sizeof number, "input without numbers %" PRId64, k + 1);
        if (!(f->shown = strdup(r->setup->number_names ? number : path_base_name(f->name))))
            return err_set(e, "out of memory");
    }
    return 0;
}

const char *report_failure_reason(const struct report *r, const struct report_failure *f)
{
    return r->setup->number_names ? "not shown, because it may contain names; see the key"
                                  : f->reason;
}

/* --- groups --- */

enum { LEAST_WORD = 3 };

static bool is_in_a_name(const struct report *r, const char *word)
{
    for (int64_t k = 0; k < r->n; k++)
        if (strcasestr(r->slides[k].name, word))
            return true;
    return false;
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

static bool holds_a_name(const struct report *r, const char *label)
{
    for (int64_t k = 0; k < r->n; k++)
        if (strcasestr(label, r->slides[k].name))
            return true;
    return false;
}

/* Does a label say something about names: is it part of one, or has it a word in common? */
static bool is_telling(const struct report *r, const char *label)
{
    bool tells = is_in_a_name(r, label) || holds_a_name(r, label);
    for (const char *at = label; *at && !tells; at++) {
        size_t n = 0;
        char word[256];
        while (is_of_word(at[n]))
            n++;
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        tells = n >= LEAST_WORD && is_in_a_name(r, word);
        at += n > 0 ? n - 1 : 0;
    }
    return tells;
}

/* What the program calls group 0 itself: "not in the table", "no match", "all slides". */
static bool is_own_label(const struct report *r, int32_t group)
{
    return group == 0 && (r->setup->meta || r->setup->group_regex || !r->setup->group);
}

/* With one label that is telling, all are hidden: a gap in a list tells, too. */
static bool must_hide_groups(const struct report *r)
{
    if (!r->setup->number_names)
        return false;
    for (int32_t k = 0; k < r->n_groups; k++)
        if (!is_own_label(r, k) && (r->setup->group_regex || is_telling(r, r->groups[k])))
            return true;
    return false;
}

static int name_groups(struct report *r, struct err *e)
{
    const bool hide = must_hide_groups(r);
    if (!(r->group_names = calloc((size_t)r->n_groups + 1, sizeof *r->group_names)))
        return err_set(e, "out of memory");
    for (int32_t k = 0; k < r->n_groups; k++) {
        char label[32];
        snprintf(label, sizeof label, "group %" PRId32, k + !is_own_label(r, 0));
        r->group_names[k] = r->groups[k];
        if (!(r->groups[k] = strdup(hide && !is_own_label(r, k) ? label : r->group_names[k])))
            return err_set(e, "out of memory");
    }
    return 0;
}

/* --- all --- */

int report_name(struct report *r, struct err *e)
{
    if ((r->setup->failed && read_failed(r, e)) || read_folders(r, e))
        return -1;
    return name_slides(r, e) || name_failures(r, e) || name_groups(r, e) ? -1 : 0;
}

static void put_row(FILE *f, const char *const *cells, int n)
{
    for (int k = 0; k < n; k++) {
        if (k)
            putc(',', f);
        csv_exact(f, cells[k]);
    }
    putc('\n', f);
}

int report_key(const struct report *r, FILE *f, struct err *e)
{
    (void)e;
    fputs("number,slide,result,group,group_name,reason\n", f);
    for (int64_t k = 0; k < r->n; k++) {
        const struct report_slide *s = &r->slides[k];
        put_row(f,
                (const char *[]){s->shown, s->name, r->setup->files[s->file], r->groups[s->group],
                                 r->group_names[s->group], ""},
                6);
    }
    for (int64_t k = 0; k < r->n_failures; k++) {
        const struct report_failure *x = &r->failures[k];
        put_row(f, (const char *[]){x->shown, x->name, x->path, "", "", x->reason}, 6);
    }
    return 0;
}
