/* tile_jpeg.c - see tile_jpeg.h. */
#include "convert/tile_jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

struct tile_jpeg {
    const struct tile_format *format;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX];
    bool made;       /* jpeg has been created */
    bool own_tables; /* the last tile brought tables, which must not outlive it */
    uint8_t **lines; /* [rows] */
};

static void on_error(j_common_ptr jpeg)
{
    struct tile_jpeg *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->failed, 1);
}

static void on_message(j_common_ptr jpeg)
{
    (void)jpeg; /* libjpeg counts warnings itself */
}

/* Loads the slide's tables. */
static int load_tables(struct tile_jpeg *d, struct err *e)
{
    if (!d->format->tables)
        return 0;
    if (setjmp(d->failed)) {
        jpeg_abort_decompress(&d->jpeg);
        return err_set(e, "its JPEG tables are damaged: %s", d->message);
    }
    jpeg_mem_src(&d->jpeg, d->format->tables, (unsigned long)d->format->tables_bytes);
    const int what = jpeg_read_header(&d->jpeg, FALSE);
    jpeg_abort_decompress(&d->jpeg); /* keeps the tables */
    return what == JPEG_HEADER_TABLES_ONLY ? 0 : err_set(e, "its JPEG tables are not tables");
}

/* Begins with the slide's tables and no others. libjpeg cannot forget a table, so the object is
 * made anew. */
static int restart(struct tile_jpeg *d, struct err *e)
{
    if (d->made)
        jpeg_destroy_decompress(&d->jpeg);
    d->made = d->own_tables = false;
    d->jpeg.err = jpeg_std_error(&d->manager);
    d->manager.error_exit = on_error;
    d->manager.output_message = on_message;
    d->jpeg.client_data = d;
    if (setjmp(d->failed))
        return err_set(e, "libjpeg: %s", d->message);
    jpeg_create_decompress(&d->jpeg);
    d->made = true;
    d->jpeg.client_data = d;
    return load_tables(d, e);
}

struct tile_jpeg *tile_jpeg_create(const struct tile_format *f, struct err *e)
{
    struct tile_jpeg *d = calloc(1, sizeof *d);
    if (d) {
        d->format = f;
        d->lines = calloc((size_t)f->rows, sizeof *d->lines);
    }
    if (!d || !d->lines) {
        tile_jpeg_free(d);
        err_set(e, "out of memory");
        return NULL;
    }
    if (restart(d, e)) {
        tile_jpeg_free(d);
        return NULL;
    }
    return d;
}

void tile_jpeg_free(struct tile_jpeg *d)
{
    if (!d)
        return;
    if (d->made)
        jpeg_destroy_decompress(&d->jpeg);
    free(d->lines);
    free(d);
}

/* Does a stream bring quantisation or Huffman tables? libjpeg would keep them for later tiles. In
 * entropy-coded data 0xff is followed by 0 or a restart marker, so these markers are found
 * anywhere. */
static bool has_tables(const uint8_t *b, size_t n)
{
    const uint8_t *end = b + n;
    while ((b = memchr(b, 0xff, (size_t)(end - b))) && ++b < end)
        if (*b == 0xdb || *b == 0xc4)
            return true;
    return false;
}

/* Reads the header and sets the colours. The stream must have the tile's size. */
static int start_jpeg(struct tile_jpeg *d, const uint8_t *bytes, size_t n, int channels,
                      unsigned scale, struct err *e)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const bool ycbcr = d->format->photometric == TILE_PHOTOMETRIC_YCBCR;
    jpeg_mem_src(j, bytes, (unsigned long)n);
    jpeg_read_header(j, TRUE);
    if (j->image_width != d->format->cols || j->image_height != d->format->rows ||
        j->num_components != 3)
        return err_set(e, "a stream of %u x %u px and %d components in a tile of %d x %d px",
                       j->image_width, j->image_height, j->num_components, (int)d->format->cols,
                       (int)d->format->rows);
    j->jpeg_color_space = ycbcr ? JCS_YCbCr : JCS_RGB;
    j->out_color_space = ycbcr && channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    j->scale_num = 1;
    j->scale_denom = scale;
    jpeg_start_decompress(j);
    return 0;
}

/* Decodes all lines into out [lines][pitch]. */
static void read_lines(struct tile_jpeg *d, uint8_t *out, size_t pitch)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    for (JDIMENSION k = 0; k < j->output_height; k++)
        d->lines[k] = out + k * pitch;
    while (j->output_scanline < j->output_height)
        jpeg_read_scanlines(j, d->lines + j->output_scanline,
                            j->output_height - j->output_scanline);
    jpeg_finish_decompress(j);
}

int tile_jpeg_decode(struct tile_jpeg *d, const uint8_t *bytes, size_t n, int channels,
                     unsigned scale, uint8_t *out, size_t pitch, struct err *e)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    if (n < 4 || bytes[0] != 0xff || bytes[1] != 0xd8)
        return err_set(e, "not a JPEG stream");
    if (d->own_tables && restart(d, e))
        return -1;
    d->own_tables = has_tables(bytes, n);
    d->manager.num_warnings = 0;
    if (setjmp(d->failed)) {
        jpeg_abort_decompress(j);
        return err_set(e, "%s", d->message);
    }
    if (start_jpeg(d, bytes, n, channels, scale, e)) {
        jpeg_abort_decompress(j);
        return -1;
    }
    read_lines(d, out, pitch);
    if (d->manager.num_warnings == 0)
        return 0;
    d->manager.format_message((j_common_ptr)j, d->message);
    return err_set(e, "%s", d->message);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tile_jpeg_library(void)
{
    return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
}
