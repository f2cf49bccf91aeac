/* slide.c - the table of formats; see slide.h. */
#include "convert/readers/slide.h"

#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "convert/readers/dicom/dicom_file.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/slide_metadata.h"
#include "convert/readers/slide_ndpi.h"
#include "convert/readers/tiff/tiff_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A format of slides. */
struct format {
    const char *title;   /* in messages */
    const char *endings; /* of the names of its files, separated by spaces */
    const struct slide_reader *reader;
    bool needs_openslide; /* a build without OpenSlide does not read it */
    bool owns_format;     /* no other reader is asked after its reader has rejected a file */
    /* Is the file of this format? For builds that lack what it needs; may be NULL. */
    bool (*is)(const struct slide_file *file);
    /* As slide_series(); NULL: a slide is one file, or names the others. */
    bool (*series)(const char *path, char *series, bool *is_other);
    /* Is a file with any other ending of this format? NULL: never. */
    bool (*detects)(const char *path);
};

/* In the order in which the readers are asked. tests/check_project.py compares the endings with
 * those that scripts search for. */
static const struct format formats[] = {
    {"Aperio SVS", ".svs", &slide_svs, false, false, NULL, NULL, NULL},
    {"DICOM", ".dcm", &slide_dicom, false, true, NULL, dicom_series, dicom_detects},
    {"NDPI", ".ndpi", &slide_ndpi, true, false, ndpi_is, NULL, NULL},
    {"tiled TIFF", ".tif .tiff .ptif .ptiff .btf .tf2 .tf8 .qptiff", &slide_tiff, false, false,
     NULL, NULL, NULL},
    {"OpenSlide's", ".vms .vmu .scn .mrxs .svslide .bif", &slide_openslide, true, false, NULL, NULL,
     NULL},
    {"TIFF in strips, PNG and JPEG", "", &slide_picture, false, false, NULL, NULL, NULL},
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

/*
 * What a file is that no reader recognises, and what its owner can do.
 */

enum { HEAD = 4096, MOST_PADDED = 1 << 28, MOST_PADDING = 8 };

/* --- TIFF --- */

static int reject_strips(const char *path, const struct tiff_file *t,
                         const struct tiff_directory *d, struct err *e)
{
    return err_set(e,
                   "%s: not a slide: a TIFF file of %" PRIu64 " x %" PRIu64 " px without tiles; "
                   "convert it to a tiled pyramid first, for example with vips tiffsave --tile "
                   "--pyramid",
                   path, tiff_file_value(t, d, TIFF_FILE_WIDTH, 0),
                   tiff_file_value(t, d, TIFF_FILE_LENGTH, 0));
}

static int reject_directory(const char *path, const struct tiff_file *t,
                            const struct tiff_directory *d, const char *why, struct err *e)
{
    char text[2048], tiles[160];
    tiff_file_text(t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    if (!tiff_directory_tag(d, TIFF_FILE_TILE_WIDTH))
        return reject_strips(path, t, d, e);
    tiff_file_name_tiles(t, d, tiles, sizeof tiles);
    return err_set(e,
                   "%s: not a slide that this %s reads: %s whose %s%s%s; write its picture as a "
                   "pyramid of JPEG tiles first, for example with vips tiffsave --tile --pyramid "
                   "--compression jpeg%s",
                   path, slide_metadata_available() ? "program" : "build",
                   strstr(text, "<OME") ? "an OME-TIFF" : "a tiled TIFF file", tiles,
                   *why ? "; " : "", why,
                   slide_metadata_available() ? "" : ", or build wsi2h5 with OpenSlide");
}

static int reject_tiff(const char *path, const struct tiff_file *t, const char *why, struct err *e)
{
    const struct tiff_directory *d = tiff_file_directory(t, t->first);
    if (!d && tiff_file_is_crowded(t))
        return err_set(e,
                       "%s: not a slide: a TIFF file whose first directory has more than %d tags",
                       path, TIFF_MOST_TAGS);
    if (!d)
        return err_set(e,
                       "%s: not a slide: a TIFF file whose first directory is damaged or cut off; "
                       "copy the slide again",
                       path);
    return reject_directory(path, t, d, why, e);
}

/* --- others --- */

static int reject_dicom(const char *path, const char *why, struct err *e)
{
    return err_set(e, "%s: not a slide that this program reads: a DICOM file%s%s", path,
                   *why ? ": " : "", why);
}

static bool begins(const char *head, size_t n, const char *with, size_t length)
{
    return n >= length && !memcmp(head, with, length);
}

static bool is_html(const char *head)
{
    head += strspn(head, " \t\r\n\xef\xbb\xbf");
    return !strncasecmp(head, "<!doctype html", 14) || !strncasecmp(head, "<html", 5);
}

static bool is_text(const char *head, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if ((unsigned char)head[k] < 32 && !isspace((unsigned char)head[k]))
            return false;
    return n > 0;
}

static bool is_zero(const char *head, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (head[k])
            return false;
    return n > 0;
}

/* The kind of the file and the remedy, or NULL. head[n] is 0. */
static const char *describe_head(const char *head, size_t n)
{
    if (begins(head, n, "\x89HDF\r\n\x1a\n", 8))
        return "an HDF5 file; if it is a store, h5spec reads it";
    if (begins(head, n, "\xff\xd8\xff", 3))
        return "a JPEG picture that is damaged; copy it again";
    if (begins(head, n, "\x89PNG", 4))
        return "a PNG picture that is damaged; copy it again";
    if (begins(head, n, "PK\3\4", 4) || begins(head, n, "\x1f\x8b", 2))
        return "a compressed archive; unpack it first";
    if (is_zero(head, n))
        return "its first bytes are all zero; copy the slide again";
    if (is_html(head))
        return "an HTML page, perhaps a failed download; download the slide again";
    if (is_text(head, n))
        return "a text file";
    return NULL;
}

/* Sets the message "PATH: not a slide ...: what it is; remedy". `why` is what a reader says of the
 * file, or ""; `only` which formats this build reads, if not all, or "". Returns -1. */
static int file_kind_reject(const struct slide_file *file, const char *why, const char *only,
                            struct err *e)
{
    char head[HEAD + 1];
    const char *path = file->path;
    const struct tiff_file *t = tiff_file_of(file);
    const size_t n = read_at(file->fd, 0, head, HEAD);
    head[n] = 0;
    if (dicom_is(file))
        return reject_dicom(path, why, e);
    if (t)
        return reject_tiff(path, t, why, e);
    const char *what = describe_head(head, n);
    if (what)
        return err_set(e, "%s: not a slide: %s", path, what);
    return err_set(e, "%s: not a slide in a known format%s; check that the file is complete", path,
                   only);
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

/* No reader recognises the file; `why` is what one says of it, or "". */
static int reject(const struct slide_file *file, const char *why, struct err *e)
{
    char list[128], only[192] = "";
    for (const struct format *f = formats; f < formats_end; f++)
        if (!is_usable(f) && (f->is ? f->is(file) : has_ending(f, file->path)))
            return err_set(e,
                           "%s: not a slide that this build reads: %s; build wsi2h5 with OpenSlide",
                           file->path, f->title);
    if (!slide_metadata_available())
        snprintf(only, sizeof only, " (without OpenSlide, this build reads %s)",
                 list_formats(false, list, sizeof list));
    return file_kind_reject(file, why, only, e);
}

/* A file of a slide that is a picture of another kind, too: MIRAX begins with a JPEG preview. */
static bool is_container(const char *path)
{
    for (const struct format *f = formats; f < formats_end; f++)
        if (f->reader == &slide_openslide)
            return has_ending(f, path);
    return false;
}

/* --- files of slides that are not read, whether they are named, listed or found --- */

static bool is_one_of(const char *ending, const char *const *list)
{
    while (*list && strcasecmp(*list, ending))
        list++;
    return *list;
}

/* Formats of slides. In the file of this name lies a small picture, or nothing of the slide. */
static const char *const foreign[] = {
    ".czi", ".isyntax", ".i2syntax", ".vsi", ".kfb", ".kfbf", ".sdpc", ".dyqx", ".tmap", ".tron",
    ".mds", ".mdsx",    ".ets",      ".lif", ".nd2", ".zvi",  ".lsm",  ".oir",  ".oib",  ".oif",
    ".jp2", ".j2k",     ".jpx",      ".jxl", ".vsf", ".ibl",  ".hdx",  ".afi",  ".fsp",  NULL};
static const char *const archives[] = {".zip", ".tar", ".7z", ".rar", ".tgz", NULL};
/* What is added to the name of a slide. */
static const char *const packed[] = {".gz", ".bz2", ".xz", ".zst", ".zip", ".7z", ".lz4", NULL};
static const char *const unfinished[] = {".part", ".crdownload", ".download", ".partial",
                                         ".tmp",  ".filepart",   ".aria2",    ".opdownload",
                                         ".!ut",  ".incomplete", NULL};

const char *slide_lost_ending(const char *path)
{
    const char *base = path_base_name(path), *last = strrchr(base, '.'), *before = last;
    if (!last || last == base)
        return NULL;
    while (before > base && *--before != '.')
        ;
    char *inner = memory_copy_part(base, (size_t)(last - base));
    const char *dot = strrchr(inner, '.');
    const bool lost = (is_one_of(last, packed) || is_one_of(last, unfinished)) &&
                      (slide_has_name(inner) || (dot && is_one_of(dot, foreign)));
    free(inner);
    return lost ? before : is_one_of(last, foreign) || is_one_of(last, archives) ? last : NULL;
}

/* The name of a format that is not read, by the first bytes or the tags; NULL: another one. */
static const char *foreign_mark(const struct slide_file *file)
{
    enum { LSM = 34412, MOST = 12 };
    static const struct {
        const char *bytes;
        size_t n;
        const char *name;
    } marks[] = {{"ZISRAWFILE", 10, "Zeiss CZI"},
                 {"\xda\xce\xbe\x0a", 4, "Nikon ND2"},
                 {"\0\0\0\x0cjP  \r\n\x87\n", 12, "JPEG 2000"},
                 {"\xff\x4f\xff\x51", 4, "JPEG 2000"},
                 {"\0\0\0\x0cJXL ", 8, "JPEG XL"}};
    char head[MOST] = "";
    const size_t n = read_at(file->fd, 0, head, sizeof head);
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
        if (n >= marks[k].n && !memcmp(head, marks[k].bytes, marks[k].n))
            return marks[k].name;
    return tiff_file_states(file, LSM) ? "Zeiss LSM" : NULL;
}

/* -1: the file is no slide that any reader may open, and e says what it is. */
static int check_foreign(const struct slide_file *file, struct err *e)
{
    const char *ending = slide_lost_ending(file->path), *last = strrchr(file->path, '.');
    const char *mark = ending ? NULL : foreign_mark(file);
    if (!ending && !mark)
        return 0;
    errno = 0;
    if (ending && is_one_of(last, unfinished))
        return err_set(e,
                       "%s: an unfinished download (%s); download the slide again, or rename the "
                       "file if it is whole",
                       file->path, ending);
    if (ending && (is_one_of(last, packed) || is_one_of(last, archives)))
        return err_set(e, "%s: a compressed archive (%s); unpack it first", file->path, ending);
    return err_set(e,
                   "%s: not a slide that this program reads: a file of another format of slides "
                   "(%s); write it as OME-TIFF or DICOM first, for example with bfconvert",
                   file->path, ending ? ending : mark);
}

/* A picture whose tiles, as they are stored, hold much more than it does would take minutes and
 * disks: such sizes are damaged or hostile. */
static int check_shape(const struct slide_info *i, struct err *e)
{
    const double cols = ceil((double)i->width / (double)i->tile_cols) * (double)i->tile_cols;
    const double rows = ceil((double)i->height / (double)i->tile_rows) * (double)i->tile_rows;
    if (cols * rows < MOST_PADDED ||
        cols * rows < MOST_PADDING * (double)i->width * (double)i->height)
        return 0;
    errno = 0;
    return err_set(e,
                   "%" PRId64 " x %" PRId64 " px is no size of a slide: tiles of %" PRId64
                   " x %" PRId64 " px would be padding for the most part",
                   i->width, i->height, i->tile_cols, i->tile_rows);
}

static struct slide *ask_readers(const struct slide_file *file, int64_t level, int threads,
                                 struct slide_info *info, struct err *e)
{
    struct slide *s = NULL;
    struct err why = {0}; /* what a reader says of a file that it leaves to others */
    if (file->bytes == 0) {
        errno = 0;
        err_set(e, "%s: the file is empty; copy the slide again", file->path);
        return NULL;
    }
    if (check_foreign(file, e))
        return NULL;
    for (const struct format *f = formats; f < formats_end; f++) {
        struct err said = {0};
        const bool asked =
            is_usable(f) && !(f->reader == &slide_picture && is_container(file->path));
        const int r = asked ? f->reader->open(&s, file, level, threads, info, &said) : 0;
        if (r > 0) {
            take_reader(f->reader, why.msg, info);
            if (!check_shape(info, e))
                return s;
            s->reader->close(s);
            err_add(e, "%s", file->path);
            errno = 0;
            return NULL;
        }
        if (r < 0) { /* the last reader that knows the format knows why it cannot be read */
            err_copy(e, &said);
            err_add(e, "%s", file->path);
            return NULL;
        }
        if (said.msg[0])
            why = said;
        if (said.msg[0] && f->owns_format)
            break;
    }
    reject(file, why.msg, e);
    return NULL;
}

struct slide *slide_open(const struct slide_file *file, int64_t level, int threads,
                         struct slide_info *info, struct err *e)
{
    stop_library_begin();
    struct slide *s = ask_readers(file, level, threads, info, e);
    stop_library_end();
    return s;
}

void slide_close(struct slide *s)
{
    if (!s)
        return;
    stop_library_begin();
    s->reader->close(s);
    stop_library_end();
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
        if (f->series && (has_ending(f, path) || (!slide_has_name(path) && f->detects(path))))
            return f;
    return NULL;
}

bool slide_has_series(const char *path)
{
    return series_format(path) != NULL;
}

bool slide_series(const char *path, char series[SLIDE_SERIES], bool *is_other)
{
    const struct format *f = series_format(path);
    errno = 0;
    *is_other = false;
    return f && f->series(path, series, is_other);
}

bool slide_has_picture_name(const char *path)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", NULL};
    const char *dot = strrchr(path_base_name(path), '.');
    return dot && is_one_of(dot, endings);
}
