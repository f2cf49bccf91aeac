/* input_files.c - see input_files.h. */
#include "process/options/input_files.h"

#include "common/base/cli.h"
#include "common/base/failed_list.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_library.h"
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "common/store/store_read.h"

#include <assert.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(struct input_files *l, const char *path)
{
    assert(l->n < INT_MAX);
    l->paths = memory_grow(l->paths, l->n, sizeof *l->paths);
    l->paths[l->n++] = memory_copy(path);
}

void input_files_add_words(struct input_files *l, char *const *words, int n)
{
    for (int k = 0; k < n; k++)
        add(l, words[k]);
}

static int add_line(void *ctx, const char *path, struct err *e)
{
    (void)e;
    add(ctx, path);
    return 0;
}

int input_files_add_file(void *list, const char *file, struct err *e)
{
    stop_catch_signals(); /* for commands that do so later, or never, but may wait here */
    if (cli_list(file, add_line, list, e) || stop_check(e))
        return -1;
    stop_release_signals();
    return 0;
}

/* --- folders --- */

struct search {
    struct input_files *out;
    enum input_files_kind kind;
    int problems;
};

static bool has_ending(const char *name)
{
    const size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".h5");
}

/* Only files that can be read and say that they are another program's are skipped: what cannot be
 * read may be a store, and must stay in the list. */
static bool is_wanted(const char *path, enum input_files_kind kind)
{
    const bool results = kind != INPUT_STORES;
    if (results && h5_begins_as(path, RESULT_FORMAT))
        return true;
    return (results && !result_is_foreign(path)) ||
           ((kind == INPUT_STORES || kind == INPUT_BOTH) && !store_is_foreign(path));
}

static void add_problem(void *ctx, const char *path, const char *why, enum err_kind kind)
{
    struct search *s = ctx;
    struct input_files *l = s->out;
    l->problems = memory_grow(l->problems, l->n_problems, sizeof *l->problems);
    l->problems[l->n_problems++] =
        (struct input_files_problem){memory_copy(path), memory_copy(why)};
    cli_say("%s: %s", path, why);
    s->problems++;
    l->trouble += kind >= ERR_TROUBLE;
}

static void add_found(void *ctx, const char *path)
{
    struct search *s = ctx;
    if (is_wanted(path, s->kind))
        add(s->out, path);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int note_list(void *ctx, const char *path, struct err *e)
{
    (void)path, (void)e;
    *(bool *)ctx = true;
    return 0;
}

static bool has_failed_list(const char *folder)
{
    bool has = false;
    failed_list_find(folder, note_list, &has, NULL);
    return has;
}

static void note_store(void *ctx, const char *path)
{
    *(bool *)ctx |= store_is(path);
}

static void no_problem(void *ctx, const char *path, const char *why, enum err_kind kind)
{
    (void)ctx, (void)path, (void)why, (void)kind;
}

/* Calls file() with a bool for the files in a folder that end in .h5; returns the bool. */
static bool notes(const char *folder, void (*file)(void *, const char *))
{
    const struct folder_ops ops = {.wants = has_ending, .file = file, .problem = no_problem};
    bool has = false;
    folder_find(folder, &ops, &has);
    return has;
}

static void note_file(void *ctx, const char *path)
{
    (void)path;
    *(bool *)ctx = true;
}

static bool has_stores(const char *folder)
{
    return notes(folder, note_store);
}

const char *input_files_only_stores(const struct input_files *l)
{
    struct store_info info;
    for (int k = 0; k < l->n; k++)
        if (store_look(l->paths[k], &info, NULL) != STORE_IS_STORE)
            return NULL;
    for (int k = 0; k < l->n_folders; k++)
        if (has_stores(l->folders[k]))
            return l->folders[k];
    return l->n > 0 ? l->paths[0] : NULL;
}

static int has_no_stores(const char *folder, struct err *e)
{
    err_set(e, "%s: a folder without stores", folder);
    return path_remedy(e, "convert first: wsi2h5 -o stores/", folder);
}

static void expand_folder(struct input_files *out, const char *folder, enum input_files_kind kind)
{
    static const char *const what[] = {"stores", "results", "stores or results", "results"};
    static const struct folder_ops ops = {
        .wants = has_ending, .file = add_found, .problem = add_problem};
    struct search s = {.out = out, .kind = kind};
    const int before = out->n;
    out->folders = memory_grow(out->folders, out->n_folders, sizeof *out->folders);
    out->folders[out->n_folders++] = memory_copy(folder);
    folder_find(folder, &ops, &s);
    if (out->n == before && s.problems == 0 &&
        !(kind == INPUT_REPORT && (has_failed_list(folder) || has_stores(folder)))) {
        struct err why = {0};
        if (kind == INPUT_STORES)
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
}

void input_files_expand(struct input_files *l, enum input_files_kind kind)
{
    struct input_files out = {0};
    for (int k = 0; k < l->n; k++)
        if (folder_is(l->paths[k]))
            expand_folder(&out, l->paths[k], kind);
        else
            add(&out, l->paths[k]);
    input_files_free(l);
    *l = out;
}

int input_files_status(const struct input_files *l)
{
    return l->trouble ? EXIT_TROUBLE : l->failed ? EXIT_PART : EXIT_DONE;
}

/* --- slides --- */

int input_files_lacks_output(const struct input_files *l, const char *what, struct err *e)
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

double *input_files_sizes(const struct input_files *l)
{
    double *sum = memory_need((size_t)l->n + 1, sizeof *sum);
    for (int k = 0; k < l->n; k++) {
        struct stat st;
        const double size = stat(l->paths[k], &st) ? 0 : (double)st.st_size;
        sum[k + 1] = sum[k] + (size > 1 ? size : 1);
    }
    return sum;
}

void input_files_share(struct input_files *l, int64_t task, int64_t tasks)
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

void input_files_free(struct input_files *l)
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
    *l = (struct input_files){0};
}

/* --- chosen slides --- */

void choice_add(const char ***patterns, int *n, const char *word)
{
    *patterns = memory_grow(*patterns, *n, sizeof **patterns);
    (*patterns)[(*n)++] = word;
}

void choice_begin(struct choice *c, const char *const *patterns, int n)
{
    *c = (struct choice){.patterns = patterns, .n = n};
    c->found = memory_need((size_t)n, sizeof *c->found);
}

bool choice_has(struct choice *c, const char *name)
{
    bool chosen = c->n == 0;
    for (int k = 0; k < c->n; k++)
        if (!strcmp(c->patterns[k], name) || !fnmatch(c->patterns[k], name, 0))
            chosen = c->found[k] = true;
    return chosen;
}

int choice_check(const struct choice *c, struct err *e)
{
    for (int k = 0; k < c->n; k++)
        if (!c->found[k])
            return err_set(e, "--slide %s: matches no slide of the results", c->patterns[k]);
    return 0;
}

void choice_end(struct choice *c)
{
    free(c->found);
    c->found = NULL;
}
