/* tile_format.c - see tile_format.h. */
#include "convert/tile/tile_format.h"

#include <tiff.h>

const struct tile_compression *tile_compression(uint64_t number)
{
    static const struct tile_compression rows[] = {
        {COMPRESSION_NONE, "uncompressed", true},
        {COMPRESSION_LZW, "LZW", true},
        {COMPRESSION_OJPEG, "old-style JPEG", false},
        {COMPRESSION_JPEG, "JPEG", false},
        {COMPRESSION_ADOBE_DEFLATE, "deflate", true},
        {COMPRESSION_PACKBITS, "PackBits", true},
        {COMPRESSION_DEFLATE, "deflate", true},
        {33003, "JPEG 2000", false},
        {33004, "JPEG 2000", false},
        {33005, "JPEG 2000", false},
        {COMPRESSION_JP2000, "JPEG 2000", false},
        {COMPRESSION_LZMA, "LZMA", true},
        {COMPRESSION_ZSTD, "zstd", true},
        {COMPRESSION_WEBP, "WebP", true},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].number == number)
            return &rows[k];
    return NULL;
}

int tile_colours(const struct tile_format *f)
{
    switch (f->photometric) {
    case TILE_PHOTOMETRIC_WHITE:
    case TILE_PHOTOMETRIC_GRAY:
    case TILE_PHOTOMETRIC_PALETTE: return 1;
    case TILE_PHOTOMETRIC_CMYK: return 4;
    default: return 3;
    }
}

int tile_samples(const struct tile_format *f)
{
    return f->samples ? f->samples : tile_colours(f);
}

bool tile_is_gray(const struct tile_format *f)
{
    return f->photometric == TILE_PHOTOMETRIC_GRAY || f->photometric == TILE_PHOTOMETRIC_WHITE;
}

bool tile_is_j2k(const struct tile_format *f)
{
    return f->compression == TILE_J2K_YCBCR || f->compression == TILE_J2K_RGB;
}

bool tile_may_be_kept(const struct tile_format *f)
{
    return f->compression == TILE_JPEG && tile_samples(f) == tile_colours(f) &&
           (f->photometric == TILE_PHOTOMETRIC_RGB || f->photometric == TILE_PHOTOMETRIC_YCBCR ||
            f->photometric == TILE_PHOTOMETRIC_GRAY);
}
