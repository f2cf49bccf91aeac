/* tiff_level.c - see tiff_level.h. */
#include "convert/readers/tiff_level.h"

#include "common/base/path.h"
#include "common/base/read_at.h"
#include "convert/readers/slide.h"
#include "convert/readers/slide_damage.h"
#include "convert/readers/slide_info.h"
#include "convert/readers/svs_description.h"
#include "convert/readers/tiff_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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

/* --- libtiff reads from the slide's descriptor --- */

/* What libtiff reads: a file, and where. */
struct library {
    const struct slide_file *file;
    uint64_t at;
};

static tmsize_t library_read(thandle_t handle, void *out, tmsize_t n)
{
    struct library *io = handle;
    const size_t got = read_at(io->file->fd, io->at, out, (size_t)n);
    io->at += got;
    return got < (size_t)n && errno ? -1 : (tmsize_t)got;
}

static tmsize_t library_write(thandle_t handle, void *bytes, tmsize_t n)
{
    (void)handle, (void)bytes, (void)n;
    return -1;
}

static toff_t library_seek(thandle_t handle, toff_t to, int whence)
{
    struct library *io = handle;
    io->at = to + (whence == SEEK_CUR   ? io->at
                   : whence == SEEK_END ? slide_file_bytes(io->file)
                                        : 0);
    return io->at;
}

static toff_t library_size(thandle_t handle)
{
    return slide_file_bytes(((struct library *)handle)->file);
}

static int library_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

/* NULL: not a TIFF file. `io` must live until TIFFClose. */
static TIFF *open_library(struct library *io)
{
    return TIFFClientOpen(io->file->path, "rm", io, library_read, library_write, library_seek,
                          library_close, library_size, NULL, NULL);
}

static const struct slide_file *file_of(TIFF *t)
{
    return ((struct library *)TIFFClientdata(t))->file;
}

/* --- tags --- */

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

/* Is the current directory a level? */
static bool is_level(TIFF *t, const struct tiff_level *l)
{
    uint32_t type = 0;
    return TIFFIsTiled(t) &&
           (l->kind == TIFF_APERIO || l->levels == 0 ||
            (TIFFGetField(t, TIFFTAG_SUBFILETYPE, &type) && (type & FILETYPE_REDUCEDIMAGE)));
}

/* Notes the current directory as a level. `sorted`: before the narrower ones. */
static void add_level(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height, bool sorted)
{
    uint32_t w = 0, h = 0;
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) || !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) ||
        w == 0 || h == 0)
        return;
    const double d = downsample(width, height, w, h);
    int64_t k = l->levels++;
    for (; sorted && k > 1 && l->downsamples[k - 1] > d; k--) {
        l->downsamples[k] = l->downsamples[k - 1];
        l->at[k] = l->at[k - 1];
    }
    l->downsamples[k] = d;
    l->at[k] = TIFFCurrentDirOffset(t);
}

/* Levels in the first directory's tag 330: smaller copies of it. */
static void list_subs(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height)
{
    uint64_t subs[TIFF_LEVELS];
    const uint64_t *list = NULL;
    uint16_t n = 0;
    if (!TIFFSetDirectory(t, 0) || !TIFFGetField(t, TIFFTAG_SUBIFD, &n, &list) || !list)
        return;
    if (n > TIFF_LEVELS - 1)
        n = TIFF_LEVELS - 1;
    memcpy(subs, list, n * sizeof *subs);
    for (int k = 0; k < n; k++) {
        uint32_t w = 0;
        if (TIFFSetSubDirectory(t, subs[k]) && is_level(t, l) &&
            TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) && w < width)
            add_level(t, l, width, height, true);
    }
}

/* Philips: downsamples from the XML, if it has one for every level. */
static void take_spacings(struct tiff_level *l)
{
    const double *x = l->xml.spacing_x, *y = l->xml.spacing_y;
    if (l->xml.n_levels != l->levels)
        return;
    l->mpp_x = 1000 * x[0];
    l->mpp_y = 1000 * y[0];
    for (int64_t k = 0; k < l->levels; k++)
        l->downsamples[k] = round((x[k] / x[0] + y[k] / y[0]) / 2);
}

/* Notes all levels. The first directory is the current one. */
static void list_levels(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height)
{
    int k = 0;
    do {
        if (is_level(t, l))
            add_level(t, l, width, height, l->kind > TIFF_PHILIPS);
    } while (++k < MOST_DIRECTORIES && l->levels < TIFF_LEVELS && TIFFReadDirectory(t));
    l->visible = l->levels;
    if (l->levels == 1 && l->kind > TIFF_PHILIPS)
        list_subs(t, l, width, height);
    if (l->kind == TIFF_PHILIPS)
        take_spacings(l);
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

/* Of the numbers for JPEG 2000, Aperio's 33003 states the colours. In other files all are alike,
 * and the photometric tag states them. */
static int compression_of(TIFF *t, enum tiff_kind kind, int photometric)
{
    enum { JP2_LOSSY = 33004, JP2_OTHER = 34712 };
    const int c = small_tag(t, TIFFTAG_COMPRESSION, 0);
    if (kind == TIFF_APERIO ||
        (c != TILE_J2K_YCBCR && c != TILE_J2K_RGB && c != JP2_LOSSY && c != JP2_OTHER))
        return c;
    return photometric == TILE_PHOTOMETRIC_YCBCR ? TILE_J2K_YCBCR : TILE_J2K_RGB;
}

/* Are the samples bytes, in the usual order? */
static bool has_plain_bytes(TIFF *t)
{
    const int kind = small_tag(t, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    return small_tag(t, TIFFTAG_BITSPERSAMPLE, 1) == 8 &&
           (kind == SAMPLEFORMAT_UINT || kind == SAMPLEFORMAT_VOID) &&
           small_tag(t, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT) == ORIENTATION_TOPLEFT &&
           small_tag(t, TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) == FILLORDER_MSB2LSB;
}

/* Does the directory have a tile for each of R, G and B? So Bio-Formats writes OME-TIFF; it states
 * YCbCr where these are JPEG. In other files YCbCr in planes may be what it states. */
static bool has_planes(TIFF *t, enum tiff_kind kind, const struct tile_format *f)
{
    return small_tag(t, TIFFTAG_PLANARCONFIG, 1) == PLANARCONFIG_SEPARATE &&
           small_tag(t, TIFFTAG_SAMPLESPERPIXEL, 1) == 3 &&
           (f->photometric == TILE_PHOTOMETRIC_RGB ||
            (f->photometric == TILE_PHOTOMETRIC_YCBCR && f->compression == TILE_JPEG &&
             kind == TIFF_OME));
}

/* The format of tiles or strips. False when this reader does not know it. */
static bool take_format(TIFF *t, enum tiff_kind kind, struct tile_format *f, bool *in_planes,
                        uint8_t **owned)
{
    const void *tables = NULL;
    uint32_t n = 0;
    uint16_t predictor = 0; /* only of codecs that have one */
    f->photometric = small_tag(t, TIFFTAG_PHOTOMETRIC, 0);
    f->compression = compression_of(t, kind, f->photometric);
    f->predictor = TIFFGetField(t, TIFFTAG_PREDICTOR, &predictor) ? predictor : PREDICTOR_NONE;
    *in_planes = has_planes(t, kind, f);
    if (*in_planes)
        f->photometric = TILE_PHOTOMETRIC_GRAY;
    else if (small_tag(t, TIFFTAG_PLANARCONFIG, 1) != PLANARCONFIG_CONTIG ||
             small_tag(t, TIFFTAG_SAMPLESPERPIXEL, 1) != (tile_is_gray(f) ? 1 : 3))
        return false;
    if (!tile_is_known(f) || !has_plain_bytes(t))
        return false;
    if (f->compression == TILE_JPEG && TIFFGetField(t, TIFFTAG_JPEGTABLES, &n, &tables) && n > 0) {
        f->tables = *owned = copy_of(tables, n);
        f->tables_bytes = n;
    }
    return true;
}

static int64_t n_places(const struct tiff_level *l)
{
    return l->cols * l->rows * (l->in_planes ? 3 : 1);
}

/* Compares the picture's size with the length of the file's own tables. */
static int check_tables(const struct slide_file *file, uint64_t directory,
                        const struct tiff_level *l, struct err *e)
{
    struct tiff_file f;
    struct tiff_directory d;
    if (!tiff_file_open(&f, file) || !tiff_file_directory(&f, directory, &d))
        return err_set(e, "its directory cannot be read; copy the slide again");
    const int r = tiff_file_check_tables(&d, l->width, l->height, n_places(l), e);
    tiff_directory_free(&d);
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
    const int64_t n = n_places(l);
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
    const int64_t n = n_places(l);
    if (l->format.tables_bytes && !l->tables)
        return err_set(e, "out of memory");
    if (check_tables(file_of(t), TIFFCurrentDirOffset(t), l, e))
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
    bool in_planes;
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &rows);
    if (width > MOST_SIDE || height > MOST_SIDE || rows < 1 ||
        !take_format(t, TIFF_APERIO, &s->format, &in_planes, &s->tables) ||
        !tile_may_be_kept(&s->format) || tile_is_gray(&s->format))
        return 0;
    s->format.cols = width;
    s->format.rows = rows < height ? rows : height;
    s->height = height;
    s->n = (s->height + s->format.rows - 1) / s->format.rows;
    if ((s->format.tables_bytes && !s->tables) || take_places_of(t, s->n, &s->places, e))
        return err_set(e, "out of memory");
    return 0;
}

/* The thumbnail of Aperio, in the second directory. Goes back to the first one. */
static int take_aperio(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height,
                       struct err *e)
{
    l->has_thumbnail = TIFFReadDirectory(t) && is_thumbnail(t, width, height);
    if (l->has_thumbnail && take_strips(t, &l->thumbnail, e))
        return -1;
    /* a failed read leaves libtiff without a directory, so the first one is read again */
    return TIFFSetDirectory(t, 0) ? 0 : err_set(e, "its first directory cannot be read again");
}

static int take_icc(TIFF *t, struct tiff_level *l, struct err *e)
{
    const void *icc = NULL;
    uint32_t n = 0;
    if (!TIFFGetField(t, TIFFTAG_ICCPROFILE, &n, &icc) || n == 0)
        /* libtiff drops the tag when its bytes are not in the file */
        l->lost_icc = tiff_file_states(file_of(t), TIFF_FILE_ICC);
    else if ((l->icc = copy_of(icc, n)))
        l->icc_bytes = n;
    else
        return err_set(e, "out of memory");
    return 0;
}

/* Does a text tag begin so? */
static bool begins(TIFF *t, uint32_t tag, const char *with)
{
    const char *text = NULL;
    return TIFFGetField(t, tag, &text) && text && !strncmp(text, with, strlen(with));
}

/* Scanners whose files only OpenSlide puts together. */
static const char *foreign_scanner(TIFF *t, const char *description)
{
    const void *xmp = NULL;
    uint32_t n = 0;
    if (strstr(description, "www.leica-microsystems.com/scn"))
        return "Leica SCN";
    if (begins(t, TIFFTAG_SOFTWARE, "MedScan"))
        return "Trestle";
    if (TIFFGetField(t, TIFFTAG_XMLPACKET, &n, &xmp) && memmem(xmp, n, "iScan", 5))
        return "Ventana BIF";
    return NULL;
}

static enum tiff_kind kind_of(TIFF *t, const struct tiff_xml *x)
{
    if (begins(t, TIFFTAG_SOFTWARE, "Philips") && x->kind == TIFF_XML_PHILIPS)
        return TIFF_PHILIPS;
    return x->kind == TIFF_XML_OME && x->n_images > 0 ? TIFF_OME : TIFF_GENERIC;
}

/* um per pixel by the resolution tags. */
static double resolution(TIFF *t, uint32_t tag, uint64_t unit)
{
    float per_unit = 0;
    if ((unit != RESUNIT_INCH && unit != RESUNIT_CENTIMETER) || !TIFFGetField(t, tag, &per_unit) ||
        !(per_unit > 0))
        return NAN;
    return (unit == RESUNIT_CENTIMETER ? 10000 : 25400) / (double)per_unit;
}

static void take_mpp(TIFF *t, struct tiff_level *l)
{
    /* libtiff turns units that do not exist into inches */
    const uint64_t unit =
        tiff_file_first_value(file_of(t), TIFF_FILE_RESOLUTION_UNIT, RESUNIT_INCH);
    l->mpp_x = resolution(t, TIFFTAG_XRESOLUTION, unit);
    l->mpp_y = resolution(t, TIFFTAG_YRESOLUTION, unit);
    if (l->kind != TIFF_OME)
        return;
    const struct tiff_xml_image *slide = &l->xml.images[l->image];
    l->mpp_x = slide->mpp_x > 0 ? slide->mpp_x : l->mpp_x;
    l->mpp_y = slide->mpp_y > 0 ? slide->mpp_y : l->mpp_y;
}

/* Is the first tile that exists a JFIF stream? Those are YCbCr. */
static bool has_jfif(TIFF *t, const struct tiff_level *l)
{
    uint8_t head[11];
    const int64_t n = l->cols * l->rows;
    int64_t k = 0;
    while (k < n && l->places[k].bytes < sizeof head)
        k++;
    return k < n &&
           TIFFGetSeekProc(t)(TIFFClientdata(t), l->places[k].offset, SEEK_SET) != (toff_t)-1 &&
           TIFFGetReadProc(t)(TIFFClientdata(t), head, sizeof head) == sizeof head &&
           !memcmp(head, "\xff\xd8\xff\xe0", 4) && !memcmp(head + 6, "JFIF", 5);
}

/* Bio-Formats writes YCbCr streams and states RGB; it and tifffile read such files as YCbCr. */
static void correct_colours(TIFF *t, struct tiff_level *l)
{
    l->is_jfif = l->kind == TIFF_OME && l->format.compression == TILE_JPEG &&
                 l->format.photometric == TILE_PHOTOMETRIC_RGB && has_jfif(t, l);
    if (l->is_jfif)
        l->format.photometric = TILE_PHOTOMETRIC_YCBCR;
}

/* The first directory: whose file it is. 1, 0 or -1. */
static int read_first(TIFF *t, struct tiff_level *l, bool aperio, struct err *e)
{
    const char *description = "", *scanner;
    if (!TIFFIsTiled(t))
        return 0;
    if (TIFFGetField(t, TIFFTAG_IMAGEDESCRIPTION, &description) && !description)
        return err_set(e, "out of memory"); /* for a value that libtiff lists all the same */
    if (!strncmp(description, "Aperio", 6) != aperio)
        return 0;
    if ((scanner = foreign_scanner(t, description))) {
        err_set(e, "its format is %s", scanner);
        return 0;
    }
    if (!aperio && tiff_xml_read(&l->xml, description, path_base_name(file_of(t)->path), e))
        return -1;
    l->kind = aperio ? TIFF_APERIO : kind_of(t, &l->xml);
    if (l->kind == TIFF_OME && tiff_xml_slide(&l->xml, &l->image, &l->others, e))
        return -1;
    if (!(l->description = strdup(description)))
        return err_set(e, "out of memory");
    return 1;
}

static int read_directories(TIFF *t, struct tiff_level *l, int64_t level, bool aperio,
                            struct err *e)
{
    uint32_t width = 0, height = 0;
    const int r = read_first(t, l, aperio, e);
    if (r <= 0)
        return r;
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height) || width == 0 || height == 0)
        return 0;
    take_mpp(t, l);
    if (take_icc(t, l, e) || (aperio && take_aperio(t, l, width, height, e)))
        return -1;
    list_levels(t, l, width, height);
    if (level >= l->levels)
        return slide_reject_level(l->levels, level, e);
    if (!TIFFSetSubDirectory(t, l->at[level]))
        return err_set(e, "its directory cannot be read again");
    if (!take_sizes(t, l) || !take_format(t, l->kind, &l->format, &l->in_planes, &l->tables))
        return 0;
    if ((level == 0 && aperio && check_description(l, e)) ||
        (l->kind > TIFF_PHILIPS && tiff_file_check_pages(file_of(t), l->others, e)) ||
        take_places(t, l, e))
        return -1;
    correct_colours(t, l);
    l->downsample = l->downsamples[level];
    return 1;
}

static void silence(void)
{
    TIFFSetErrorHandler(keep_quiet);
    TIFFSetWarningHandler(keep_quiet);
}

int tiff_level_read(struct tiff_level *l, const struct slide_file *file, int64_t level, bool aperio,
                    struct err *e)
{
    *l = (struct tiff_level){.mpp_x = NAN, .mpp_y = NAN};
    silence();
    errno = 0;
    struct library io = {.file = file};
    TIFF *t = open_library(&io);
    int r = t ? read_directories(t, l, level, aperio, e) : 0;
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

bool tiff_level_thumbnail(const struct slide_file *file, uint8_t **rgb, int64_t *width,
                          int64_t *height)
{
    uint32_t w = 0, h = 0;
    silence();
    errno = 0;
    struct library io = {.file = file};
    TIFF *t = open_library(&io);
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
