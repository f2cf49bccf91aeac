/* tiff_picture.c - see tiff_picture.h. */
#include "convert/readers/tiff/tiff_picture.h"

#include "common/base/memory.h"
#include "convert/readers/tiff/tiff_samples.h"

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
enum { WHITE_IS_ZERO, GRAY, RGB, PALETTE, CMYK = 5, YCBCR = 6 };

/* --- the directory --- */

/* The entries that are read of the directory, and their places. */
struct reading {
    struct tiff_reading from;
    struct tiff_picture *p;
};

static uint64_t value(const struct reading *r, uint16_t tag, uint64_t otherwise)
{
    return tiff_value(&r->from, tag, otherwise);
}

static int other(struct err *e, const char *what)
{
    err_set(e, "%s", what);
    return ROWS_OTHER;
}

static int take_sizes(const struct reading *r, struct err *e)
{
    struct tiff_picture *p = r->p;
    const uint64_t width = value(r, TIFF_FILE_WIDTH, 0), height = value(r, TIFF_FILE_LENGTH, 0);
    const uint64_t all = value(r, TIFF_FILE_ROWS_PER_STRIP, UINT32_MAX);
    p->in_strips = !tiff_directory_tag(r->from.d, TIFF_FILE_TILE_WIDTH);
    const uint64_t cols = p->in_strips ? width : value(r, TIFF_FILE_TILE_WIDTH, 0);
    const uint64_t rows = !p->in_strips  ? value(r, TIFF_FILE_TILE_LENGTH, 0)
                          : all > height ? height
                                         : all;
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < 1 ||
        rows < 1 || cols > INT32_MAX || rows > INT32_MAX) {
        err_set(e, "its size is damaged; copy the file again");
        return ROWS_DAMAGED;
    }
    if (cols > MOST_COLS)
        return other(e, "its rows are longer than 1,048,576 px");
    p->width = (int64_t)width;
    p->height = (int64_t)height;
    p->cols = (int64_t)cols;
    p->rows = (int64_t)rows;
    p->across = (p->width + p->cols - 1) / p->cols;
    p->down = (p->height + p->rows - 1) / p->rows;
    return 0;
}

static int take_palette(const struct reading *r, struct err *e)
{
    uint8_t *palette = tiff_palette(&r->from);
    if (!palette) {
        err_set(e, "its palette is damaged; copy the file again");
        return ROWS_DAMAGED;
    }
    memcpy(r->p->palette, palette, sizeof r->p->palette);
    free(palette);
    return 0;
}

/* Samples that are colours, or 0 for a kind that is not decoded. */
static int colours_of(const struct tiff_picture *p, bool is_cmyk)
{
    switch (p->photometric) {
    case CMYK: return is_cmyk ? 4 : 0;
    case WHITE_IS_ZERO:
    case GRAY:
    case PALETTE: return 1;
    case RGB: return 3;
    case YCBCR: return p->compression == TILE_JPEG || p->compression == TILE_J2K_YCBCR ? 3 : 0;
    default: return 0;
    }
}

static int name_samples(const struct reading *r, const char *what, struct err *e)
{
    char text[160];
    tiff_file_name_tiles(r->from.t, r->from.d, text, sizeof text);
    err_set(e, "its %s; %s", text, what);
    return ROWS_OTHER;
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

static int take_samples(const struct reading *r, struct err *e)
{
    struct tiff_picture *p = r->p;
    const uint64_t samples = value(r, TIFF_FILE_SAMPLES, 1);
    const uint64_t format = value(r, TIFF_FILE_SAMPLE_FORMAT, 1);
    const bool whole = p->compression == TILE_JPEG || p->compression == TILE_J2K_YCBCR ||
                       p->compression == TILE_J2K_RGB;
    p->photometric = (int)(tiff_file_photometric(r->from.t, r->from.d) & 0xffff);
    p->predictor = (int)(value(r, TIFF_FILE_PREDICTOR, 1) & 0xffff);
    p->fill_order = value(r, TIFF_FILE_FILL_ORDER, 1) == 2 ? 2 : 1;
    if (value(r, TIFF_FILE_BITS, 1) != 8 || (format != 1 && format != 4))
        return name_samples(r, "only unsigned 8-bit RGB and gray are converted", e);
    if (!whole && !tiff_rows_know(p->compression))
        return name_samples(r, "this compression is not decoded", e);
    if (!whole && p->predictor != 1 && p->predictor != 2)
        return name_samples(r, "predictor 3 is for floating-point numbers", e);
    const int colours = colours_of(p, !whole && value(r, TIFF_FILE_INK_SET, 1) == 1);
    if (colours == 0 && whole)
        return name_samples(r, "of JPEG and JPEG 2000 only RGB, YCbCr and gray are converted", e);
    if (colours == 0)
        return name_samples(r, "only RGB, gray, palettes and CMYK are converted", e);
    p->samples = (int)(samples & UINT16_MAX);
    p->alpha_at = tiff_alpha(&r->from, colours, p->samples, &p->is_multiplied);
    p->n_left_out = p->samples - colours - (p->alpha_at > 0);
    if (tiff_check_channels(colours, p->samples, p->alpha_at, !whole, e))
        return ROWS_OTHER;
    if (samples < (uint64_t)colours || samples > TIFF_MOST_SAMPLES ||
        (whole && samples != (uint64_t)colours))
        return name_samples(r, "its number of samples is not that of its colours", e);
    p->planes = value(r, TIFF_FILE_PLANES, 1) == 2 ? p->samples : 1;
    if (p->planes > 1 && p->photometric == YCBCR && !is_ome(r))
        return name_samples(r, "YCbCr in separate planes is not converted", e);
    p->channels = colours >= 3 || p->photometric == PALETTE ? 3 : 1;
    return p->photometric == PALETTE ? take_palette(r, e) : 0;
}

static int take_tables(const struct reading *r, struct err *e)
{
    struct tiff_picture *p = r->p;
    const struct tiff_tag *tag = tiff_directory_tag(r->from.d, TIFF_FILE_JPEG_TABLES);
    if (p->compression != TILE_JPEG || !tag || tiff_tag_bytes(tag) == 0)
        return 0;
    p->tables = tiff_tables(&r->from, &p->tables_bytes);
    if (p->tables)
        return 0;
    err_set(e, "its JPEG tables are not in the file; copy the file again");
    return ROWS_DAMAGED;
}

static int take_places(const struct reading *r, struct err *e)
{
    struct tiff_picture *p = r->p;
    if (p->across > MOST_SEGMENTS / p->down)
        return other(e, "it has too many strips");
    return tiff_places(&r->from, p->in_strips, p->across * p->down * p->planes, &p->places, e);
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
    const struct tiff_picture *p = r->p;
    const double segment = (double)p->cols * (double)p->rows * p->samples / p->planes;
    double pixels = 0;
    for (int64_t k = 0; k < p->across * p->down * p->planes; k++)
        pixels += p->places[k].bytes > 0 ? segment : 0;
    if (pixels > 0 && pixels <= (double)most_ratio(p->compression) * ((double)r->from.t->bytes + 1))
        return 0;
    if (pixels <= 0)
        err_set(e, "nothing of it was scanned: all its tiles or strips are missing");
    else
        err_set(e, "the file is too small for %" PRId64 " x %" PRId64 " px; copy the file again",
                p->width, p->height);
    return ROWS_DAMAGED;
}

static int read_directory(struct reading *r, struct err *e)
{
    r->p->compression = tiff_compression(&r->from, false);
    int bad = take_sizes(r, e);
    bad = bad ? bad : take_samples(r, e);
    bad = bad ? bad : take_tables(r, e);
    bad = bad ? bad : take_places(r, e);
    return bad ? bad : check_bytes(r, e);
}

int tiff_picture_read(struct tiff_picture *p, const struct slide_file *file, uint64_t at,
                      struct err *e)
{
    struct reading r = {.p = p};
    *p = (struct tiff_picture){.file = file, .conflict = memory_need(1, sizeof *p->conflict)};
    errno = 0;
    r.from.t = tiff_file_of(file);
    r.from.d = r.from.t ? tiff_file_directory(r.from.t, at) : NULL;
    if (!r.from.d) {
        if (slide_may_pass(errno))
            return err_sys(e, "cannot read its directories");
        err_set(e, "its directory cannot be read; copy the slide again");
        return ROWS_DAMAGED;
    }
    const int bad = read_directory(&r, e);
    return slide_may_pass(errno) ? err_sys(e, "cannot read its directories") : bad;
}

void tiff_picture_free(struct tiff_picture *p)
{
    free(p->places);
    free(p->tables);
    free(p->conflict);
    *p = (struct tiff_picture){0};
}

/* --- what JPEG streams state --- */

const char *tiff_picture_contradiction(const struct tiff_picture *p)
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
    const int conflict = p->conflict ? *p->conflict : TILE_AGREES;
    return conflict == TILE_AGREES       ? NULL
           : conflict == TILE_SUBSAMPLED ? subsampled[p->in_strips]
                                         : texts[p->in_strips][p->photometric == YCBCR];
}

/* --- rows of samples to RGB or gray --- */

struct picture_rows {
    struct rows rows;
    const struct tiff_picture *picture;
    struct rows *planes[TIFF_MOST_SAMPLES];
    uint8_t *line;  /* [cols][samples] */
    uint8_t *plane; /* [cols] */
    uint8_t *alpha; /* [cols] */
};

static void close_picture(struct rows *rows)
{
    struct picture_rows *r = (struct picture_rows *)rows;
    for (int k = 0; k < TIFF_MOST_SAMPLES; k++)
        rows_close(r->planes[k]);
    free(r->line);
    free(r->plane);
    free(r->alpha);
    free(r);
}

/* A row of samples over white: v is multiplied by alpha already, or not. */
static uint8_t over_white(const struct tiff_picture *p, uint8_t v, uint8_t alpha)
{
    const int rest = 255 - alpha;
    if (p->is_multiplied)
        return (uint8_t)(v + rest < 255 ? v + rest : 255);
    return (uint8_t)((v * alpha + 255 * rest + 127) / 255);
}

/* As libtiff does. */
static void convert_inks(const uint8_t *inks, uint8_t rgb[3])
{
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)((255 - inks[3]) * (255 - inks[k]) / 255);
}

static void convert_row(const struct tiff_picture *p, const uint8_t *line, uint8_t *out)
{
    const int colours = p->photometric == PALETTE ? 1 : p->channels;
    for (int64_t x = 0; x < p->cols; x++, line += p->samples, out += p->channels) {
        uint8_t v[3] = {line[0], line[colours == 3 ? 1 : 0], line[colours == 3 ? 2 : 0]};
        if (p->photometric == PALETTE)
            memcpy(v, p->palette[line[0]], 3);
        if (p->photometric == CMYK)
            convert_inks(line, v);
        if (p->photometric == WHITE_IS_ZERO)
            v[0] = (uint8_t)(255 - v[0]);
        for (int k = 0; k < p->channels; k++)
            out[k] = p->alpha_at ? over_white(p, v[k], line[p->alpha_at]) : v[k];
    }
}

static bool is_plain(const struct tiff_picture *p)
{
    return p->samples == p->channels && p->photometric != WHITE_IS_ZERO &&
           p->photometric != PALETTE;
}

static int next_row(struct rows *rows, uint8_t *out, struct err *e)
{
    const struct picture_rows *r = (struct picture_rows *)rows;
    const struct tiff_picture *p = r->picture;
    uint8_t *to = is_plain(p) ? out : r->line;
    if (p->planes == 1) {
        const int bad = r->planes[0]->kind->next(r->planes[0], to, e);
        if (bad)
            return bad;
    }
    for (int k = 0; p->planes > 1 && k < p->planes; k++) {
        const int bad = r->planes[k]->kind->next(r->planes[k], r->plane, e);
        if (bad)
            return bad;
        for (int64_t x = 0; x < p->cols; x++)
            to[x * p->samples + k] = r->plane[x];
    }
    if (to != out)
        convert_row(p, to, out);
    for (int64_t x = 0; p->alpha_at && x < p->cols; x++)
        r->alpha[x] = to[x * p->samples + p->alpha_at];
    return 0;
}

static int begin_planes(struct picture_rows *r, int64_t col, int64_t row, struct err *e)
{
    const struct tiff_picture *p = r->picture;
    const int64_t left = p->height - row * p->rows;
    const int64_t rows = p->in_strips && left < p->rows ? left : p->rows;
    for (int k = 0; k < p->planes; k++) {
        const int bad = tiff_rows_open(&r->planes[k], p,
                                       &p->places[(k * p->down + row) * p->across + col], rows, e);
        if (bad)
            return bad;
    }
    return 0;
}

/* Bytes of a segment, with all its planes. */
static uint64_t segment_bytes(const struct tiff_picture *p, int64_t col, int64_t row)
{
    uint64_t n = 0;
    for (int k = 0; k < p->planes; k++)
        n |= p->places[(k * p->down + row) * p->across + col].bytes;
    return n;
}

static int begin_segment(const void *ctx, int64_t col, int64_t row, struct rows **out,
                         struct err *e)
{
    static const struct rows_kind kind = {next_row, close_picture};
    const struct tiff_picture *p = ctx;
    *out = NULL;
    if (segment_bytes(p, col, row) == 0)
        return 0;
    struct picture_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    r->picture = p;
    r->line = memory_try((size_t)p->cols, (size_t)p->samples, e);
    r->plane = memory_try((size_t)p->cols, 1, e);
    r->alpha = memory_try((size_t)p->cols, 1, e);
    r->rows.alpha = p->alpha_at ? r->alpha : NULL;
    const int bad = r->line && r->plane && r->alpha ? begin_planes(r, col, row, e) : -1;
    if (bad) {
        const int code = errno;
        close_picture(&r->rows);
        errno = code;
        return bad;
    }
    *out = &r->rows;
    return 0;
}

/* The rows of a segment that lie in the picture. */
static int decode_segment(const struct tiff_picture *p, int64_t col, int64_t row, uint8_t *line,
                          uint8_t *rgb, struct err *e)
{
    const int64_t x = col * p->cols, y = row * p->rows;
    const int64_t cols = p->width - x < p->cols ? p->width - x : p->cols;
    const int64_t rows = p->height - y < p->rows ? p->height - y : p->rows;
    struct rows *r;
    int bad = begin_segment(p, col, row, &r, e);
    for (int64_t k = 0; !bad && k < rows; k++) {
        uint8_t *out = rgb + 3 * ((y + k) * p->width + x);
        bad = r ? r->kind->next(r, line, e) : ROWS_DAMAGED;
        for (int64_t j = 0; !bad && j < cols; j++)
            for (int c = 0; c < 3; c++)
                out[3 * j + c] = line[j * p->channels + (p->channels == 3 ? c : 0)];
    }
    rows_close(r);
    return bad;
}

uint8_t *tiff_picture_rgb(const struct tiff_picture *p, struct err *e)
{
    uint8_t *rgb = memory_try((size_t)(p->width * p->height), 3, e);
    uint8_t *line = memory_try((size_t)p->cols, 3, e);
    int bad = rgb && line ? 0 : -1;
    for (int64_t k = 0; !bad && k < p->down * p->across; k++)
        bad = decode_segment(p, k % p->across, k / p->across, line, rgb, e);
    const int code = errno;
    free(line);
    if (bad)
        free(rgb);
    errno = code;
    return bad ? NULL : rgb;
}

/* Memory that one segment needs: its bytes where libtiff holds them, or its pixels where they
 * cannot be decoded in bands. */
static uint64_t whole_bytes(const struct tiff_picture *p)
{
    const uint64_t pixels = (uint64_t)p->cols * (uint64_t)p->rows * (uint64_t)p->samples;
    uint64_t most = 0;
    for (int64_t k = 0; k < p->across * p->down * p->planes; k++)
        if (p->places[k].bytes > most && p->places[k].bytes <= p->file->bytes)
            most = p->places[k].bytes;
    if (p->compression == TILE_J2K_RGB || p->compression == TILE_J2K_YCBCR)
        return most + 5 * pixels; /* OpenJPEG's samples have 32 bits */
    if (p->compression == WEBP)
        return most + pixels;
    const bool streamed =
        p->compression == TILE_NONE || p->compression == TILE_JPEG || p->compression == PACKBITS;
    return streamed ? 0 : most;
}

struct bands_picture tiff_picture_bands(const struct tiff_picture *p)
{
    return (struct bands_picture){.width = p->width,
                                  .height = p->height,
                                  .cols = p->cols,
                                  .rows = p->rows,
                                  .channels = p->channels,
                                  .background = {255, 255, 255},
                                  .whole_bytes = whole_bytes(p),
                                  .begin = begin_segment,
                                  .ctx = p};
}
