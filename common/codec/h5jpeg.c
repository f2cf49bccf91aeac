/*
 * h5jpeg.c - libh5jpeg.so: HDF5's plug-in for filter 32019, JPEG (common/FORMAT.md, codec jpeg).
 *
 * HDF5 loads it from the folders of HDF5_PLUGIN_PATH, for h5py, h5dump and every other reader. It
 * does not link HDF5, so it serves whichever copy of the library the process has.
 *
 * It only decodes. The filter's values are quality, columns, rows, and 1 for RGB or 0 for gray. A
 * chunk is a baseline JPEG file of exactly that size and number of components. Everything else is
 * an error, and so is every warning of libjpeg: chunks are hostile input, and HDF5 itself checks no
 * size.
 */
#include "common/codec/jpeg_decoder.h"

#include <H5PLextern.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdlib.h>

enum { FILTER = 32019, MOST_SIDE = 65500 };

static bool are_valid(size_t n_values, const unsigned *values)
{
    return n_values >= 4 && values[3] <= 1 && values[1] >= 1 && values[1] <= MOST_SIDE &&
           values[2] >= 1 && values[2] <= MOST_SIDE;
}

/* Decodes the part, or all with NULL, into out u8 [rows][columns][channels]. */
static int decode_part(const unsigned *values, const void *chunk, size_t n,
                       const struct jpeg_part *part, uint8_t *out)
{
    const struct jpeg_stream stream = {.bytes = chunk, .n = n};
    const struct jpeg_picture picture = {.cols = values[1],
                                         .rows = values[2],
                                         .channels = values[3] ? 3 : 1,
                                         .colours = JPEG_FILE,
                                         .part = part};
    struct jpeg_decoder *d = jpeg_decoder_create(NULL);
    const int r = d ? jpeg_decode(d, &picture, &stream, out, NULL) : -1;
    jpeg_decoder_free(d);
    return r;
}

/* The number of bytes of the pixels in *buffer, which replace the chunk; 0 if it is damaged. */
static size_t decode(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                     size_t *size, void **buffer)
{
    if (!(flags & H5Z_FLAG_REVERSE) || !are_valid(n_values, values))
        return 0;
    const size_t bytes = (size_t)values[1] * values[2] * (values[3] ? 3 : 1);
    uint8_t *pixels = malloc(bytes);
    if (!pixels || decode_part(values, *buffer, n, NULL, pixels)) {
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

/* Not for HDF5, but for readers of their own such as scripts/wsi_store: a part {x, y, columns,
 * rows} of a chunk of n bytes, with the filter's four values, into out u8
 * [rows][columns][channels], whose rows begin every `pitch` bytes. This saves most of the work on
 * the pixels around the part. 0, or -1 if the part is damaged; damage elsewhere may not be found.
 * Any thread. */
__attribute__((visibility("default"))) int h5jpeg_decode_part(const unsigned values[4],
                                                              const void *chunk, size_t n,
                                                              const unsigned part[4], size_t pitch,
                                                              uint8_t *out);
int h5jpeg_decode_part(const unsigned values[4], const void *chunk, size_t n,
                       const unsigned part[4], size_t pitch, uint8_t *out)
{
    const struct jpeg_part p = {
        .x = part[0], .y = part[1], .cols = part[2], .rows = part[3], .pitch = pitch};
    if (!are_valid(4, values) || p.cols < 1 || p.rows < 1 || p.x + p.cols > values[1] ||
        p.y + p.rows > values[2] || pitch < (size_t)p.cols * (values[3] ? 3 : 1))
        return -1;
    return decode_part(values, chunk, n, &p, out) ? -1 : 0;
}

__attribute__((visibility("default"))) H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

__attribute__((visibility("default"))) const void *H5PLget_plugin_info(void)
{
    return &filter;
}
