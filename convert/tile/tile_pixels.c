/* tile_pixels.c - see tile_pixels.h. */
#include "convert/tile/tile_pixels.h"

#include "common/store/gray.h"

#include <string.h>

bool tile_pixels_are_plain(const struct tile_format *f)
{
    return tile_samples(f) == tile_colours(f) &&
           (f->photometric == TILE_PHOTOMETRIC_GRAY || f->photometric == TILE_PHOTOMETRIC_RGB);
}

static void copy_gray(const uint8_t *gray, uint8_t *rgb, size_t n)
{
    for (size_t k = 0; k < n; k++)
        rgb[3 * k] = rgb[3 * k + 1] = rgb[3 * k + 2] = gray[k];
}

/* The colour of one pixel, as libtiff makes it. */
static void take_colour(const struct tile_format *f, const uint8_t *p, uint8_t rgb[3])
{
    const bool is_rgb = f->photometric == TILE_PHOTOMETRIC_RGB;
    const int ink = 255 - p[f->photometric == TILE_PHOTOMETRIC_CMYK ? 3 : 0];
    for (int c = 0; c < 3; c++)
        rgb[c] = f->photometric == TILE_PHOTOMETRIC_PALETTE ? f->palette[3 * p[0] + c]
                 : f->photometric == TILE_PHOTOMETRIC_CMYK  ? (uint8_t)(ink * (255 - p[c]) / 255)
                 : f->photometric == TILE_PHOTOMETRIC_WHITE ? (uint8_t)ink
                                                            : p[is_rgb ? c : 0];
}

/* White shows through. */
static void blend(const struct tile_format *f, int alpha, uint8_t rgb[3])
{
    for (int c = 0; c < 3; c++) {
        const int v = f->is_multiplied ? rgb[c] : (rgb[c] * alpha + 127) / 255;
        rgb[c] = (uint8_t)(v + 255 - alpha < 255 ? v + 255 - alpha : 255);
    }
}

/* As tile_take_pixels, pixel by pixel. */
static bool convert_pixels(const struct tile_format *f, const uint8_t *p, size_t n, int channels,
                           uint8_t *out)
{
    const int samples = tile_samples(f);
    bool shown = !f->alpha_at;
    for (size_t k = 0; k < n; k++, p += samples, out += channels) {
        uint8_t rgb[3];
        take_colour(f, p, rgb);
        if (f->alpha_at)
            blend(f, p[f->alpha_at], rgb);
        shown |= f->alpha_at && p[f->alpha_at];
        if (channels == 3)
            memcpy(out, rgb, sizeof rgb);
        else if (tile_is_gray(f))
            *out = rgb[0];
        else
            gray_bytes_from_rgb(rgb, out, 1);
    }
    return shown;
}

bool tile_take_pixels(const struct tile_format *f, const uint8_t *p, size_t n, int channels,
                      uint8_t *out)
{
    const int samples = tile_samples(f);
    if (!tile_pixels_are_plain(f))
        return convert_pixels(f, p, n, channels, out);
    if (samples < channels)
        copy_gray(p, out, n);
    else if (samples > channels)
        gray_bytes_from_rgb(p, out, n);
    else
        memcpy(out, p, n * (size_t)channels);
    return true;
}
