/* dicom_slide.c - see dicom_slide.h. */
#include "convert/readers/dicom/dicom_slide.h"

#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "convert/readers/dicom/dicom_file.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/tile_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Which files of a folder belong to which DICOM series.
 *
 * Any file of a series opens the slide, whose other files lie in the same folder. A folder can hold
 * hundreds of slides, so its files are looked at once per run, not once per slide. The index of the
 * last few folders is kept, and made again when a folder has changed.
 *
 * Any thread.
 */

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
    bool is_other;
    const bool found = dicom_series(path, new->series, &is_other);
    const int code = errno;
    struct stat st;
    const bool is_there = !lstat(path, &st);
    free(path);
    errno = code;
    if (!found && code == ENOENT && !is_there)
        return err_blame(e, ERR_TROUBLE, "%s/%s vanished while its folder was read; try again",
                         folder, name);
    if (!found && code) /* it may be a file of the slide */
        return err_sys(e, "%s in its folder cannot be read%s", name,
                       code == EACCES ? "; check its permissions, or put it elsewhere" : "");
    if (!found)
        return 0;
    new->name = memory_copy(name);
    f->n++;
    return 0;
}

static int read_folder(struct folder *f, const char *folder, struct err *e)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, NULL);
    if (n < 0)
        return err_sys(e, "its folder cannot be listed");
    f->list = memory_need((size_t)n, sizeof *f->list);
    int r = 0;
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

static void dicom_index_free(char **names, size_t n)
{
    for (size_t k = 0; names && k < n; k++)
        free(names[k]);
    free(names);
}

static void copy_names(const struct folder *f, const char *series, char ***names, size_t *n)
{
    const size_t first = first_of(f, series);
    size_t end = first;
    while (end < f->n && !strcmp(f->list[end].series, series))
        end++;
    *n = end - first;
    *names = memory_need(*n, sizeof **names);
    for (size_t k = 0; k < *n; k++)
        (*names)[k] = memory_copy(f->list[first + k].name);
}

/* The names of a folder's files that belong to a series, in the order of their bytes. 0, or -1: the
 * folder or a file in it cannot be read now: errno. dicom_index_free the list. */
static int dicom_index_find(const char *folder, const char *series, char ***names, size_t *n,
                            struct err *e)
{
    pthread_mutex_lock(&lock);
    const struct folder *f = index_of(folder, e);
    const int r = f ? 0 : -1;
    if (f)
        copy_names(f, series, names, n);
    const int code = r ? errno : 0; /* files that were passed over leave theirs behind */
    pthread_mutex_unlock(&lock);
    errno = code;
    return r;
}

enum { MOST_Z_NM = 1 }; /* focal planes nearer than this are one */

static void free_level(const struct dicom_slide *s, struct dicom_level *l)
{
    for (int k = 0; k < l->n; k++)
        if (l->parts[k].file != s->given)
            slide_file_close(l->parts[k].file);
    free(l->parts);
}

void dicom_slide_free(struct dicom_slide *s)
{
    for (int64_t k = 0; k < s->n; k++)
        free_level(s, &s->levels[k]);
    free_level(s, &s->thumbnail);
    *s = (struct dicom_slide){0};
}

const struct dicom_instance *dicom_slide_instance(const struct dicom_level *l)
{
    return &l->parts[0].instance;
}

/* Can a side be the one of level 0 at 1 : `factor`, but for padding up to a whole tile? */
static bool fits(int64_t side, int64_t tile, int64_t base, double factor)
{
    const double px = (double)base / factor;
    return px <= (double)side + 2 && px > (double)(side - tile);
}

/* Pictures can be padded, so their sizes tell less than the spacing of pixels. A spacing that they
 * contradict is level 0's, repeated. */
double dicom_slide_downsample(const struct dicom_slide *s, int64_t level)
{
    const struct dicom_instance *a = dicom_slide_instance(&s->levels[0]);
    const struct dicom_instance *b = dicom_slide_instance(&s->levels[level]);
    const double sizes =
        ((double)a->width / (double)b->width + (double)a->height / (double)b->height) / 2;
    const double stated = (b->spacing[0] / a->spacing[0] + b->spacing[1] / a->spacing[1]) / 2;
    const double whole = round(stated),
                 factor = fabs(stated - whole) < 0.005 * whole ? whole : stated;
    return factor > 1 && fits(b->width, b->cols, a->width, factor) &&
                   fits(b->height, b->rows, a->height, factor)
               ? factor
               : sizes;
}

bool dicom_slide_lacks_base(const struct dicom_slide *s)
{
    char word[DICOM_WORD];
    dicom_instance_type(dicom_slide_instance(&s->levels[0]), 3, word);
    return !strcmp(word, "RESAMPLED");
}

/* --- adding a file --- */

/* Adds a file to a level, which takes it over, before the files whose frames follow. 1. */
static int add_part(struct dicom_level *l, const struct slide_file **file,
                    const struct dicom_instance *i)
{
    int at = l->n;
    struct dicom_part *parts = l->parts = memory_grow(l->parts, l->n, sizeof *parts);
    for (; at > 0 && parts[at - 1].instance.first_frame > i->first_frame; at--)
        parts[at] = parts[at - 1];
    parts[at] = (struct dicom_part){*file, *i};
    *file = NULL;
    l->n++;
    return 1;
}

/* Do two files hold the same bytes? 1, 0, or -1: they cannot be read now. */
static int is_copy(const struct slide_file *a, const struct slide_file *b)
{
    static const size_t block = 1 << 16;
    const uint64_t bytes = a->bytes;
    char *x = memory_need(2, block), *y = x + block;
    int r = bytes == b->bytes;
    for (uint64_t at = 0; r > 0 && at < bytes; at += block) {
        const size_t n = bytes - at < block ? (size_t)(bytes - at) : block;
        const bool read = read_at(a->fd, at, x, n) == n && read_at(b->fd, at, y, n) == n;
        r = read ? !memcmp(x, y, n) : -1;
    }
    const int code = errno;
    free(x);
    errno = code;
    return r;
}

/* Two files with one SOPInstanceUID. 1: they are copies. */
static int check_twin(const struct dicom_part *other, const struct slide_file *file, struct err *e)
{
    const int same = is_copy(other->file, file);
    if (same < 0)
        return err_sys(e, "cannot be compared with %s, which has the same SOPInstanceUID",
                       other->file->path);
    return same ? 1
                : err_set(e,
                          "it differs from %s, but both have the same SOPInstanceUID; remove the "
                          "wrong one from the folder",
                          path_base_name(other->file->path));
}

/* Can the tiles of both files belong to one level? */
static bool is_one_kind(const struct dicom_instance *a, const struct dicom_instance *b)
{
    return !strcmp(a->concatenation, b->concatenation) && !strcmp(a->syntax, b->syntax) &&
           !strcmp(a->photometric, b->photometric) && !strcmp(a->organization, b->organization) &&
           a->cols == b->cols && a->rows == b->rows && a->samples == b->samples &&
           a->bits_allocated == b->bits_allocated && a->bits_stored == b->bits_stored;
}

static bool differ(const char *a, const char *b)
{
    return *a && *b && strcmp(a, b) != 0;
}

static int reject_several(const char *what, struct err *e)
{
    return err_set(e,
                   "its series has several %s; put the files of the one that is to be converted "
                   "into a folder of their own",
                   what);
}

/* Can a file and those before it belong to one pyramid? */
static int check_others(const struct dicom_slide *s, const struct dicom_instance *i, struct err *e)
{
    const struct dicom_instance *a = s->n > 0 ? dicom_slide_instance(&s->levels[0]) : i;
    if (1000 * fabs(a->z - i->z) > MOST_Z_NM)
        return reject_several("focal planes", e);
    return differ(a->pyramid, i->pyramid) ? reject_several("pyramids", e) : 0;
}

/* Another file with a picture of a level's size: a copy, or a part of it. */
static int add_to_level(struct dicom_level *l, const struct slide_file **file,
                        const struct dicom_instance *i, struct err *e)
{
    for (int k = 0; k < l->n; k++)
        if (i->sop[0] && !strcmp(l->parts[k].instance.sop, i->sop))
            return check_twin(&l->parts[k], *file, e);
    if (i->concatenation[0] && l->n < TILE_FILES && is_one_kind(dicom_slide_instance(l), i))
        return add_part(l, file, i);
    if (differ(dicom_slide_instance(l)->optical_path, i->optical_path))
        return reject_several("optical paths", e);
    err_set(e, "its series has several files for the level of %" PRId64 " x %" PRId64 " px",
            i->width, i->height);
    return 0;
}

static int add_level(struct dicom_slide *s, const struct slide_file **file,
                     const struct dicom_instance *i, struct err *e)
{
    int64_t at = 0;
    if (i->width < 1 || i->height < 1 || i->width > INT32_MAX || i->height > INT32_MAX)
        return err_set(e, "damaged: it states a size of %" PRId64 " x %" PRId64 " px", i->width,
                       i->height);
    if (check_others(s, i, e))
        return -1;
    for (int64_t k = 0; k < s->n; k++) {
        const struct dicom_instance *other = dicom_slide_instance(&s->levels[k]);
        if (other->width == i->width && other->height == i->height)
            return add_to_level(&s->levels[k], file, i, e);
        at += other->width > i->width || (other->width == i->width && other->height > i->height);
    }
    if (s->n == SLIDE_LEVELS) {
        err_set(e, "its series has more than %d levels", SLIDE_LEVELS);
        return 0;
    }
    memmove(&s->levels[at + 1], &s->levels[at], (size_t)(s->n - at) * sizeof s->levels[0]);
    s->n++;
    s->levels[at] = (struct dicom_level){0};
    return add_part(&s->levels[at], file, i);
}

static int add(struct dicom_slide *s, const struct slide_file **file,
               const struct dicom_instance *i, struct err *e)
{
    if (dicom_instance_is_level(i))
        return add_level(s, file, i, e);
    if (dicom_instance_is_thumbnail(i) && !dicom_instance_obstacle(i) && s->thumbnail.n == 0)
        return add_part(&s->thumbnail, file, i);
    return 1;
}

/* --- the folder --- */

/* Adds a file, if it is still of the series. */
static int add_sibling(struct dicom_slide *s, const char *folder, const char *name,
                       const char *series, struct err *e)
{
    struct dicom_instance i;
    char *path = folder_join(folder, name);
    const struct slide_file *file = slide_file_open(path, NULL);
    int r = file ? dicom_instance_read(&i, file, e) : err_sys(e, "cannot open");
    if (r > 0)
        r = strcmp(i.series, series) ? 1 : add(s, &file, &i, e);
    const int code = errno;
    slide_file_close(file);
    if (r < 0)
        err_add(e, "%s of its series", path);
    free(path);
    errno = code;
    return r;
}

static int add_siblings(struct dicom_slide *s, const char *path, const char *series, struct err *e)
{
    char **names = NULL;
    size_t n = 0;
    const char *base = path_base_name(path);
    char *folder = base > path ? memory_copy_part(path, (size_t)(base - path)) : memory_copy(".");
    int r = dicom_index_find(folder, series, &names, &n, e) < 0 ? -1 : 1;
    for (size_t k = 0; k < n && r > 0; k++)
        if (strcmp(names[k], base) != 0)
            r = add_sibling(s, folder, names[k], series, e);
    const int code = errno;
    dicom_index_free(names, n);
    free(folder);
    errno = code;
    return r;
}

int dicom_slide_find(struct dicom_slide *s, const struct slide_file *file, struct err *e)
{
    struct dicom_instance i;
    *s = (struct dicom_slide){.given = file};
    int r = dicom_instance_read(&i, file, e);
    if (r > 0 && dicom_instance_is_deflated(&i))
        return err_set(e,
                       "its data set is deflated as a whole (transfer syntax %s), which is not "
                       "read; export it with another transfer syntax",
                       i.syntax);
    if (r > 0 && (!dicom_instance_is_slide(&i) || !i.series[0])) {
        err_set(e, "it is not a whole-slide image");
        return 0;
    }
    if (r > 0)
        r = add(s, &(const struct slide_file *){file}, &i, e);
    if (r > 0)
        r = add_siblings(s, file->path, i.series, e);
    if (r > 0 && s->n == 0) {
        err_set(e,
                "its folder has no level of the slide, only other pictures: no ImageType has "
                "VOLUME as its third value (%s of this file)",
                i.type[0] ? i.type : "none");
        r = 0;
    }
    if (r <= 0)
        dicom_slide_free(s);
    return r;
}
