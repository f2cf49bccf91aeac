/*
 * tile_lossless.h - tiles of TIFF's other compressions, through libtiff. Used by tile.c only; see
 * tile.h for the rules.
 */
#ifndef WSI_TILE_LOSSLESS_H
#define WSI_TILE_LOSSLESS_H

#include "convert/tile/tile.h"

struct tile_lossless;

/* Is it one of these compressions, and has libtiff been built with it? */
bool tile_lossless_is_known(const struct tile_format *f);

/* NULL when out of memory. `f` must outlive it. */
struct tile_lossless *tile_lossless_create(const struct tile_format *f, struct err *e);
/* NULL is allowed. */
void tile_lossless_free(struct tile_lossless *d);

/* Decodes n bytes into out [rows][cols][channels] u8; channels 3 = RGB or 1 = gray. 0, TILE_DAMAGED
 * or TILE_NO_MEMORY. */
int tile_lossless_decode(struct tile_lossless *d, const uint8_t *bytes, size_t n, int channels,
                         uint8_t *out, struct err *e);

#endif
