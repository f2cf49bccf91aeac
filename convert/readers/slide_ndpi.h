/*
 * slide_ndpi.h - Hamamatsu NDPI: one level of a file, as tiles.
 *
 * A level is one JPEG of the whole picture, with a restart marker after every few MCUs. Tag 65426
 * says where in the stream each of these intervals begins; in long streams tag 65432 has the upper
 * halves of these offsets. Decoding begins anew at a restart marker, so the intervals that lie one
 * below the other make a JPEG of their own: the head of the stream with another size, and their
 * entropy-coded data with the markers renumbered. Its pixels are those of the whole picture if no
 * chroma is interpolated between rows, and those of OpenSlide, which decodes each interval by
 * itself.
 */
#ifndef WSI_SLIDE_NDPI_H
#define WSI_SLIDE_NDPI_H

#include "common/base/err.h"
#include "convert/readers/frame/tile_file.h"

#include <stdbool.h>
#include <stdint.h>

struct ndpi_level {
    const struct slide_file *file;
    int64_t width, height; /* px */
    int64_t cols, rows;    /* of a tile, px: one interval wide, and some MCUs high */
    int64_t across, down;  /* intervals */
    uint64_t *starts;      /* [down * across + 1]: offsets in the file, and where the last ends */
    uint8_t *head;         /* SOI to SOS, for a picture of one tile */
    size_t head_bytes;
};

/* Is it an NDPI file? */
bool ndpi_is(const struct slide_file *file);

/* Focal planes of the level of this size; 0: no NDPI file. */
int ndpi_planes(const struct slide_file *file, int64_t width, int64_t height);
/* Takes um per px from the tags of level 0, if OpenSlide has not: it knows px per cm only. */
void ndpi_take_mpp(const struct slide_file *file, struct slide_info *i);
void ndpi_note_planes(int planes, struct slide_info *i);

/*
 * Finds the level of this size. 1: *l is filled; ndpi_level_free it. 0: not an NDPI file, or a
 * level that cannot be cut into tiles exactly, and e says why: without restart markers or their
 * table, intervals that are no part of a row or larger than a tile may be. -1: it cannot be read
 * now; errno. Or it has chroma of half height, with which OpenSlide finds all tiles damaged.
 */
int ndpi_level_read(struct ndpi_level *l, const struct slide_file *file, int64_t width,
                    int64_t height, struct err *e);
void ndpi_level_free(struct ndpi_level *l);

/* Tile (col, row) as a JPEG stream; tile_grid.gather, with the level as ctx. Below the picture's
 * edge the tile repeats the last interval. */
int ndpi_level_gather(const void *level, int64_t col, int64_t row, struct tile_bytes *out,
                      struct err *e);
/* Announces rows of tiles that will be read soon. */
void ndpi_level_prefetch(const struct ndpi_level *l, int64_t row, int64_t rows);

#endif
