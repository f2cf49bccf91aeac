/*
 * h5j2k.c - libh5j2k.so: HDF5's plug-in for the filter of codec j2k (common/FORMAT.md).
 *
 * As h5jpeg.c: it does not link HDF5, it only decodes, and everything odd is an error. The filter's
 * values are a version, which is 1, columns, rows, and 1 for RGB. Its number, 33005, is from the
 * range for applications: a registered filter would give other programs YCbCr as if it were RGB,
 * because codestreams as in Aperio's compression 33003 do not say which they are.
 */
#include "common/codec/j2k.h"

#include <H5PLextern.h>
#include <hdf5.h>
#include <stdlib.h>

enum { FILTER = 33005, MOST_SIDE = 1 << 14 };

/* Not for HDF5, but for readers of their own such as scripts/wsi_store: a chunk of n bytes, with
 * the filter's four values, into out u8 [rows][columns][3]. 0, or -1 if it is damaged. Any thread.
 */
__attribute__((visibility("default"))) int h5j2k_decode(const unsigned values[4], const void *chunk,
                                                        size_t n, uint8_t *out);
int h5j2k_decode(const unsigned values[4], const void *chunk, size_t n, uint8_t *out)
{
    struct j2k_picture p;
    if (values[0] != 1 || values[3] != 1 || values[1] < 1 || values[1] > MOST_SIDE ||
        values[2] < 1 || values[2] > MOST_SIDE ||
        !j2k_chunk_read(&p, values[1], values[2], chunk, n))
        return -1;
    struct j2k_decoder *d = j2k_decoder_create(NULL);
    const uint8_t *stream = (const uint8_t *)chunk + J2K_HEAD;
    const int r = d ? j2k_decode(d, &p, stream, n - J2K_HEAD, out, NULL) : -1;
    j2k_decoder_free(d);
    return r ? -1 : 0;
}

/* The number of bytes of the pixels in *buffer, which replace the chunk; 0 if it is damaged. */
static size_t decode(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                     size_t *size, void **buffer)
{
    if (!(flags & H5Z_FLAG_REVERSE) || n_values < 4 || values[1] > MOST_SIDE ||
        values[2] > MOST_SIDE)
        return 0;
    const size_t bytes = (size_t)values[1] * values[2] * 3;
    uint8_t *pixels = malloc(bytes ? bytes : 1);
    if (!pixels || h5j2k_decode(values, *buffer, n, pixels)) {
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
                                    .name = "JPEG 2000, wsi2h5's decoder",
                                    .filter = decode};

__attribute__((visibility("default"))) H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

__attribute__((visibility("default"))) const void *H5PLget_plugin_info(void)
{
    return &filter;
}
