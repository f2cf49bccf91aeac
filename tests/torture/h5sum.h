/*
 * h5sum.h - the checksums of HDF5 metadata: finding the blocks that have one, and repairing it.
 *
 * In files of format bounds V110 each metadata block ends in a 32-bit lookup3 hash of what precedes
 * it (H5_checksum_metadata; Bob Jenkins, lookup3.c, public domain). Direct blocks of a fractal heap
 * have it in their head, and it counts as zero bytes. A block begins with a signature of four
 * bytes; its length depends on its kind. Here the length is found by trying: it is the one at which
 * the hash fits. Only whole, valid files are searched; mutated ones use the blocks found before.
 */
#ifndef TORTURE_H5SUM_H
#define TORTURE_H5SUM_H

#include <stddef.h>
#include <stdint.h>

struct h5sum_block {
    size_t offset, bytes; /* of what is hashed */
    size_t hash;          /* where the hash is, from `offset` on: `bytes`, or within them */
};

/* Up to `most` blocks of a file in memory; returns their number. */
size_t h5sum_find(const uint8_t *file, size_t n, struct h5sum_block *blocks, size_t most);
/* Writes the right hash behind each block. Blocks that do not lie within n bytes are left out. */
void h5sum_repair(uint8_t *file, size_t n, const struct h5sum_block *blocks, size_t count);

#endif
