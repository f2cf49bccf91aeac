/* tiff_picture.c - see tiff_picture.h. */
#include "convert/readers/tiff/tiff_picture.h"

#include "common/base/memory.h"
#include "convert/readers/tiff/tiff_samples.h"
#include "convert/readers/tiff/tiff_segment.h"
#include "convert/tile/strip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SEGMENTS = 1 << 26,
    MOST_COLS = 1 << 20,
    PACKBITS = 32773,
    WEBP = 50001,
};
#define MOST_PIXELS ((uint64_t)1 << 58)
enum { WHITE_IS_ZERO, GRAY, RGB, PALETTE, CMYK = 5, YCBCR = 6 };

/* --- the directory --- */

/* The directory, and the two that it fills. */
struct reading {
    struct tiff_reading from;
    struct tiff_picture *t;
    struct picture_form *f;
    int mask_px; /* of a byte of a mask; 0: it is no mask */
};

static uint64_t value(const struct reading *r, uint16_t tag, uint64_t otherwise)
{
    return tiff_value(&r->from, tag, otherwise);
}

static int other(struct err *e, const char *what)
{
    err_set(e, "%s", what);
    return PICTURE_OTHER;
}

static int damaged(struct err *e, const char *what)
{
    err_set(e, "%s; copy the file again", what);
    return PICTURE_DAMAGED;
}

static int take_sizes(const struct reading *r, struct err *e)
{
    struct picture_form *f = r->f;
    struct tiff_picture *t = r->t;
    const uint64_t px = r->mask_px ? (uint64_t)r->mask_px : 1;
    const uint64_t width = (value(r, TIFF_FILE_WIDTH, 0) + px - 1) / px;
    const uint64_t height = value(r, TIFF_FILE_LENGTH, 0);
    const uint64_t all = value(r, TIFF_FILE_ROWS_PER_STRIP, UINT32_MAX);
    t->in_strips = !tiff_directory_tag(r->from.d, TIFF_FILE_TILE_WIDTH);
    const uint64_t cols = t->in_strips ? width : value(r, TIFF_FILE_TILE_WIDTH, 0) / px;
    const uint64_t rows = !t->in_strips  ? value(r, TIFF_FILE_TILE_LENGTH, 0)
                          : all > height ? height
                                         : all;
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < 1 ||
        rows < 1 || cols > INT32_MAX || rows > INT32_MAX)
        return damaged(e, "its size is damaged");
    if (width > MOST_PIXELS / height)
        return other(e, "it has more than 2^58 px");
    if (cols > MOST_COLS)
        return other(e, "its rows are longer than 1,048,576 px");
    f->width = (int64_t)width;
    f->height = (int64_t)height;
    f->cols = t->format.cols = (int64_t)cols;
    f->rows = t->format.rows = (int64_t)rows;
    t->across = (f->width + f->cols - 1) / f->cols;
    t->down = (f->height + f->rows - 1) / f->rows;
    return 0;
}

/* Samples that are colours, or 0 for a kind that is not decoded. */
static int colours_of(const struct tile_format *f, bool is_cmyk)
{
    switch (f->photometric) {
    case CMYK: return is_cmyk ? 4 : 0;
    case WHITE_IS_ZERO:
    case GRAY:
    case PALETTE: return 1;
    case RGB: return 3;
    case YCBCR: return f->compression == TILE_JPEG || f->compression == TILE_J2K_YCBCR ? 3 : 0;
    default: return 0;
    }
}

static int name_samples(const struct reading *r, const char *what, struct err *e)
{
    char text[160];
    tiff_file_name_tiles(r->from.t, r->from.d, text, sizeof text);
    err_set(e, "its %s; %s", text, what);
    return PICTURE_OTHER;
}

/* OME-TIFF of Bio-Formats states YCbCr where planes of R, G and B are JPEG. */
static bool is_ome(const struct reading *r)
{
    char text[512];
    const struct tiff_directory *d = tiff_file_directory(r->from.t, r->from.t->first);
    if (!d)
        return false;
    tiff_file_text(r->from.t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    return strstr(text, "openmicroscopy.org") != NULL;
}

/* Is the compression decoded here, and why not? */
static int take_compression(const struct reading *r, bool is_whole, struct err *e)
{
    const struct tile_format *f = &r->t->format;
    const uint64_t kind = value(r, TIFF_FILE_SAMPLE_FORMAT, 1);
    if (value(r, TIFF_FILE_BITS, 1) != (r->mask_px == 8 ? 1 : 8) || (kind != 1 && kind != 4))
        return name_samples(r, "only unsigned 8-bit RGB and gray are converted", e);
    if (!is_whole && !strip_is_known((uint64_t)f->compression))
        return name_samples(r, "this compression is not decoded", e);
    if (!is_whole && f->predictor != 1 && f->predictor != 2)
        return name_samples(r, "predictor 3 is for floating-point numbers", e);
    return 0;
}

static int take_colours(const struct reading *r, bool is_whole, int colours, struct err *e)
{
    struct tile_format *f = &r->t->format;
    const uint64_t samples = value(r, TIFF_FILE_SAMPLES, 1);
    if (colours == 0 && is_whole)
        return name_samples(r, "of JPEG and JPEG 2000 only RGB, YCbCr and gray are converted", e);
    if (colours == 0)
        return name_samples(r, "only RGB, gray, palettes and CMYK are converted", e);
    f->samples = (int)(samples & UINT16_MAX);
    f->alpha_at = tiff_alpha(&r->from, colours, f->samples, &f->is_multiplied);
    if (tiff_check_channels(colours, f->samples, f->alpha_at, !is_whole, e))
        return PICTURE_OTHER;
    if (samples < (uint64_t)colours || samples > TIFF_MOST_SAMPLES ||
        (is_whole && samples != (uint64_t)colours))
        return name_samples(r, "its number of samples is not that of its colours", e);
    r->t->planes = value(r, TIFF_FILE_PLANES, 1) == 2 ? f->samples : 1;
    if (r->t->planes > 1 && f->photometric == YCBCR && !is_ome(r))
        return name_samples(r, "YCbCr in separate planes is not converted", e);
    return 0;
}

/* The form gets the decoded samples, the picture the stored ones of a plane. */
static int take_samples(const struct reading *r, struct err *e)
{
    struct tiff_picture *t = r->t;
    struct tile_format *f = &t->format;
    f->compression = tiff_compression(&r->from, false);
    f->photometric =
        r->mask_px ? GRAY : (int)(tiff_file_photometric(r->from.t, r->from.d) & 0xffff);
    f->predictor = (int)(value(r, TIFF_FILE_PREDICTOR, 1) & 0xffff);
    t->fill_order = value(r, TIFF_FILE_FILL_ORDER, 1) == 2 ? 2 : 1;
    const bool is_whole = f->compression == TILE_JPEG || tile_is_j2k(f);
    int bad = take_compression(r, is_whole, e);
    const bool is_cmyk = !is_whole && value(r, TIFF_FILE_INK_SET, 1) == 1;
    bad = bad ? bad : take_colours(r, is_whole, colours_of(f, is_cmyk), e);
    if (!bad && f->photometric == PALETTE && !(f->palette = t->palette = tiff_palette(&r->from)))
        return damaged(e, "its palette is damaged");
    r->f->format = *f;
    r->f->format.photometric = f->photometric == YCBCR ? RGB : f->photometric;
    r->f->planes = t->planes;
    f->samples /= t->planes ? t->planes : 1;
    return bad;
}

static int take_tables(const struct reading *r, struct err *e)
{
    struct tiff_picture *t = r->t;
    const struct tiff_tag *tag = tiff_directory_tag(r->from.d, TIFF_FILE_JPEG_TABLES);
    if (t->format.compression != TILE_JPEG || !tag || tiff_tag_bytes(tag) == 0)
        return 0;
    t->tables = tiff_tables(&r->from, &t->format.tables_bytes);
    t->format.tables = t->tables;
    return t->tables ? 0 : damaged(e, "its JPEG tables are not in the file");
}

static int64_t n_places(const struct tiff_picture *t)
{
    return t->across * t->down * t->planes;
}

static int take_places(const struct reading *r, struct err *e)
{
    const struct tiff_picture *t = r->t;
    if (t->across > MOST_SEGMENTS / t->down)
        return other(e, "it has too many strips");
    return tiff_places(&r->from, t->in_strips, n_places(t), &r->t->places, e);
}

/* Bytes of pixels per byte of a file: deflate packs 1,032 bytes into one, LZW up to 2,731 and
 * PackBits 64; for others no limit is known. Without compression half of the file may be lost. */
static uint64_t most_ratio(int compression)
{
    enum { LZW = 5, DEFLATE = 8, OLD_DEFLATE = 32946 };
    return compression == TILE_NONE                               ? 2
           : compression == PACKBITS                              ? 64
           : compression == LZW                                   ? 2731
           : compression == DEFLATE || compression == OLD_DEFLATE ? 1032
                                                                  : 1 << 17;
}

/* A damaged size is rejected: it would make an empty store. */
static int check_bytes(const struct reading *r, struct err *e)
{
    struct picture_form *f = r->f;
    const struct tiff_picture *t = r->t;
    const double segment = (double)f->cols * (double)f->rows * t->format.samples;
    const double all = (double)f->width * (double)f->height * f->format.samples;
    double pixels = 0;
    for (int64_t k = 0; k < n_places(t); k++)
        pixels += t->places[k].bytes > 0 ? segment : 0;
    f->bytes = (int64_t)(pixels < all ? pixels : all);
    if (pixels > 0 &&
        pixels <= (double)most_ratio(t->format.compression) * ((double)r->from.t->bytes + 1))
        return 0;
    if (r->mask_px && pixels <= 0) /* it hides all */
        return 0;
    if (pixels <= 0)
        err_set(e, "nothing of it was scanned: all its tiles or strips are missing");
    else
        err_set(e, "the file is too small for %" PRId64 " x %" PRId64 " px; copy the file again",
                f->width, f->height);
    return PICTURE_DAMAGED;
}

/* Memory that one segment needs: its bytes where libtiff holds them, or its pixels where they
 * cannot be decoded row by row. */
static uint64_t whole_bytes(const struct tiff_picture *t)
{
    const struct tile_format *f = &t->format;
    const uint64_t pixels = (uint64_t)f->cols * (uint64_t)f->rows * (uint64_t)f->samples;
    uint64_t most = 0;
    for (int64_t k = 0; k < n_places(t); k++)
        if (t->places[k].bytes > most && t->places[k].bytes <= t->file->bytes)
            most = t->places[k].bytes;
    if (tile_is_j2k(f))
        return most + 5 * pixels; /* OpenJPEG's samples have 32 bits */
    if (f->compression == WEBP)
        return most + pixels;
    const bool streamed =
        f->compression == TILE_NONE || f->compression == TILE_JPEG || f->compression == PACKBITS;
    return streamed ? 0 : most;
}

static int check_memory(const struct reading *r, struct err *e)
{
    const uint64_t bytes = whole_bytes(r->t);
    if (bytes <= PICTURE_MOST_BYTES)
        return 0;
    err_set(e,
            "its strips or tiles of %" PRId64 " x %" PRId64
            " px need %.1f GiB of memory; write the picture in tiles of 256 px first",
            r->f->cols, r->f->rows, (double)bytes / (double)((uint64_t)1 << 30));
    return PICTURE_OTHER;
}

static int read_directory(const struct reading *r, struct err *e)
{
    int bad = take_sizes(r, e);
    bad = bad ? bad : take_samples(r, e);
    bad = bad ? bad : take_tables(r, e);
    bad = bad ? bad : take_places(r, e);
    bad = bad ? bad : check_bytes(r, e);
    bad = bad ? bad : check_memory(r, e);
    if (!bad && !(r->t->line = memory_try((size_t)r->f->cols, (size_t)r->t->format.samples, e)))
        bad = -1;
    return bad;
}

/* --- segments --- */

static const char *conflict_of(const struct tiff_picture *t)
{
    static const char *const subsampled[2] = {
        "the photometric tag states RGB, but the JPEG tiles have subsampled chroma; read as YCbCr",
        "the photometric tag states RGB, but the JPEG strips have subsampled chroma; read as "
        "YCbCr"};
    static const char *const texts[2][2] = {
        /* [strips][the tag states YCbCr] */
        {"the JPEG tiles state YCbCr, the photometric tag RGB; read as RGB",
         "the JPEG tiles state RGB, the photometric tag YCbCr; read as YCbCr"},
        {"the JPEG strips state YCbCr, the photometric tag RGB; read as RGB",
         "the JPEG strips state RGB, the photometric tag YCbCr; read as YCbCr"}};
    return t->conflict == TILE_AGREES       ? NULL
           : t->conflict == TILE_SUBSAMPLED ? subsampled[t->in_strips]
                                            : texts[t->in_strips][t->format.photometric == YCBCR];
}

/* Are there bytes of a segment in any plane? */
static bool has_bytes(const struct tiff_picture *t, int64_t col, int64_t row)
{
    for (int k = 0; k < t->planes; k++)
        if (t->places[(k * t->down + row) * t->across + col].bytes > 0)
            return true;
    return false;
}

static int decode(void *ctx, const struct picture_segment *s, struct picture *p, struct err *e)
{
    struct tiff_picture *t = ctx;
    const struct tile_place *place = &t->places[(s->plane * t->down + s->row) * t->across + s->col];
    if (!has_bytes(t, s->col, s->row))
        return PICTURE_MISSING;
    const int bad = tiff_segment_decode(t, s, place, p, e);
    picture_note(p, conflict_of(t));
    return bad;
}

static void close_tiff(void *ctx)
{
    struct tiff_picture *t = ctx;
    free(t->places);
    free(t->palette);
    free(t->tables);
    free(t->line);
    free(t);
}

static int open_picture(struct reading *r, const struct slide_file *file, uint64_t at,
                        struct err *e)
{
    r->t = memory_need(1, sizeof *r->t);
    r->t->file = file;
    *r->f = (struct picture_form){
        .background = {255, 255, 255}, .decode = decode, .close = close_tiff, .ctx = r->t};
    errno = 0;
    r->from.t = tiff_file_of(file);
    r->from.d = r->from.t ? tiff_file_directory(r->from.t, at) : NULL;
    if (!r->from.d) {
        if (slide_may_pass(errno))
            return err_sys(e, "cannot read its directories");
        err_set(e, "its directory cannot be read; copy the slide again");
        return PICTURE_DAMAGED;
    }
    if (r->mask_px && value(r, TIFF_FILE_BITS, 1) == 1)
        r->mask_px = 8;
    const int bad = read_directory(r, e);
    return slide_may_pass(errno) ? err_sys(e, "cannot read its directories") : bad;
}

int tiff_picture_open(struct picture_form *f, const struct slide_file *file, uint64_t at,
                      struct err *e)
{
    struct reading r = {.f = f};
    return open_picture(&r, file, at, e);
}

int tiff_picture_open_mask(struct picture_form *f, const struct slide_file *file, uint64_t at,
                           int *px, struct err *e)
{
    struct reading r = {.f = f, .mask_px = 1};
    const int bad = open_picture(&r, file, at, e);
    *px = r.mask_px;
    if (bad || (f->format.samples == 1 && (*px == 1 || r.t->format.predictor == 1)))
        return bad;
    return other(e, "a mask of another kind");
}
