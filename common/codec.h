/*
 * codec.h - what a store's chunks are packed with, and their checksum.
 *
 * deflate is a zlib stream (RFC 1950), which is what HDF5's own gzip filter (1) writes and reads, so
 * h5dump and h5py need no plug-in. libdeflate does the work where it is there, zlib elsewhere; both
 * write valid streams, libdeflate's are not byte for byte zlib's.
 *
 * lz4 and zstd are the HDF5 Group's registered filters 32004 and 32015, for who has the plug-in (hdf5plugin
 * for h5py). A chunk of 32004 is, all numbers big-endian: the unpacked size (8 bytes), the block size (4),
 * and for each block its packed size (4) and LZ4 block (https://github.com/HDFGroup/hdf5_plugins, LZ4); one
 * block a chunk here. A chunk of 32015 is one Zstandard frame.
 */
#ifndef WSI_CODEC_H
#define WSI_CODEC_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

enum codec_id { CODEC_NONE, CODEC_DEFLATE, CODEC_LZ4, CODEC_ZSTD, CODECS };

struct codec {
    const char *name;
    enum codec_id id;
    int h5_filter; /* the HDF5 filter number, 0 for none */
    unsigned level;
};

/* NULL when there is no such codec, or this build lacks its library. */
const struct codec *codec_find(const char *name);
/* "deflate|lz4|zstd|none": those of this build, for messages and help. */
const char *codec_names(void);

/* Work areas of one thread. */
struct codec_work;
struct codec_work *codec_create(const struct codec *c, struct err *e);
void codec_free(struct codec_work *w);

/* Packs n bytes into out (capacity n). Returns the packed size, or 0 when that would not be smaller
 * than n: the chunk is then stored as it is. */
size_t codec_encode(struct codec_work *w, const void *in, size_t n, void *out);
/* Unpacks into exactly out_n bytes; -1 when the stream is damaged or of another length. */
int codec_decode(struct codec_work *w, const void *in, size_t n, void *out, size_t out_n);

/* CRC-32 with zlib's polynomial, as zlib's crc32() gives it. */
uint32_t codec_crc32(const void *data, size_t n);

/* The libraries that do the packing, with their versions. */
const char *codec_library(void);

#endif
