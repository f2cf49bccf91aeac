/* dicom_slide.c - see dicom_slide.h. */
#include "convert/readers/dicom_slide.h"

#include "common/base/cli.h"
#include "common/base/folder.h"
#include "convert/readers/dicom.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Two files with pictures of one size: copies of one file, or a slide of another kind. */
static int check_twin(const struct dicom_instance *a, const struct dicom_instance *b, struct err *e)
{
    if (a->sop[0] && !strcmp(a->sop, b->sop) && !a->is_part && !b->is_part)
        return 1;
    err_set(e, "its series has several files for the level of %" PRId64 " x %" PRId64 " px",
            a->width, a->height);
    return 0;
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
            return check_twin(other, i, e);
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

/* The names in a file's folder, in the order of their bytes. -1: it cannot be listed. */
static int list_folder(const char *folder, struct dirent ***names, struct err *e)
{
    const int n = scandir(folder, names, NULL, alphasort);
    return n < 0 ? err_sys(e, "its folder cannot be listed") : n;
}

/* Adds a file if it is of the series. */
static int add_sibling(struct dicom_slide *s, const char *folder, const char *name,
                       const char *series, struct err *e)
{
    char uid[DICOM_UID];
    struct dicom_instance i;
    char *path = folder_join(folder, name);
    if (!path)
        return err_set(e, "out of memory");
    int r = 1;
    if (dicom_series(path, uid) && !strcmp(uid, series)) {
        r = dicom_instance_read(&i, path, e);
        r = r > 0 ? add(s, path, &i, e) : r;
        if (r < 0)
            err_add(e, "%s of its series", name);
    }
    free(path);
    return r;
}

static int add_siblings(struct dicom_slide *s, const char *path, const char *series, struct err *e)
{
    struct dirent **names = NULL;
    const char *base = cli_base_name(path);
    char *folder = base > path ? strndup(path, (size_t)(base - path)) : strdup(".");
    const int n = folder ? list_folder(folder, &names, e) : err_set(e, "out of memory");
    int r = n < 0 ? -1 : 1;
    for (int k = 0; k < n; k++) {
        if (r > 0 && names[k]->d_name[0] != '.' && strcmp(names[k]->d_name, base) != 0)
            r = add_sibling(s, folder, names[k]->d_name, series, e);
        free(names[k]);
    }
    free(names);
    free(folder);
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
