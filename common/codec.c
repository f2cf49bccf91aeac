/* codec.c - see codec.h. HAVE_LIBDEFLATE, HAVE_LZ4 and HAVE_ZSTD come from the Makefile's probes. */
#include "common/codec.h"

#include <stdlib.h>
#include <string.h>

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

static const struct codec codecs[] = {
    {"deflate", CODEC_DEFLATE, 1, 1},
#ifdef HAVE_LZ4
    {"lz4", CODEC_LZ4, 32004, 0},
#endif
#ifdef HAVE_ZSTD
    {"zstd", CODEC_ZSTD, 32015, 1},
#endif
    {"none", CODEC_NONE, 0, 0},
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
           "none";
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

static size_t pack_lz4(const void *in, size_t n, void *out)
{
    unsigned char *to = out;
    if (n <= LZ4_HEAD || n > LZ4_MAX_INPUT_SIZE)
        return 0;
    const int packed = LZ4_compress_default(in, (char *)to + LZ4_HEAD, (int)n, (int)(n - LZ4_HEAD));
    put_big_endian(to, n, 8);
    put_big_endian(to + 8, n, 4);
    put_big_endian(to + 12, (uint64_t)packed, 4);
    return packed > 0 ? LZ4_HEAD + (size_t)packed : 0;
}

static int unpack_lz4(const void *in, size_t n, void *out, size_t out_n)
{
    const unsigned char *from = in;
    if (n < LZ4_HEAD || out_n > LZ4_MAX_INPUT_SIZE || get_big_endian(from, 8) != out_n ||
        get_big_endian(from + 8, 4) != out_n || get_big_endian(from + 12, 4) != n - LZ4_HEAD)
        return -1;
    return LZ4_decompress_safe((const char *)from + LZ4_HEAD, out, (int)(n - LZ4_HEAD), (int)out_n) ==
                   (int)out_n ? 0 : -1;
}

#else

static size_t pack_lz4(const void *in, size_t n, void *out)
{
    (void)in, (void)n, (void)out;
    return 0;
}

static int unpack_lz4(const void *in, size_t n, void *out, size_t out_n)
{
    (void)in, (void)n, (void)out, (void)out_n;
    return -1;
}

#endif

/* --- zstd --- */

#ifdef HAVE_ZSTD

static size_t pack_zstd(const void *in, size_t n, void *out, unsigned level)
{
    const size_t packed = ZSTD_compress(out, n, in, n, (int)level);
    return ZSTD_isError(packed) ? 0 : packed;
}

static int unpack_zstd(const void *in, size_t n, void *out, size_t out_n)
{
    return ZSTD_decompress(out, out_n, in, n) == out_n ? 0 : -1;
}

#else

static size_t pack_zstd(const void *in, size_t n, void *out, unsigned level)
{
    (void)in, (void)n, (void)out, (void)level;
    return 0;
}

static int unpack_zstd(const void *in, size_t n, void *out, size_t out_n)
{
    (void)in, (void)n, (void)out, (void)out_n;
    return -1;
}

#endif

/* --- deflate --- */

#ifdef HAVE_LIBDEFLATE

struct codec_work {
    const struct codec *codec;
    struct libdeflate_compressor *deflate;
    struct libdeflate_decompressor *inflate;
};

static int work_open(struct codec_work *w)
{
    w->deflate = libdeflate_alloc_compressor((int)w->codec->level);
    w->inflate = libdeflate_alloc_decompressor();
    return w->deflate && w->inflate ? 0 : -1;
}

static void work_close(struct codec_work *w)
{
    if (w->deflate)
        libdeflate_free_compressor(w->deflate);
    if (w->inflate)
        libdeflate_free_decompressor(w->inflate);
}

static size_t deflate_bytes(struct codec_work *w, const void *in, size_t n, void *out)
{
    return libdeflate_zlib_compress(w->deflate, in, n, out, n);
}

static int inflate_bytes(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    size_t used;
    return libdeflate_zlib_decompress_ex(w->inflate, in, n, out, out_n, &used, NULL) ==
                       LIBDEFLATE_SUCCESS && used == n ? 0 : -1;
}

uint32_t codec_crc32(const void *data, size_t n)
{
    return libdeflate_crc32(0, data, n);
}

#define DEFLATE_LIBRARY "libdeflate " LIBDEFLATE_VERSION_STRING

#else

struct codec_work {
    const struct codec *codec;
};

static int work_open(struct codec_work *w)
{
    (void)w;
    return 0;
}

static void work_close(struct codec_work *w)
{
    (void)w;
}

static size_t deflate_bytes(struct codec_work *w, const void *in, size_t n, void *out)
{
    uLongf size = (uLongf)n;
    return compress2(out, &size, in, (uLong)n, (int)w->codec->level) == Z_OK ? size : 0;
}

static int inflate_bytes(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    uLongf size = (uLongf)out_n;
    uLong used = (uLong)n;
    (void)w;
    return uncompress2(out, &size, in, &used) == Z_OK && size == out_n && used == n ? 0 : -1;
}

uint32_t codec_crc32(const void *data, size_t n)
{
    return (uint32_t)crc32_z(0, data, n);
}

#define DEFLATE_LIBRARY "zlib " ZLIB_VERSION

#endif

struct codec_work *codec_create(const struct codec *c, struct err *e)
{
    struct codec_work *w = calloc(1, sizeof *w);
    if (w)
        w->codec = c;
    if (!w || (c->id == CODEC_DEFLATE && work_open(w))) {
        codec_free(w);
        err_set(e, "out of memory");
        return NULL;
    }
    return w;
}

void codec_free(struct codec_work *w)
{
    if (w)
        work_close(w);
    free(w);
}

size_t codec_encode(struct codec_work *w, const void *in, size_t n, void *out)
{
    size_t size = 0;
    switch (w->codec->id) {
    case CODEC_DEFLATE: size = deflate_bytes(w, in, n, out); break;
    case CODEC_LZ4: size = pack_lz4(in, n, out); break;
    case CODEC_ZSTD: size = pack_zstd(in, n, out, w->codec->level); break;
    default: break;
    }
    return size < n ? size : 0;
}

int codec_decode(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    if (n == out_n) { /* stored as it is: see codec_encode */
        memcpy(out, in, n);
        return 0;
    }
    switch (w->codec->id) {
    case CODEC_DEFLATE: return inflate_bytes(w, in, n, out, out_n);
    case CODEC_LZ4: return unpack_lz4(in, n, out, out_n);
    case CODEC_ZSTD: return unpack_zstd(in, n, out, out_n);
    default: return -1;
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
