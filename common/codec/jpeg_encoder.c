/* jpeg_encoder.c - see jpeg_encoder.h. HAVE_JPEG comes from the Makefile's probe. */
#include "common/codec/jpeg_encoder.h"

#ifdef HAVE_JPEG

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

struct encoder {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf failed;
    unsigned char *bytes;
    unsigned long n;
};

/* The picture and its encoding. */
struct picture {
    const uint8_t *pixels;
    int channels; /* 3: RGB; 1: gray */
    size_t pitch; /* bytes from one row to the next; 0: all rows are the first */
    JDIMENSION width, height;
    int quality;
    bool small;  /* with Huffman tables of its own, which takes 1.5 times as long */
    bool marked; /* stored as it is, with an APP14 marker that says so */
};

static void on_error(j_common_ptr jpeg)
{
    longjmp(((struct encoder *)jpeg->client_data)->failed, 1);
}

static void on_message(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void encode(struct encoder *w, const struct picture *p)
{
    struct jpeg_compress_struct *j = &w->jpeg;
    jpeg_create_compress(j);
    j->client_data = w;
    jpeg_mem_dest(j, &w->bytes, &w->n);
    j->image_width = p->width;
    j->image_height = p->height;
    j->input_components = p->channels;
    j->in_color_space = p->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(j);
    if (p->marked) {
        jpeg_set_colorspace(j, j->in_color_space);
        j->write_Adobe_marker = TRUE;
    }
    jpeg_set_quality(j, p->quality, TRUE);
    j->optimize_coding = p->small;
    jpeg_start_compress(j, TRUE);
    while (j->next_scanline < j->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(p->pixels + j->next_scanline * p->pitch);
        jpeg_write_scanlines(j, &row, 1);
    }
    jpeg_finish_compress(j);
}

/* 0, or -1 if libjpeg has failed: it comes back here. */
static int try_encode(struct encoder *w, const struct picture *p)
{
    if (setjmp(w->failed))
        return -1;
    encode(w, p);
    return 0;
}

/* The bytes, to be free()d, or NULL. */
static uint8_t *run(const struct picture *p, size_t *n)
{
    struct encoder w = {.n = 0};
    w.jpeg.err = jpeg_std_error(&w.manager);
    w.manager.error_exit = on_error;
    w.manager.output_message = on_message;
    w.jpeg.client_data = &w;
    if (try_encode(&w, p)) {
        free(w.bytes);
        w.bytes = NULL;
    }
    jpeg_destroy_compress(&w.jpeg);
    *n = w.n;
    return w.bytes;
}

uint8_t *jpeg_encode(const uint8_t *pixels, int width, int height, int channels, int quality,
                     bool small, size_t *n)
{
    const struct picture p = {.pixels = pixels,
                              .channels = channels,
                              .pitch = (size_t)channels * (size_t)width,
                              .width = (JDIMENSION)width,
                              .height = (JDIMENSION)height,
                              .quality = quality,
                              .small = small};
    return run(&p, n);
}

/* With quantisers of 1 the mean of a block is stored exactly: 8 times the value less 128. */
int jpeg_encode_flat(int64_t cols, int64_t rows, const uint8_t *colour, int channels,
                     uint8_t **bytes, size_t *n, struct err *e)
{
    uint8_t *line = malloc((size_t)(channels * cols));
    if (!line)
        return err_memory(e);
    for (int64_t x = 0; x < cols; x++)
        memcpy(line + channels * x, colour, (size_t)channels);
    const struct picture p = {.pixels = line,
                              .channels = channels,
                              .width = (JDIMENSION)cols,
                              .height = (JDIMENSION)rows,
                              .quality = 100,
                              .small = true,
                              .marked = true};
    *bytes = run(&p, n);
    free(line);
    return *bytes ? 0 : err_set(e, "libjpeg cannot encode the background");
}

#else

uint8_t *jpeg_encode(const uint8_t *pixels, int width, int height, int channels, int quality,
                     bool small, size_t *n)
{
    (void)pixels, (void)width, (void)height, (void)channels, (void)quality, (void)small;
    *n = 0;
    return NULL;
}

int jpeg_encode_flat(int64_t cols, int64_t rows, const uint8_t *colour, int channels,
                     uint8_t **bytes, size_t *n, struct err *e)
{
    (void)cols, (void)rows, (void)colour, (void)channels, (void)bytes, (void)n;
    return err_set(e, "this build lacks libjpeg");
}

#endif
