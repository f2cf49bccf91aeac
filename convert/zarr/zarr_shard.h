/*
 * zarr_shard.h - shards of Zarr 3 (its codec `sharding_indexed`): chunks in any order, then an
 * index as the last bytes of the file. It has, for each chunk row by row, offset and bytes as
 * uint64, 2^64 - 1 twice for a chunk that is absent, then the CRC-32C of all these. A store becomes
 * a shard when the index of its tiles is appended, which HDF5 does not see.
 */
#ifndef WSI_ZARR_SHARD_H
#define WSI_ZARR_SHARD_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The index of n chunks, all of them absent, to be free()d. NULL: too little memory. */
unsigned char *zarr_index_create(int64_t n, struct err *e);
void zarr_index_put(unsigned char *index, int64_t k, uint64_t offset, uint64_t bytes);
/* Adds the checksum; returns the bytes of the whole index. */
size_t zarr_index_end(unsigned char *index, int64_t n);
/* Puts a finished index behind the store at `path`, unless it has that index already. Other bytes
 * behind the store are replaced. The file keeps its time, as the store is the same. */
int zarr_index_append(const char *path, const unsigned char *index, size_t n, struct err *e);

/* A shard that is being written. Messages do not name it. Starts as {0}. */
struct zarr_shard {
    FILE *f;
    uint64_t end;
    unsigned char *index;
    int64_t chunks, next;
};
/* Creates the file, which must not exist. */
int zarr_shard_begin(struct zarr_shard *s, const char *path, int64_t chunks, struct err *e);
/* Appends the next chunk, row by row. */
int zarr_shard_put(struct zarr_shard *s, const void *bytes, size_t n, struct err *e);
/* Writes the index, and all of it to disk. */
int zarr_shard_end(struct zarr_shard *s, struct err *e);
/* Closes it; harmless after zarr_shard_end() and on a zeroed struct. */
void zarr_shard_close(struct zarr_shard *s);

#endif
