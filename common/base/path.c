/* path.c - see path.h. */
#include "common/base/path.h"

#include "common/base/memory.h"
#include "common/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

const char *path_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void path_drop_folder(char *message, const char *path)
{
    const size_t folder = (size_t)(path_base_name(path) - path), n = strlen(path);
    for (char *at = message; folder > 0 && (at = strstr(at, path)) != NULL; at += n - folder)
        memmove(at, at + folder, strlen(at + folder) + 1);
}

/* A word in single quotes, but for the quotes in it. */
static void put_plain(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", f);
        else
            fputc(*s, f);
    fputc('\'', f);
}

/* The form of bash, zsh and ksh for characters that must not be printed. */
static void put_escaped(FILE *f, const char *s)
{
    fputs("$'", f);
    for (; *s; s++)
        if (*s == '\'' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (*s < ' ' || *s > '~')
            fprintf(f, "\\%03o", (unsigned char)*s);
        else
            fputc(*s, f);
    fputc('\'', f);
}

/* Is all of it UTF-8 that may be printed? */
static bool is_printable(const char *s)
{
    for (size_t n; *s; s += n)
        if (utf8_unsafe(s) || !(n = utf8_length(s)))
            return false;
    return true;
}

static void put_quoted(FILE *f, const char *path)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-./+:@%,=";
    if (*path == '-') /* no option */
        fputs("./", f);
    if (*path && !path[strspn(path, safe)])
        fputs(path, f);
    else if (is_printable(path))
        put_plain(f, path);
    else
        put_escaped(f, path);
}

char *path_quoted(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = memory_stream(&text, &n);
    put_quoted(f, path);
    memory_stream_end(f);
    return text;
}

int path_remedy(struct err *e, const char *remedy, const char *path)
{
    if (!e)
        return -1;
    char *word = path_quoted(path);
    const size_t used = strlen(e->msg), room = sizeof e->msg - used;
    const int n = snprintf(e->msg + used, room, "; %s %s", remedy, word);
    if (n < 0 || (size_t)n >= room)
        e->msg[used] = 0;
    free(word);
    return -1;
}

const char *path_stem(const char *path, size_t *n)
{
    const char *base = path_base_name(path);
    *n = strlen(base);
    if (*n > 3 && !strcmp(base + *n - 3, ".h5"))
        *n -= 3;
    return base;
}

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

char *folder_join(const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    const char *slash = n && folder[n - 1] == '/' ? "" : "/";
    return memory_print("%s%s%s", folder, slash, name);
}

bool folder_is(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* FOLDER/NAME.ENDING if it exists, else NULL. */
static char *try_name(const char *folder, const struct folder_name *name, const char *ending)
{
    struct stat st;
    if (name->n == 0 || memchr(name->text, '/', name->n))
        return NULL;
    char *file = memory_print("%s/%.*s.%s", folder, (int)name->n, name->text, ending);
    if (!stat(file, &st) || errno != ENOENT)
        return file;
    free(file);
    return NULL;
}

char *folder_file_named(const char *folder, const struct folder_name *names, int n,
                        const char *const *endings)
{
    char *file = NULL;
    for (int k = 0; k < n; k++)
        for (const char *const *ending = endings; *ending && !file; ending++)
            file = try_name(folder, &names[k], *ending);
    return file;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Has the folder not been searched before? */
static bool is_new(struct find *f, const struct stat *st)
{
    struct place *p = memory_need(1, sizeof *p);
    *p = (struct place){st->st_dev, st->st_ino};
    struct place **at = tsearch(p, &f->seen, by_place);
    if (!at)
        memory_end();
    if (*at == p)
        return true;
    free(p);
    return false;
}

static void skip(struct find *f, const char *path, const char *why)
{
    if (f->ops->skipped)
        f->ops->skipped(f->ctx, path, why);
}

static void search(struct find *f, const char *folder, const struct stat *st, int depth);

static void take_folder(struct find *f, const char *path, const struct stat *st, int depth)
{
    const char *why = f->ops->excludes ? f->ops->excludes(path) : NULL;
    if (why)
        skip(f, path, why);
    else if (depth >= MOST_DEPTH)
        f->ops->problem(f->ctx, path, "too many folders inside each other", ERR_INPUT);
    else
        search(f, path, st, depth + 1);
}

/* A name without a file behind it, errno says why. */
static void take_missing(struct find *f, const char *path, const char *name)
{
    struct stat st;
    const int code = errno;
    const bool link = code == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode);
    const char *why = link ? "dangling link: its target does not exist" : strerror(code);
    if (f->ops->wants(name) || !strchr(name, '.'))
        f->ops->problem(f->ctx, path, why, err_kind_of(code));
    else
        skip(f, path, why);
}

static void take(struct find *f, const char *path, const char *name, int depth)
{
    struct stat st;
    if (name[0] == '.')
        skip(f, path, "hidden");
    else if (stat(path, &st))
        take_missing(f, path, name);
    else if (S_ISDIR(st.st_mode))
        take_folder(f, path, &st, depth);
    else if (S_ISREG(st.st_mode) &&
             (f->ops->wants(name) || (f->ops->is_wanted && f->ops->is_wanted(path))))
        f->ops->file(f->ctx, path);
    else
        skip(f, path, "its name has another ending");
}

static int is_name(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort depends on the locale */
}

static void search(struct find *f, const char *folder, const struct stat *st, int depth)
{
    struct dirent **names;
    if (!is_new(f, st)) {
        skip(f, folder, "leads to a folder above it or one that is already searched");
        return;
    }
    const int n = scandir(folder, &names, is_name, by_name);
    if (n < 0 && errno == ENOMEM)
        memory_end();
    if (n < 0) {
        f->ops->problem(f->ctx, folder, strerror(errno), err_kind_of(errno));
        return;
    }
    for (int k = 0; k < n; k++) {
        char *path = folder_join(folder, names[k]->d_name);
        take(f, path, names[k]->d_name, depth);
        free(path);
        free(names[k]);
    }
    free(names);
}

/* Notes the folders above the first one as searched, so that no link leads out through them.
 * Shortens `real`, its full path. */
static void note_above(struct find *f, char *real)
{
    for (char *slash; real[1] && (slash = strrchr(real, '/'));) {
        struct stat st;
        *slash = 0;
        if (!stat(slash == real ? "/" : real, &st))
            is_new(f, &st);
    }
}

void folder_find(const char *folder, const struct folder_ops *ops, void *ctx)
{
    struct find f = {.ops = ops, .ctx = ctx};
    struct stat st;
    char *real = realpath(folder, NULL);
    if (!real || stat(folder, &st)) {
        const int code = errno;
        free(real);
        ops->problem(ctx, folder, strerror(code), err_kind_of(code));
        return;
    }
    note_above(&f, real);
    free(real);
    search(&f, folder, &st, 0);
    tdestroy(f.seen, free);
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
    return err_write(e, "%s: cannot create the output folder", path);
}

int folder_make(const char *path, struct err *e)
{
    char *copy = memory_copy(path);
    int r = 0;
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
    char *folder =
        slash && slash > file ? memory_copy_part(file, (size_t)(slash - file)) : memory_copy(".");
    const int r = folder_make(folder, e);
    free(folder);
    return r;
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcasecmp(name + n - m, ending) && name[n - m - 1] != '/';
}

static bool must_be_folder(const char *name)
{
    const size_t n = strlen(name);
    return (n > 0 && name[n - 1] == '/') || folder_is(name);
}

bool output_is_folder(const char *name, const char *ending)
{
    return must_be_folder(name) || !ends_in(name, ending);
}

/* Endings that the name of a folder has by mistake only: those of slides, pictures, tables, pages
 * and archives. */
static const char *const endings[] = {
    ".h5",   ".hdf5",    ".hdf",  ".he5",   ".zarr", ".nc",   ".npy",   ".npz",
    ".tif",  ".tiff",    ".svs",  ".ndpi",  ".scn",  ".mrxs", ".vms",   ".vmu",
    ".bif",  ".svslide", ".dcm",  ".png",   ".jpg",  ".jpeg", ".jp2",   ".bmp",
    ".gif",  ".svg",     ".pdf",  ".html",  ".htm",  ".csv",  ".tsv",   ".txt",
    ".json", ".xml",     ".xlsx", ".zip",   ".tar",  ".gz",   ".tgz",   ".geojson",
    ".part", ".log",     ".yaml", ".yml",   ".toml", ".webp", ".jsonl", ".parquet",
    ".bak",  ".dat",     ".ptif", ".ptiff", ".btf",  ".tf2",  ".tf8",   ".qptiff"};

int output_check(const char *name, const char *ending, struct err *e)
{
    if (must_be_folder(name) || ends_in(name, ending))
        return 0;
    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
        if (ends_in(name, endings[k]))
            return err_set(
                e,
                "-o %s: %s is the ending of another kind of file; end the name with %s for "
                "a file, or with / for a folder",
                name, endings[k], ending);
    return 0;
}

int output_check_key(const char *name, struct err *e)
{
    if (!output_is_folder(name, ".csv"))
        return 0;
    return err_set(e, "--anonymous %s: the name of the key must end in .csv", name);
}

bool output_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int output_is_no_input(const char *option, const char *name, char *const *inputs, int n,
                       struct err *e)
{
    for (int k = 0; name && k < n; k++)
        if (inputs[k] && output_is_same(name, inputs[k]))
            return err_set(e, "%s %s: is one of the inputs; name another file", option, name);
    return 0;
}
