/* tile.c - see tile.h. */
#include "convert/tile/tile.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "common/codec/j2k.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_stream.h"
#include "common/store/gray.h"
#include "convert/tile/tile_lossless.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tile_decoder {
    struct tile_format format;
    struct jpeg_decoder *jpeg; /* one of the three */
    struct j2k_decoder *j2k;
    struct tile_lossless *lossless;
    uint8_t *rgb;               /* one tile, for gray from RGB; NULL until it is needed */
    size_t pixels;              /* of a whole tile */
    size_t most;                /* bytes of a chunk: readers accept no larger ones */
    int64_t end_cols, end_rows; /* tile_may_end_at; 0: streams have the size of a whole tile */
    enum tile_conflict conflict;
};

bool tile_is_known(const struct tile_format *f)
{
    return tile_may_be_kept(f) ||
           (tile_is_j2k(f) && tile_samples(f) == tile_colours(f) && tile_colours(f) < 4) ||
           tile_lossless_is_known(f);
}

struct tile_decoder *tile_create(const struct tile_format *f, struct err *e)
{
    struct tile_decoder *d = memory_need(1, sizeof *d);
    const bool single = tile_is_gray(f) && !tile_is_j2k(f);
    const struct codec_params chunk = {codec_find(tile_is_j2k(f) ? "j2k" : "jpeg"), f->rows,
                                       f->cols, single ? 1 : 3};
    d->format = *f;
    d->pixels = (size_t)(f->cols * f->rows);
    d->most = codec_most_bytes(&chunk);
    if (tile_is_j2k(f))
        d->j2k = j2k_decoder_create(e);
    else if (f->compression != TILE_JPEG)
        d->lossless = tile_lossless_create(&d->format, e);
    else if ((d->jpeg = jpeg_decoder_create(e)) &&
             jpeg_check_tables(d->jpeg, f->tables, f->tables_bytes, e) == 0)
        return d;
    if (d->j2k || d->lossless)
        return d;
    tile_free(d);
    return NULL;
}

void tile_free(struct tile_decoder *d)
{
    if (!d)
        return;
    jpeg_decoder_free(d->jpeg);
    j2k_decoder_free(d->j2k);
    tile_lossless_free(d->lossless);
    free(d->rgb);
    free(d);
}

void tile_may_end_at(struct tile_decoder *d, int64_t cols, int64_t rows)
{
    d->end_cols = cols;
    d->end_rows = rows;
}

static bool is_ycbcr(const struct tile_format *f)
{
    return f->photometric == TILE_PHOTOMETRIC_YCBCR;
}

/* The colours of a JPEG stream, and how it contradicts the file. */
static enum jpeg_colours colours_of(const struct tile_format *f, const uint8_t *bytes, size_t n,
                                    enum tile_conflict *conflict)
{
    bool is_subsampled;
    *conflict = TILE_AGREES;
    if (tile_is_gray(f))
        return JPEG_SINGLE;
    const int stated = jpeg_header_colours(bytes, n, &is_subsampled);
    const bool ycbcr = stated >= 0 && f->stream_decides ? stated == 1 : is_ycbcr(f);
    if (is_subsampled && !ycbcr)
        *conflict = TILE_SUBSAMPLED;
    else if (stated >= 0 && stated != is_ycbcr(f))
        *conflict = TILE_STATES_OTHER;
    return ycbcr || is_subsampled ? JPEG_YCBCR : JPEG_RGB;
}

/* Notes the conflict of a tile that was decoded with the result r. */
static void note_conflict(struct tile_decoder *d, int r, enum tile_conflict conflict)
{
    if (r == 0 && conflict > d->conflict)
        d->conflict = conflict;
}

static int decode_jpeg(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels,
                       bool eighth, uint8_t *out, struct err *e)
{
    enum tile_conflict conflict;
    const struct tile_format *f = &d->format;
    const struct jpeg_stream s = {f->tables, f->tables_bytes, bytes, n};
    const struct jpeg_picture p = {.cols = f->cols,
                                   .rows = f->rows,
                                   .channels = channels,
                                   .eighth = eighth,
                                   .colours = colours_of(f, bytes, n, &conflict)};
    const int r = jpeg_decode(d->jpeg, &p, &s, out, e);
    note_conflict(d, r, conflict);
    return r;
}

/* Is the first component of this JPEG the gray of its tile? Never in a file that states RGB, so
 * that its gray is the same however the tissue map is made. */
static bool has_luma(const struct tile_format *f, const uint8_t *bytes, size_t n)
{
    enum tile_conflict conflict;
    return tile_is_gray(f) || (is_ycbcr(f) && colours_of(f, bytes, n, &conflict) == JPEG_YCBCR);
}

/* The properties that a JPEG 2000 stream must have, and how it contradicts the file. */
static struct j2k_picture j2k_picture_of(const struct tile_format *f, const uint8_t *bytes,
                                         size_t n, enum tile_conflict *conflict)
{
    const bool ycbcr = f->compression == TILE_J2K_YCBCR;
    const bool transformed = ycbcr && f->stream_decides && j2k_chunk_coding(bytes, n).transformed;
    *conflict = ycbcr && f->stream_decides && transformed != f->transformed ? TILE_STATES_OTHER
                                                                            : TILE_AGREES;
    return (struct j2k_picture){
        .cols = f->cols, .rows = f->rows, .ycbcr = ycbcr && !transformed, .gray = tile_is_gray(f)};
}

/* Some programs write tiles as whole JP2 files. Leaves the codestream of such a tile. */
static void leave_codestream(const uint8_t **bytes, size_t *n)
{
    static const uint8_t signature[12] = {0, 0, 0, 12, 'j', 'P', ' ', ' ', 13, 10, 0x87, 10};
    const uint8_t *p = *bytes;
    size_t left = *n;
    if (left < sizeof signature || memcmp(p, signature, sizeof signature) != 0)
        return;
    while (left >= 8) {
        const size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        const size_t head =
            length == 1 ? 16 : 8; /* 1: 64 bits follow, whose upper half must be 0 */
        if (left < head || (head == 16 && (p[8] | p[9] | p[10] | p[11])))
            return;
        const size_t stated =
            head == 8 ? length
                      : (size_t)p[12] << 24 | (size_t)p[13] << 16 | (size_t)p[14] << 8 | p[15];
        const size_t box = length == 0 ? left : stated; /* 0: to the end */
        const bool is_stream = !memcmp(p + 4, "jp2c", 4);
        if (is_stream) {
            *bytes = p + head;
            *n = (box < left && box > head ? box : left) - head;
        }
        if (is_stream || box < head || box > left)
            return;
        p += box;
        left -= box;
    }
}

int tile_check_headers(const struct tile_format *f, const uint8_t *bytes, size_t n, struct err *e)
{
    enum tile_conflict conflict;
    leave_codestream(&bytes, &n);
    const struct j2k_picture p = j2k_picture_of(f, bytes, n, &conflict);
    return j2k_check_headers(&p, bytes, n, e);
}

/* As RGB; gray as it is. */
static int decode_j2k(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                      struct err *e)
{
    enum tile_conflict conflict;
    const struct j2k_picture p = j2k_picture_of(&d->format, bytes, n, &conflict);
    const int r = j2k_decode(d->j2k, &p, bytes, n, out, e);
    note_conflict(d, r, conflict);
    return r;
}

/* Repeats each of n gray pixels, in place, as R, G and B. */
static void spread(uint8_t *pixels, size_t n)
{
    for (size_t k = n; k-- > 0;)
        memset(pixels + 3 * k, pixels[k], 3);
}

static int decode_rgb(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *rgb,
                      struct err *e)
{
    if (!d->j2k)
        return decode_jpeg(d, bytes, n, 3, false, rgb, e);
    const int r = decode_j2k(d, bytes, n, rgb, e);
    if (r == 0 && tile_is_gray(&d->format))
        spread(rgb, (size_t)(d->format.cols * d->format.rows));
    return r;
}

/* --- streams that end where the picture does --- */

/* The format of a stream. 0; 1: it ends before a whole tile does; TILE_DAMAGED: it has a size that
 * no stream of this tile may have. A stream that states no size is left to its decoder. */
static int find_format(const struct tile_decoder *d, const uint8_t *bytes, size_t n,
                       struct tile_format *of, struct err *e)
{
    int64_t cols = 0, rows = 0;
    *of = d->format;
    if (d->end_cols == 0 || d->lossless ||
        !(d->j2k ? j2k_stream_size : jpeg_header_size)(bytes, n, &cols, &rows))
        return 0;
    if ((cols != of->cols && cols != d->end_cols) || (rows != of->rows && rows != d->end_rows)) {
        err_set(
            e, "a stream of %" PRId64 " x %" PRId64 " px in a tile of %" PRId64 " x %" PRId64 " px",
            cols, rows, of->cols, of->rows);
        return TILE_DAMAGED;
    }
    const bool ends = cols < of->cols || rows < of->rows;
    of->cols = cols;
    of->rows = rows;
    return ends;
}

/* Spreads the rows of a picture at the beginning of a tile over those of the tile; the rest becomes
 * white. */
static void widen(uint8_t *out, int64_t cols, int64_t rows, int64_t tile_cols, int64_t tile_rows,
                  int channels)
{
    const size_t line = (size_t)(cols * channels), pitch = (size_t)(tile_cols * channels);
    for (int64_t y = tile_rows - 1; y >= 0; y--) {
        uint8_t *row = out + (size_t)y * pitch;
        const size_t used = y < rows ? line : 0;
        memmove(row, out + (size_t)y * line, used);
        memset(row + used, 255, pitch - used);
    }
}

static int decode_pixels(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels,
                         uint8_t *out, struct err *e)
{
    const size_t pixels = (size_t)(d->format.cols * d->format.rows);
    if (d->lossless)
        return tile_lossless_decode(d->lossless, bytes, n, channels, out, e);
    if (d->jpeg && channels == 1 && has_luma(&d->format, bytes, n))
        return decode_jpeg(d, bytes, n, 1, false, out, e);
    if (d->j2k && channels == 1 && tile_is_gray(&d->format))
        return decode_j2k(d, bytes, n, out, e);
    if (channels == 3)
        return decode_rgb(d, bytes, n, out, e);
    if (!d->rgb && !(d->rgb = memory_try(3, d->pixels, e)))
        return TILE_NO_MEMORY;
    const int r = decode_rgb(d, bytes, n, d->rgb, e);
    if (r == 0)
        gray_bytes_from_rgb(d->rgb, out, pixels);
    return r;
}

int tile_decode(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                struct err *e)
{
    const struct tile_format whole = d->format;
    struct tile_format of;
    if (d->j2k)
        leave_codestream(&bytes, &n);
    const int ends = find_format(d, bytes, n, &of, e);
    if (ends < 0)
        return ends;
    d->format = of;
    const int r = decode_pixels(d, bytes, n, channels, out, e);
    d->format = whole;
    if (r == 0 && ends)
        widen(out, of.cols, of.rows, whole.cols, whole.rows, channels);
    return r;
}

int tile_decode_eighth(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                       struct err *e)
{
    const struct tile_format whole = d->format;
    struct tile_format of;
    if (!d->jpeg)
        return err_set(e, "not a JPEG tile");
    const int ends = find_format(d, bytes, n, &of, e);
    if (ends < 0)
        return ends;
    d->format = of;
    const int r = decode_jpeg(d, bytes, n, 3, true, out, e);
    d->format = whole;
    if (r == 0 && ends && out)
        widen(out, (of.cols + 7) / 8, (of.rows + 7) / 8, (whole.cols + 7) / 8, (whole.rows + 7) / 8,
              3);
    return r;
}

static int make_chunk(const struct tile_decoder *d, const uint8_t *bytes, size_t n,
                      struct jpeg_chunk *chunk, enum tile_conflict *conflict, struct err *e)
{
    const struct tile_format *f = &d->format;
    const struct jpeg_stream s = {f->tables, f->tables_bytes, bytes, n};
    const bool ycbcr = colours_of(f, bytes, n, conflict) == JPEG_YCBCR;
    const int r = jpeg_chunk_make(chunk, &s, ycbcr, e);
    if (r || chunk->n <= d->most)
        return r == JPEG_NO_MEMORY ? TILE_NO_MEMORY : r ? TILE_OTHER : 0;
    err_set(e, "a JPEG of %zu bytes", chunk->n);
    return TILE_OTHER;
}

/* A tile that is no chunk: is it damaged? */
static int judge_other(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *eighth,
                       const struct err *why, struct err *e)
{
    const int r = tile_decode_eighth(d, bytes, n, eighth, e);
    if (r)
        return r;
    err_copy(e, why);
    return TILE_OTHER;
}

/* Decodes a chunk at 1/8, as RGB. */
static int check_chunk(struct tile_decoder *d, const struct jpeg_chunk *chunk, uint8_t *eighth,
                       struct err *e)
{
    const struct tile_format *f = &d->format;
    const bool gray = tile_is_gray(f);
    const struct jpeg_stream s = {.bytes = chunk->bytes, .n = chunk->n};
    const struct jpeg_picture p = {.cols = f->cols,
                                   .rows = f->rows,
                                   .channels = gray ? 1 : 3,
                                   .eighth = true,
                                   .colours = JPEG_MARKED};
    const int r = jpeg_decode(d->jpeg, &p, &s, eighth, e);
    if (r == 0 && gray && eighth)
        spread(eighth, (size_t)((f->cols + 7) / 8 * ((f->rows + 7) / 8)));
    return r;
}

/* As tile_keep, for JPEG 2000. */
static int keep_j2k(struct tile_decoder *d, const uint8_t *bytes, size_t n,
                    struct jpeg_chunk *chunk, struct err *e)
{
    struct err why = {0};
    enum tile_conflict conflict;
    const struct j2k_picture p = j2k_picture_of(&d->format, bytes, n, &conflict);
    int r = j2k_check(d->j2k, &p, bytes, n, e);
    if (r)
        return r;
    r = j2k_chunk_make(chunk, &p, bytes, n, &why);
    if (r == 0 && chunk->n > d->most)
        r = err_set(&why, "a JPEG 2000 stream of %zu bytes", n);
    if (r)
        err_copy(e, &why);
    note_conflict(d, r, conflict);
    return r == J2K_NO_MEMORY ? TILE_NO_MEMORY : r ? TILE_OTHER : 0;
}

/* As judge_other, of a JPEG 2000 stream that ends before its tile does. */
static int judge_short_j2k(struct tile_decoder *d, const uint8_t *bytes, size_t n,
                           const struct tile_format *of, const struct err *why, struct err *e)
{
    enum tile_conflict conflict;
    const struct j2k_picture p = j2k_picture_of(of, bytes, n, &conflict);
    const int r = j2k_check(d->j2k, &p, bytes, n, e);
    if (r)
        return r;
    err_copy(e, why);
    return TILE_OTHER;
}

int tile_keep(struct tile_decoder *d, const uint8_t *bytes, size_t n, struct jpeg_chunk *chunk,
              uint8_t *eighth, struct err *e)
{
    struct err why = {0};
    enum tile_conflict conflict;
    struct tile_format of;
    if (d->j2k)
        leave_codestream(&bytes, &n);
    const int ends = find_format(d, bytes, n, &of, e);
    if (ends < 0)
        return ends;
    if (ends) {
        err_set(&why, "a frame of its true size, %d x %d px; chunks are whole tiles", (int)of.cols,
                (int)of.rows);
        return d->j2k ? judge_short_j2k(d, bytes, n, &of, &why, e)
                      : judge_other(d, bytes, n, eighth, &why, e);
    }
    if (d->j2k)
        return keep_j2k(d, bytes, n, chunk, e);
    int r = make_chunk(d, bytes, n, chunk, &conflict, &why);
    if (r == TILE_OTHER)
        return judge_other(d, bytes, n, eighth, &why, e);
    if (r) {
        err_copy(e, &why);
        return r;
    }
    r = check_chunk(d, chunk, eighth, e);
    note_conflict(d, r, conflict);
    return r;
}

enum tile_conflict tile_conflict(const struct tile_decoder *d)
{
    return d->conflict;
}

const char *tile_libraries(void)
{
    static char text[96];
    snprintf(text, sizeof text, "%s, %s", jpeg_library(), j2k_library());
    return text;
}
