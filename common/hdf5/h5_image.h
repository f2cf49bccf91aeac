/*
 * h5_image.h - writing arrays of bytes in strips: chunks of whole rows. h5_read_array() reads them.
 */
#ifndef WSI_H5_IMAGE_H
#define WSI_H5_IMAGE_H

#include "common/base/err.h"
#include "common/codec/codec.h"
#include "common/codec/jpeg_chunk.h"

#include <hdf5.h>
#include <stdint.h>

/* Writes u8 [dims[0]][dims[1]][dims[2]], or of rank 2 if dims[2] is 1, packed with deflate by up to
 * `threads` threads in chunks of whole rows. The bytes do not depend on the threads. crc32 is that
 * of h5_write_array(). With dims[2] = 3 the dataset is an RGB image as of HDF5's image
 * specification. */
int h5_write_image(hid_t parent, const char *name, const int64_t dims[3], const uint8_t *data,
                   int threads, struct err *e);
/* Writes an RGB image that is compressed already. Its attribute stored_crc32 is the CRC-32 of the
 * stored bytes of all chunks, one after the other. */
int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, struct err *e);
/* Makes kept tiles the chunks of a dataset that will be created with this list. */
int h5_set_kept(hid_t dcpl, const struct codec *c, int64_t cols, int64_t rows, int64_t channels);

#endif
