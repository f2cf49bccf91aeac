/*
 * j2k_bounds.h - bounds the memory that a JPEG 2000 codestream makes its decoder take.
 *
 * A decoder allocates memory for every precinct and code-block of an inner tile, and for every
 * layer of a packet, and a segment of a dozen bytes states how many there are. Streams are hostile
 * input.
 *
 * The bound: 4,096 and one per 64 samples of an inner tile for precincts and code-blocks together,
 * and 2^20 and two per sample for packets. That is about as much memory as the samples themselves
 * take. Code-blocks of 16 x 16 px and precincts of 64 x 64 px are within it, and larger ones.
 */
#ifndef WSI_J2K_BOUNDS_H
#define WSI_J2K_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

/* The largest inner tile of a stream. */
struct j2k_extent {
    int64_t cols, rows; /* px */
    int components;
};

/* NULL, or what is wrong with a stream whose SIZ segment is right: a segment COD or COC, of the
 * stream or of a tile, asks for more than the bound, or a marker is not where it has to be, or is
 * none that we know: a decoder might find other segments there. */
const char *j2k_bounds_check(const uint8_t *bytes, size_t n, const struct j2k_extent *x);

#endif
