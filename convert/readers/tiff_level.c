/* tiff_level.c - see tiff_level.h. The only file that uses libtiff. */
#include "convert/readers/tiff_level.h"

#include "convert/readers/slide.h"
#include "convert/readers/slide_damage.h"
#include "convert/readers/svs_description.h"
#include "convert/readers/tiff_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum {
    LEAST_TILE = 8,
    MOST_TILE = 4096,
    MOST_DIRECTORIES = 1024,
    MOST_THUMBNAIL = 1 << 26,
    MOST_SIDE = 1 << 14
};

static void keep_quiet(const char *module, const char *fmt, va_list ap)
{
    (void)module, (void)fmt, (void)ap;
}

static void *copy_of(const void *data, size_t n)
{
    void *copy = data && n ? malloc(n) : NULL;
    return copy ? memcpy(copy, data, n) : NULL;
}

/* The tag, or `otherwise` when it is absent. */
static int small_tag(TIFF *t, uint32_t tag, int otherwise)
{
    uint16_t v = 0;
    return TIFFGetFieldDefaulted(t, tag, &v) ? v : otherwise;
}

static double downsample(double width, double height, double level_width, double level_height)
{
    return (width / level_width + height / level_height) / 2;
}

/* Notes the downsamples of all levels. */
static void list_levels(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height)
{
    int k = 0;
    do {
        uint32_t w = 0, h = 0;
        if (TIFFIsTiled(t) && TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) &&
            TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) && w > 0 && h > 0)
            l->downsamples[l->levels++] = downsample(width, height, w, h);
    } while (++k < MOST_DIRECTORIES && l->levels < TIFF_LEVELS && TIFFReadDirectory(t));
}

/* Goes to the directory of a level. Levels are the tiled directories, in the order of the file. */
static bool go_to_level(TIFF *t, int64_t level)
{
    int64_t n = 0;
    for (int k = 0; k < MOST_DIRECTORIES; k++) {
        if (TIFFIsTiled(t) && n++ == level)
            return true;
        if (!TIFFReadDirectory(t))
            return false;
    }
    return false;
}

static bool take_sizes(TIFF *t, struct tiff_level *l)
{
    uint32_t width = 0, height = 0, cols = 0, rows = 0;
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(t, TIFFTAG_TILEWIDTH, &cols) || !TIFFGetField(t, TIFFTAG_TILELENGTH, &rows) ||
        width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < LEAST_TILE ||
        rows < LEAST_TILE || cols > MOST_TILE || rows > MOST_TILE)
        return false;
    l->width = width;
    l->height = height;
    l->cols = (l->width + cols - 1) / cols;
    l->rows = (l->height + rows - 1) / rows;
    l->format.cols = cols;
    l->format.rows = rows;
    return true;
}

/* The format of tiles or strips. False when this reader does not know it. */
static bool take_format(TIFF *t, struct tile_format *f, uint8_t **owned)
{
    const void *tables = NULL;
    uint32_t n = 0;
    f->compression = small_tag(t, TIFFTAG_COMPRESSION, 0);
    f->photometric = small_tag(t, TIFFTAG_PHOTOMETRIC, 0);
    if (!tile_is_known(f->compression, f->photometric) ||
        small_tag(t, TIFFTAG_SAMPLESPERPIXEL, 1) != 3 ||
        small_tag(t, TIFFTAG_BITSPERSAMPLE, 1) != 8 ||
        small_tag(t, TIFFTAG_PLANARCONFIG, 1) != PLANARCONFIG_CONTIG)
        return false;
    if (f->compression == TILE_JPEG && TIFFGetField(t, TIFFTAG_JPEGTABLES, &n, &tables) && n > 0) {
        f->tables = *owned = copy_of(tables, n);
        f->tables_bytes = n;
    }
    return true;
}

/* Compares the picture's size with the length of the file's own tables. */
static int check_tables(const char *path, uint64_t directory, const struct tiff_level *l,
                        struct err *e)
{
    struct tiff_file f;
    struct tiff_directory d;
    if (!tiff_file_open(&f, path) || !tiff_file_directory(&f, directory, &d)) {
        tiff_file_close(&f);
        return err_set(e, "its directory cannot be read; copy the slide again");
    }
    const int r = tiff_file_check_tables(&d, l->width, l->height, l->cols * l->rows, e);
    tiff_directory_free(&d);
    tiff_file_close(&f);
    return r;
}

/* Compares the size of level 0 with the description. Only a size that needs as many tiles is
 * damage: some programs cut slides and keep the description. */
static int check_description(const struct tiff_level *l, struct err *e)
{
    int64_t width, height;
    const int64_t cols = l->format.cols, rows = l->format.rows;
    if (!svs_description_size(l->description, &width, &height) ||
        (width == l->width && height == l->height) || (width + cols - 1) / cols != l->cols ||
        (height + rows - 1) / rows != l->rows)
        return 0;
    return err_set(e,
                   "damaged: %" PRId64 " x %" PRId64 " px, but its description says %" PRId64
                   " x %" PRId64 "; copy the slide again",
                   l->width, l->height, width, height);
}

/* A file that lacks more than half of its tiles is rejected. */
static int check_places(const struct tiff_level *l, uint64_t file_bytes, struct err *e)
{
    const int64_t n = l->cols * l->rows;
    int64_t outside = 0;
    for (int64_t k = 0; k < n; k++)
        outside +=
            l->places[k].bytes > 0 && (l->places[k].offset > file_bytes ||
                                       l->places[k].bytes > file_bytes - l->places[k].offset);
    if (2 * outside <= n)
        return 0;
    return err_set(e,
                   "damaged: %" PRId64 " of %" PRId64
                   " tiles lie beyond the end of the file; copy the "
                   "slide again",
                   outside, n);
}

static int take_places_of(TIFF *t, int64_t n, struct tile_place **places, struct err *e)
{
    if (!(*places = malloc((size_t)n * sizeof **places)))
        return err_set(e, "out of memory");
    for (int64_t k = 0; k < n; k++)
        (*places)[k] = (struct tile_place){TIFFGetStrileOffset(t, (uint32_t)k),
                                           TIFFGetStrileByteCount(t, (uint32_t)k)};
    return 0;
}

static int take_places(TIFF *t, struct tiff_level *l, struct err *e)
{
    const int64_t n = l->cols * l->rows;
    if (l->format.tables_bytes && !l->tables)
        return err_set(e, "out of memory");
    if (check_tables(TIFFFileName(t), TIFFCurrentDirOffset(t), l, e))
        return -1;
    if (take_places_of(t, n, &l->places, e))
        return -1;
    return check_places(l, TIFFGetSizeProc(t)(TIFFClientdata(t)), e);
}

/* Is the current directory the thumbnail? It has strips, is not marked as label (1) or macro (9),
 * and has the slide's proportions. */
static bool is_thumbnail(TIFF *t, uint32_t width, uint32_t height)
{
    uint32_t type = 0, w = 0, h = 0;
    TIFFGetField(t, TIFFTAG_SUBFILETYPE, &type);
    return !TIFFIsTiled(t) && type == 0 && TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) &&
           TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) && w > 0 && h > 0 &&
           fabs((double)w / (double)h * ((double)height / (double)width) - 1) < 0.1;
}

/* The strips of the current directory, the thumbnail; none if they are no JPEG streams. */
static int take_strips(TIFF *t, struct svs_strips *s, struct err *e)
{
    uint32_t width = 0, height = 0, rows = 0;
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &rows);
    if (width > MOST_SIDE || height > MOST_SIDE || rows < 1 ||
        !take_format(t, &s->format, &s->tables) || s->format.compression != TILE_JPEG)
        return 0;
    s->format.cols = width;
    s->format.rows = rows < height ? rows : height;
    s->height = height;
    s->n = (s->height + s->format.rows - 1) / s->format.rows;
    if ((s->format.tables_bytes && !s->tables) || take_places_of(t, s->n, &s->places, e))
        return err_set(e, "out of memory");
    return 0;
}

/* Does the first directory state an ICC profile? libtiff drops the tag when its bytes are not in
 * the file. */
static bool states_icc(const char *path)
{
    struct tiff_file f;
    struct tiff_directory d;
    if (!tiff_file_open(&f, path))
        return false;
    const bool found = tiff_file_directory(&f, f.first, &d);
    const bool states = found && tiff_directory_tag(&d, TIFF_FILE_ICC);
    if (found)
        tiff_directory_free(&d);
    tiff_file_close(&f);
    return states;
}

static int read_directories(TIFF *t, struct tiff_level *l, int64_t level, struct err *e)
{
    const char *description = NULL;
    const void *icc = NULL;
    uint32_t n = 0, width = 0, height = 0;
    if (!TIFFIsTiled(t) || !TIFFGetField(t, TIFFTAG_IMAGEDESCRIPTION, &description))
        return 0;
    if (!description) /* libtiff had no memory for a value that it lists all the same */
        return err_set(e, "out of memory");
    if (strncmp(description, "Aperio", 6) || !TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height))
        return 0;
    if (!(l->description = strdup(description)))
        return err_set(e, "out of memory");
    if (!TIFFGetField(t, TIFFTAG_ICCPROFILE, &n, &icc) || n == 0)
        l->lost_icc = states_icc(TIFFFileName(t));
    else if ((l->icc = copy_of(icc, n)))
        l->icc_bytes = n;
    else
        return err_set(e, "out of memory");
    l->has_thumbnail = TIFFReadDirectory(t) && is_thumbnail(t, width, height);
    if (l->has_thumbnail && take_strips(t, &l->thumbnail, e))
        return -1;
    /* a failed read leaves libtiff without a directory, so the first one is read again */
    if (!TIFFSetDirectory(t, 0))
        return err_set(e, "its first directory cannot be read again");
    list_levels(t, l, width, height);
    if (!TIFFSetDirectory(t, 0))
        return err_set(e, "its first directory cannot be read again");
    if (!go_to_level(t, level) || !take_sizes(t, l) || !take_format(t, &l->format, &l->tables))
        return 0;
    if ((level == 0 && check_description(l, e)) || take_places(t, l, e))
        return -1;
    l->downsample = downsample(width, height, (double)l->width, (double)l->height);
    return 1;
}

static void silence(void)
{
    TIFFSetErrorHandler(keep_quiet);
    TIFFSetWarningHandler(keep_quiet);
}

int tiff_level_read(struct tiff_level *l, const char *path, int64_t level, struct err *e)
{
    *l = (struct tiff_level){0};
    silence();
    errno = 0;
    TIFF *t = TIFFOpen(path, "rm");
    int r = t ? read_directories(t, l, level, e) : 0;
    const int code = errno;
    if (t)
        TIFFClose(t);
    errno = code;
    if (slide_may_pass(code)) /* libtiff takes a failed read for the end of the file */
        r = err_sys(e, "cannot read its directories");
    if (r <= 0)
        tiff_level_free(l);
    errno = code;
    return r;
}

/* The current directory as RGB; NULL on failure. */
static uint8_t *read_rgb(TIFF *t, uint32_t width, uint32_t height)
{
    const size_t n = (size_t)width * height;
    uint32_t *abgr = malloc(n * sizeof *abgr);
    uint8_t *rgb = malloc(3 * n);
    const bool good =
        abgr && rgb && TIFFReadRGBAImageOriented(t, width, height, abgr, ORIENTATION_TOPLEFT, 1);
    for (size_t k = 0; good && k < n; k++) {
        rgb[3 * k] = (uint8_t)TIFFGetR(abgr[k]);
        rgb[3 * k + 1] = (uint8_t)TIFFGetG(abgr[k]);
        rgb[3 * k + 2] = (uint8_t)TIFFGetB(abgr[k]);
    }
    free(abgr);
    if (good)
        return rgb;
    free(rgb);
    return NULL;
}

bool tiff_level_thumbnail(const char *path, uint8_t **rgb, int64_t *width, int64_t *height)
{
    uint32_t w = 0, h = 0;
    silence();
    errno = 0;
    TIFF *t = TIFFOpen(path, "rm");
    *rgb = NULL;
    if (t && TIFFReadDirectory(t) && TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) &&
        TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) && w > 0 && h > 0 && w <= MOST_THUMBNAIL / h)
        *rgb = read_rgb(t, w, h);
    const int code = errno;
    if (t)
        TIFFClose(t);
    errno = code;
    *width = w;
    *height = h;
    return *rgb != NULL;
}

void tiff_level_free(struct tiff_level *l)
{
    free(l->places);
    free(l->tables);
    svs_strips_free(&l->thumbnail);
    free(l->icc);
    free(l->description);
    *l = (struct tiff_level){0};
}
