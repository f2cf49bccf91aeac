/*
 * unpack.h - the JPEG chunks of one slab on a device: their stored bytes, and the kernels of jpeg.h
 * that make pixels of them in the slab's buffer.
 *
 * Each buffer of a device has one struct unpack with a stream of its own, so several slabs are
 * decoded at the same time, and beside the kernels that compute windows. In turn, for each slab:
 *
 *   unpack_add      takes chunks while they are sent, and lists those that the kernels handle
 *   unpack_arrived  counts the chunks of the slab, however they come. With the last one it queues
 *                   the kernels: tiles of one header together, and those that differ from each
 *                   other in their Huffman tables only; in the order of falling size
 *   unpack_next     waits for them and names the chunks that they left to the host
 *
 * Threads: unpack_add and unpack_arrived lock; the others are called by one thread at a time.
 * Functions return 0, or -1 with the device, the call and CUDA's own message.
 */
#ifndef WSI_UNPACK_H
#define WSI_UNPACK_H

#include "cuda/buffers.h"
#include "cuda/check.h"
#include "cuda/jpeg/jpeg.h"
#include "cuda/staging.h"

#include <mutex>

struct store_chunk;

/* Different headers that are kept of a slab. A tile with another one is decoded with Huffman tables
 * of its own, if the rest of its header is like that of a kept one; else it is left to the host. */
enum { UNPACK_SETS = 16 };

/* A chunk that the kernels decode. */
struct unpack_tile {
    uint64_t stored; /* byte in d_stored of its entropy-coded data */
    uint32_t bytes;  /* of these */
    uint32_t place;  /* in the slab */
    uint32_t most;   /* entries */
    int set;         /* number of a kept header */
    bool own;        /* has Huffman tables of its own: only the rest of the header is as kept */
    int batch;       /* tiles of one number can be decoded together */
    uint32_t dht[JPEG_PAIRS][2]; /* as in struct jpeg_tile */
};

/* A header that the slab's chunks have. */
struct unpack_header {
    uint8_t *bytes; /* [n], owned */
    size_t n;
    struct jpeg_header *parsed; /* owned */
    bool handled;
    struct jpeg_geometry geometry;
    int like;      /* the first kept header whose tiles can have tables of their own in a batch with
                      these; or itself */
    int64_t tiles; /* with exactly this header */
    int64_t alike; /* of the first: headers and own tables that are like it */
    uint32_t dht[JPEG_PAIRS][2];
};

/* How much fits into the memory of an unpacker. */
struct unpack_room {
    size_t stored, entries, restarts, planes; /* bytes; entries; markers; bytes */
    int64_t tiles, own;                       /* of a slab; with tables of their own, at a time */
    int64_t rows;                             /* of MCUs at a time, and one more per tile */
};

struct unpack {
    struct check_device *device;
    size_t shared_bytes; /* of memory that a block of the device can have */
    cudaStream_t stream;
    cudaEvent_t copied, begins, ends;
    struct copies_guard guard; /* of d_stored */
    std::mutex *lock;
    struct unpack_room room;

    uint8_t *d_memory, *locked; /* all of the following; NULL: there is no room */
    uint8_t *d_stored, *d_stripped, *d_status, *status, *d_planes;
    uint32_t *d_entries, *d_restarts, *d_rows, *d_bytes;
    struct jpeg_tile *d_tiles, *tiles;
    struct jpeg_set *d_sets, *sets;
    struct jpeg_own *d_own;
    struct unpack_tile *list; /* [room.tiles] */

    /* the present slab */
    int64_t band, row; /* the band's number, its first row */
    int64_t chunks;    /* that have arrived */
    size_t used;       /* bytes of d_stored */
    int64_t n, next;   /* tiles, and the next one to look at */
    struct unpack_header headers[UNPACK_SETS];
    int n_headers, last_header;
    struct jpeg_header other; /* of a chunk that has none of these */
    struct jpeg_set other_set;
    bool queued, waited;
};

int unpack_open(struct unpack *u, struct check_device *d, size_t shared_bytes, struct err *e);
void unpack_close(struct unpack *u);
/* `halved`: how often memory was short. */
bool unpack_fits(const struct unpack *u, const struct spectrum_band *b, int halved);
int unpack_reserve(struct unpack *u, const struct spectrum_band *b, int halved, struct err *e);
void unpack_release(struct unpack *u);

/* What chunks begin with: whole chunks one after the other, or `apart` bytes of each. */
struct unpack_heads {
    const uint8_t *at;
    size_t apart; /* 0: whole chunks */
};

/* Takes n chunks. left[k] becomes 0, or 1 + enum host_decoded for those that are left to the host.
 * The bytes go to *to.
 * Returns how many are left, or -1. */
int64_t unpack_add(struct unpack *u, const struct spectrum_slab *s, struct unpack_heads heads,
                   const struct store_chunk *chunks, int64_t n, int64_t first, uint8_t *left,
                   uint8_t **to, struct err *e);
/* n chunks of the slab have been queued on the stream of `c`. */
int unpack_arrived(struct unpack *u, const struct spectrum_slab *s, struct copies *c,
                   struct buffer *pixels, int64_t n, struct err *e);
/* 1 and the *place of the next chunk that is left to the host; 0 if there is no other one. *us: the
 * microseconds that the kernels took, once; else 0. */
int unpack_next(struct unpack *u, int64_t *place, int64_t *us, struct err *e);

#endif
