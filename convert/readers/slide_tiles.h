/*
 * slide_tiles.h - what the readers have in common that read tiles directly (tile_file.h): functions
 * for their tables in slide.h.
 */
#ifndef WSI_SLIDE_TILES_H
#define WSI_SLIDE_TILES_H

#include "convert/readers/slide.h"
#include "convert/readers/tile_file.h"

/* The first member of such a reader's slide. */
struct slide_tiles {
    struct slide slide;
    struct tile_file *tiles; /* owned by the reader */
};

/* As the members of struct slide_reader. */
int slide_tiles_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                     uint8_t *out, enum store_status *status, struct err *e);
int slide_tiles_read_eighth(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                            enum store_status *status, struct err *e);
int slide_tiles_read_kept(struct slide *s, int thread, int64_t col, int64_t row,
                          struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                          struct err *e);
bool slide_tiles_is_missing(const struct slide *s, int64_t col, int64_t row);
const char *slide_tiles_contradiction(const struct slide *s);
void slide_tiles_prefetch(struct slide *s, int64_t row, int64_t rows);

#endif
