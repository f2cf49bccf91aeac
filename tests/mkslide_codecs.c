/* mkslide_codecs.c - pixels of a tile or strip to bytes; see mkslide.h. */
#include "tests/mkslide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <openjpeg.h>
#include <tiffio.h>

static void jpeg_die(j_common_ptr c)
{
    char message[JMSG_LENGTH_MAX];
    c->err->format_message(c, message);
    die(1, "libjpeg: %s", message);
}

/* As libtiff's codec: RGB goes in as an unknown colour space (ids 0, 1, 2, one set of tables). */
static void jpeg_set_up(struct jpeg_compress_struct *c, struct jpeg_error_mgr *err,
                        const struct form *f, uint8_t **data, unsigned long *len)
{
    c->err = jpeg_std_error(err);
    err->error_exit = jpeg_die;
    jpeg_create_compress(c);
    jpeg_mem_dest(c, data, len);
    c->input_components = 3;
    c->in_color_space = f->ycbcr || f->gray ? JCS_RGB : JCS_UNKNOWN;
    jpeg_set_defaults(c);
    if (f->gray)
        jpeg_set_colorspace(c, JCS_GRAYSCALE);
    jpeg_set_quality(c, f->quality, TRUE);
    c->write_JFIF_header = FALSE;
    c->write_Adobe_marker = FALSE;
    c->comp_info[0].h_samp_factor = f->ycbcr ? (int)f->sub_x : 1;
    c->comp_info[0].v_samp_factor = f->ycbcr ? (int)f->sub_y : 1;
    c->write_JFIF_header = f->comments ? TRUE : FALSE;
    c->write_Adobe_marker = f->comments ? TRUE : FALSE;
    c->restart_interval = f->restart;
    c->optimize_coding = f->own_tables ? TRUE : FALSE;
    if (f->progressive)
        jpeg_simple_progression(c);
    jpeg_suppress_tables(c, TRUE);
}

/* Texts that no store may hold. */
static void jpeg_comments(struct jpeg_compress_struct *c)
{
    static const char text[] = "patient Jane Doe";
    jpeg_write_marker(c, JPEG_COM, (const JOCTET *)text, sizeof text);
    jpeg_write_marker(c, JPEG_APP0 + 1, (const JOCTET *)text, sizeof text);
}

/* A whole stream of jpeg_encode() to pixels. */
static void jpeg_unpack(const struct form *f, const struct mem *in, uint8_t *rgb)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
    d.err = jpeg_std_error(&err);
    err.error_exit = jpeg_die;
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, in->data, (unsigned long)in->len);
    jpeg_read_header(&d, TRUE);
    d.jpeg_color_space = f->ycbcr ? JCS_YCbCr : f->gray ? JCS_GRAYSCALE : JCS_RGB;
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = rgb + 3 * (size_t)d.output_width * d.output_scanline;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

static void jpeg_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                        struct mem *out);

/* The pixels after a first compression; to be free()d. */
static uint8_t *jpeg_first(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h)
{
    struct form first = {.quality = f->before,
                         .ycbcr = f->ycbcr,
                         .gray = f->gray,
                         .complete = true,
                         .sub_x = f->sub_x,
                         .sub_y = f->sub_y};
    struct mem stream = {0};
    uint8_t *pixels = memory_need((size_t)w * h, 3);
    jpeg_encode(&first, rgb, w, h, &stream);
    jpeg_unpack(f, &stream, pixels);
    free(stream.data);
    return pixels;
}

static void jpeg_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                        struct mem *out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    uint8_t *data = NULL;
    unsigned long len = 0;
    uint8_t *first = f->before ? jpeg_first(f, rgb, w, h) : NULL;
    rgb = first ? first : rgb;
    jpeg_set_up(&c, &err, f, &data, &len);
    c.image_width = w;
    c.image_height = h;
    jpeg_start_compress(&c, f->complete || f->progressive);
    if (f->comments)
        jpeg_comments(&c);
    while (c.next_scanline < h) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + 3 * (size_t)w * c.next_scanline);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    mem_set(out, data, len);
    free(data);
    free(first);
}

static void jpeg_encode_row(const struct codec *k, const struct form *f, const uint8_t *rgb,
                            uint32_t w, uint32_t h, struct mem *out)
{
    (void)k;
    jpeg_encode(f, rgb, w, h, out);
}

/* The stream for the JPEGTables tag: the tables that the form uses and no others. */
void jpeg_tables(const struct form *f, struct mem *out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    uint8_t *data = NULL;
    unsigned long len = 0;
    jpeg_set_up(&c, &err, f, &data, &len);
    for (int i = 0; i < (f->ycbcr ? 2 : 1); i++) {
        c.quant_tbl_ptrs[i]->sent_table = FALSE;
        c.dc_huff_tbl_ptrs[i]->sent_table = FALSE;
        c.ac_huff_tbl_ptrs[i]->sent_table = FALSE;
    }
    jpeg_write_tables(&c);
    jpeg_destroy_compress(&c);
    mem_set(out, data, len);
    free(data);
}

static OPJ_SIZE_T j2k_write(void *data, OPJ_SIZE_T n, void *user)
{
    mem_write(user, data, n);
    return n;
}

static OPJ_BOOL j2k_seek(OPJ_OFF_T to, void *user)
{
    struct mem *m = user;
    m->pos = (size_t)to;
    return OPJ_TRUE;
}

static OPJ_OFF_T j2k_skip(OPJ_OFF_T by, void *user)
{
    struct mem *m = user;
    m->pos = (size_t)((OPJ_OFF_T)m->pos + by);
    return by;
}

static void j2k_die(const char *message, void *user)
{
    (void)user;
    die(1, "openjpeg: %s", message);
}

/* JFIF's RGB to YCbCr in 16 bits after the point; c = 0, 1, 2. */
static int ycc_of(const uint8_t *rgb, int c)
{
    static const int k[3][3] = {
        {19595, 38470, 7471}, {-11059, -21709, 32768}, {32768, -27439, -5329}};
    int v = k[c][0] * rgb[0] + k[c][1] * rgb[1] + k[c][2] * rgb[2] + 32768;
    v = (v + (c ? 128 << 16 : 0)) >> 16;
    return v > 255 ? 255 : v;
}

/* One component, averaged over the dx x dy pixels that a sample stands for. */
static void j2k_fill(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h, uint32_t c,
                     opj_image_comp_t *comp)
{
    for (uint32_t y = 0; y < comp->h; y++)
        for (uint32_t x = 0; x < comp->w; x++) {
            int sum = 0, n = 0;
            for (uint32_t v = y * comp->dy; v < (y + 1) * comp->dy && v < h; v++)
                for (uint32_t u = x * comp->dx; u < (x + 1) * comp->dx && u < w; u++, n++) {
                    const uint8_t *px = rgb + 3 * ((size_t)v * w + u);
                    sum += f->ycbcr ? ycc_of(px, (int)c) : px[f->gray ? 1 : c];
                }
            comp->data[(size_t)y * comp->w + x] = (sum + n / 2) / n;
        }
}

static opj_image_t *j2k_image(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h)
{
    opj_image_cmptparm_t parm[3] = {{0}};
    const uint32_t n = f->gray ? 1 : 3;
    for (uint32_t c = 0; c < n; c++) {
        parm[c].dx = c && f->ycbcr ? f->sub_x : 1;
        parm[c].dy = c && f->ycbcr ? f->sub_y : 1;
        parm[c].w = (w + parm[c].dx - 1) / parm[c].dx;
        parm[c].h = (h + parm[c].dy - 1) / parm[c].dy;
        parm[c].prec = 8;
    }
    opj_image_t *image = opj_image_create(n, parm,
                                          f->ycbcr  ? OPJ_CLRSPC_SYCC
                                          : f->gray ? OPJ_CLRSPC_GRAY
                                                    : OPJ_CLRSPC_SRGB);
    if (!image)
        die(1, "openjpeg: no image");
    image->x1 = w;
    image->y1 = h;
    for (uint32_t c = 0; c < n; c++)
        j2k_fill(f, rgb, w, h, c, &image->comps[c]);
    return image;
}

/* A raw codestream.  The reversible wavelet keeps floating point out of the bytes. */
static void j2k_encode(const struct codec *k, const struct form *f, const uint8_t *rgb, uint32_t w,
                       uint32_t h, struct mem *out)
{
    (void)k;
    char comment[] = "mkslide";
    opj_cparameters_t parm;
    opj_set_default_encoder_parameters(&parm);
    parm.cp_comment = comment;
    parm.tcp_mct = !f->ycbcr && !f->gray;
    parm.tcp_numlayers = 1;
    parm.cp_disto_alloc = 1;
    if (f->precinct) {
        parm.csty |= 1;
        parm.res_spec = 1; /* halved for each coarser resolution */
        parm.prcw_init[0] = parm.prch_init[0] = (int)f->precinct;
        parm.cblockw_init = parm.cblockh_init = 16;
    }
    parm.tcp_rates[0] = f->quality >= 100 ? 0 : 3 + (float)(100 - f->quality) / 2;
    while (parm.numresolution > 1 && (w < h ? w : h) >> parm.numresolution < 4)
        parm.numresolution--;

    out->pos = out->len = 0;
    opj_image_t *image = j2k_image(f, rgb, w, h);
    opj_codec_t *codec = opj_create_compress(OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_default_create(OPJ_FALSE);
    if (!codec || !stream)
        die(1, "openjpeg: out of memory");
    opj_set_error_handler(codec, j2k_die, NULL);
    opj_stream_set_write_function(stream, j2k_write);
    opj_stream_set_seek_function(stream, j2k_seek);
    opj_stream_set_skip_function(stream, j2k_skip);
    opj_stream_set_user_data(stream, out, NULL);
    if (!opj_setup_encoder(codec, &parm, image) || !opj_start_compress(codec, image, stream) ||
        !opj_encode(codec, stream) || !opj_end_compress(codec, stream))
        die(1, "openjpeg: cannot encode");
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
}

static tmsize_t tiff_mem_read(thandle_t m, void *data, tmsize_t n)
{
    (void)m, (void)data, (void)n;
    return 0;
}

static tmsize_t tiff_mem_write(thandle_t m, void *data, tmsize_t n)
{
    mem_write((struct mem *)m, data, (size_t)n);
    return n;
}

static toff_t tiff_mem_seek(thandle_t handle, toff_t to, int whence)
{
    struct mem *m = (struct mem *)handle;
    m->pos = (size_t)to + (whence == SEEK_CUR ? m->pos : whence == SEEK_END ? m->len : 0);
    return m->pos;
}

static int tiff_mem_close(thandle_t m)
{
    (void)m;
    return 0;
}

static toff_t tiff_mem_size(thandle_t m)
{
    return ((struct mem *)m)->len;
}

/* libtiff as an encoder: a TIFF of one strip in memory, of which only the strip is kept. */
static void tiff_encode(const struct codec *c, const struct form *f, const uint8_t *rgb, uint32_t w,
                        uint32_t h, struct mem *out)
{
    struct mem m = {0};
    const uint16_t samples = f->gray ? 1 : 3;
    TIFFSetWarningHandler(NULL); /* it warns of the older number of deflate */
    TIFF *tif = TIFFClientOpen("memory", "wlm", (thandle_t)&m, tiff_mem_read, tiff_mem_write,
                               tiff_mem_seek, tiff_mem_close, tiff_mem_size, NULL, NULL);
    if (!tif || !TIFFSetField(tif, TIFFTAG_COMPRESSION, c->compression))
        die(1, "libtiff: no codec for compression %d", c->compression);
    TIFFSetField(tif, TIFFTAG_IMAGEWIDTH, w);
    TIFFSetField(tif, TIFFTAG_IMAGELENGTH, h);
    TIFFSetField(tif, TIFFTAG_ROWSPERSTRIP, h);
    TIFFSetField(tif, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tif, TIFFTAG_SAMPLESPERPIXEL, samples);
    TIFFSetField(tif, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tif, TIFFTAG_PHOTOMETRIC, f->gray ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB);
    if (c->predictor)
        TIFFSetField(tif, TIFFTAG_PREDICTOR, c->predictor);
    const size_t n = samples * (size_t)w * h;
    uint8_t *pixels = memory_need(n, 1); /* a copy: the predictor works in place */
    for (size_t k = 0; k < n; k++)
        pixels[k] = rgb[f->gray ? 3 * k + 1 : k];
    if (TIFFWriteEncodedStrip(tif, 0, pixels, (tmsize_t)n) < 0 || !TIFFFlushData(tif))
        die(1, "libtiff: cannot encode");
    mem_set(out, m.data + TIFFGetStrileOffset(tif, 0), TIFFGetStrileByteCount(tif, 0));
    TIFFClose(tif);
    free(pixels);
    free(m.data);
}

const struct codec codecs[N_CODECS] = {
    {"jpeg", COMPRESSION_JPEG, "JPEG/RGB", 0, jpeg_encode_row},
    {"33003", COMPRESSION_J2K_YCC, "J2K/YUV16", 0, j2k_encode},
    {"33005", COMPRESSION_J2K_RGB, "J2K/KDU", 0, j2k_encode},
    {"33004", COMPRESSION_J2K_LOSSY, "J2K", 0, j2k_encode},
    {"34712", COMPRESSION_JP2000, "J2K", 0, j2k_encode},
    {"none", COMPRESSION_NONE, "RAW/RGB", 0, tiff_encode},
    {"deflate", COMPRESSION_ADOBE_DEFLATE, "ZIP/RGB", 0, tiff_encode},
    {"32946", COMPRESSION_DEFLATE, "ZIP/RGB", 2, tiff_encode},
    {"packbits", COMPRESSION_PACKBITS, "PackBits/RGB", 0, tiff_encode},
    {"zstd", COMPRESSION_ZSTD, "ZSTD/RGB", 2, tiff_encode},
    {"lzma", COMPRESSION_LZMA, "LZMA/RGB", 0, tiff_encode},
    {"webp", COMPRESSION_WEBP, "WebP/RGB", 0, tiff_encode},
    {"lzw", COMPRESSION_LZW, "LZW/RGB", 2, tiff_encode}, /* last: the label's */
};
