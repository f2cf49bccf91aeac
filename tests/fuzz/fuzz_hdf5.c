/*
 * fuzz_hdf5.c - libFuzzer's mutations for HDF5 files. Metadata have checksums, so nearly every
 * plain mutation ends at the first of them. These mutations change bytes of a block of metadata in
 * place and repair its checksum (tests/torture/h5sum.h).
 */
#include "tests/fuzz/fuzz.h"
#include "tests/torture/h5sum.h"

#include <string.h>

enum { MOST_BLOCKS = 512, MOST_CHANGED = 64 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned int seed);

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Changes up to MOST_CHANGED bytes of a block; the file keeps its size. */
static void change(uint8_t *data, const struct h5sum_block *b, unsigned *seed)
{
    uint8_t piece[2 * MOST_CHANGED];
    const size_t at = next(seed) % b->bytes;
    size_t n = 1 + next(seed) % MOST_CHANGED;
    n = n < b->bytes - at ? n : b->bytes - at;
    memcpy(piece, data + b->offset + at, n);
    const size_t changed = LLVMFuzzerMutate(piece, n, sizeof piece);
    memcpy(data + b->offset + at, piece, changed < n ? changed : n);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned int seed)
{
    static struct h5sum_block blocks[MOST_BLOCKS];
    const size_t count = h5sum_find(data, n, blocks, MOST_BLOCKS);
    if (count == 0 || next(&seed) % 8 == 0)
        n = LLVMFuzzerMutate(data, n, most);
    else
        for (unsigned k = next(&seed) % 3 + 1; k > 0; k--)
            change(data, &blocks[next(&seed) % count], &seed);
    h5sum_repair(data, n, blocks, count);
    return n;
}
