/*
 * tile_lossless.h - uncompressed, LZW, deflate, PackBits, LZMA, Zstandard and WebP tiles, through
 * libtiff (strip.h). A decoder belongs to one thread and one level of a slide.
 *
 * Only the bytes of a tile reach libtiff. Its decoders write no more than the tile's pixels, and
 * fail if the bytes make fewer. Most take a stream that makes more for whole, as damaged ones do:
 * where a stream has an end of its own, it is asked for one byte more. Deflate goes to
 * codec_inflate(), which also needs the checksum.
 */
#ifndef CONVERT_TILE_TILE_LOSSLESS_H
#define CONVERT_TILE_TILE_LOSSLESS_H

#include "common/base/err.h"
#include "convert/tile/tile_format.h"

/* Can a tile of this format be decoded here? */
bool tile_lossless_is_known(const struct tile_format *f);

/* Stops libtiff from printing. Our own messages name the damage of a tile. Call it once, at the
 * start of a program. */
void tile_lossless_silence(void);

struct tile_lossless;
/* NULL when out of memory. `f` must outlive it. */
struct tile_lossless *tile_lossless_create(const struct tile_format *f, struct err *e);
void tile_lossless_free(struct tile_lossless *d);

/* As tile_decode(). */
int tile_lossless_decode(struct tile_lossless *d, const uint8_t *bytes, size_t n, int channels,
                         uint8_t *out, struct err *e);

#endif
