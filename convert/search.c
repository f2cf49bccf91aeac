/* search.c - see search.h. */
#include "convert/search.h"

#include "convert/dicom.h"
#include "convert/slide.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 64 };

struct folder_id {
    dev_t device;
    ino_t inode;
};

/* A DICOM file of the folder that is searched. */
struct instance {
    char *path;
    char series[DICOM_UID];
    off_t bytes;
};

struct search {
    const struct search_ops *ops;
    void *ctx;
    struct folder_id *seen; /* every folder that was or is searched */
    size_t n_seen;
};

static int no_memory(struct err *e)
{
    return err_set(e, "out of memory");
}

/* FOLDER/NAME, to be free()d; NULL when out of memory. */
static char *join(const char *folder, const char *name)
{
    char *path;
    const size_t n = strlen(folder);
    return asprintf(&path, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name) < 0 ? NULL
                                                                                             : path;
}

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n > k && !strcasecmp(path + n - k, end);
}

/* --- DICOM --- */

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

/* Reports the instances of a folder: the first of each series is a slide. */
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

/* --- folders --- */

/* 1: first visit, 0: seen before, -1. */
static int visit(struct search *s, const struct stat *st, struct err *e)
{
    for (size_t k = 0; k < s->n_seen; k++)
        if (s->seen[k].device == st->st_dev && s->seen[k].inode == st->st_ino)
            return 0;
    struct folder_id *more = realloc(s->seen, (s->n_seen + 1) * sizeof *more);
    if (!more)
        return no_memory(e);
    s->seen = more;
    s->seen[s->n_seen++] = (struct folder_id){st->st_dev, st->st_ino};
    return 1;
}

/* Is it the data folder of a MIRAX slide, NAME beside NAME.mrxs? */
static bool is_mirax_data(const char *path)
{
    struct stat st;
    char *slide, *index = join(path, "Slidedat.ini");
    bool is = index && !stat(index, &st);
    free(index);
    if (!is || asprintf(&slide, "%s.mrxs", path) < 0)
        return false;
    is = !stat(slide, &st);
    free(slide);
    return is;
}

static int search(struct search *s, const char *folder, const struct stat *st, int depth,
                  struct err *e);

static int take_folder(struct search *s, const char *path, const struct stat *st, int depth,
                       struct err *e)
{
    if (is_mirax_data(path))
        return s->ops->skipped(s->ctx, path, "holds the data of a MIRAX slide", e);
    if (depth >= MOST_DEPTH)
        return s->ops->problem(s->ctx, path, "too many folders inside each other", e);
    return search(s, path, st, depth + 1, e);
}

static int take_missing(struct search *s, const char *path, struct err *e)
{
    struct stat st;
    const bool link = errno == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode);
    const char *why =
        link ? "dangling link: the file it points to does not exist" : strerror(errno);
    return slide_has_name(path) ? s->ops->problem(s->ctx, path, why, e)
                                : s->ops->skipped(s->ctx, path, why, e);
}

/* Keeps a DICOM file until the folder is read. */
static int keep_instance(struct instance **list, size_t *n, const char *path, const struct stat *st,
                         struct err *e)
{
    struct instance *more = realloc(*list, (*n + 1) * sizeof *more);
    if (!more)
        return no_memory(e);
    *list = more;
    more[*n] = (struct instance){.path = strdup(path), .bytes = st->st_size};
    if (!more[*n].path)
        return no_memory(e);
    if (!dicom_series(path, more[*n].series))
        more[*n].series[0] = 0;
    ++*n;
    return 0;
}

static int search_names(struct search *s, const char *folder, struct dirent **names, int n_names,
                        int depth, struct err *e)
{
    struct instance *list = NULL;
    size_t n = 0;
    int r = 0;
    for (int k = 0; k < n_names && r == 0; k++) {
        const char *name = names[k]->d_name;
        if (!strcmp(name, ".") || !strcmp(name, ".."))
            continue;
        struct stat st;
        char *path = join(folder, name);
        if (!path)
            r = no_memory(e);
        else if (name[0] == '.')
            r = s->ops->skipped(s->ctx, path, "hidden", e);
        else if (stat(path, &st))
            r = take_missing(s, path, e);
        else if (S_ISDIR(st.st_mode))
            r = take_folder(s, path, &st, depth, e);
        else if (!S_ISREG(st.st_mode) || !slide_has_name(path))
            r = s->ops->skipped(s->ctx, path, "its name does not end like a slide's", e);
        else
            r = ends_with(path, ".dcm") ? keep_instance(&list, &n, path, &st, e)
                                        : s->ops->slide(s->ctx, path, e);
        free(path);
    }
    if (r == 0)
        r = report_series(s, list, n, e);
    for (size_t k = 0; k < n; k++)
        free(list[k].path);
    free(list);
    return r;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort depends on the locale */
}

static int search(struct search *s, const char *folder, const struct stat *st, int depth,
                  struct err *e)
{
    struct dirent **names = NULL;
    const int first = visit(s, st, e);
    if (first < 0)
        return -1;
    if (first == 0)
        return s->ops->skipped(s->ctx, folder,
                               "leads to a folder above it or one that is already searched", e);
    const int n = scandir(folder, &names, NULL, by_name);
    if (n < 0)
        return errno == ENOMEM ? no_memory(e) : s->ops->problem(s->ctx, folder, strerror(errno), e);
    const int r = search_names(s, folder, names, n, depth, e);
    for (int k = 0; k < n; k++)
        free(names[k]);
    free(names);
    return r;
}

/* Marks the folders above the first one as seen, so that no link leads the search out through them.
 */
static int visit_above(struct search *s, const char *folder, struct err *e)
{
    char *real = realpath(folder, NULL);
    int r = 0;
    for (char *slash; real && real[1] && r >= 0 && (slash = strrchr(real, '/'));) {
        struct stat st;
        *slash = 0;
        if (!stat(slash == real ? "/" : real, &st))
            r = visit(s, &st, e);
    }
    free(real);
    return r < 0 ? -1 : 0;
}

int search_folder(const char *folder, const struct search_ops *ops, void *ctx, struct err *e)
{
    struct search s = {.ops = ops, .ctx = ctx};
    struct stat st;
    if (stat(folder, &st))
        return ops->problem(ctx, folder, strerror(errno), e);
    int r = visit_above(&s, folder, e);
    if (r == 0)
        r = search(&s, folder, &st, 0, e);
    free(s.seen);
    return r;
}
