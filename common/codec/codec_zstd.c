/* codec_zstd.c - the codec zstd: the HDF5 Group's registered filter 32015, one Zstandard frame. */
#include "common/codec/codec.h"

#ifdef HAVE_ZSTD
#include <stdlib.h>
#include <zstd.h>

struct zstd {
    ZSTD_CCtx *pack; /* NULL until their first use */
    ZSTD_DCtx *unpack;
};

static struct zstd *contexts(void **context)
{
    return *context ? *context : (*context = calloc(1, sizeof(struct zstd)));
}

static ssize_t zstd_pack(void **context, const struct codec *c, const void *in, size_t n, void *out)
{
    struct zstd *z = contexts(context);
    if (!z || (!z->pack && !(z->pack = ZSTD_createCCtx())))
        return CODEC_NO_MEMORY;
    const size_t packed = ZSTD_compressCCtx(z->pack, out, n, in, n, (int)c->level);
    return ZSTD_isError(packed) ? 0 : (ssize_t)packed;
}

static int zstd_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                       void *out)
{
    struct zstd *z = contexts(context);
    const size_t out_n = codec_pixel_bytes(p);
    if (!z || (!z->unpack && !(z->unpack = ZSTD_createDCtx())))
        return CODEC_NO_MEMORY;
    return ZSTD_decompressDCtx(z->unpack, out, out_n, in, n) == out_n ? 0 : CODEC_DAMAGED;
}

static void zstd_free(void *context)
{
    struct zstd *z = context;
    ZSTD_freeCCtx(z->pack); /* NULL is allowed */
    ZSTD_freeDCtx(z->unpack);
    free(z);
}

const struct codec codec_zstd = {
    .name = "zstd",
    .id = CODEC_PACKED,
    .h5_filter = 32015,
    .level = 1,
    .offered = true,
    .library = "Zstandard " ZSTD_VERSION_STRING,
    .pack = zstd_pack,
    .unpack = zstd_unpack,
    .free = zstd_free,
};

#else

const struct codec codec_zstd;

#endif
