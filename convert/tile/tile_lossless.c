/*
 * tile_lossless.c - see tile_lossless.h.
 *
 * libtiff's decoders need a directory. They get one of our own in memory, of a picture of one tile,
 * so that nothing of the slide's file reaches them but the bytes of a tile, and each thread has its
 * own. They write no more than the tile's pixels, and fail if the bytes make fewer.
 */
#include "convert/tile/tile_lossless.h"

#include "common/store/gray.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum { HEAD = 8, TAGS = 12, BITS_AT = HEAD + 2 + 12 * TAGS + 4, PICTURE = BITS_AT + 6 };

struct tile_lossless {
    const struct tile_format *format;
    TIFF *tiff;
    uint8_t *pixels; /* the tile as it is packed, where another number of channels is wanted */
    uint8_t picture[PICTURE]; /* a TIFF file without pixels */
    size_t at;                /* where libtiff reads it */
};

static int samples_of(const struct tile_format *f)
{
    return f->photometric == TILE_PHOTOMETRIC_GRAY ? 1 : 3;
}

bool tile_lossless_is_known(const struct tile_format *f)
{
    static const int known[] = {
        COMPRESSION_NONE,     COMPRESSION_LZW,  COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,
        COMPRESSION_PACKBITS, COMPRESSION_ZSTD, COMPRESSION_WEBP};
    bool found = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        found |= f->compression == known[k];
    return found && TIFFIsCODECConfigured((uint16_t)f->compression) &&
           (f->photometric == TILE_PHOTOMETRIC_RGB ||
            (f->photometric == TILE_PHOTOMETRIC_GRAY && f->compression != COMPRESSION_WEBP)) &&
           (f->predictor == PREDICTOR_NONE || f->predictor == PREDICTOR_HORIZONTAL);
}

/* --- the picture in memory --- */

static tmsize_t picture_read(thandle_t handle, void *to, tmsize_t n)
{
    struct tile_lossless *d = handle;
    const size_t left = d->at < PICTURE ? PICTURE - d->at : 0;
    const size_t some = (size_t)n < left ? (size_t)n : left;
    memcpy(to, d->picture + (d->at < PICTURE ? d->at : 0), some);
    d->at += some;
    return (tmsize_t)some;
}

static tmsize_t picture_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle, (void)from, (void)n;
    return -1;
}

static toff_t picture_seek(thandle_t handle, toff_t to, int whence)
{
    struct tile_lossless *d = handle;
    d->at = (size_t)to + (whence == SEEK_CUR ? d->at : whence == SEEK_END ? (size_t)PICTURE : 0);
    return d->at;
}

static toff_t picture_size(thandle_t handle)
{
    (void)handle;
    return PICTURE;
}

static int picture_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static uint8_t *put(uint8_t *p, uint32_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        *p++ = (uint8_t)(value >> 8 * k);
    return p;
}

/* One tag of one number, little-endian; of several, their offset. */
static uint8_t *put_tag(uint8_t *p, uint32_t tag, uint32_t type, uint32_t count, uint32_t value)
{
    return put(put(put(put(p, tag, 2), type, 2), count, 4), value, 4);
}

/* A classic TIFF file of one tile, whose bytes are nowhere. */
static void make_picture(const struct tile_format *f, uint8_t *p)
{
    const uint32_t cols = (uint32_t)f->cols, rows = (uint32_t)f->rows;
    const uint32_t samples = (uint32_t)samples_of(f);
    memcpy(p, "II*\0", 4);
    p = put(put(p + 4, HEAD, 4), TAGS, 2);
    p = put_tag(p, TIFFTAG_IMAGEWIDTH, TIFF_LONG, 1, cols);
    p = put_tag(p, TIFFTAG_IMAGELENGTH, TIFF_LONG, 1, rows);
    p = put_tag(p, TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, samples, samples == 1 ? 8 : BITS_AT);
    p = put_tag(p, TIFFTAG_COMPRESSION, TIFF_SHORT, 1, (uint32_t)f->compression);
    p = put_tag(p, TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, (uint32_t)f->photometric);
    p = put_tag(p, TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 1, samples);
    p = put_tag(p, TIFFTAG_PLANARCONFIG, TIFF_SHORT, 1, PLANARCONFIG_CONTIG);
    p = put_tag(p, TIFFTAG_PREDICTOR, TIFF_SHORT, 1, (uint32_t)f->predictor);
    p = put_tag(p, TIFFTAG_TILEWIDTH, TIFF_LONG, 1, cols);
    p = put_tag(p, TIFFTAG_TILELENGTH, TIFF_LONG, 1, rows);
    p = put_tag(p, TIFFTAG_TILEOFFSETS, TIFF_LONG, 1, HEAD);
    p = put_tag(p, TIFFTAG_TILEBYTECOUNTS, TIFF_LONG, 1, 1);
    p = put(p, 0, 4);
    put(put(put(p, 8, 2), 8, 2), 8, 2);
}

/* --- tiles --- */

struct tile_lossless *tile_lossless_create(const struct tile_format *f, struct err *e)
{
    struct tile_lossless *d = calloc(1, sizeof *d);
    if (d) {
        d->format = f;
        make_picture(f, d->picture);
        d->pixels = malloc((size_t)(f->rows * f->cols * samples_of(f)));
        d->tiff = TIFFClientOpen("a tile", "rm", d, picture_read, picture_write, picture_seek,
                                 picture_close, picture_size, NULL, NULL);
    }
    if (d && d->pixels && d->tiff)
        return d;
    tile_lossless_free(d);
    err_set(e, "out of memory");
    return NULL;
}

void tile_lossless_free(struct tile_lossless *d)
{
    if (!d)
        return;
    if (d->tiff)
        TIFFClose(d->tiff);
    free(d->pixels);
    free(d);
}

static void copy_gray(const uint8_t *gray, uint8_t *rgb, size_t n)
{
    for (size_t k = 0; k < n; k++)
        rgb[3 * k] = rgb[3 * k + 1] = rgb[3 * k + 2] = gray[k];
}

int tile_lossless_decode(struct tile_lossless *d, const uint8_t *bytes, size_t n, int channels,
                         uint8_t *out, struct err *e)
{
    const struct tile_format *f = d->format;
    const size_t pixels = (size_t)(f->rows * f->cols);
    const int samples = samples_of(f);
    uint8_t *to = samples == channels ? out : d->pixels;
    errno = 0;
    /* libtiff does not change the bytes, as their bits are in the usual order */
    if (!TIFFReadFromUserBuffer(d->tiff, 0, (void *)(uintptr_t)bytes, (tmsize_t)n, to,
                                (tmsize_t)(pixels * (size_t)samples)))
        return errno == ENOMEM ? (err_set(e, "out of memory"), TILE_NO_MEMORY)
                               : err_set(e, "a damaged tile");
    if (samples < channels)
        copy_gray(d->pixels, out, pixels);
    else if (samples > channels)
        gray_bytes_from_rgb(d->pixels, out, pixels);
    return 0;
}
