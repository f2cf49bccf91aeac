/* codec.c - see codec.h. HAVE_LIBDEFLATE comes from the Makefile's probe. */
#include "common/codec.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

static const struct codec codecs[] = {
    {"deflate", CODEC_DEFLATE, 1, 1},
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
    return "deflate|none";
}

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

const char *codec_library(void)
{
    return "libdeflate " LIBDEFLATE_VERSION_STRING;
}

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

const char *codec_library(void)
{
    return "zlib " ZLIB_VERSION;
}

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
    if (w->codec->id == CODEC_NONE)
        return 0;
    size_t size = deflate_bytes(w, in, n, out);
    return size < n ? size : 0;
}

int codec_decode(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n)
{
    if (n == out_n) { /* stored as it is: see codec_encode */
        memcpy(out, in, n);
        return 0;
    }
    return w->codec->id == CODEC_DEFLATE ? inflate_bytes(w, in, n, out, out_n) : -1;
}
