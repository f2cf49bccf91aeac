/* dicom_slide.c - see dicom_slide.h. */
#include "convert/readers/dicom_slide.h"

#include "common/base/folder.h"
#include "common/base/path.h"
#include "convert/readers/dicom_index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void dicom_slide_free(struct dicom_slide *s)
{
    for (int64_t k = 0; k < s->n; k++)
        free(s->levels[k].path);
    free(s->thumbnail.path);
    *s = (struct dicom_slide){0};
}

double dicom_slide_downsample(const struct dicom_slide *s, int64_t level)
{
    const struct dicom_instance *a = &s->levels[0].instance, *b = &s->levels[level].instance;
    return ((double)a->width / (double)b->width + (double)a->height / (double)b->height) / 2;
}

bool dicom_slide_lacks_base(const struct dicom_slide *s)
{
    char word[DICOM_WORD];
    dicom_instance_type(&s->levels[0].instance, 3, word);
    return !strcmp(word, "RESAMPLED");
}

/* --- adding a file --- */

static int set_path(struct dicom_level *l, const char *path, const struct dicom_instance *i,
                    struct err *e)
{
    *l = (struct dicom_level){strdup(path), *i};
    return l->path ? 1 : err_set(e, "out of memory");
}

/* Do two open files hold the same bytes? 1, 0, or -1: they cannot be read now. */
static int compare_files(FILE *a, FILE *b)
{
    static const size_t block = 1 << 16;
    char *x = malloc(2 * block), *y = x ? x + block : NULL;
    int r = x ? 1 : -1;
    for (size_t n = block; r > 0 && n == block;) {
        n = fread(x, 1, block, a);
        r = n == fread(y, 1, block, b) && !memcmp(x, y, n);
    }
    free(x);
    return ferror(a) || ferror(b) ? -1 : r;
}

/* As compare_files. */
static int is_copy(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) || stat(b, &y))
        return -1;
    if (x.st_size != y.st_size || (x.st_dev == y.st_dev && x.st_ino == y.st_ino))
        return x.st_size == y.st_size;
    FILE *f = fopen(a, "re"), *g = f ? fopen(b, "re") : NULL;
    const int r = g ? compare_files(f, g) : -1, code = errno;
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    errno = code;
    return r;
}

/* Two files with pictures of one size: copies of one file, or a slide of another kind. */
static int check_twin(const struct dicom_level *l, const char *path, const struct dicom_instance *i,
                      struct err *e)
{
    const struct dicom_instance *other = &l->instance;
    if (!i->sop[0] || strcmp(other->sop, i->sop) || other->is_part || i->is_part) {
        err_set(e, "its series has several files for the level of %" PRId64 " x %" PRId64 " px",
                i->width, i->height);
        return 0;
    }
    const int same = is_copy(l->path, path);
    if (same < 0)
        return err_sys(e, "cannot be compared with %s, which has the same SOPInstanceUID", l->path);
    return same ? 1
                : err_set(e,
                          "it differs from %s, but both have the same SOPInstanceUID; remove the "
                          "wrong one from the folder",
                          path_base_name(l->path));
}

static int add_level(struct dicom_slide *s, const char *path, const struct dicom_instance *i,
                     struct err *e)
{
    int64_t at = 0;
    if (i->width < 1 || i->height < 1 || i->width > INT32_MAX || i->height > INT32_MAX)
        return err_set(e, "damaged: it states a size of %" PRId64 " x %" PRId64 " px", i->width,
                       i->height);
    for (int64_t k = 0; k < s->n; k++) {
        const struct dicom_instance *other = &s->levels[k].instance;
        if (other->width == i->width && other->height == i->height)
            return check_twin(&s->levels[k], path, i, e);
        at += other->width > i->width || (other->width == i->width && other->height > i->height);
    }
    if (s->n == SLIDE_LEVELS) {
        err_set(e, "its series has more than %d levels", SLIDE_LEVELS);
        return 0;
    }
    memmove(&s->levels[at + 1], &s->levels[at], (size_t)(s->n - at) * sizeof s->levels[0]);
    s->n++;
    return set_path(&s->levels[at], path, i, e);
}

static int add(struct dicom_slide *s, const char *path, const struct dicom_instance *i,
               struct err *e)
{
    if (dicom_instance_is_level(i))
        return add_level(s, path, i, e);
    if (dicom_instance_is_thumbnail(i) && !dicom_instance_obstacle(i) && !s->thumbnail.path)
        return set_path(&s->thumbnail, path, i, e);
    return 1;
}

/* --- the folder --- */

/* Adds a file, if it is still of the series. */
static int add_sibling(struct dicom_slide *s, const char *folder, const char *name,
                       const char *series, struct err *e)
{
    struct dicom_instance i;
    char *path = folder_join(folder, name);
    if (!path)
        return err_set(e, "out of memory");
    int r = dicom_instance_read(&i, path, e);
    if (r > 0)
        r = strcmp(i.series, series) ? 1 : add(s, path, &i, e);
    if (r < 0)
        err_add(e, "%s of its series", name);
    free(path);
    return r;
}

static int add_siblings(struct dicom_slide *s, const char *path, const char *series, struct err *e)
{
    char **names = NULL;
    size_t n = 0;
    const char *base = path_base_name(path);
    char *folder = base > path ? strndup(path, (size_t)(base - path)) : strdup(".");
    int r = folder ? dicom_index_find(folder, series, &names, &n, e) : err_set(e, "out of memory");
    r = r < 0 ? -1 : 1;
    for (size_t k = 0; k < n && r > 0; k++)
        if (strcmp(names[k], base) != 0)
            r = add_sibling(s, folder, names[k], series, e);
    const int code = errno;
    dicom_index_free(names, n);
    free(folder);
    errno = code;
    return r;
}

int dicom_slide_find(struct dicom_slide *s, const char *path, struct err *e)
{
    struct dicom_instance i;
    *s = (struct dicom_slide){0};
    int r = dicom_instance_read(&i, path, e);
    if (r > 0 && (!dicom_instance_is_slide(&i) || !i.series[0])) {
        err_set(e, "it is not a whole-slide image");
        return 0;
    }
    if (r > 0)
        r = add(s, path, &i, e);
    if (r > 0)
        r = add_siblings(s, path, i.series, e);
    if (r > 0 && s->n == 0) {
        err_set(e, "its folder has no level of the slide, only other pictures");
        r = 0;
    }
    if (r <= 0)
        dicom_slide_free(s);
    return r;
}
