/* tiff_level.c - see tiff_level.h. */
#include "convert/readers/tiff_level.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "convert/readers/slide.h"
#include "convert/readers/slide_file.h"
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

/* --- thumbnail --- */

/* The strips are the tiles of a level of one column. */

void svs_strips_free(struct svs_strips *s)
{
    free(s->places);
    free(s->tables);
    *s = (struct svs_strips){0};
}

/* Opens strips of so many rows, from strip `first` on. */
static struct tiled_slide open_strips(const struct slide_file *file, const struct svs_strips *s,
                                      int64_t first, int64_t rows)
{
    struct tile_grid g = {
        .format = s->format, .cols = 1, .rows = s->n - first, .places = s->places + first};
    g.format.rows = rows;
    return (struct tiled_slide){.tiles = tile_file_open(file, &g, 1)};
}

/* Strip k as a chunk, if it is not damaged. 1, 0 or -1. */
static int keep_strip(struct tiled_slide *t, int64_t k, struct jpeg_strips *out, struct err *e)
{
    struct jpeg_chunk chunk = {0};
    enum store_status status = STORE_DAMAGED;
    int r = tile_file_read_kept(&t->slide, 0, 0, k, &chunk, NULL, &status, e);
    if (r == 0 && status == STORE_WHOLE)
        r = jpeg_strips_add(out, &chunk, e) ? -1 : 1;
    else if (r == SLIDE_OTHER)
        r = 0;
    free(chunk.bytes);
    return r;
}

/* A last strip of fewer rows as pixels. 1, 0 or -1. */
static int keep_pixels(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    const size_t bytes = (size_t)(3 * out->width * out->rows);
    struct jpeg_chunk chunk = {.bytes = memory_try_zero(1, bytes, e), .n = bytes, .room = bytes};
    enum store_status status = STORE_DAMAGED;
    struct tiled_slide t = open_strips(file, s, s->n - 1, s->height - (s->n - 1) * out->rows);
    int r = chunk.bytes ? 0 : -1;
    if (r == 0)
        r = tile_file_read(&t.slide, 0, 0, 0, 3, chunk.bytes, &status, e);
    if (r == 0 && status == STORE_WHOLE)
        r = jpeg_strips_add(out, &chunk, e) ? -1 : 1;
    tile_file_close(t.tiles);
    free(chunk.bytes);
    return r;
}

static int keep(const struct slide_file *file, const struct svs_strips *s, struct jpeg_strips *out,
                struct err *e)
{
    struct tiled_slide t = open_strips(file, s, 0, out->rows);
    int r = 1;
    for (int64_t k = 0; r > 0 && k < s->n; k++)
        r = jpeg_strips_is_raw(out, k) ? keep_pixels(file, s, out, e) : keep_strip(&t, k, out, e);
    tile_file_close(t.tiles);
    return r;
}

int svs_thumbnail_keep(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    *out =
        (struct jpeg_strips){.width = s->format.cols, .height = s->height, .rows = s->format.rows};
    errno = 0;
    int r = s->n > 0 ? keep(file, s, out, e) : 0;
    if (r < 0 && !slide_may_pass(errno)) /* tables that are damaged */
        r = 0;
    if (r <= 0) {
        const int code = errno;
        jpeg_strips_free(out);
        errno = code;
    }
    return r;
}

enum { LEAST_TILE = 8, MOST_TILE = 4096, MOST_THUMBNAIL = 1 << 26, MOST_SIDE = 1 << 14 };

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

static bool take_sizes(TIFF *t, struct tiff_level *l)
{
    uint32_t width = 0, height = 0, cols = 0, rows = 0;
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(t, TIFFTAG_TILEWIDTH, &cols) || !TIFFGetField(t, TIFFTAG_TILELENGTH, &rows) ||
        width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < LEAST_TILE ||
        rows < LEAST_TILE || cols > INT32_MAX || rows > INT32_MAX)
        return false;
    l->in_bands = cols > MOST_TILE || rows > MOST_TILE;
    l->orientation = small_tag(t, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
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
    if (!svs_description_size(l->pyramid.description, &width, &height) ||
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
    if (!(*places = memory_try((size_t)n, sizeof **places, e)))
        return -1;
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

/* The thumbnail of Aperio, in the second directory. */
static int take_aperio(TIFF *t, struct tiff_level *l, uint32_t width, uint32_t height,
                       struct err *e)
{
    l->has_thumbnail =
        TIFFSetDirectory(t, 0) && TIFFReadDirectory(t) && is_thumbnail(t, width, height);
    return l->has_thumbnail && take_strips(t, &l->thumbnail, e) ? -1 : 0;
}

static int take_icc(TIFF *t, struct tiff_level *l, struct err *e)
{
    const void *icc = NULL;
    uint32_t n = 0;
    if (!TIFFGetField(t, TIFFTAG_ICCPROFILE, &n, &icc) || n == 0)
        /* libtiff drops the tag when its bytes are not in the file */
        l->lost_icc = l->pyramid.has_icc;
    else if ((l->icc = copy_of(icc, n)))
        l->icc_bytes = n;
    else
        return err_set(e, "out of memory");
    return 0;
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
    l->is_jfif = l->pyramid.kind == TIFF_OME && l->format.compression == TILE_JPEG &&
                 l->format.photometric == TILE_PHOTOMETRIC_RGB && has_jfif(t, l);
    if (l->is_jfif)
        l->format.photometric = TILE_PHOTOMETRIC_YCBCR;
}

static int read_directories(TIFF *t, struct tiff_level *l, int64_t level, struct err *e)
{
    const struct tiff_pyramid *p = &l->pyramid;
    uint32_t width = 0, height = 0;
    if (!TIFFSetSubDirectory(t, p->at[0]) || !TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height))
        return 0;
    if (take_icc(t, l, e) || (p->kind == TIFF_APERIO && take_aperio(t, l, width, height, e)))
        return -1;
    if (level >= p->levels)
        return slide_reject_level(p->levels, level, e);
    if (!TIFFSetSubDirectory(t, p->at[level]))
        return err_set(e, "its directory cannot be read again");
    if (!take_sizes(t, l))
        return 0;
    if (!take_format(t, p->kind, &l->format, &l->in_planes, &l->tables)) {
        if (!l->in_bands && l->orientation == ORIENTATION_TOPLEFT)
            return 0;
        l->in_bands = true; /* OpenSlide mirrors each tile on its own */
    }
    if ((level == 0 && p->kind == TIFF_APERIO && check_description(l, e)) ||
        (!l->in_bands && take_places(t, l, e)))
        return -1;
    if (!l->in_bands)
        correct_colours(t, l);
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
    *l = (struct tiff_level){0};
    silence();
    errno = 0;
    struct library io = {.file = file};
    int r = tiff_pyramid_is_aperio(file) == aperio ? tiff_pyramid_read(&l->pyramid, file, e) : 0;
    TIFF *t = r > 0 ? open_library(&io) : NULL;
    r = t ? read_directories(t, l, level, e) : r < 0 ? -1 : 0;
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
    tiff_pyramid_free(&l->pyramid);
    *l = (struct tiff_level){0};
}
