/*
 * h5jpeg_upstream.c - a stand-in for the HDF5 Group's plug-in of filter 32019, for tests.
 *
 * Follows its published behaviour (hdf5_plugins, JPEG): the whole chunk is one JPEG file, which
 * libjpeg decodes with its defaults. Nothing is checked against the filter's values.
 */
#include <stdio.h> /* before jpeglib.h */

#include <H5PLextern.h>
#include <hdf5.h>
#include <jpeglib.h>
#include <stdlib.h>

static size_t decode(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                     size_t *size, void **buffer)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr e;
    (void)n_values, (void)values;
    if (!(flags & H5Z_FLAG_REVERSE))
        return 0;
    d.err = jpeg_std_error(&e);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, *buffer, n);
    jpeg_read_header(&d, TRUE);
    jpeg_start_decompress(&d);
    const size_t pitch = (size_t)d.output_width * (size_t)d.output_components;
    const size_t bytes = pitch * d.output_height;
    unsigned char *pixels = malloc(bytes);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = pixels + d.output_scanline * pitch;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    free(*buffer);
    *buffer = pixels;
    *size = bytes;
    return bytes;
}

static const H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                    .id = 32019,
                                    .decoder_present = 1,
                                    .name = "jpeg",
                                    .filter = decode};

H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

const void *H5PLget_plugin_info(void)
{
    return &filter;
}
