/* slide.c - the table of formats; see slide.h. */
#include "convert/readers/slide.h"

#include "convert/readers/dicom.h"
#include "convert/readers/file_kind.h"
#include "convert/readers/ndpi_level.h"
#include "convert/readers/slide_metadata.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A format of slides. */
struct format {
    const char *title;   /* in messages */
    const char *endings; /* of the names of its files, separated by spaces */
    const struct slide_reader *reader;
    bool needs_openslide; /* a build without OpenSlide does not read it */
    /* Is the file of this format? For builds that lack what it needs; may be NULL. */
    bool (*is)(const struct slide_file *file);
    /* As slide_series(); NULL: a slide is one file, or names the others. */
    bool (*series)(const char *path, char *series);
    /* Is a file with any other ending of this format? NULL: never. */
    bool (*is_unnamed)(const char *path);
};

/* In the order in which the readers are asked. tests/check_project.py compares the endings with
 * those that scripts search for. */
static const struct format formats[] = {
    {"Aperio SVS", ".svs", &slide_svs, false, NULL, NULL, NULL},
    {"DICOM", ".dcm", &slide_dicom, false, NULL, dicom_series, dicom_is_unnamed},
    {"NDPI", ".ndpi", &slide_ndpi, true, ndpi_is, NULL, NULL},
    {"tiled TIFF", ".tif .tiff", &slide_tiff, false, NULL, NULL, NULL},
    {"OpenSlide's", ".vms .vmu .scn .mrxs .svslide .bif", &slide_openslide, true, NULL, NULL, NULL},
    {"TIFF in strips, PNG and JPEG", "", &slide_picture, false, NULL, NULL, NULL},
};
static const struct format *const formats_end = formats + sizeof formats / sizeof *formats;
_Static_assert((int)SLIDE_SERIES >= (int)DICOM_UID, "no room for the series of DICOM");

static bool is_usable(const struct format *f)
{
    return !f->needs_openslide || slide_metadata_available();
}

/* "A, B and C": the formats that this build reads; with `kept`, those whose tiles it can keep. */
static const char *list_formats(bool kept, char *text, size_t size)
{
    int n = 0, used = 0, k = 0;
    for (const struct format *f = formats; f < formats_end; f++)
        n += is_usable(f) && (!kept || f->reader->read_kept);
    for (const struct format *f = formats; f < formats_end && used < (int)size; f++)
        if (is_usable(f) && (!kept || f->reader->read_kept))
            used += snprintf(text + used, size - (size_t)used, "%s%s",
                             k++ == 0 ? ""
                             : k == n ? " and "
                                      : ", ",
                             f->title);
    return text;
}

/* `why` is what other readers say of the file, or "". */
static void take_reader(const struct slide_reader *r, const char *why, struct slide_info *info)
{
    char list[128];
    info->reader = r->name;
    if (r->read_kept || info->no_jpeg[0])
        return;
    if (*why)
        snprintf(info->no_jpeg, sizeof info->no_jpeg, "%.*s", (int)sizeof info->no_jpeg - 1, why);
    else
        snprintf(info->no_jpeg, sizeof info->no_jpeg,
                 "only JPEG and JPEG 2000 tiles of %s files can be kept",
                 list_formats(true, list, sizeof list));
}

/* No reader recognises the file; `why` is what one says of it, or "". */
static int reject(const struct slide_file *file, const char *why, struct err *e)
{
    char list[128], only[192] = "";
    for (const struct format *f = formats; f < formats_end; f++)
        if (!is_usable(f) && f->is && f->is(file))
            return err_set(e,
                           "%s: not a slide that this build reads: %s; build wsi2h5 with OpenSlide",
                           file->path, f->title);
    if (!slide_metadata_available())
        snprintf(only, sizeof only, " (without OpenSlide, this build reads %s)",
                 list_formats(false, list, sizeof list));
    return file_kind_reject(file, why, only, e);
}

struct slide *slide_open(const struct slide_file *file, int64_t level, int threads,
                         struct slide_info *info, struct err *e)
{
    struct slide *s = NULL;
    struct err why = {""};
    if (slide_file_bytes(file) == 0) {
        errno = 0;
        err_set(e, "%s: the file is empty; copy the slide again", file->path);
        return NULL;
    }
    for (const struct format *f = formats; f < formats_end; f++) {
        const int r = is_usable(f) ? f->reader->open(&s, file, level, threads, info, &why) : 0;
        if (r > 0) {
            take_reader(f->reader, why.msg, info);
            return s;
        }
        if (r < 0) {
            err_set(e, "%s", why.msg);
            err_add(e, "%s", file->path);
            return NULL;
        }
    }
    reject(file, why.msg, e);
    return NULL;
}

void slide_close(struct slide *s)
{
    if (s)
        s->reader->close(s);
}

static bool has_ending(const struct format *f, const char *path)
{
    const char *dot = strrchr(path, '.');
    const size_t n = dot ? strlen(dot) : 0;
    for (const char *at = strchr(f->endings, '.'); dot && at; at = strchr(at + 1, '.'))
        if (!strncasecmp(at, dot, n) && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

bool slide_has_name(const char *path)
{
    for (const struct format *f = formats; f < formats_end; f++)
        if (has_ending(f, path))
            return true;
    return false;
}

static const struct format *series_format(const char *path)
{
    for (const struct format *f = formats; f < formats_end; f++)
        if (f->series && (has_ending(f, path) || (!slide_has_name(path) && f->is_unnamed(path))))
            return f;
    return NULL;
}

bool slide_has_series(const char *path)
{
    return series_format(path) != NULL;
}

bool slide_series(const char *path, char series[SLIDE_SERIES])
{
    const struct format *f = series_format(path);
    errno = 0;
    return f && f->series(path, series);
}
