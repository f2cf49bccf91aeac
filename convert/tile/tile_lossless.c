/* tile_lossless.c - see tile_lossless.h. */
#include "convert/tile/tile_lossless.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "convert/tile/strip.h"
#include "convert/tile/tile_pixels.h"

#include <errno.h>
#include <stdlib.h>

struct tile_lossless {
    const struct tile_format *format;
    struct strip tile, more; /* more: a row of one byte more than the tile has */
    void *inflate;           /* of codec_inflate() */
    uint8_t *pixels;         /* the tile as it is packed, and one byte */
};

bool tile_lossless_is_known(const struct tile_format *f)
{
    const bool is_webp = f->compression == COMPRESSION_WEBP; /* RGB, maybe with alpha */
    return strip_is_known((uint64_t)f->compression) &&
           (f->predictor == PREDICTOR_NONE || f->predictor == PREDICTOR_HORIZONTAL) &&
           (is_webp ? f->photometric == TILE_PHOTOMETRIC_RGB && tile_samples(f) <= 4
                    : f->photometric <= TILE_PHOTOMETRIC_RGB ||
                          f->photometric == TILE_PHOTOMETRIC_CMYK ||
                          (f->photometric == TILE_PHOTOMETRIC_PALETTE && f->palette));
}

void tile_lossless_silence(void)
{
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
}

void tile_lossless_free(struct tile_lossless *d)
{
    if (!d)
        return;
    strip_close(&d->tile);
    strip_close(&d->more);
    codec_inflate_free(d->inflate);
    free(d->pixels);
    free(d);
}

static bool is_deflate(const struct tile_format *f)
{
    return f->compression == COMPRESSION_ADOBE_DEFLATE || f->compression == COMPRESSION_DEFLATE;
}

/* Does a stream state where it ends, and libtiff not ask? */
static bool has_end(const struct tile_format *f)
{
    return f->compression == COMPRESSION_LZW || f->compression == COMPRESSION_LZMA ||
           f->compression == COMPRESSION_ZSTD;
}

static size_t packed_bytes(const struct tile_format *f)
{
    return (size_t)(f->rows * f->cols * tile_samples(f));
}

struct tile_lossless *tile_lossless_create(const struct tile_format *f, struct err *e)
{
    struct tile_lossless *d = memory_need(1, sizeof *d);
    const struct tile_format more = {.compression = f->compression,
                                     .predictor = PREDICTOR_NONE,
                                     .cols = (int64_t)packed_bytes(f) + 1,
                                     .samples = 1};
    struct tile_format tile = *f;
    tile.samples = tile_samples(f);
    d->format = f;
    d->pixels = malloc(packed_bytes(f) + 1);
    if (d->pixels && !strip_open(&d->tile, &tile, f->rows, FILLORDER_MSB2LSB, -1, 0, 1) &&
        (!has_end(f) || !strip_open(&d->more, &more, 1, FILLORDER_MSB2LSB, -1, 0, 1)))
        return d;
    tile_lossless_free(d);
    err_memory(e);
    return NULL;
}

/* Adds the samples to the left, as predictor 2 wants it. */
static void sum_rows(const struct tile_format *f, uint8_t *p)
{
    const int64_t samples = tile_samples(f), pitch = f->cols * samples;
    for (int64_t y = 0; y < f->rows; y++, p += pitch)
        for (int64_t k = samples; k < pitch; k++)
            p[k] = (uint8_t)(p[k] + p[k - samples]);
}

static int unpack_deflate(struct tile_lossless *d, const uint8_t *bytes, size_t n, uint8_t *to,
                          struct err *e)
{
    const struct tile_format *f = d->format;
    const int r = codec_inflate(&d->inflate, bytes, n, to, packed_bytes(f));
    if (r == CODEC_NO_MEMORY)
        return err_memory(e), TILE_NO_MEMORY;
    if (r)
        return err_set(e, "a tile whose deflate stream is damaged or makes another size");
    if (f->predictor == PREDICTOR_HORIZONTAL)
        sum_rows(f, to);
    return 0;
}

/* libtiff does not change the bytes, as their bits are in the usual order. */
static bool unpack_by(struct strip *p, const uint8_t *bytes, size_t n, uint8_t *to, size_t size)
{
    errno = 0;
    return TIFFReadFromUserBuffer(p->tiff, 0, (void *)(uintptr_t)bytes, (tmsize_t)n, to,
                                  (tmsize_t)size);
}

/* Unpacks the samples of a tile. 0, TILE_DAMAGED or TILE_NO_MEMORY. */
static int unpack(struct tile_lossless *d, const uint8_t *bytes, size_t n, uint8_t *to,
                  struct err *e)
{
    const size_t size = packed_bytes(d->format);
    if (is_deflate(d->format))
        return unpack_deflate(d, bytes, n, to, e);
    if (d->more.tiff && unpack_by(&d->more, bytes, n, d->pixels, size + 1))
        return err_set(e, "a tile that holds more than its pixels");
    if (unpack_by(&d->tile, bytes, n, to, size))
        return 0;
    return errno == ENOMEM ? (err_memory(e), TILE_NO_MEMORY) : err_set(e, "a damaged tile");
}

int tile_lossless_decode(struct tile_lossless *d, const uint8_t *bytes, size_t n, int channels,
                         uint8_t *out, struct err *e)
{
    const struct tile_format *f = d->format;
    const size_t pixels = (size_t)(f->rows * f->cols);
    const int samples = tile_samples(f);
    uint8_t *to = samples == channels && tile_pixels_are_plain(f) ? out : d->pixels;
    const int bad = unpack(d, bytes, n, to, e);
    if (bad)
        return bad;
    return to == out || tile_take_pixels(f, d->pixels, pixels, channels, out) ? 0 : TILE_EMPTY;
}
