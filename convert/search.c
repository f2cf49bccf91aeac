/* search.c - see search.h. */
#include "convert/search.h"

#include "common/base/folder.h"
#include "convert/readers/slide.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file of a series in a folder whose search has not ended. */
struct instance {
    char *path;
    char series[SLIDE_SERIES];
    off_t bytes;
};

struct search {
    const struct search_ops *ops;
    void *ctx;
    struct instance *list; /* those of an inner folder follow those of the folders around it */
    size_t n;
};

static int no_memory(struct err *e)
{
    return err_set(e, "out of memory");
}

/* --- series --- */

static int by_series(const void *a, const void *b)
{
    const struct instance *x = a, *y = b;
    const int order = strcmp(x->series, y->series);
    if (order)
        return order;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Keeps such a file until the search of its folder ends. */
static int keep_instance(struct search *s, const char *path, struct err *e)
{
    struct stat st;
    struct instance *more = realloc(s->list, (s->n + 1) * sizeof *more);
    if (!more)
        return no_memory(e);
    s->list = more;
    more[s->n] = (struct instance){.path = strdup(path), .bytes = stat(path, &st) ? 0 : st.st_size};
    if (!more[s->n].path)
        return no_memory(e);
    if (!slide_series(path, more[s->n].series))
        more[s->n].series[0] = 0;
    s->n++;
    return 0;
}

/* Reports instances of one folder: the first of each series is a slide. */
static int report_series(struct search *s, struct instance *list, size_t n, struct err *e)
{
    int r = 0;
    if (n > 1)
        qsort(list, n, sizeof *list, by_series);
    for (size_t k = 0, first = 0; k < n && r == 0; k++) {
        const bool same = k > 0 && list[k].series[0] && !strcmp(list[first].series, list[k].series);
        if (!same) {
            first = k;
            r = s->ops->slide(s->ctx, list[k].path, e);
            continue;
        }
        char why[256];
        const char *name = strrchr(list[first].path, '/');
        snprintf(why, sizeof why, "belongs to the DICOM series of %.200s", name ? name + 1 : "");
        r = s->ops->skipped(s->ctx, list[k].path, why, e);
    }
    return r;
}

/* Does folder_find() join the path from this folder and a name? */
static bool is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    if (strncmp(path, folder, n) != 0)
        return false;
    n += path[n] == '/';
    return !strchr(path + n, '/');
}

static int end_folder(void *ctx, const char *folder, struct err *e)
{
    struct search *s = ctx;
    size_t from = s->n;
    while (from && is_in(s->list[from - 1].path, folder))
        from--;
    const int r = from < s->n ? report_series(s, s->list + from, s->n - from, e) : 0;
    while (s->n > from)
        free(s->list[--s->n].path);
    return r;
}

/* --- folders --- */

static const char *excludes(const char *path)
{
    struct stat st;
    char *slide, *index = folder_join(path, "Slidedat.ini");
    bool is = index && !stat(index, &st);
    free(index);
    if (!is || asprintf(&slide, "%s.mrxs", path) < 0)
        return NULL;
    is = !stat(slide, &st);
    free(slide);
    return is ? "holds the data of a MIRAX slide" : NULL;
}

static int take_file(void *ctx, const char *path, struct err *e)
{
    struct search *s = ctx;
    return slide_has_series(path) ? keep_instance(s, path, e) : s->ops->slide(s->ctx, path, e);
}

static int take_problem(void *ctx, const char *path, const char *why, struct err *e)
{
    const struct search *s = ctx;
    return s->ops->problem(s->ctx, path, why, e);
}

static int take_skipped(void *ctx, const char *path, const char *why, struct err *e)
{
    const struct search *s = ctx;
    return s->ops->skipped(s->ctx, path, why, e);
}

int search_slides(const char *folder, const struct search_ops *ops, void *ctx, struct err *e)
{
    static const struct folder_ops in_folders = {.wants = slide_has_name,
                                                 .is_wanted = slide_has_series,
                                                 .excludes = excludes,
                                                 .file = take_file,
                                                 .problem = take_problem,
                                                 .skipped = take_skipped,
                                                 .end = end_folder};
    struct search s = {.ops = ops, .ctx = ctx};
    const int r = folder_find(folder, &in_folders, &s, e);
    while (s.n)
        free(s.list[--s.n].path);
    free(s.list);
    return r;
}
