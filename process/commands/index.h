/*
 * index.h - the command `h5spec index`: where the chunks of a store lie, for readers of Zarr.
 *
 * Prints a reference file (JSON, version 1 of the format of kerchunk:
 * https://fsspec.github.io/kerchunk/spec.html) that presents the store's pixels as the Zarr array
 * `pixels` [height][width][channels] u8. fsspec and zarr read it from disks, web servers and object
 * stores, without HDF5. A chunk of Zarr is a chunk of the store.
 */
#ifndef WSI_INDEX_H
#define WSI_INDEX_H

#include "common/base/command.h"

extern const struct command index_options;
/* Returns the exit status. */
int index_main(int argc, char **argv);

#endif
