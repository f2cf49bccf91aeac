/*
 * zarr_levels.h - the coarser levels of an image, each of the means of 2 x 2 px of the one before.
 *
 *   store, a row of chunks --> level 1, 256 rows --> level 2, 256 rows --> ...
 *                                 |                     |
 *                                 v chunks, encoded     v
 *                              1/c/0/0/0             2/c/0/0/0
 *
 * The store is read once. Memory is a row of chunks per level, whatever the slide's height.
 */
#ifndef WSI_ZARR_LEVELS_H
#define WSI_ZARR_LEVELS_H

#include "common/base/err.h"
#include "common/store/store_read.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ZARR_SIDE = 256,     /* px of a chunk of a level that is made */
    ZARR_SMALLEST = 512, /* px: levels are made until the longer side has no more */
};

/* Levels of the image, with level 0, the store. */
int zarr_levels(const struct store_info *i);
/* Are the levels that are made JPEG? They are if the store keeps JPEG tiles; else zstd. */
bool zarr_levels_are_jpeg(const struct store_info *i);
/* Writes FOLDER/1/c/0/0/0 and so on, in folders that exist. list[chunk rows][chunk columns] are
 * all chunks of the store. On `threads` threads, of which *threads_now may be busy (NULL: all). */
int zarr_levels_write(struct store *s, const struct store_chunk *list, const char *folder,
                      int threads, const atomic_int *threads_now, struct err *e);

#endif
