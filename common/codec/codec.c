/* codec.c - see codec.h: the table of codecs, those without a library of their own, and what all
 * of them share. */
#include "common/codec/codec.h"

#include "common/base/memory.h"
#include "common/codec/j2k.h"
#include "common/codec/jpeg_decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The codec jpeg: the HDF5 Group's registered filter 32019, one baseline JPEG file,
 * the slide's own tile. Its pixels are libjpeg-turbo's (jpeg_decoder.h). Without libjpeg the codec
 * is found, so that stores can be described and their checksums verified, but not unpacked.
 */
#ifdef HAVE_JPEG
enum { HAVE_LIBJPEG = 1 };
#else
enum { HAVE_LIBJPEG = 0 };
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

static const struct codec codec_jpeg = {
    .name = "jpeg",
    .id = CODEC_JPEG,
    .h5_filter = 32019,
    .level = 90,
    .keeps = true,
    .offered = HAVE_LIBJPEG,
    .unpack = jpeg_unpack,
    .free = jpeg_free,
};

/*
 * The codec j2k: one JP2 file per chunk, the slide's own JPEG 2000 tile
 * (j2k.h). Its pixels are OpenJPEG's. Without OpenJPEG the codec is found, so
 * that stores can be described and their checksums verified, but not unpacked.
 */
#ifdef HAVE_J2K
enum { HAVE_OPENJPEG = 1 };
#else
enum { HAVE_OPENJPEG = 0 };
#endif

static int j2k_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                      void *out)
{
    struct j2k_picture picture;
    if (!HAVE_OPENJPEG)
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

static const struct codec codec_j2k = {
    .name = "j2k",
    .id = CODEC_J2K,
    .h5_filter = 33005,
    .level = 1,
    .keeps = true,
    .offered = HAVE_OPENJPEG,
    .unpack = j2k_unpack,
    .free = j2k_free,
};

/* The codec none: a chunk is its pixels. */
static const struct codec codec_none = {.name = "none", .id = CODEC_NONE, .offered = true};

/* --- the table --- */

extern const struct codec codec_deflate, codec_lz4, codec_zstd;

static const struct codec *const codecs[] = {
    &codec_deflate, &codec_lz4, &codec_zstd, &codec_jpeg, &codec_j2k, &codec_none,
};
enum { N_CODECS = sizeof codecs / sizeof *codecs };

const struct codec *codec_find(const char *name)
{
    for (int k = 0; k < N_CODECS; k++)
        if (codecs[k]->name && !strcmp(codecs[k]->name, name))
            return codecs[k];
    return NULL;
}

/* Adds a part to a list in text[size]. */
static void append(char *text, size_t size, const char *separator, const char *part)
{
    const size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? separator : "", part);
}

const char *codec_names(void)
{
    static char names[128];
    names[0] = 0;
    for (int k = 0; k < N_CODECS; k++)
        if (codecs[k]->name && codecs[k]->offered)
            append(names, sizeof names, "|", codecs[k]->name);
    return names;
}

const char *codec_library(void)
{
    static char libraries[256];
    libraries[0] = 0;
    for (int k = 0; k < N_CODECS; k++)
        if (codecs[k]->library)
            append(libraries, sizeof libraries, ", ", codecs[k]->library);
    return libraries;
}

size_t codec_pixel_bytes(const struct codec_params *p)
{
    return (size_t)(p->rows * p->cols * p->channels);
}

size_t codec_most_bytes(const struct codec_params *p)
{
    enum { TABLES = 1 << 17 };
    const size_t pixels = codec_pixel_bytes(p);
    return p->codec->keeps ? 2 * pixels + TABLES : pixels;
}

/* --- contexts --- */

struct codec_work {
    void *contexts[N_CODECS]; /* in the order of the table; NULL until their first use */
};

struct codec_work *codec_create(void)
{
    return memory_need(1, sizeof(struct codec_work));
}

void codec_free(struct codec_work *w)
{
    for (int k = 0; w && k < N_CODECS; k++)
        if (w->contexts[k])
            codecs[k]->free(w->contexts[k]);
    free(w);
}

static void **context_of(struct codec_work *w, const struct codec *c)
{
    int k = 0;
    while (codecs[k] != c)
        k++;
    return &w->contexts[k];
}

/* --- packing and unpacking --- */

int codec_encode(struct codec_work *w, const struct codec_params *p, const void *pixels, void *out,
                 size_t *packed, struct err *e)
{
    const struct codec *c = p->codec;
    const size_t n = codec_pixel_bytes(p);
    const ssize_t size = c->pack ? c->pack(context_of(w, c), c, pixels, n, out) : 0;
    if (size < 0)
        return err_memory(e);
    *packed = (size_t)size < n ? (size_t)size : 0;
    return 0;
}

int codec_decode(struct codec_work *w, const struct codec_params *p, const void *in, size_t n,
                 void *pixels)
{
    const struct codec *c = p->codec;
    return c->unpack ? c->unpack(context_of(w, c), p, in, n, pixels) : CODEC_DAMAGED;
}

bool codec_leaves_borders(const char *tile_compression)
{
    static const char *const with[] = {"", "JPEG 2000", "WebP", "JPEG XR"};
    for (size_t k = 0; k < sizeof with / sizeof *with; k++)
        if (!strcmp(tile_compression, with[k]))
            return true;
    return false;
}
