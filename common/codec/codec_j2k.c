/*
 * codec_j2k.c - the codec j2k: one JP2 file per chunk, the slide's own JPEG 2000 tile
 * (j2k_chunk.h). Its pixels are OpenJPEG's (j2k_decoder.h). Without OpenJPEG the codec is found, so
 * that stores can be described and their checksums verified, but not unpacked.
 */
#include "common/codec/codec.h"

#include "common/codec/j2k_chunk.h"
#include "common/codec/j2k_decoder.h"

#ifdef HAVE_J2K
enum { HAVE_LIBRARY = 1 };
#else
enum { HAVE_LIBRARY = 0 };
#endif

static int j2k_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                      void *out)
{
    struct j2k_picture picture;
    if (!HAVE_LIBRARY)
        return CODEC_NO_LIBRARY;
    if (p->channels != 3 || !j2k_chunk_read(&picture, p->cols, p->rows, in, n))
        return CODEC_DAMAGED;
    if (!*context && !(*context = j2k_decoder_create(NULL)))
        return CODEC_NO_MEMORY;
    const int r =
        j2k_decode(*context, &picture, (const uint8_t *)in + J2K_HEAD, n - J2K_HEAD, out, NULL);
    return r == 0 ? 0 : r == J2K_NO_MEMORY ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

static void j2k_free(void *context)
{
    j2k_decoder_free(context);
}

const struct codec codec_j2k = {
    .name = "j2k",
    .id = CODEC_J2K,
    .h5_filter = 33005,
    .level = 1,
    .offered = HAVE_LIBRARY,
    .unpack = j2k_unpack,
    .free = j2k_free,
};
