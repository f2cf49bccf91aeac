/*
 * zarr_image.h - a store as an OME-Zarr image (version 0.5, Zarr 3) that copies none of its pixels.
 *
 *   slide.h5           the store; the index of its tiles is appended (zarr_shard.h)
 *   slide.ome.zarr/    zarr.json: axes, um per px, channels, and content_crc32 of the store
 *       0/             the level of the store: its one shard, c/0/0/0, is a link to the store
 *       1/, 2/ ...     coarser levels (zarr_levels.h)
 *
 * wsi_store/ome_zarr.py makes and reads the same; common/FORMAT.md has the codecs' names.
 */
#ifndef WSI_ZARR_IMAGE_H
#define WSI_ZARR_IMAGE_H

#include "common/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>

/* "stores/slide.h5" to "stores/slide.ome.zarr", to be free()d. */
char *zarr_image_path(const char *store);
/* Removes what a process that died has left of an unfinished image beside the store. */
void zarr_image_clean(const char *store);
/* Can this build make images? If not, *e says what it lacks. */
int zarr_image_check(struct err *e);
/*
 * Makes the image beside the store; *made: it was not there or not up to date. It always makes the
 * image of a store that is `fresh`, made by this run. The image appears under its name when it is
 * whole, and replaces one that was made of another store of this name; a folder that is no such
 * image is an error. On `threads` threads, of which *threads_now may be busy (NULL: all). Messages
 * name the image. Only one thread may call it at a time.
 */
int zarr_image_make(const char *store, bool fresh, int threads, const atomic_int *threads_now,
                    bool *made, struct err *e);

#endif
