/*
 * store_image.h - the image NAME.ome.zarr beside a store NAME.h5, which `wsi-store zarr` makes of it
 * (FORMAT.md): a viewer of the image must not show the pixels of a store that is gone.
 */
#ifndef WSI_STORE_IMAGE_H
#define WSI_STORE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* The path of the image beside a store, to be free()d, and the content_crc32 of the store that it
 * was made of: with another one than the store's it is out of date. NULL: there is no image of
 * ours. */
char *store_image_find(const char *store, int64_t *content);
/* Removes the files that wsi-store makes, and their folders where nothing else is in them: what
 * others keep there, such as labels/, stays. False if the folder is an image still. */
bool store_image_remove(const char *image);

#endif
