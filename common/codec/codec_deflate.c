/*
 * codec_deflate.c - the codec deflate: a zlib stream (RFC 1950).
 *
 * It is HDF5's own gzip filter (1), so h5dump and h5py need no plug-in. libdeflate does the work if
 * this build has it, zlib otherwise, also for CRC-32. Both write valid streams; the bytes of the
 * two differ.
 */
#include "common/codec/codec.h"

extern const struct codec codec_deflate;

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#include <stdlib.h>

#define LIBRARY "libdeflate " LIBDEFLATE_VERSION_STRING

struct deflate {
    struct libdeflate_compressor *pack; /* NULL until their first use */
    struct libdeflate_decompressor *unpack;
};

static struct deflate *contexts(void **context)
{
    return *context ? *context : (*context = calloc(1, sizeof(struct deflate)));
}

static ssize_t deflate_pack(void **context, const struct codec *c, const void *in, size_t n,
                            void *out)
{
    struct deflate *d = contexts(context);
    if (!d || (!d->pack && !(d->pack = libdeflate_alloc_compressor((int)c->level))))
        return CODEC_NO_MEMORY;
    return (ssize_t)libdeflate_zlib_compress(d->pack, in, n, out, n);
}

/* Unpacks a stream to exactly `size` bytes. *used gets its length. */
static int inflate_stream(void **context, const void *in, size_t n, void *out, size_t size,
                          size_t *used)
{
    struct deflate *d = contexts(context);
    if (!d || (!d->unpack && !(d->unpack = libdeflate_alloc_decompressor())))
        return CODEC_NO_MEMORY;
    const enum libdeflate_result r =
        libdeflate_zlib_decompress_ex(d->unpack, in, n, out, size, used, NULL);
    return r == LIBDEFLATE_SUCCESS ? 0 : CODEC_DAMAGED;
}

static void deflate_free(void *context)
{
    struct deflate *d = context;
    if (d->pack)
        libdeflate_free_compressor(d->pack);
    if (d->unpack)
        libdeflate_free_decompressor(d->unpack);
    free(d);
}

uint32_t codec_crc32_more(uint32_t crc, const void *data, size_t n)
{
    return libdeflate_crc32(crc, data, n);
}

#else
#include <zlib.h>

#define LIBRARY "zlib " ZLIB_VERSION
#define deflate_free NULL

static ssize_t deflate_pack(void **context, const struct codec *c, const void *in, size_t n,
                            void *out)
{
    uLongf size = (uLongf)n;
    (void)context;
    const int r = compress2(out, &size, in, (uLong)n, (int)c->level);
    return r == Z_MEM_ERROR ? CODEC_NO_MEMORY : r == Z_OK ? (ssize_t)size : 0;
}

/* Unpacks a stream to exactly `size` bytes. *used gets its length. */
static int inflate_stream(void **context, const void *in, size_t n, void *out, size_t size,
                          size_t *used)
{
    uLongf made = (uLongf)size;
    uLong taken = (uLong)n;
    (void)context;
    const int r = uncompress2(out, &made, in, &taken);
    *used = (size_t)taken;
    if (r == Z_MEM_ERROR)
        return CODEC_NO_MEMORY;
    return r == Z_OK && made == size ? 0 : CODEC_DAMAGED;
}

uint32_t codec_crc32_more(uint32_t crc, const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc, data, n);
}

#endif

static int deflate_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                          void *out)
{
    size_t used;
    const int r = inflate_stream(context, in, n, out, codec_pixel_bytes(p), &used);
    return r ? r : used == n ? 0 : CODEC_DAMAGED;
}

int codec_inflate(void **context, const void *in, size_t n, void *out, size_t size)
{
    size_t used;
    return inflate_stream(context, in, n, out, size, &used);
}

void codec_inflate_free(void *context)
{
    if (context && codec_deflate.free)
        codec_deflate.free(context);
}

uint32_t codec_crc32(const void *data, size_t n)
{
    return codec_crc32_more(0, data, n);
}

const struct codec codec_deflate = {
    .name = "deflate",
    .id = CODEC_PACKED,
    .h5_filter = 1,
    .level = 1,
    .offered = true,
    .library = LIBRARY,
    .pack = deflate_pack,
    .unpack = deflate_unpack,
    .free = deflate_free,
};
