/* tile.c - see tile.h. */
#include "convert/tile.h"

#include "common/gray.h"
#include "convert/tile_j2k.h"
#include "convert/tile_jpeg.h"

#include <stdio.h>
#include <stdlib.h>

struct tile_decoder {
    struct tile_format format;
    struct tile_jpeg *jpeg; /* one of the two */
    struct tile_j2k *j2k;
    uint8_t *rgb; /* one tile, for gray from an RGB JPEG; NULL until it is needed */
};

bool tile_is_known(int compression, int photometric)
{
    if (compression == TILE_JPEG)
        return photometric == TILE_PHOTOMETRIC_RGB || photometric == TILE_PHOTOMETRIC_YCBCR;
    return compression == TILE_J2K_YCBCR || compression == TILE_J2K_RGB;
}

struct tile_decoder *tile_create(const struct tile_format *f, struct err *e)
{
    struct tile_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        err_set(e, "out of memory");
        return NULL;
    }
    d->format = *f;
    if (f->compression == TILE_JPEG)
        d->jpeg = tile_jpeg_create(&d->format, e);
    else
        d->j2k = tile_j2k_create(&d->format, e);
    if (d->jpeg || d->j2k)
        return d;
    tile_free(d);
    return NULL;
}

void tile_free(struct tile_decoder *d)
{
    if (!d)
        return;
    tile_jpeg_free(d->jpeg);
    tile_j2k_free(d->j2k);
    free(d->rgb);
    free(d);
}

int tile_decode(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                struct err *e)
{
    const size_t pixels = (size_t)(d->format.cols * d->format.rows), cols = (size_t)d->format.cols;
    if (d->j2k)
        return tile_j2k_decode(d->j2k, bytes, n, channels, out, e);
    if (channels == 3 || d->format.photometric == TILE_PHOTOMETRIC_YCBCR)
        return tile_jpeg_decode(d->jpeg, bytes, n, channels, 1, out, cols * (size_t)channels, e);
    if (!d->rgb && !(d->rgb = malloc(3 * pixels)))
        return err_set(e, "out of memory");
    if (tile_jpeg_decode(d->jpeg, bytes, n, 3, 1, d->rgb, 3 * cols, e))
        return -1;
    gray_bytes_from_rgb(d->rgb, out, pixels);
    return 0;
}

int tile_decode_eighth(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                       struct err *e)
{
    const size_t pitch = 3 * (size_t)((d->format.cols + 7) / 8);
    if (!d->jpeg)
        return err_set(e, "not a JPEG tile");
    return tile_jpeg_decode(d->jpeg, bytes, n, 3, 8, out, pitch, e);
}

const char *tile_libraries(void)
{
    static char text[96];
    snprintf(text, sizeof text, "%s, %s", tile_jpeg_library(), tile_j2k_library());
    return text;
}
