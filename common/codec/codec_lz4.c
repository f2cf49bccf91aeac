/*
 * codec_lz4.c - the codec lz4: the HDF5 Group's registered filter 32004.
 *
 * All numbers are big-endian: unpacked size (8 bytes), block size (4), then for each block its
 * packed size (4) and the LZ4 block (https://github.com/HDFGroup/hdf5_plugins, LZ4). We write one
 * block per chunk.
 */
#include "common/codec/codec.h"

#ifdef HAVE_LZ4
#include <lz4.h>

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

static ssize_t lz4_pack(void **context, const struct codec *c, const void *in, size_t n, void *out)
{
    unsigned char *to = out;
    (void)context, (void)c;
    if (n <= LZ4_HEAD || n > LZ4_MAX_INPUT_SIZE)
        return 0;
    const int room = (int)(n - LZ4_HEAD);
    const int packed = LZ4_compress_default(in, (char *)to + LZ4_HEAD, (int)n, room);
    put_big_endian(to, n, 8);
    put_big_endian(to + 8, n, 4);
    put_big_endian(to + 12, (uint64_t)packed, 4);
    return packed > 0 ? LZ4_HEAD + packed : 0;
}

static int lz4_unpack(void **context, const struct codec_params *p, const void *in, size_t n,
                      void *out)
{
    const unsigned char *from = in;
    const size_t out_n = codec_pixel_bytes(p);
    (void)context;
    if (n < LZ4_HEAD || out_n > LZ4_MAX_INPUT_SIZE || get_big_endian(from, 8) != out_n ||
        get_big_endian(from + 8, 4) != out_n || get_big_endian(from + 12, 4) != n - LZ4_HEAD)
        return CODEC_DAMAGED;
    const char *block = (const char *)from + LZ4_HEAD;
    const int size = LZ4_decompress_safe(block, out, (int)(n - LZ4_HEAD), (int)out_n);
    return size == (int)out_n ? 0 : CODEC_DAMAGED;
}

const struct codec codec_lz4 = {
    .name = "lz4",
    .id = CODEC_PACKED,
    .h5_filter = 32004,
    .offered = true,
    .library = "LZ4 " LZ4_VERSION_STRING,
    .pack = lz4_pack,
    .unpack = lz4_unpack,
};

#else

const struct codec codec_lz4;

#endif
