/*
 * codec.c - see codec.h.
 *
 * Each codec is a pair of functions. x_pack returns the packed size, or 0 if that is not smaller,
 * or CODEC_NO_MEMORY. x_unpack returns what codec_decode returns. HAVE_LIBDEFLATE, HAVE_LZ4 and
 * HAVE_ZSTD come from the Makefile's probes.
 */
#include "common/codec/codec.h"

#include "common/codec/jpeg_decoder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif
#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* Contexts are NULL until their first use. */
struct codec_work {
    unsigned deflate_level; /* of `deflate` */
#ifdef HAVE_LIBDEFLATE
    struct libdeflate_compressor *deflate;
    struct libdeflate_decompressor *inflate;
#endif
#ifdef HAVE_ZSTD
    ZSTD_CCtx *zstd_pack;
    ZSTD_DCtx *zstd_unpack;
#endif
    struct jpeg_decoder *jpeg;
};

static const struct codec codecs[] = {
    {"deflate", CODEC_DEFLATE, 1, 1},
#ifdef HAVE_LZ4
    {"lz4", CODEC_LZ4, 32004, 0},
#endif
#ifdef HAVE_ZSTD
    {"zstd", CODEC_ZSTD, 32015, 1},
#endif
    {"jpeg", CODEC_JPEG, 32019, 90},  {"none", CODEC_NONE, 0, 0},
};

const struct codec *codec_find(const char *name)
{
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (!strcmp(codecs[i].name, name))
            return &codecs[i];
    return NULL;
}

const char *codec_names(void)
{
    return "deflate|"
#ifdef HAVE_LZ4
           "lz4|"
#endif
#ifdef HAVE_ZSTD
           "zstd|"
#endif
#ifdef HAVE_JPEG
           "jpeg|"
#endif
           "none";
}

size_t codec_pixel_bytes(const struct codec_params *p)
{
    return (size_t)(p->rows * p->cols * p->channels);
}

size_t codec_most_bytes(const struct codec_params *p)
{
    enum { TABLES = 1 << 17 };
    const size_t pixels = codec_pixel_bytes(p);
    return p->codec->id == CODEC_JPEG ? 2 * pixels + TABLES : pixels;
}

/* --- lz4 --- */

#ifdef HAVE_LZ4

enum { LZ4_HEAD = 16 }; /* unpacked size, block size, packed size of the one block */

static void put_big_endian(unsigned char *p, uint64_t v, int n)
{
    while (n-- > 0) {
        p[n] = (unsigned char)v;
        v >>= 8;
    }
}

static uint64_t get_big_endian(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int k = 0; k < n; k++)
        v = v << 8 | p[k];
    return v;
}

static ssize_t lz4_pack(const void *in, size_t n, void *out)
{
    unsigned char *to = out;
    if (n <= LZ4_HEAD || n > LZ4_MAX_INPUT_SIZE)
        return 0;
    const int room = (int)(n - LZ4_HEAD);
    const int packed = LZ4_compress_default(in, (char *)to + LZ4_HEAD, (int)n, room);
    put_big_endian(to, n, 8);
    put_big_endian(to + 8, n, 4);
    put_big_endian(to + 12, (uint64_t)packed, 4);
    return packed > 0 ? LZ4_HEAD + packed : 0;
}

static int lz4_unpack(const void *in, size_t n, void *out, size_t out_n)
{
    const unsigned char *from = in;
    if (n < LZ4_HEAD || out_n > LZ4_MAX_INPUT_SIZE || get_big_endian(from, 8) != out_n ||
        get_big_endian(from + 8, 4) != out_n || get_big_endian(from + 12, 4) != n - LZ4_HEAD)
        return CODEC_DAMAGED;
    const char *block = (const char *)from + LZ4_HEAD;
    const int size = LZ4_decompress_safe(block, out, (int)(n - LZ4_HEAD), (int)out_n);
    return size == (int)out_n ? 0 : CODEC_DAMAGED;
}

#else

static ssize_t lz4_pack(const void *in, size_t n, void *out)
{
    (void)in, (void)n, (void)out;
    return 0;
}

static int lz4_unpack(const void *in, size_t n, void *out, size_t out_n)
{
    (void)in, (void)n, (void)out, (void)out_n;
    return CODEC_DAMAGED;
}

#endif

/* --- zstd --- */

#ifdef HAVE_ZSTD

static ssize_t zstd_pack(struct codec_work *w, int level, const void *in, size_t n, void *out)
{
    if (!w->zstd_pack && !(w->zstd_pack = ZSTD_createCCtx()))
        return CODEC_NO_MEMORY;
    const size_t packed = ZSTD_compressCCtx(w->zstd_pack, out, n, in, n, level);
    return ZSTD_isError(packed) ? 0 : (ssize_t)packed;
}

static int zstd_unpack(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    if (!w->zstd_unpack && !(w->zstd_unpack = ZSTD_createDCtx()))
        return CODEC_NO_MEMORY;
    return ZSTD_decompressDCtx(w->zstd_unpack, out, out_n, in, n) == out_n ? 0 : CODEC_DAMAGED;
}

static void zstd_free(struct codec_work *w)
{
    ZSTD_freeCCtx(w->zstd_pack); /* NULL is allowed */
    ZSTD_freeDCtx(w->zstd_unpack);
}

#else

static ssize_t zstd_pack(struct codec_work *w, int level, const void *in, size_t n, void *out)
{
    (void)w, (void)level, (void)in, (void)n, (void)out;
    return 0;
}

static int zstd_unpack(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    (void)w, (void)in, (void)n, (void)out, (void)out_n;
    return CODEC_DAMAGED;
}

static void zstd_free(struct codec_work *w)
{
    (void)w;
}

#endif

/* --- deflate --- */

#ifdef HAVE_LIBDEFLATE

static ssize_t deflate_pack(struct codec_work *w, unsigned level, const void *in, size_t n,
                            void *out)
{
    if (w->deflate && w->deflate_level != level) {
        libdeflate_free_compressor(w->deflate);
        w->deflate = NULL;
    }
    if (!w->deflate && !(w->deflate = libdeflate_alloc_compressor((int)level)))
        return CODEC_NO_MEMORY;
    w->deflate_level = level;
    return (ssize_t)libdeflate_zlib_compress(w->deflate, in, n, out, n);
}

static int deflate_unpack(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    size_t used;
    if (!w->inflate && !(w->inflate = libdeflate_alloc_decompressor()))
        return CODEC_NO_MEMORY;
    const enum libdeflate_result r =
        libdeflate_zlib_decompress_ex(w->inflate, in, n, out, out_n, &used, NULL);
    return r == LIBDEFLATE_SUCCESS && used == n ? 0 : CODEC_DAMAGED;
}

static void deflate_free(struct codec_work *w)
{
    if (w->deflate)
        libdeflate_free_compressor(w->deflate);
    if (w->inflate)
        libdeflate_free_decompressor(w->inflate);
}

uint32_t codec_crc32(const void *data, size_t n)
{
    return libdeflate_crc32(0, data, n);
}

uint32_t codec_crc32_more(uint32_t crc, const void *data, size_t n)
{
    return libdeflate_crc32(crc, data, n);
}

#define DEFLATE_LIBRARY "libdeflate " LIBDEFLATE_VERSION_STRING

#else

static ssize_t deflate_pack(struct codec_work *w, unsigned level, const void *in, size_t n,
                            void *out)
{
    uLongf size = (uLongf)n;
    (void)w;
    const int r = compress2(out, &size, in, (uLong)n, (int)level);
    return r == Z_MEM_ERROR ? CODEC_NO_MEMORY : r == Z_OK ? (ssize_t)size : 0;
}

static int deflate_unpack(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    uLongf size = (uLongf)out_n;
    uLong used = (uLong)n;
    (void)w;
    const int r = uncompress2(out, &size, in, &used);
    if (r == Z_MEM_ERROR)
        return CODEC_NO_MEMORY;
    return r == Z_OK && size == out_n && used == n ? 0 : CODEC_DAMAGED;
}

static void deflate_free(struct codec_work *w)
{
    (void)w;
}

uint32_t codec_crc32(const void *data, size_t n)
{
    return (uint32_t)crc32_z(0, data, n);
}

uint32_t codec_crc32_more(uint32_t crc, const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc, data, n);
}

#define DEFLATE_LIBRARY "zlib " ZLIB_VERSION

#endif

/* --- jpeg --- */

static int jpeg_unpack(struct codec_work *w, const struct codec_params *p, const void *in, size_t n,
                       void *out)
{
    const struct jpeg_stream stream = {.bytes = in, .n = n};
    const struct jpeg_picture picture = {
        .cols = p->cols, .rows = p->rows, .channels = (int)p->channels, .colours = JPEG_MARKED};
    if (!w->jpeg && !jpeg_is_available(NULL))
        return CODEC_NO_LIBRARY;
    if (!w->jpeg && !(w->jpeg = jpeg_decoder_create(NULL)))
        return CODEC_NO_MEMORY;
    const int r = jpeg_decode(w->jpeg, &picture, &stream, out, NULL);
    return r == 0 ? 0 : r == JPEG_NO_MEMORY ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

/* --- all of them --- */

struct codec_work *codec_create(struct err *e)
{
    struct codec_work *w = calloc(1, sizeof *w);
    if (!w)
        err_set(e, "out of memory");
    return w;
}

void codec_free(struct codec_work *w)
{
    if (!w)
        return;
    deflate_free(w);
    zstd_free(w);
    jpeg_decoder_free(w->jpeg);
    free(w);
}

int codec_encode(struct codec_work *w, const struct codec_params *p, const void *pixels, void *out,
                 size_t *packed, struct err *e)
{
    const size_t n = codec_pixel_bytes(p);
    ssize_t size = 0;
    switch (p->codec->id) {
    case CODEC_DEFLATE: size = deflate_pack(w, p->codec->level, pixels, n, out); break;
    case CODEC_LZ4: size = lz4_pack(pixels, n, out); break;
    case CODEC_ZSTD: size = zstd_pack(w, (int)p->codec->level, pixels, n, out); break;
    default: break;
    }
    if (size < 0)
        return err_set(e, "out of memory");
    *packed = (size_t)size < n ? (size_t)size : 0;
    return 0;
}

int codec_decode(struct codec_work *w, const struct codec_params *p, const void *in, size_t n,
                 void *pixels)
{
    const size_t out_n = codec_pixel_bytes(p);
    switch (p->codec->id) {
    case CODEC_DEFLATE: return deflate_unpack(w, in, n, pixels, out_n);
    case CODEC_LZ4: return lz4_unpack(in, n, pixels, out_n);
    case CODEC_ZSTD: return zstd_unpack(w, in, n, pixels, out_n);
    case CODEC_JPEG: return jpeg_unpack(w, p, in, n, pixels);
    default: return CODEC_DAMAGED;
    }
}

const char *codec_library(void)
{
    return DEFLATE_LIBRARY
#ifdef HAVE_LZ4
        ", LZ4 " LZ4_VERSION_STRING
#endif
#ifdef HAVE_ZSTD
        ", Zstandard " ZSTD_VERSION_STRING
#endif
        ;
}
