/* list.c - see list.h. */
#include "process/options/list.h"

#include "common/base/cli.h"
#include "common/base/failed_list.h"
#include "common/base/folder.h"
#include "common/hdf5/h5_head.h"
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "common/store/store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add(struct list *l, const char *path, struct err *e)
{
    if (l->n == INT_MAX)
        return err_set(e, "too many input files");
    if ((l->n & (l->n + 1)) == 0) { /* grows at 0, 1, 3, 7 ... */
        char **more = realloc(l->paths, (2 * (size_t)l->n + 2) * sizeof *more);
        if (!more)
            return err_set(e, "out of memory");
        l->paths = more;
    }
    l->paths[l->n] = strdup(path);
    if (!l->paths[l->n])
        return err_set(e, "out of memory");
    l->n++;
    return 0;
}

int list_add_words(struct list *l, char *const *words, int n, struct err *e)
{
    for (int k = 0; k < n; k++)
        if (add(l, words[k], e))
            return -1;
    return 0;
}

static int add_line(void *ctx, const char *path, struct err *e)
{
    return add(ctx, path, e);
}

int list_add_file(void *list, const char *file, struct err *e)
{
    return cli_list(file, add_line, list, e);
}

/* --- folders --- */

struct search {
    struct list *out;
    enum list_kind kind;
    int problems;
};

static bool has_ending(const char *name)
{
    const size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".h5");
}

/* Only files that are certainly something else are skipped: a damaged store must stay in the
 * list. */
static bool is_wanted(const char *path, enum list_kind kind)
{
    if (kind != LIST_STORES && h5_begins_as(path, RESULT_FORMAT))
        return true;
    return ((kind == LIST_STORES || kind == LIST_BOTH) && store_is(path)) ||
           (kind != LIST_STORES && result_is(path)) || !h5_is_whole(path);
}

static int add_problem(void *ctx, const char *path, const char *why, struct err *e)
{
    struct search *s = ctx;
    struct list *l = s->out;
    struct list_problem *more = realloc(l->problems, ((size_t)l->n_problems + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    l->problems = more;
    struct list_problem *p = &more[l->n_problems++];
    *p = (struct list_problem){strdup(path), strdup(why)};
    cli_say("%s: %s", path, why);
    s->problems++;
    return p->path && p->why ? 0 : err_set(e, "out of memory");
}

static int add_found(void *ctx, const char *path, struct err *e)
{
    struct search *s = ctx;
    return is_wanted(path, s->kind) ? add(s->out, path, e) : 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_folder(struct list *l, const char *folder, struct err *e)
{
    char **more = realloc(l->folders, ((size_t)l->n_folders + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    l->folders = more;
    if (!(more[l->n_folders] = strdup(folder)))
        return err_set(e, "out of memory");
    l->n_folders++;
    return 0;
}

static int note_file(void *ctx, const char *path, struct err *e)
{
    (void)path, (void)e;
    *(bool *)ctx = true;
    return 0;
}

static bool has_failed_list(const char *folder)
{
    bool has = false;
    failed_list_find(folder, note_file, &has, NULL);
    return has;
}

static int note_store(void *ctx, const char *path, struct err *e)
{
    (void)e;
    *(bool *)ctx |= store_is(path);
    return 0;
}

static int no_problem(void *ctx, const char *path, const char *why, struct err *e)
{
    (void)ctx, (void)path, (void)why, (void)e;
    return 0;
}

/* Calls file() with a bool for the files in a folder that end in .h5; returns the bool. */
static bool notes(const char *folder, int (*file)(void *, const char *, struct err *))
{
    const struct folder_ops ops = {.wants = has_ending, .file = file, .problem = no_problem};
    struct err e = {""};
    bool has = false;
    return !folder_find(folder, &ops, &has, &e) && has;
}

bool list_has_stores(const char *folder)
{
    return notes(folder, note_store);
}

static int has_no_stores(const char *folder, struct err *e)
{
    return err_set(e, "%s: a folder without stores; convert first: wsi2h5 -o stores/ %s", folder,
                   folder);
}

static int expand_folder(struct list *out, const char *folder, enum list_kind kind, struct err *e)
{
    static const char *const what[] = {"stores", "results", "stores or results", "results"};
    static const struct folder_ops ops = {
        .wants = has_ending, .file = add_found, .problem = add_problem};
    struct search s = {.out = out, .kind = kind};
    const int before = out->n;
    if (add_folder(out, folder, e) || folder_find(folder, &ops, &s, e))
        return -1;
    if (out->n == before && s.problems == 0 && !(kind == LIST_REPORT && has_failed_list(folder))) {
        struct err why = {""};
        if (kind == LIST_STORES)
            has_no_stores(folder, &why);
        else
            err_set(&why, "%s: a folder without %s; name a folder that contains some", folder,
                    what[kind]);
        cli_say("%s", why.msg);
        s.problems++;
    }
    out->failed += s.problems;
    if (out->n > before)
        qsort(out->paths + before, (size_t)(out->n - before), sizeof *out->paths, by_path);
    return 0;
}

int list_expand(struct list *l, enum list_kind kind, struct err *e)
{
    struct list out = {0};
    int r = 0;
    for (int k = 0; k < l->n && r == 0; k++)
        r = folder_is(l->paths[k]) ? expand_folder(&out, l->paths[k], kind, e)
                                   : add(&out, l->paths[k], e);
    list_free(l);
    *l = out;
    return r;
}

/* --- slides --- */

int list_lacks_output(const struct list *l, const char *what, struct err *e)
{
    for (int k = 0; k < l->n; k++) {
        const char *path = l->paths[k];
        if (folder_is(path) && !notes(path, note_file))
            return has_no_stores(path, e);
        if (!folder_is(path) && !access(path, R_OK) && !result_is(path) && !store_is(path)) {
            store_close(store_open(path, e)); /* says why not */
            return -1;
        }
    }
    return err_set(e, "-o %s is missing", what);
}

/* --- sizes and shares --- */

double *list_sizes(const struct list *l, struct err *e)
{
    double *sum = calloc((size_t)l->n + 1, sizeof *sum);
    if (!sum)
        err_set(e, "out of memory");
    for (int k = 0; sum && k < l->n; k++) {
        struct stat st;
        const double size = stat(l->paths[k], &st) ? 0 : (double)st.st_size;
        sum[k + 1] = sum[k] + (size > 1 ? size : 1);
    }
    return sum;
}

void list_share(struct list *l, int64_t task, int64_t tasks)
{
    int kept = 0;
    for (int k = 0; k < l->n; k++) {
        if (k % tasks == task - 1)
            l->paths[kept++] = l->paths[k];
        else
            free(l->paths[k]);
    }
    l->n = kept;
}

void list_free(struct list *l)
{
    for (int k = 0; k < l->n; k++)
        free(l->paths[k]);
    for (int k = 0; k < l->n_folders; k++)
        free(l->folders[k]);
    for (int k = 0; k < l->n_problems; k++) {
        free(l->problems[k].path);
        free(l->problems[k].why);
    }
    free(l->paths);
    free(l->folders);
    free(l->problems);
    *l = (struct list){0};
}
