/* tile.c - see tile.h. */
#include "convert/tile/tile.h"

#include "common/codec/codec.h"
#include "common/codec/j2k_chunk.h"
#include "common/codec/j2k_decoder.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_header.h"
#include "common/store/gray.h"
#include "convert/tile/tile_lossless.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tile_decoder {
    struct tile_format format;
    struct jpeg_decoder *jpeg; /* one of the three */
    struct j2k_decoder *j2k;
    struct tile_lossless *lossless;
    uint8_t *rgb; /* one tile, for gray from RGB; NULL until it is needed */
    bool contradicted;
};

bool tile_is_j2k(const struct tile_format *f)
{
    return f->compression == TILE_J2K_YCBCR || f->compression == TILE_J2K_RGB;
}

bool tile_may_be_kept(const struct tile_format *f)
{
    return f->compression == TILE_JPEG &&
           (f->photometric == TILE_PHOTOMETRIC_RGB || f->photometric == TILE_PHOTOMETRIC_YCBCR ||
            f->photometric == TILE_PHOTOMETRIC_GRAY);
}

bool tile_is_gray(const struct tile_format *f)
{
    return f->photometric == TILE_PHOTOMETRIC_GRAY;
}

bool tile_is_known(const struct tile_format *f)
{
    return tile_may_be_kept(f) || tile_is_j2k(f) || tile_lossless_is_known(f);
}

struct tile_decoder *tile_create(const struct tile_format *f, struct err *e)
{
    struct tile_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        err_set(e, "out of memory");
        return NULL;
    }
    d->format = *f;
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

static bool is_ycbcr(const struct tile_format *f)
{
    return f->photometric == TILE_PHOTOMETRIC_YCBCR;
}

/* The colours of a JPEG stream. *contradicted: it states others than the file. */
static enum jpeg_colours colours_of(const struct tile_format *f, const uint8_t *bytes, size_t n,
                                    bool *contradicted)
{
    const int stated = jpeg_header_colours(bytes, n);
    if (tile_is_gray(f)) {
        *contradicted = false;
        return JPEG_SINGLE;
    }
    *contradicted = stated >= 0 && stated != is_ycbcr(f);
    const bool ycbcr = *contradicted && f->stream_decides ? stated == 1 : is_ycbcr(f);
    return ycbcr ? JPEG_YCBCR : JPEG_RGB;
}

static int decode_jpeg(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels,
                       bool eighth, uint8_t *out, struct err *e)
{
    bool contradicted;
    const struct tile_format *f = &d->format;
    const struct jpeg_stream s = {f->tables, f->tables_bytes, bytes, n};
    const struct jpeg_picture p = {.cols = f->cols,
                                   .rows = f->rows,
                                   .channels = channels,
                                   .eighth = eighth,
                                   .colours = colours_of(f, bytes, n, &contradicted)};
    const int r = jpeg_decode(d->jpeg, &p, &s, out, e);
    d->contradicted = d->contradicted || (r == 0 && contradicted);
    return r;
}

/* Is the first component of this JPEG the gray of its tile? Never in a file that states RGB, so
 * that its gray is the same however the tissue map is made. */
static bool has_luma(const struct tile_format *f, const uint8_t *bytes, size_t n)
{
    bool contradicted;
    return tile_is_gray(f) || (is_ycbcr(f) && colours_of(f, bytes, n, &contradicted) == JPEG_YCBCR);
}

/* What a JPEG 2000 stream must be. *contradicted: it states other colours than the file. */
static struct j2k_picture j2k_picture_of(const struct tile_format *f, const uint8_t *bytes,
                                         size_t n, bool *contradicted)
{
    const bool ycbcr = f->compression == TILE_J2K_YCBCR;
    const bool transformed = ycbcr && f->stream_decides && j2k_chunk_coding(bytes, n).transformed;
    *contradicted = ycbcr && f->stream_decides && transformed != f->transformed;
    return (struct j2k_picture){
        .cols = f->cols, .rows = f->rows, .ycbcr = ycbcr && !transformed, .gray = tile_is_gray(f)};
}

/* As RGB; gray as it is. */
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

static int decode_j2k(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                      struct err *e)
{
    bool contradicted;
    const struct j2k_picture p = j2k_picture_of(&d->format, bytes, n, &contradicted);
    const int r = j2k_decode(d->j2k, &p, bytes, n, out, e);
    d->contradicted = d->contradicted || (r == 0 && contradicted);
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

int tile_decode(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                struct err *e)
{
    const size_t pixels = (size_t)(d->format.cols * d->format.rows);
    if (d->j2k)
        leave_codestream(&bytes, &n);
    if (d->lossless)
        return tile_lossless_decode(d->lossless, bytes, n, channels, out, e);
    if (d->jpeg && channels == 1 && has_luma(&d->format, bytes, n))
        return decode_jpeg(d, bytes, n, 1, false, out, e);
    if (d->j2k && channels == 1 && tile_is_gray(&d->format))
        return decode_j2k(d, bytes, n, out, e);
    if (channels == 3)
        return decode_rgb(d, bytes, n, out, e);
    if (!d->rgb && !(d->rgb = malloc(3 * pixels))) {
        err_set(e, "out of memory");
        return TILE_NO_MEMORY;
    }
    const int r = decode_rgb(d, bytes, n, d->rgb, e);
    if (r == 0)
        gray_bytes_from_rgb(d->rgb, out, pixels);
    return r;
}

int tile_decode_eighth(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                       struct err *e)
{
    return d->jpeg ? decode_jpeg(d, bytes, n, 3, true, out, e) : err_set(e, "not a JPEG tile");
}

/* A chunk that is larger than readers accept is no chunk. */
static int make_chunk(const struct tile_format *f, const uint8_t *bytes, size_t n,
                      struct jpeg_chunk *chunk, bool *contradicted, struct err *e)
{
    const struct jpeg_stream s = {f->tables, f->tables_bytes, bytes, n};
    const struct codec_params p = {codec_find("jpeg"), f->rows, f->cols, tile_is_gray(f) ? 1 : 3};
    const bool ycbcr = colours_of(f, bytes, n, contradicted) == JPEG_YCBCR;
    const int r = jpeg_chunk_make(chunk, &s, ycbcr, e);
    if (r || chunk->n <= codec_most_bytes(&p))
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
    err_set(e, "%s", why->msg);
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
    struct err why = {""};
    bool contradicted;
    const struct j2k_picture p = j2k_picture_of(&d->format, bytes, n, &contradicted);
    const struct codec_params params = {codec_find("j2k"), p.rows, p.cols, 3};
    int r = j2k_check(d->j2k, &p, bytes, n, e);
    if (r)
        return r;
    r = j2k_chunk_make(chunk, &p, bytes, n, &why);
    if (r == 0 && chunk->n > codec_most_bytes(&params))
        r = err_set(&why, "a JPEG 2000 stream of %zu bytes", n);
    if (r)
        err_set(e, "%s", why.msg);
    d->contradicted = d->contradicted || (r == 0 && contradicted);
    return r == J2K_NO_MEMORY ? TILE_NO_MEMORY : r ? TILE_OTHER : 0;
}

int tile_keep(struct tile_decoder *d, const uint8_t *bytes, size_t n, struct jpeg_chunk *chunk,
              uint8_t *eighth, struct err *e)
{
    const struct tile_format *f = &d->format;
    struct err why = {""};
    bool contradicted;
    if (d->j2k) {
        leave_codestream(&bytes, &n);
        return keep_j2k(d, bytes, n, chunk, e);
    }
    int r = make_chunk(f, bytes, n, chunk, &contradicted, &why);
    if (r == TILE_OTHER)
        return judge_other(d, bytes, n, eighth, &why, e);
    if (r) {
        err_set(e, "%s", why.msg);
        return r;
    }
    r = check_chunk(d, chunk, eighth, e);
    d->contradicted = d->contradicted || (r == 0 && contradicted);
    return r;
}

bool tile_is_contradicted(const struct tile_decoder *d)
{
    return d->contradicted;
}

const char *tile_libraries(void)
{
    static char text[96];
    snprintf(text, sizeof text, "%s, %s", jpeg_library(), j2k_library());
    return text;
}
