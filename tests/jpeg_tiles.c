/*
 * jpeg_tiles.c - the pixels of every JPEG tile of a slide's first level, as libjpeg-turbo gives
 * them.
 *
 *   jpeg_tiles SLIDE            writes u8 [tiles][rows][cols][3] to stdout, in the tiles' order
 *   jpeg_tiles SLIDE own        the same; libjpeg finds out itself which colours a stream has
 *   jpeg_tiles SLIDE luma       writes i16 [blocks][10] instead: of each luma block that lies wholly
 *                               on the slide the first ten coefficients in zigzag order, as they
 *                               are quantised
 *   jpeg_tiles SLIDE time N     decodes all tiles N times at 1/8; prints the seconds of the best
 *
 * Independent of the code under test: libtiff and libjpeg only. Missing tiles are left out.
 */
#include <stdio.h> /* before jpeglib.h */

#include <jpeglib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <time.h>

struct slide {
    void *tables;
    uint32_t tables_bytes, tiles, cols, rows, wide, high;
    int ycbcr, own;
    unsigned char **bytes; /* [tiles] */
    size_t *n;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static int read_slide(struct slide *s, const char *path)
{
    uint16_t photometric = 0, compression = 0;
    void *tables = NULL;
    TIFF *t = TIFFOpen(path, "r");
    if (!t || !TIFFIsTiled(t))
        return -1;
    TIFFGetField(t, TIFFTAG_COMPRESSION, &compression);
    TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &photometric);
    TIFFGetField(t, TIFFTAG_TILEWIDTH, &s->cols);
    TIFFGetField(t, TIFFTAG_TILELENGTH, &s->rows);
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &s->wide);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &s->high);
    if (TIFFGetField(t, TIFFTAG_JPEGTABLES, &s->tables_bytes, &tables) && s->tables_bytes)
        s->tables = memcpy(must(malloc(s->tables_bytes)), tables, s->tables_bytes);
    s->ycbcr = photometric == PHOTOMETRIC_YCBCR;
    s->tiles = TIFFNumberOfTiles(t);
    s->bytes = must(calloc(s->tiles, sizeof *s->bytes));
    s->n = must(calloc(s->tiles, sizeof *s->n));
    for (uint32_t k = 0; k < s->tiles; k++) {
        s->n[k] = (size_t)TIFFGetStrileByteCount(t, k);
        s->bytes[k] = must(malloc(s->n[k] + 1));
        if (s->n[k] && TIFFReadRawTile(t, k, s->bytes[k], (tmsize_t)s->n[k]) < 0)
            return -1;
    }
    TIFFClose(t);
    return compression == COMPRESSION_JPEG ? 0 : -1;
}

static void free_slide(struct slide *s)
{
    for (uint32_t k = 0; k < s->tiles; k++)
        free(s->bytes[k]);
    free(s->bytes);
    free(s->n);
    free(s->tables);
}

/* libjpeg's own errors end the program. */
static void open_tile(struct jpeg_decompress_struct *d, const struct slide *s, uint32_t k)
{
    if (s->tables) {
        jpeg_mem_src(d, s->tables, s->tables_bytes);
        jpeg_read_header(d, FALSE);
    }
    jpeg_mem_src(d, s->bytes[k], s->n[k]);
    jpeg_read_header(d, TRUE);
}

static void decode(struct jpeg_decompress_struct *d, const struct slide *s, uint32_t k,
                   unsigned scale, unsigned char *out)
{
    open_tile(d, s, k);
    if (!s->own)
        d->jpeg_color_space = s->ycbcr ? JCS_YCbCr : JCS_RGB;
    d->out_color_space = JCS_RGB;
    d->scale_denom = scale;
    jpeg_start_decompress(d);
    while (d->output_scanline < d->output_height) {
        JSAMPROW row = out + (size_t)d->output_scanline * d->output_width * 3;
        jpeg_read_scanlines(d, &row, 1);
    }
    jpeg_finish_decompress(d);
}

static int put_luma(struct jpeg_decompress_struct *d, const struct slide *s, uint32_t k)
{
    static const int zigzag[10] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24};
    open_tile(d, s, k);
    jvirt_barray_ptr *all = jpeg_read_coefficients(d);
    const uint32_t across = (s->wide + s->cols - 1) / s->cols;
    const uint32_t left = k % across * s->cols, top = k / across * s->rows;
    const uint32_t step_x =
        DCTSIZE * (uint32_t)(d->max_h_samp_factor / d->comp_info->h_samp_factor);
    const uint32_t step_y =
        DCTSIZE * (uint32_t)(d->max_v_samp_factor / d->comp_info->v_samp_factor);
    int16_t out[10];
    int bad = 0;
    for (JDIMENSION y = 0; y < d->comp_info->height_in_blocks; y++) {
        if (top + (y + 1) * step_y > s->high)
            break;
        JBLOCKARRAY row = d->mem->access_virt_barray((j_common_ptr)d, all[0], y, 1, FALSE);
        for (JDIMENSION x = 0; x < d->comp_info->width_in_blocks; x++) {
            if (left + (x + 1) * step_x > s->wide)
                break;
            for (int z = 0; z < 10; z++)
                out[z] = row[0][x][zigzag[z]];
            bad |= fwrite(out, sizeof out, 1, stdout) != 1;
        }
    }
    jpeg_finish_decompress(d);
    return bad;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    struct slide s = {0};
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr e;
    const int times = argc == 4 ? atoi(argv[3]) : 0;
    double best = 1e9;
    const int luma = argc == 3 && !strcmp(argv[2], "luma");
    s.own = argc == 3 && !strcmp(argv[2], "own");
    if (argc != 2 && argc != 4 && !s.own && !luma)
        return 2;
    if (read_slide(&s, argv[1]))
        return 1;
    d.err = jpeg_std_error(&e);
    jpeg_create_decompress(&d);
    const size_t bytes = (size_t)s.cols * s.rows * 3;
    unsigned char *out = must(malloc(bytes));
    for (int round = 0; round < (times ? times : 1); round++) {
        const double begun = seconds();
        for (uint32_t k = 0; k < s.tiles; k++) {
            if (s.n[k] == 0)
                continue;
            if (luma && put_luma(&d, &s, k))
                return 1;
            if (luma)
                continue;
            decode(&d, &s, k, times ? 8 : 1, out);
            if (!times && fwrite(out, 1, bytes, stdout) != bytes)
                return 1;
        }
        best = seconds() - begun < best ? seconds() - begun : best;
    }
    if (times)
        printf("%.6f\n", best);
    jpeg_destroy_decompress(&d);
    free(out);
    free_slide(&s);
    return 0;
}
