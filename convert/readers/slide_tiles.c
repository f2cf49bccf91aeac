/* slide_tiles.c - see slide_tiles.h. */
#include "convert/readers/slide_tiles.h"

static struct tile_file *tiles_of(const struct slide *s)
{
    return ((const struct slide_tiles *)s)->tiles;
}

int slide_tiles_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                     uint8_t *out, enum store_status *status, struct err *e)
{
    return tile_file_read(tiles_of(s), thread, col, row, channels, out, status, e);
}

int slide_tiles_read_eighth(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                            enum store_status *status, struct err *e)
{
    return tile_file_read_eighth(tiles_of(s), thread, col, row, rgb, status, e);
}

int slide_tiles_read_kept(struct slide *s, int thread, int64_t col, int64_t row,
                          struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                          struct err *e)
{
    return tile_file_read_kept(tiles_of(s), thread, col, row, chunk, eighth, status, e);
}

bool slide_tiles_is_missing(const struct slide *s, int64_t col, int64_t row)
{
    return tile_file_is_missing(tiles_of(s), col, row);
}

const char *slide_tiles_contradiction(const struct slide *s)
{
    return tile_file_contradiction(tiles_of(s));
}

void slide_tiles_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    tile_file_prefetch(tiles_of(s), row, rows);
}
