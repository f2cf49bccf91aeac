/*
 * fuzz_jpeg.c - one tile of a slide, COLS x ROWS px, as a chunk of codec jpeg: making it from the
 * tile, decoding it and HDF5's plug-in. The first byte chooses the colours; the rest is the tile's
 * stream.
 */
#include "common/codec/h5jpeg.c"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_stream.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { COLS = 48, ROWS = 40, PIXELS = 3 * COLS * ROWS };

static int decode_chunk(const struct jpeg_chunk *c, bool eighth, uint8_t *out)
{
    struct jpeg_decoder *d = jpeg_decoder_create(NULL);
    const struct jpeg_stream s = {.bytes = c->bytes, .n = c->n};
    const struct jpeg_picture p = {
        .cols = COLS, .rows = ROWS, .colours = JPEG_MARKED, .channels = 3, .eighth = eighth};
    const int r = jpeg_decode(d, &p, &s, out, NULL);
    jpeg_decoder_free(d);
    return r;
}

/* The plug-in accepts what the decoder accepts, and files of other programs besides; it returns the
 * decoder's bytes. */
static void check_plugin(const struct jpeg_chunk *c, int decoded, const uint8_t *pixels)
{
    const H5Z_class2_t *plugin = H5PLget_plugin_info();
    const unsigned values[4] = {90, COLS, ROWS, 1};
    size_t size = c->n;
    void *buffer = malloc(c->n);
    memcpy(buffer, c->bytes, c->n);
    const size_t n = plugin->filter(H5Z_FLAG_REVERSE, 4, values, c->n, &size, &buffer);
    FUZZ_MUST(n == 0 || n == PIXELS);
    if (decoded == 0)
        FUZZ_MUST(n == PIXELS && !memcmp(buffer, pixels, PIXELS));
    free(buffer);
}

/* A part of a chunk that decodes is that part of its pixels. */
static void check_part(const struct jpeg_chunk *c, const uint8_t *pixels)
{
    enum { X = 13, Y = 9, W = 21, H = 17 };
    static const unsigned values[4] = {90, COLS, ROWS, 1}, part[4] = {X, Y, W, H};
    uint8_t out[3 * W * H];
    const int r = h5jpeg_decode_part(values, c->bytes, c->n, part, (size_t)3 * W, out);
    for (size_t y = 0; pixels && y < H; y++)
        FUZZ_MUST(r == 0 && !memcmp(out + 3 * W * y, pixels + 3 * ((Y + y) * COLS + X), 3 * W));
}

/* Damage shows at 1/8, and without pixels, as it does in full size. */
static void check_chunk(const struct jpeg_chunk *c)
{
    uint8_t pixels[PIXELS], eighth[PIXELS];
    const int decoded = decode_chunk(c, false, pixels);
    FUZZ_MUST((decode_chunk(c, true, eighth) == 0) == (decoded == 0));
    FUZZ_MUST((decode_chunk(c, true, NULL) == 0) == (decoded == 0));
    check_plugin(c, decoded, pixels);
    check_part(c, decoded == 0 ? pixels : NULL);
    fuzz_accepted += decoded == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct jpeg_chunk c = {0};
    if (n < 5)
        return 0;
    const struct jpeg_stream s = {.bytes = data + 1, .n = n - 1};
    if (jpeg_chunk_make(&c, &s, data[0] & 1, NULL) == 0)
        check_chunk(&c);
    free(c.bytes);
    c = (struct jpeg_chunk){.bytes = (uint8_t *)(uintptr_t)(data + 1), .n = n - 1};
    check_chunk(&c); /* a chunk that something else has written */
    return 0;
}
