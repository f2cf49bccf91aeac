/* jpeg_write.c - see jpeg_write.h. */
#include "process/draw/jpeg_write.h"

#include <stdlib.h>

#ifdef HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

struct failure {
    struct jpeg_error_mgr manager; /* first: libjpeg gets a pointer to it */
    jmp_buf out;
};

static void fail(j_common_ptr c)
{
    longjmp(((struct failure *)(void *)c->err)->out, 1);
}

static void say_nothing(j_common_ptr c)
{
    (void)c;
}

uint8_t *jpeg_write(const uint8_t *rgb, int width, int height, int quality, size_t *n)
{
    struct jpeg_compress_struct c = {0};
    struct failure failure;
    unsigned char *volatile bytes = NULL;
    unsigned char *out = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = fail;
    failure.manager.output_message = say_nothing;
    if (setjmp(failure.out)) {
        jpeg_destroy_compress(&c);
        free(bytes);
        return NULL;
    }
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    c.optimize_coding = TRUE;
    jpeg_start_compress(&c, TRUE);
    bytes = out;
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)c.next_scanline * (size_t)width * 3);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    *n = size;
    return out;
}

#else

uint8_t *jpeg_write(const uint8_t *rgb, int width, int height, int quality, size_t *n)
{
    (void)rgb;
    (void)width;
    (void)height;
    (void)quality;
    *n = 0;
    return NULL;
}

#endif
