/*
 * h5jpeg.c - libh5jpeg.so: HDF5's plug-in for filter 32019, JPEG (common/README.md, codec jpeg).
 *
 * HDF5 loads it from the folders of HDF5_PLUGIN_PATH, for h5py, h5dump and every other reader. It
 * does not link HDF5, so it serves whichever copy of the library the process has.
 *
 * It only decodes. The filter's values are quality, columns, rows, and 1 for RGB or 0 for gray. A
 * chunk is a baseline JPEG file of exactly that size and number of components. Everything else is
 * an error, and so is every warning of libjpeg: chunks are hostile input, and HDF5 itself checks no
 * size.
 */
#include "common/jpeg_decoder.h"

#include <H5PLextern.h>
#include <hdf5.h>
#include <stdlib.h>

enum { FILTER = 32019, MOST_SIDE = 65500 };

/* The number of bytes of the pixels in *buffer, which replace the chunk; 0 if it is damaged. */
static size_t decode(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                     size_t *size, void **buffer)
{
    if (!(flags & H5Z_FLAG_REVERSE) || n_values < 4 || values[3] > 1 || values[1] < 1 ||
        values[1] > MOST_SIDE || values[2] < 1 || values[2] > MOST_SIDE)
        return 0;
    const struct jpeg_stream stream = {.bytes = *buffer, .n = n};
    const struct jpeg_picture picture = {
        .cols = values[1], .rows = values[2], .channels = values[3] ? 3 : 1, .colours = JPEG_FILE};
    const size_t bytes = (size_t)values[1] * values[2] * (values[3] ? 3 : 1);
    struct jpeg_decoder *d = jpeg_decoder_create(NULL);
    uint8_t *pixels = d ? malloc(bytes) : NULL;
    const int r = pixels ? jpeg_decode(d, &picture, &stream, pixels, NULL) : -1;
    jpeg_decoder_free(d);
    if (r) {
        free(pixels);
        return 0;
    }
    free(*buffer);
    *buffer = pixels;
    *size = bytes;
    return bytes;
}

static const H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                    .id = FILTER,
                                    .encoder_present = 0,
                                    .decoder_present = 1,
                                    .name = "JPEG, wsi2h5's decoder",
                                    .filter = decode};

__attribute__((visibility("default"))) H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

__attribute__((visibility("default"))) const void *H5PLget_plugin_info(void)
{
    return &filter;
}
