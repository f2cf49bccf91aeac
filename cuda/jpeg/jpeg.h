/*
 * jpeg.h - decodes the JPEG tiles of a jpeg store on the device, to exactly the bytes of
 * libjpeg-turbo.
 *
 * Three kernels work on a batch of tiles that share geometry and tables, or geometry alone:
 *
 *   strip    one warp per tile: removes stuffed bytes and restart markers; makes the look-up tables
 *            of tiles with their own
 *   huffman  one thread per tile: entropy decoding to a list of coefficients (jpeg_bits.cuh)
 *   pixels   one block per tile: dequantisation, inverse DCT, upsampling and colours. Tiles whose
 *            rows do not fit shared memory take two steps, through planes of samples
 *
 * Pixels are those of libjpeg-turbo's defaults (islow DCT, fancy upsampling, RGB output): u8
 * [height][width][3] per tile, [height][width] of gray ones. A tile that holds anything unusual is
 * not decoded; its status says so, and the caller has it decoded by libjpeg-turbo on the host. The
 * kernels never guess.
 *
 * A batch should hold some thousand tiles: the huffman kernel takes as long as its longest tile.
 * Tiles are passed in the order of falling size, so that the threads of a warp end at about the
 * same time.
 */
#ifndef WSI_JPEG_H
#define WSI_JPEG_H

#include "cuda/jpeg/jpeg_tables.h"

#include <cuda_runtime.h>

enum jpeg_status { JPEG_DECODED = 0, JPEG_FOR_HOST = 1 };

/* A tile of a batch. Offsets are those of the batch's buffers. */
struct jpeg_tile {
    uint64_t stored;   /* byte in d_stored at which the entropy-coded data begin */
    uint32_t bytes;    /* from there to the end of the stream */
    uint32_t place;    /* its pixels go to d_pixels + place * jpeg_tile_bytes() */
    uint64_t stripped; /* byte in d_stripped, a multiple of 16; `bytes` of room */
    uint64_t entries;  /* entry in d_entries, a multiple of 4; `most` + JPEG_MARGIN of room */
    uint32_t most;
    uint32_t number; /* its status goes to d_status[number] */
    uint32_t set;
    /* With tables of its own: they begin (16 counts, then symbols) so many bytes before `stored` */
    uint32_t dht[JPEG_PAIRS][2]; /* [pair][0: DC, 1: AC] */
};

struct jpeg_batch {
    struct jpeg_geometry geometry;
    const struct jpeg_set *d_sets; /* by the tiles' `set`; without codes if d_own is given */
    struct jpeg_own *d_own;        /* [n]; NULL: all tiles have one set */
    size_t shared_bytes;           /* of memory that a block of the device can have */
    int32_t pairs;                 /* of each set */
    int32_t n;
    bool wide; /* the huffman kernel keeps to few multiprocessors, so that other kernels have room
                  beside it; without it, a batch alone on the device ends a little earlier */
    const struct jpeg_tile *d_tiles; /* [n] */
    const uint8_t *d_stored;
    uint8_t *d_stripped;  /* with JPEG_SLACK bytes more behind the last tile */
    uint32_t *d_bytes;    /* [n], of stripped data */
    uint32_t *d_restarts; /* [n][jpeg_restarts()] */
    uint32_t *d_entries;
    uint32_t *d_rows;  /* [n][mcu_rows + 1] */
    uint8_t *d_status; /* enum jpeg_status by tile number */
    uint8_t *d_planes; /* [n][jpeg_planes_bytes()] */
    uint8_t *d_pixels; /* on a boundary of 16 bytes */
};

/* Restart markers in a tile. */
uint32_t jpeg_restarts(const struct jpeg_geometry *g);
/* Entries for which a tile of so many bytes gets room: more than encoders need. */
uint32_t jpeg_most_entries(const struct jpeg_geometry *g, uint32_t bytes);
/* Once for each device, before the first launch: lets jpeg_pixels() have its shared memory. A block
 * of the device can have `shared_bytes` of it. */
cudaError_t jpeg_prepare(size_t shared_bytes);
/* Do the rows of such tiles fit the shared memory of the pixels kernel? Runs always do. */
bool jpeg_pixels_fit(const struct jpeg_geometry *g, size_t shared_bytes);
/* Queue the kernels on the stream, one after the other. Errors are left for cudaGetLastError(). */
void jpeg_strip(const struct jpeg_batch *b, cudaStream_t stream);
void jpeg_huffman(const struct jpeg_batch *b, cudaStream_t stream);
void jpeg_pixels(const struct jpeg_batch *b, cudaStream_t stream);

#endif
