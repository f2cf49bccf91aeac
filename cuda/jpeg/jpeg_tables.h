/*
 * jpeg_tables.h - what the kernels of jpeg.cu need to know of a JPEG stream's header: its geometry,
 * and its Huffman and quantisation tables as look-up tables.
 *
 * The tables answer for JPEG_LOOKUP bits of the stream at once. An entry resolves one or two
 * symbols with the values that follow them, so that a block takes about half as many look-ups as it
 * has symbols:
 *
 *   byte 0      bits of the stream that the symbols and their values take
 *   byte 1      places by which they move in zigzag order: run + 1 each, 16 for sixteen zeros,
 *               JPEG_END for the end of the block
 *   byte 2      places by which the first symbol alone moves
 *   byte 3      enum jpeg_kind
 *   bits 32-63  the coefficients; for DC, the difference from the block before:
 *
 *     bits 32-35  1 if the first symbol brings a coefficient
 *     bits 36-47  this coefficient
 *     bits 48-51  how many coefficients there are
 *     bits 52-63  the second coefficient
 *
 * With JPEG_VALUE byte 0 has the bits of the code alone, and bits 32-47 the bits of the value,
 * which follows it in the stream.
 *
 * The second symbol behind a DC difference is the first AC symbol of the block. A difference of
 * zero is no coefficient.
 */
#ifndef WSI_JPEG_TABLES_H
#define WSI_JPEG_TABLES_H

#include "common/codec/jpeg_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define JPEG_HD __host__ __device__ __forceinline__
#else
#define JPEG_HD static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
    JPEG_LOOKUP = 11,
    JPEG_OWN_AC = 9, /* bits that the tables of a tile's own answer for */
    JPEG_OWN_DC = 5,
    JPEG_OWN_ENTRIES = (1 << JPEG_OWN_AC) + (1 << JPEG_OWN_DC), /* of a pair */
    JPEG_PAIRS = 2, /* pairs of a DC and an AC table that a stream's components use */
    JPEG_END = 128,
    JPEG_KIND = 24,    /* the bit at which the kind begins */
    JPEG_MOST_DC = 11, /* bits of a value; more are left to the host's decoder */
    JPEG_MOST_AC = 10,
};

enum jpeg_kind {
    JPEG_RESOLVED, /* all bits are in the entry */
    JPEG_VALUE,    /* the symbol is; its value lies behind the looked-up bits */
    JPEG_LONG,     /* the code is longer than JPEG_LOOKUP bits, or no code begins so */
    JPEG_UNUSUAL,  /* a symbol that the kernels leave to the host */
};

/* Room that the decoder needs. */
enum {
    JPEG_SLACK = 1024, /* bytes that may be read behind the data of a tile */
    JPEG_MARGIN = 16,  /* entries that may be written behind the room for a tile */
};

enum jpeg_sampling { JPEG_GRAY, JPEG_444, JPEG_422, JPEG_420 };

/* The properties that all tiles of one batch share. */
struct jpeg_geometry {     /* no padding: compared byte by byte */
    int32_t width, height; /* px of a tile */
    int32_t sampling;      /* enum jpeg_sampling */
    int32_t ycc;           /* colours are YCbCr and become RGB */
    int32_t mcu_cols, mcu_rows, mcu_blocks;
    /* A row of MCUs across a wide tile is so many rows of mcu_cols here; else 1. 0: the MCUs are
     * cut into mcu_rows runs of mcu_cols, in the order of the stream, wherever the tile's rows
     * end. */
    int32_t parts;
    int32_t across;           /* MCUs across the tile */
    int32_t restart_interval; /* MCUs; 0: none */
};

/* Bytes of a pixel. */
JPEG_HD int jpeg_channels(const struct jpeg_geometry *g)
{
    return g->sampling == JPEG_GRAY ? 1 : 3;
}

/* Bytes of a tile's pixels. */
JPEG_HD size_t jpeg_tile_bytes(const struct jpeg_geometry *g)
{
    return (size_t)g->width * (size_t)g->height * (size_t)jpeg_channels(g);
}

/* Bytes of a tile's planes of samples: a multiple of 64, and 0 if it needs none. */
JPEG_HD size_t jpeg_planes_bytes(const struct jpeg_geometry *g)
{
    return g->parts ? 0 : (size_t)g->mcu_cols * (size_t)g->mcu_rows * (size_t)g->mcu_blocks * 64;
}

/* One set of tables. */
struct jpeg_set {
    /* of jpeg_tables_make() */
    /* by place in zigzag order: quantiser << 16 | column * 8 + row */
    uint32_t scatter[JPEG_COMPONENTS][64];
    uint32_t pair_of; /* pair of component c in bit c */
    int32_t pairs;
    uint8_t dc[JPEG_PAIRS], ac[JPEG_PAIRS]; /* the stream's numbers of a pair's tables */
    /* of jpeg_tables_codes() */
    uint64_t lookup[JPEG_PAIRS][2][1 << JPEG_LOOKUP]; /* [pair][0: DC, 1: AC] */
    /* codes longer than JPEG_LOOKUP bits: those of n bits are below limit[n], left-aligned to 16
     * bits */
    uint32_t limit[JPEG_PAIRS][2][18];
    int32_t first[JPEG_PAIRS][2]
                 [18]; /* values[first[n] + code] is the symbol of a code of n bits */
    uint8_t values[JPEG_PAIRS][2][256];
};

/*
 * The Huffman tables of one tile, where each has its own. A kernel makes them of the tables that
 * the stream holds. They are small, because the tables of all threads of a block lie in its shared
 * memory, so an entry resolves one code and none of the value behind it.
 */
struct jpeg_own {
    /* [pair][AC: by the next JPEG_OWN_AC bits; then DC: by the next JPEG_OWN_DC bits]: symbol << 8
     * | bits of its code. 0: the code is longer, or none begins so, or the kernels leave the symbol
     * to the host */
    uint16_t lookup[JPEG_PAIRS][JPEG_OWN_ENTRIES];
    /* as in struct jpeg_set */
    uint32_t limit[JPEG_PAIRS][2][18];
    int32_t first[JPEG_PAIRS][2][18];
    uint8_t values[JPEG_PAIRS][2][256];
};

/*
 * Geometry and quantisers of a stream for the kernels, and which tables its components use. `ycc`:
 * what the store's attributes or the stream's marker say of its colours. False if the kernels do
 * not handle such streams: the host's decoder does.
 */
bool jpeg_tables_make(const struct jpeg_header *h, bool ycc, struct jpeg_geometry *g,
                      struct jpeg_set *s);
/* The look-up tables of a set whose rest jpeg_tables_make() has filled in. */
void jpeg_tables_codes(const struct jpeg_header *h, struct jpeg_set *s);
/* Do the components of two headers use pairs of tables in the same way, and have they the same
 * quantisers, if that is asked? */
bool jpeg_tables_alike(const struct jpeg_set *a, const struct jpeg_set *b, bool quantisers);
/* Cuts the MCUs of a tile into runs that always fit: for tiles whose rows do not. */
void jpeg_cut_runs(struct jpeg_geometry *g);
/* mcu_rows is not more than this for a tile of so many px that is cut into rows or parts. */
int64_t jpeg_most_rows(int64_t width, int64_t height);

#ifdef __cplusplus
}
#endif
#endif
