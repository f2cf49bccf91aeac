/* folder.c - see folder.h. */
#include "common/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- searching --- */

enum { MOST_DEPTH = 64 };

struct place {
    dev_t device;
    ino_t inode;
};

struct find {
    const struct folder_ops *ops;
    void *ctx;
    void *seen; /* tsearch() tree of struct place: every folder that was or is searched */
};

static int no_memory(struct err *e)
{
    return err_set(e, "out of memory");
}

char *folder_join(const char *folder, const char *name)
{
    char *path;
    const size_t n = strlen(folder);
    const char *slash = n && folder[n - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

bool folder_is(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Is there a FOLDER/NAME.ENDING? *file is NULL if not. */
static int try_name(const char *folder, const struct folder_name *name, const char *ending,
                    char **file, struct err *e)
{
    struct stat st;
    *file = NULL;
    if (name->n == 0 || memchr(name->text, '/', name->n))
        return 0;
    if (asprintf(file, "%s/%.*s.%s", folder, (int)name->n, name->text, ending) < 0) {
        *file = NULL;
        return no_memory(e);
    }
    if (stat(*file, &st) && errno == ENOENT) {
        free(*file);
        *file = NULL;
    }
    return 0;
}

int folder_file_named(const char *folder, const struct folder_name *names, int n,
                      const char *const *endings, char **file, struct err *e)
{
    *file = NULL;
    for (int k = 0; k < n; k++)
        for (const char *const *ending = endings; *ending; ending++)
            if (try_name(folder, &names[k], *ending, file, e) || *file)
                return *file ? 0 : -1;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* 1 when the folder is new, 0 when it has been searched before, -1. */
static int is_new(struct find *f, const struct stat *st, struct err *e)
{
    struct place *p = malloc(sizeof *p);
    if (!p)
        return no_memory(e);
    *p = (struct place){st->st_dev, st->st_ino};
    struct place **at = tsearch(p, &f->seen, by_place);
    if (at && *at == p)
        return 1;
    free(p);
    return at ? 0 : no_memory(e);
}

static int skip(struct find *f, const char *path, const char *why, struct err *e)
{
    return f->ops->skipped ? f->ops->skipped(f->ctx, path, why, e) : 0;
}

static int search(struct find *f, const char *folder, const struct stat *st, int depth,
                  struct err *e);

static int take_folder(struct find *f, const char *path, const struct stat *st, int depth,
                       struct err *e)
{
    const char *why = f->ops->excludes ? f->ops->excludes(path) : NULL;
    if (why)
        return skip(f, path, why, e);
    if (depth >= MOST_DEPTH)
        return f->ops->problem(f->ctx, path, "too many folders inside each other", e);
    return search(f, path, st, depth + 1, e);
}

/* A name without a file behind it, errno says why. */
static int take_missing(struct find *f, const char *path, const char *name, struct err *e)
{
    struct stat st;
    const int code = errno;
    const bool link = code == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode);
    const char *why = link ? "dangling link: its target does not exist" : strerror(code);
    return f->ops->wants(name) || !strchr(name, '.') ? f->ops->problem(f->ctx, path, why, e)
                                                     : skip(f, path, why, e);
}

static int take(struct find *f, const char *path, const char *name, int depth, struct err *e)
{
    struct stat st;
    if (name[0] == '.')
        return skip(f, path, "hidden", e);
    if (stat(path, &st))
        return take_missing(f, path, name, e);
    if (S_ISDIR(st.st_mode))
        return take_folder(f, path, &st, depth, e);
    if (!S_ISREG(st.st_mode) ||
        !(f->ops->wants(name) || (f->ops->is_wanted && f->ops->is_wanted(path))))
        return skip(f, path, "its name has another ending", e);
    return f->ops->file(f->ctx, path, e);
}

static int is_name(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort depends on the locale */
}

static int search(struct find *f, const char *folder, const struct stat *st, int depth,
                  struct err *e)
{
    const int first = is_new(f, st, e);
    struct dirent **names;
    if (first < 0)
        return -1;
    if (first == 0)
        return skip(f, folder, "leads to a folder above it or one that is already searched", e);
    const int n = scandir(folder, &names, is_name, by_name);
    if (n < 0)
        return errno == ENOMEM ? no_memory(e) : f->ops->problem(f->ctx, folder, strerror(errno), e);
    int r = 0;
    for (int k = 0; k < n; k++) {
        char *path = r == 0 ? folder_join(folder, names[k]->d_name) : NULL;
        if (r == 0)
            r = path ? take(f, path, names[k]->d_name, depth, e) : no_memory(e);
        free(path);
        free(names[k]);
    }
    free(names);
    return r == 0 && f->ops->end ? f->ops->end(f->ctx, folder, e) : r;
}

/* Notes the folders above the first one as searched, so that no link leads out through them.
 * Shortens `real`, its full path. */
static int note_above(struct find *f, char *real, struct err *e)
{
    int r = 0;
    for (char *slash; real[1] && r >= 0 && (slash = strrchr(real, '/'));) {
        struct stat st;
        *slash = 0;
        if (!stat(slash == real ? "/" : real, &st))
            r = is_new(f, &st, e);
    }
    return r < 0 ? -1 : 0;
}

int folder_find(const char *folder, const struct folder_ops *ops, void *ctx, struct err *e)
{
    struct find f = {.ops = ops, .ctx = ctx};
    struct stat st;
    char *real = realpath(folder, NULL);
    if (!real || stat(folder, &st)) {
        free(real);
        return ops->problem(ctx, folder, strerror(errno), e);
    }
    int r = note_above(&f, real, e);
    free(real);
    if (r == 0)
        r = search(&f, folder, &st, 0, e);
    tdestroy(f.seen, free);
    return r;
}

/* --- creating --- */

/* Creates one folder; an existing one is fine. */
static int make_one(const char *path, struct err *e)
{
    struct stat st;
    if (!mkdir(path, 0777))
        return 0;
    int code = errno; /* EROFS or EACCES, too, where the folder exists */
    const bool known = !stat(path, &st);
    if (known && S_ISDIR(st.st_mode))
        return 0;
    if (!known && code == EEXIST && errno != ENOENT)
        code = errno;
    if (code == EEXIST)
        return err_set(e, "%s: is neither a folder nor a .h5 file; name another output", path);
    errno = code;
    return err_sys(e, "%s: cannot create the output folder", path);
}

int folder_make(const char *path, struct err *e)
{
    char *copy = strdup(path);
    int r = copy ? 0 : err_set(e, "out of memory");
    for (char *slash = copy; r == 0 && (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        r = make_one(copy, e);
        *slash = '/';
    }
    if (r == 0)
        r = make_one(path, e);
    free(copy);
    return r;
}

int folder_make_for(const char *file, struct err *e)
{
    const char *slash = strrchr(file, '/');
    char *folder = slash && slash > file ? strndup(file, (size_t)(slash - file)) : strdup(".");
    const int r = folder ? folder_make(folder, e) : err_set(e, "out of memory");
    free(folder);
    return r;
}
