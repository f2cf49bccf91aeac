/*
 * bench_codecs - codecs for chunks: packs and unpacks real tiles, decoded by OpenSlide, with each
 * library, in memory, on one thread.
 *
 *   bench_codecs SLIDE      one line per codec: name, ratio, MB/s of packing and of unpacking
 */
#include <libdeflate.h>
#include <lz4.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

enum { TILE = 240, BYTES = TILE * TILE * 3, MOST = 200 };

static struct libdeflate_compressor *deflate;
static struct libdeflate_decompressor *inflate;

static size_t pack_deflate(const void *in, void *out, size_t room)
{
    return libdeflate_zlib_compress(deflate, in, BYTES, out, room);
}

static void unpack_deflate(const void *in, size_t n, void *out)
{
    libdeflate_zlib_decompress(inflate, in, n, out, BYTES, NULL);
}

static size_t pack_lz4(const void *in, void *out, size_t room)
{
    return (size_t)LZ4_compress_default(in, out, BYTES, (int)room);
}

static void unpack_lz4(const void *in, size_t n, void *out)
{
    LZ4_decompress_safe(in, out, (int)n, BYTES);
}

static size_t pack_zstd(const void *in, void *out, size_t room)
{
    return ZSTD_compress(out, room, in, BYTES, 1);
}

static void unpack_zstd(const void *in, size_t n, void *out)
{
    ZSTD_decompress(out, BYTES, in, n);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t (*pack)(const void *, void *, size_t);
        void (*unpack)(const void *, size_t, void *);
    } codecs[] = {{"deflate 1 (libdeflate)", pack_deflate, unpack_deflate},
                  {"lz4", pack_lz4, unpack_lz4},
                  {"zstd 1", pack_zstd, unpack_zstd}};
    openslide_t *o = argc > 1 ? openslide_open(argv[1]) : NULL;
    if (!o || openslide_get_error(o))
        return fputs("usage: bench_codecs SLIDE\n", stderr), 2;
    int64_t width, height;
    int n = 0;
    const size_t room = 2 * BYTES;
    unsigned char *tiles = malloc((size_t)MOST * BYTES);
    unsigned char *packed = malloc(room), *back = malloc(BYTES);
    uint32_t *argb = malloc(TILE * TILE * sizeof *argb);
    openslide_get_level0_dimensions(o, &width, &height);
    for (int64_t y = 0; y + TILE <= height; y += TILE)
        for (int64_t x = 0; x + TILE <= width && n < MOST; x += TILE, n++) {
            openslide_read_region(o, argb, x, y, 0, TILE, TILE);
            for (int k = 0; k < TILE * TILE; k++)
                for (int c = 0; c < 3; c++)
                    tiles[(size_t)n * BYTES + (size_t)(3 * k + c)] =
                        (unsigned char)(argb[k] >> (16 - 8 * c));
        }
    deflate = libdeflate_alloc_compressor(1);
    inflate = libdeflate_alloc_decompressor();
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
        double packing = 0, unpacking = 0, bytes = 0;
        for (int pass = 0; pass < 3; pass++)
            for (int k = 0; k < n; k++) {
                const double a = now();
                const size_t size = codecs[c].pack(tiles + (size_t)k * BYTES, packed, room);
                const double b = now();
                codecs[c].unpack(packed, size, back);
                unpacking += now() - b;
                packing += b - a;
                bytes += (double)size;
                if (memcmp(back, tiles + (size_t)k * BYTES, BYTES))
                    return 1;
            }
        const double all = 3.0 * n * BYTES;
        printf("%-24s %.3f of the pixels, packs %4.0f MB/s, unpacks %4.0f MB/s\n", codecs[c].name,
               bytes / all, all / 1e6 / packing, all / 1e6 / unpacking);
    }
    return 0;
}
