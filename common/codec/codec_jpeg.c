/*
 * codec_jpeg.c - the codec jpeg: the HDF5 Group's registered filter 32019, one baseline JPEG file,
 * the slide's own tile. Its pixels are libjpeg-turbo's (jpeg_decoder.h). Without libjpeg the codec
 * is found, so that stores can be described and their checksums verified, but not unpacked.
 */
#include "common/codec/codec.h"

#include "common/codec/jpeg_decoder.h"

#ifdef HAVE_JPEG
enum { HAVE_LIBRARY = 1 };
#else
enum { HAVE_LIBRARY = 0 };
#endif

static int jpeg_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                       void *out)
{
    const struct jpeg_stream stream = {.bytes = in, .n = n};
    const struct jpeg_picture picture = {
        .cols = p->cols, .rows = p->rows, .channels = (int)p->channels, .colours = JPEG_MARKED};
    if (!*context && !jpeg_is_available(NULL))
        return CODEC_NO_LIBRARY;
    if (!*context && !(*context = jpeg_decoder_create(NULL)))
        return CODEC_NO_MEMORY;
    const int r = jpeg_decode(*context, &picture, &stream, out, NULL);
    return r == 0 ? 0 : r == JPEG_NO_MEMORY ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

static void jpeg_free(void *context)
{
    jpeg_decoder_free(context);
}

const struct codec codec_jpeg = {
    .name = "jpeg",
    .id = CODEC_JPEG,
    .h5_filter = 32019,
    .level = 90,
    .offered = HAVE_LIBRARY,
    .unpack = jpeg_unpack,
    .free = jpeg_free,
};
