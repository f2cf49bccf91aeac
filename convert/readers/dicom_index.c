/* dicom_index.c - see dicom_index.h. */
#include "convert/readers/dicom_index.h"

#include "common/base/folder.h"
#include "convert/readers/dicom.h"
#include "convert/readers/slide.h"
#include "convert/readers/slide_damage.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEPT = 8 }; /* folders; slides are converted folder by folder, a few at a time */

struct entry {
    char *name;
    char series[DICOM_UID];
};

struct folder {
    struct stat st;     /* which folder it is, and when it was changed */
    struct entry *list; /* [n], by series and name */
    size_t n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct folder kept[KEPT];
static size_t oldest;

static void free_folder(struct folder *f)
{
    for (size_t k = 0; k < f->n; k++)
        free(f->list[k].name);
    free(f->list);
    *f = (struct folder){0};
}

static int by_series_and_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const int order = strcmp(x->series, y->series);
    return order ? order : strcmp(x->name, y->name);
}

/* Adds a file to f->list, which has room for it, if it belongs to a series. */
static int add_file(struct folder *f, const char *folder, const char *name, struct err *e)
{
    struct entry *new = &f->list[f->n];
    char *path = folder_join(folder, name);
    if (!path)
        return err_set(e, "out of memory");
    const bool found = dicom_series(path, new->series);
    const int code = errno;
    free(path);
    errno = code;
    if (!found) /* a file that nobody may read cannot be told from one that is not DICOM */
        return slide_may_pass(code) && code != EACCES && code != EPERM
                   ? err_sys(e, "%s in its folder cannot be read", name)
                   : 0;
    if (!(new->name = strdup(name)))
        return err_set(e, "out of memory");
    f->n++;
    return 0;
}

static int read_folder(struct folder *f, const char *folder, struct err *e)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, NULL);
    if (n < 0)
        return err_sys(e, "its folder cannot be listed");
    f->list = malloc(((size_t)n + 1) * sizeof *f->list);
    int r = f->list ? 0 : err_set(e, "out of memory");
    for (int k = 0; k < n; k++) {
        if (r == 0 && names[k]->d_name[0] != '.')
            r = add_file(f, folder, names[k]->d_name, e);
        const int code = errno;
        free(names[k]);
        errno = code;
    }
    free(names);
    if (r == 0 && f->n > 1)
        qsort(f->list, f->n, sizeof *f->list, by_series_and_name);
    return r;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The index of a folder; NULL on failure. With the lock held. */
static const struct folder *index_of(const char *folder, struct err *e)
{
    struct folder new = {0};
    if (stat(folder, &new.st)) {
        err_sys(e, "its folder cannot be listed");
        return NULL;
    }
    for (size_t k = 0; k < KEPT; k++)
        if (is_same(&kept[k].st, &new.st))
            return &kept[k];
    if (read_folder(&new, folder, e)) {
        const int code = errno;
        free_folder(&new);
        errno = code;
        return NULL;
    }
    free_folder(&kept[oldest]);
    kept[oldest] = new;
    const struct folder *f = &kept[oldest];
    oldest = (oldest + 1) % KEPT;
    return f;
}

/* The first entry of a series. */
static size_t first_of(const struct folder *f, const char *series)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(f->list[middle].series, series) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int copy_names(const struct folder *f, const char *series, char ***names, size_t *n,
                      struct err *e)
{
    const size_t first = first_of(f, series);
    size_t end = first;
    while (end < f->n && !strcmp(f->list[end].series, series))
        end++;
    *names = calloc(end - first + 1, sizeof **names);
    for (*n = 0; *names && *n < end - first; ++*n)
        if (!((*names)[*n] = strdup(f->list[first + *n].name)))
            break;
    if (*names && *n == end - first)
        return 0;
    dicom_index_free(*names, *n);
    *names = NULL; /* the caller frees them, too */
    *n = 0;
    return err_set(e, "out of memory");
}

int dicom_index_find(const char *folder, const char *series, char ***names, size_t *n,
                     struct err *e)
{
    pthread_mutex_lock(&lock);
    const struct folder *f = index_of(folder, e);
    const int r = f ? copy_names(f, series, names, n, e) : -1;
    const int code = r ? errno : 0; /* files that were passed over leave theirs behind */
    pthread_mutex_unlock(&lock);
    errno = code;
    return r;
}

void dicom_index_free(char **names, size_t n)
{
    for (size_t k = 0; names && k < n; k++)
        free(names[k]);
    free(names);
}
