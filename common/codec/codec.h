/*
 * codec.h - packs and unpacks the chunks of a store, and computes their checksum.
 *
 * A codec is one row in codec.c, and one file, codec_NAME.c, if a library serves it alone. There
 * the format of a chunk is stated. All but none and deflate need a plug-in for readers other than
 * ours (hdf5plugin for h5py; for jpeg and j2k our own, h5jpeg.c and h5j2k.c).
 *
 * Two structs separate what belongs to a store from what belongs to a thread. `codec_params` states
 * what a store's chunks unpack to; it is constant and shared by all threads. `codec_work` holds the
 * libraries' contexts of one thread; they are created on first use and serve any number of stores.
 * A packed chunk may have any length: nothing here infers the codec from a size.
 */
#ifndef WSI_CODEC_H
#define WSI_CODEC_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kinds of codecs. Readers need not tell those that pack pixels apart. */
enum codec_id {
    CODEC_NONE,   /* chunks are pixels */
    CODEC_PACKED, /* chunks are packed here, or raw where that is not smaller */
    CODEC_JPEG, /* chunks are the slide's own tiles; they are never encoded here, and none is raw */
    CODEC_J2K,  /* the same, but those of tiles that are damaged or missing are raw */
};

struct codec_params;
struct codec {
    const char *name; /* NULL: this build lacks its library */
    enum codec_id id;
    int h5_filter;  /* the HDF5 filter number, 0 for none */
    unsigned level; /* value of the filter, 0 for none; of jpeg: the quality that filter 32019 would
                       encode with, which readers ignore */
    bool offered;   /* this build makes stores with it */
    bool keeps;     /* chunks are the slide's own tiles: jpeg and j2k */
    const char *library; /* "LZ4 1.9.4", or NULL */

    /* For codec.c. *context belongs to a thread and is NULL until its first use. pack returns the
     * packed size, 0 if n bytes in `out` are too few, or CODEC_NO_MEMORY; unpack returns what
     * codec_decode() returns. NULL: not for this codec. */
    ssize_t (*pack)(void **context, const struct codec *c, const void *in, size_t n, void *out);
    int (*unpack)(void **context, const struct codec_params *p, const void *in, size_t n,
                  void *out);
    void (*free)(void *context); /* not called with NULL; NULL: there is no context */
};

/* The codec of the chunks of one store, and the shape that each unpacks to: u8
 * [rows][cols][channels]. */
struct codec_params {
    const struct codec *codec;
    int64_t rows, cols, channels;
};

/* Bytes of an unpacked chunk. */
size_t codec_pixel_bytes(const struct codec_params *p);

/* The most bytes that a stored chunk may have. */
size_t codec_most_bytes(const struct codec_params *p);

/* NULL if there is no such codec, or this build lacks its library. jpeg and j2k are always found,
 * so that stores can be described and their checksums verified without their libraries. */
const struct codec *codec_find(const char *name);
/* "deflate|lz4|zstd|jpeg|none": the codecs of this build, for messages and help. */
const char *codec_names(void);

/* The contexts of one thread. */
struct codec_work;
struct codec_work *codec_create(void);
void codec_free(struct codec_work *w); /* NULL is allowed */

/*
 * Packs a chunk. `out` has room for codec_pixel_bytes(). *packed gets the number of bytes in `out`,
 * or 0 if packing does not make the chunk smaller: it is then stored raw, as its pixels. -1 if
 * there is no memory. Not for jpeg and j2k.
 */
int codec_encode(struct codec_work *w, const struct codec_params *p, const void *pixels, void *out,
                 size_t *packed, struct err *e);

enum { CODEC_DAMAGED = -1, CODEC_NO_MEMORY = -2, CODEC_NO_LIBRARY = -3 };

/*
 * Unpacks the n bytes of a packed chunk to exactly codec_pixel_bytes() at `pixels`. Returns 0,
 * CODEC_NO_MEMORY, CODEC_DAMAGED if the bytes are damaged or unpack to another size, or
 * CODEC_NO_LIBRARY if this build cannot unpack them. Not for raw chunks, which are their own
 * pixels.
 */
int codec_decode(struct codec_work *w, const struct codec_params *p, const void *in, size_t n,
                 void *pixels);

/*
 * Unpacks the zlib stream that the n bytes begin with to exactly `size` bytes; what follows its end
 * is ignored. Returns as codec_decode() does: the stream is damaged if it ends elsewhere, or its
 * checksum is wrong or absent. *context belongs to a thread and is NULL at first.
 */
int codec_inflate(void **context, const void *in, size_t n, void *out, size_t size);
void codec_inflate_free(void *context); /* NULL is allowed */

/* CRC-32 with zlib's polynomial, equal to zlib's crc32(). */
uint32_t codec_crc32(const void *data, size_t n);
/* The CRC-32 of earlier data, whose CRC-32 is `crc` (0: none), followed by these n bytes. */
uint32_t codec_crc32_more(uint32_t crc, const void *data, size_t n);

/* The libraries that pack and unpack, with their versions. */
const char *codec_library(void);

/* Can compression leave edges where the tiles of a slide meet, which show inside none of them?
 * Wavelets and filters end there, so "JPEG 2000", "WebP" and "JPEG XR" can. The blocks of JPEG are
 * alike all over the tile, and without loss nothing is left. It may be so where the compression is
 * not known, "". */
bool codec_leaves_borders(const char *tile_compression);

#endif
