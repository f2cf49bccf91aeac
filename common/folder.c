/* folder.c - see folder.h. */
#include "common/folder.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- searching --- */

struct place {
    dev_t device;
    ino_t inode;
};

struct find {
    const struct folder_search *search;
    void *seen; /* tsearch() tree of struct place: the folders that have been searched */
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* 1 when the folder is new, 0 when it has been searched before. */
static int is_new(struct find *f, const struct stat *st, struct err *e)
{
    struct place *p = malloc(sizeof *p);
    if (!p)
        return err_set(e, "out of memory");
    *p = (struct place){st->st_dev, st->st_ino};
    struct place **at = tsearch(p, &f->seen, by_place);
    if (at && *at == p)
        return 1;
    free(p);
    return at ? 0 : err_set(e, "out of memory");
}

static int search_folder(struct find *f, const char *folder, const struct stat *st, struct err *e);

static int take(struct find *f, const char *path, const char *name, struct err *e)
{
    const struct folder_search *s = f->search;
    struct stat st;
    if (stat(path, &st))
        return s->add(s->ctx, path, strerror(errno), e);
    if (S_ISDIR(st.st_mode))
        return search_folder(f, path, &st, e);
    return S_ISREG(st.st_mode) && s->wants(name) ? s->add(s->ctx, path, NULL, e) : 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int search_folder(struct find *f, const char *folder, const struct stat *st, struct err *e)
{
    const int fresh = is_new(f, st, e);
    struct dirent **entries;
    if (fresh != 1)
        return fresh;
    const int n = scandir(folder, &entries, is_shown, by_name);
    if (n < 0)
        return f->search->add(f->search->ctx, folder, strerror(errno), e);
    int r = 0;
    for (int k = 0; k < n; k++) {
        const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
        char *path;
        if (r == 0 && asprintf(&path, "%s%s%s", folder, slash, entries[k]->d_name) < 0) {
            r = err_set(e, "out of memory");
        } else if (r == 0) {
            r = take(f, path, entries[k]->d_name, e);
            free(path);
        }
        free(entries[k]);
    }
    free(entries);
    return r;
}

/* Notes the folders above the first one as searched, so that no link leads out through them. */
static int note_above(struct find *f, const char *folder, struct err *e)
{
    char *real = realpath(folder, NULL);
    int r = 0;
    for (char *slash; real && real[1] && r >= 0 && (slash = strrchr(real, '/'));) {
        struct stat st;
        *slash = 0;
        if (!stat(slash == real ? "/" : real, &st))
            r = is_new(f, &st, e);
    }
    free(real);
    return r < 0 ? -1 : 0;
}

int folder_find(const char *folder, const struct folder_search *search, struct err *e)
{
    struct find f = {.search = search};
    struct stat st;
    int r = note_above(&f, folder, e);
    if (r == 0 && stat(folder, &st))
        r = search->add(search->ctx, folder, strerror(errno), e);
    else if (r == 0)
        r = search_folder(&f, folder, &st, e);
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
    const int code = errno; /* EROFS or EACCES, too, where the folder exists */
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return 0;
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
