/*
 * tile.h - one compressed tile of a TIFF file to pixels in the caller's buffer.
 *
 * A decoder belongs to one thread and one level of a slide. The JPEG tables are loaded once; every
 * tile is then decoded by the same libjpeg object straight into the chunk that is stored.
 *
 * JPEG: files often describe themselves wrongly, so these rules apply. The colour space is that of
 * the file's photometric interpretation. A stream can state another one itself
 * (jpeg_header_colours): in DICOM it is right then, as for libjpeg-turbo, Pillow and pydicom, in
 * TIFF it is wrong, as for libtiff and OpenSlide. A stream with subsampled chroma is YCbCr,
 * whatever the two state. Full decodes, decodes at 1/8 and kept tiles ask
 * one function, so they agree. The subsampling and the size are those of the stream, and the size
 * must be the tile's. With libjpeg's defaults the pixels are identical to OpenSlide's
 * (jpeg_decoder.h).
 *
 * JPEG 2000 (compression 33003: YCbCr without a transform in the stream; 33005: RGB, or gray by the
 * photometric interpretation): codestreams, as j2k.h says. In DICOM a stream with a
 * transform of its own is RGB, whatever the file states; without one its components are what the
 * file states.
 *
 * All other compressions: tile_lossless.h.
 */
#ifndef WSI_TILE_H
#define WSI_TILE_H

#include "common/base/err.h"
#include "common/codec/jpeg_stream.h"
#include "convert/tile/tile_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Can a tile of this format be decoded here? */
bool tile_is_known(const struct tile_format *f);
struct tile_decoder;
/* NULL when out of memory or the tables are damaged. */
struct tile_decoder *tile_create(const struct tile_format *f, struct err *e);
void tile_free(struct tile_decoder *d);

/*
 * Decodes n bytes into out [rows][cols][channels] u8. channels: 3 = RGB, or 1 = gray: the tile's
 * own gray, the luma of a YCbCr JPEG in a YCbCr file (chroma is not decoded then), else from RGB.
 * 0, TILE_NO_MEMORY, or TILE_DAMAGED: the tile is damaged, or is not what the format says; out is
 * undefined then, and the next tile is not affected. TILE_EMPTY: all of it is transparent.
 */
int tile_decode(struct tile_decoder *d, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                struct err *e);

/* JPEG 2000 only: would tile_decode() try this stream, by its headers? 0 or TILE_DAMAGED. */
int tile_check_headers(const struct tile_format *f, const uint8_t *bytes, size_t n, struct err *e);

/* JPEG only. Decodes at 1/8, the mean of each 8 x 8 block: out [ceil(rows/8)][ceil(cols/8)][3]. */
int tile_decode_eighth(struct tile_decoder *d, const uint8_t *bytes, size_t n, uint8_t *out,
                       struct err *e);

/*
 * JPEG and JPEG 2000. Makes the chunk of codec jpeg or j2k, and checks it. JPEG: decodes it as
 * tile_decode_eighth does, if `eighth` is not NULL. 0, TILE_NO_MEMORY, TILE_DAMAGED (JPEG: exactly
 * when tile_decode finds damage; JPEG 2000: in headers, and in the coefficients of coarse
 * resolutions), or TILE_OTHER: the tile is whole, but of a kind that a chunk cannot hold; e says
 * which.
 */
int tile_keep(struct tile_decoder *d, const uint8_t *bytes, size_t n, struct jpeg_chunk *chunk,
              uint8_t *eighth, struct err *e);

/* How the whole tiles contradict what the file states of their colours; of several the last. */
enum tile_conflict {
    TILE_AGREES,
    TILE_STATES_OTHER, /* a stream states others */
    TILE_SUBSAMPLED    /* RGB is stated, and a stream has the chroma of YCbCr */
};
enum tile_conflict tile_conflict(const struct tile_decoder *d);

/*
 * The streams of the tiles that follow may end where the picture does: at the edges of the picture
 * only cols x rows px of a tile lie on it. Along each axis a stream then has this size or that of a
 * whole tile. Pixels beyond its end are white; at 1/8 too. tile_keep finds that a stream without
 * them is TILE_OTHER: a chunk is a whole tile.
 */
void tile_may_end_at(struct tile_decoder *d, int64_t cols, int64_t rows);

/* "libjpeg-turbo 2.1.5, OpenJPEG 2.5.0" */
const char *tile_libraries(void);

#endif
