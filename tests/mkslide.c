/*
 * mkslide: makes Aperio SVS slides for the tests.
 *
 * Real slides cannot be kept with the source, so the tests make theirs: same directories, tags
 * and tile streams as a scanner's file, with a picture that is a pure function of (seed, x, y), and
 * with damage placed on chosen tiles.  Equal arguments give equal bytes: integers only, no time
 * stamps.
 *
 *   picture   pixels of any level, row by row (a coarser row averages 4 rows of the level above,
 *             down to level 0), so memory is a few rows, tiles come in any order, levels agree
 *   codecs    pixels of one tile or strip to bytes; a row of codecs[] each
 *   TIFF      own writer for directories: libtiff refuses to write what scanners do (tile sizes
 *             that are no multiple of 16) and what damage needs (offsets outside the file).
 *             libtiff does LZW and deflate, and reads the source of --from
 *   --from    a real slide's compressed tiles, untouched, on a grid of any size; coarser levels are
 *             pieced together from its tiles made smaller
 *
 * A tool of the tests: the first error ends the program with status 1 (2 for wrong usage).
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <openjpeg.h>
#include <tiffio.h>

enum { MAX_LEVELS = 12, MAX_DAMAGES = 256 };
enum { MAX_SIDE = 1 << 20, MAX_TILE = 8192, MAX_TILES = 1 << 26 };
enum { COMPRESSION_J2K_YCC = 33003, COMPRESSION_J2K_RGB = 33005 };

#define LIBRARY "Aperio Image Library v11.2.1 "

/* ---- errors and memory ---- */

__attribute__((noreturn)) static void die_status(int status, const char *fmt, va_list ap)
{
    fputs("mkslide: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    exit(status);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    die_status(1, fmt, ap);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    die_status(2, fmt, ap);
}

static void *alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        die("out of memory");
    return p;
}

__attribute__((format(printf, 1, 2))) static char *text_make(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die("out of memory");
    va_end(ap);
    return text;
}

/* A growing file in memory: what the codecs write to. */
struct mem {
    uint8_t *data;
    size_t len, pos, cap;
};

static void mem_write(struct mem *m, const void *data, size_t n)
{
    if (m->pos + n > m->cap) {
        m->cap = 2 * (m->pos + n);
        m->data = realloc(m->data, m->cap);
        if (!m->data)
            die("out of memory");
    }
    if (n)
        memcpy(m->data + m->pos, data, n);
    m->pos += n;
    m->len = m->pos > m->len ? m->pos : m->len;
}

static void mem_set(struct mem *m, const void *data, size_t n)
{
    m->pos = m->len = 0;
    mem_write(m, data, n);
}

/* ---- picture ---- */

enum tissue_kind { TISSUE_ELLIPSES, TISSUE_RECT, TISSUE_NONE };

struct picture {
    uint32_t width, height, seed;
    enum tissue_kind tissue;
    uint32_t rect[4]; /* x, y, w, h in level-0 pixels */
    uint8_t *mask;    /* [width] 1 = tissue, of the row being made */
    uint32_t *texture, *grain;
    uint8_t *above[MAX_LEVELS]; /* [width of level - 1][3]: a row of the level above */
    uint32_t *sum[MAX_LEVELS];  /* [width of level][3] */
};

static uint32_t hash3(uint32_t seed, uint32_t x, uint32_t y)
{
    uint32_t h = seed * 0x9e3779b1u + 0x7f4a7c15u;
    h = (h ^ x) * 0x85ebca6bu;
    h = (h ^ (h >> 15) ^ y) * 0xc2b2ae35u;
    h = (h ^ (h >> 13)) * 0x27d4eb2fu;
    return h ^ (h >> 16);
}

static uint32_t root(uint64_t v)
{
    uint64_t r = 0;
    for (uint64_t bit = 1ull << 31; bit; bit >>= 1)
        if ((r + bit) * (r + bit) <= v)
            r += bit;
    return (uint32_t)r;
}

/* Noise on the left edge of a cell, 0 .. 65280, at sy / 256 of the way to the next cell below. */
static uint32_t noise_edge(uint32_t seed, uint32_t cx, uint32_t cy, uint32_t sy)
{
    return (hash3(seed, cx, cy) & 255) * (256 - sy) + (hash3(seed, cx, cy + 1) & 255) * sy;
}

/* Value noise with cells of 1 << shift pixels; adds weight * (0 .. 65280) to n pixels of row y. */
static void noise_row(uint32_t seed, uint32_t shift, uint32_t weight, uint32_t y, uint32_t x0,
                      uint32_t n, uint32_t *sum)
{
    uint32_t mask = (1u << shift) - 1, fy = (y & mask) << (8 - shift), cy = y >> shift;
    uint32_t sy = fy * fy * (768 - 2 * fy) >> 16, left = 0, right = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = x0 + i, cx = x >> shift, fx = (x & mask) << (8 - shift);
        uint32_t sx = fx * fx * (768 - 2 * fx) >> 16;
        if (i == 0 || fx == 0) {
            left = i ? right : noise_edge(seed, cx, cy, sy);
            right = noise_edge(seed, cx + 1, cy, sy);
        }
        sum[i] += weight * ((left * (256 - sx) + right * sx) >> 8);
    }
}

static void mask_span(struct picture *p, int64_t from, int64_t to, uint32_t x0, uint32_t n)
{
    from = from < x0 ? x0 : from;
    to = to > (int64_t)x0 + n ? (int64_t)x0 + n : to;
    if (from < to)
        memset(p->mask + (from - x0), 1, (size_t)(to - from));
}

/* How far the ellipse's outline is moved in row y: up to an eighth of its radius and 40 px. */
static int64_t edge_jitter(const struct picture *p, uint32_t which, uint32_t y, int64_t radius)
{
    uint32_t v = 0;
    noise_row(p->seed + 100 + which, 6, 1, y, 0, 1, &v);
    return ((int64_t)v - 32640) * (radius < 320 ? radius : 320) / (8 * 32640);
}

static void mask_ellipse(struct picture *p, uint32_t which, uint32_t y, uint32_t x0, uint32_t n)
{
    static const int64_t blobs[][4] = { /* cx, cy, rx, ry in 1/1000 of the slide */
        {270, 290, 215, 225}, {725, 260, 195, 190}, {260, 740, 185, 200}, {690, 715, 240, 210}};
    int64_t w = p->width, h = p->height;
    int64_t cx = blobs[which][0] * w / 1000, dy = y - blobs[which][1] * h / 1000;
    int64_t rx = blobs[which][2] * w / 1000, ry = blobs[which][3] * h / 1000;
    if (ry < 1 || dy <= -ry || dy >= ry)
        return;
    int64_t half = rx * root((uint64_t)(ry * ry - dy * dy)) / ry;
    int64_t from = cx - half + edge_jitter(p, 2 * which, y, half);
    mask_span(p, from, cx + half + edge_jitter(p, 2 * which + 1, y, half), x0, n);
}

static void mask_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n)
{
    memset(p->mask, 0, n);
    if (p->tissue == TISSUE_RECT && y >= p->rect[1] && y - p->rect[1] < p->rect[3])
        mask_span(p, p->rect[0], (int64_t)p->rect[0] + p->rect[2], x0, n);
    for (uint32_t i = 0; p->tissue == TISSUE_ELLIPSES && i < 4; i++)
        mask_ellipse(p, i, y, x0, n);
}

/* One nucleus at most in each cell of a 24 px grid, wholly inside it. */
static void nuclei_row(const struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    enum { CELL = 24 };
    for (uint32_t cx = x0 / CELL; cx <= (x0 + n - 1) / CELL; cx++) {
        uint32_t h = hash3(p->seed + 50, cx, y / CELL);
        int64_t r = 4 + (h >> 8) % 6, room = CELL - 2 * r;
        int64_t dy = (int64_t)(y % CELL) - r - (h >> 12) % room;
        if ((h & 255) > 150 || dy < -r || dy > r)
            continue;
        int64_t x = (int64_t)cx * CELL + r + (h >> 20) % room;
        int64_t half = root((uint64_t)(r * r - dy * dy));
        for (int64_t i = x - half - x0; i <= x + half - x0; i++) {
            if (i < 0 || i >= n || !p->mask[i])
                continue;
            uint32_t g = p->grain[i] >> 11; /* 0 .. 31 */
            rgb[3 * i] = (uint8_t)(70 + g);
            rgb[3 * i + 1] = (uint8_t)(38 + g);
            rgb[3 * i + 2] = (uint8_t)(118 + g);
        }
    }
}

static void picture_base_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    static const int pink[3] = {230, 150, 196}, purple[3] = {138, 74, 158};
    mask_row(p, y, x0, n);
    memset(p->texture, 0, n * sizeof *p->texture);
    memset(p->grain, 0, n * sizeof *p->grain);
    noise_row(p->seed + 1, 1, 1, y, x0, n, p->grain);
    for (uint32_t i = 0; i < 4; i++) /* cells of 256, 64, 16 and 4 px; weights add up to 16 */
        noise_row(p->seed + 10 + i, 8 - 2 * i, (uint32_t[]){5, 5, 4, 2}[i], y, x0, n, p->texture);
    for (uint32_t i = 0; i < n; i++) {
        int grain = (int)(p->grain[i] >> 8), t = ((int)(p->texture[i] >> 12) - 128) * 2 + 128;
        t = t < 0 ? 0 : t > 255 ? 255 : t;
        for (int c = 0; c < 3; c++) {
            int tissue = pink[c] + (purple[c] - pink[c]) * t / 255 + (grain - 128) / 12;
            rgb[3 * i + (uint32_t)c] = (uint8_t)(p->mask[i] ? tissue : 240 + grain * 7 / 256);
        }
    }
    nuclei_row(p, y, x0, n, rgb);
}

/* Pixels x0 .. x0 + n - 1 of row y, [n][3]; a level is the 4 x 4 mean of the one above. */
static void picture_row(struct picture *p, uint32_t level, uint32_t y, uint32_t x0, uint32_t n,
                        uint8_t *rgb)
{
    if (level == 0) {
        picture_base_row(p, y, x0, n, rgb);
        return;
    }
    uint8_t *above = p->above[level];
    uint32_t *sum = p->sum[level];
    memset(sum, 0, 3 * (size_t)n * sizeof *sum);
    for (uint32_t k = 0; k < 4; k++) {
        picture_row(p, level - 1, 4 * y + k, 4 * x0, 4 * n, above);
        for (size_t i = 0; i < 3 * (size_t)n; i++) {
            const uint8_t *a = above + i / 3 * 12 + i % 3;
            sum[i] += (uint32_t)a[0] + a[3] + a[6] + a[9];
        }
    }
    for (size_t i = 0; i < 3 * (size_t)n; i++)
        rgb[i] = (uint8_t)((sum[i] + 8) / 16);
}

static void picture_init(struct picture *p)
{
    size_t w = p->width;
    p->mask = alloc(w, 1);
    p->texture = alloc(w, sizeof *p->texture);
    p->grain = alloc(w, sizeof *p->grain);
    for (int i = 1; i < MAX_LEVELS; i++, w /= 4) {
        p->above[i] = alloc(w, 3);
        p->sum[i] = alloc(w / 4, 3 * sizeof(uint32_t));
    }
}

static void picture_free(struct picture *p)
{
    free(p->mask);
    free(p->texture);
    free(p->grain);
    for (int i = 1; i < MAX_LEVELS; i++) {
        free(p->above[i]);
        free(p->sum[i]);
    }
}

/* A tile of a level, [th][tw][3]; what lies beyond the picture repeats its last row and column. */
static void picture_tile(struct picture *p, uint32_t level, uint32_t x, uint32_t y, uint32_t tw,
                         uint32_t th, uint8_t *rgb)
{
    uint32_t w = p->width >> 2 * level, h = p->height >> 2 * level;
    uint32_t n = w - x < tw ? w - x : tw;
    for (uint32_t r = 0; r < th; r++) {
        uint8_t *row = rgb + 3 * (size_t)tw * r;
        if (y + r >= h) {
            memcpy(row, row - 3 * (size_t)tw, 3 * (size_t)tw);
            continue;
        }
        picture_row(p, level, y + r, x, n, row);
        for (uint32_t i = n; i < tw; i++)
            memcpy(row + 3 * (size_t)i, row + 3 * (size_t)(n - 1), 3);
    }
}

/* The whole slide sampled to w x h, written with a stride in pixels. */
static void picture_sample(struct picture *p, uint32_t w, uint32_t h, uint32_t stride, uint8_t *rgb)
{
    uint32_t level = 0;
    while (level + 1 < MAX_LEVELS && p->width >> 2 * (level + 1) >= w &&
           p->height >> 2 * (level + 1) >= h)
        level++;
    uint32_t lw = p->width >> 2 * level, lh = p->height >> 2 * level;
    uint8_t *row = alloc(lw, 3);
    for (uint32_t y = 0; y < h; y++) {
        picture_row(p, level, (uint32_t)((uint64_t)y * lh / h), 0, lw, row);
        for (uint32_t x = 0; x < w; x++)
            memcpy(rgb + 3 * ((size_t)y * stride + x), row + 3 * ((uint64_t)x * lw / w), 3);
    }
    free(row);
}

/* ---- codecs ---- */

struct form {
    int quality;
    bool ycbcr, complete; /* complete: the stream brings its own tables */
    uint32_t sub_x, sub_y;
};

static void jpeg_die(j_common_ptr c)
{
    char message[JMSG_LENGTH_MAX];
    c->err->format_message(c, message);
    die("libjpeg: %s", message);
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
    c->in_color_space = f->ycbcr ? JCS_RGB : JCS_UNKNOWN;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, f->quality, TRUE);
    c->write_JFIF_header = FALSE;
    c->write_Adobe_marker = FALSE;
    c->comp_info[0].h_samp_factor = f->ycbcr ? (int)f->sub_x : 1;
    c->comp_info[0].v_samp_factor = f->ycbcr ? (int)f->sub_y : 1;
    jpeg_suppress_tables(c, TRUE);
}

static void jpeg_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                        struct mem *out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    uint8_t *data = NULL;
    unsigned long len = 0;
    jpeg_set_up(&c, &err, f, &data, &len);
    c.image_width = w;
    c.image_height = h;
    jpeg_start_compress(&c, f->complete);
    while (c.next_scanline < h) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + 3 * (size_t)w * c.next_scanline);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    mem_set(out, data, len);
    free(data);
}

/* The stream for the JPEGTables tag: the tables that the form uses and no others. */
static void jpeg_tables(const struct form *f, struct mem *out)
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
    die("openjpeg: %s", message);
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
                    sum += f->ycbcr ? ycc_of(px, (int)c) : px[c];
                }
            comp->data[(size_t)y * comp->w + x] = (sum + n / 2) / n;
        }
}

static opj_image_t *j2k_image(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h)
{
    opj_image_cmptparm_t parm[3] = {{0}};
    for (uint32_t c = 0; c < 3; c++) {
        parm[c].dx = c && f->ycbcr ? f->sub_x : 1;
        parm[c].dy = c && f->ycbcr ? f->sub_y : 1;
        parm[c].w = (w + parm[c].dx - 1) / parm[c].dx;
        parm[c].h = (h + parm[c].dy - 1) / parm[c].dy;
        parm[c].prec = 8;
    }
    opj_image_t *image = opj_image_create(3, parm, f->ycbcr ? OPJ_CLRSPC_SYCC : OPJ_CLRSPC_SRGB);
    if (!image)
        die("openjpeg: no image");
    image->x1 = w;
    image->y1 = h;
    for (uint32_t c = 0; c < 3; c++)
        j2k_fill(f, rgb, w, h, c, &image->comps[c]);
    return image;
}

/* A raw codestream.  The reversible wavelet keeps floating point out of the bytes. */
static void j2k_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                       struct mem *out)
{
    char comment[] = "mkslide";
    opj_cparameters_t parm;
    opj_set_default_encoder_parameters(&parm);
    parm.cp_comment = comment;
    parm.tcp_mct = !f->ycbcr;
    parm.tcp_numlayers = 1;
    parm.cp_disto_alloc = 1;
    parm.tcp_rates[0] = f->quality >= 100 ? 0 : 3 + (float)(100 - f->quality) / 2;
    while (parm.numresolution > 1 && (w < h ? w : h) >> parm.numresolution < 4)
        parm.numresolution--;

    out->pos = out->len = 0;
    opj_image_t *image = j2k_image(f, rgb, w, h);
    opj_codec_t *codec = opj_create_compress(OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_default_create(OPJ_FALSE);
    if (!codec || !stream)
        die("openjpeg: out of memory");
    opj_set_error_handler(codec, j2k_die, NULL);
    opj_stream_set_write_function(stream, j2k_write);
    opj_stream_set_seek_function(stream, j2k_seek);
    opj_stream_set_skip_function(stream, j2k_skip);
    opj_stream_set_user_data(stream, out, NULL);
    if (!opj_setup_encoder(codec, &parm, image) || !opj_start_compress(codec, image, stream) ||
        !opj_encode(codec, stream) || !opj_end_compress(codec, stream))
        die("openjpeg: cannot encode");
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
}

static void none_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                        struct mem *out)
{
    (void)f;
    mem_set(out, rgb, 3 * (size_t)w * h);
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
static void tiff_encode(uint16_t compression, uint16_t predictor, const uint8_t *rgb, uint32_t w,
                        uint32_t h, struct mem *out)
{
    struct mem m = {0};
    TIFF *tif = TIFFClientOpen("memory", "wlm", (thandle_t)&m, tiff_mem_read, tiff_mem_write,
                               tiff_mem_seek, tiff_mem_close, tiff_mem_size, NULL, NULL);
    if (!tif || !TIFFSetField(tif, TIFFTAG_COMPRESSION, compression))
        die("libtiff: no codec for compression %d", compression);
    TIFFSetField(tif, TIFFTAG_IMAGEWIDTH, w);
    TIFFSetField(tif, TIFFTAG_IMAGELENGTH, h);
    TIFFSetField(tif, TIFFTAG_ROWSPERSTRIP, h);
    TIFFSetField(tif, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tif, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(tif, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tif, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(tif, TIFFTAG_PREDICTOR, predictor);
    size_t n = 3 * (size_t)w * h;
    uint8_t *pixels = alloc(n, 1); /* a copy: the predictor works in place */
    memcpy(pixels, rgb, n);
    if (TIFFWriteEncodedStrip(tif, 0, pixels, (tmsize_t)n) < 0 || !TIFFFlushData(tif))
        die("libtiff: cannot encode");
    mem_set(out, m.data + TIFFGetStrileOffset(tif, 0), TIFFGetStrileByteCount(tif, 0));
    TIFFClose(tif);
    free(pixels);
    free(m.data);
}

static void deflate_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                           struct mem *out)
{
    (void)f;
    tiff_encode(COMPRESSION_ADOBE_DEFLATE, 1, rgb, w, h, out);
}

static void lzw_encode(const struct form *f, const uint8_t *rgb, uint32_t w, uint32_t h,
                       struct mem *out)
{
    (void)f;
    tiff_encode(COMPRESSION_LZW, 2, rgb, w, h, out);
}

static const struct codec {
    const char *name;
    uint16_t compression;
    const char *text; /* in the description */
    void (*encode)(const struct form *, const uint8_t *, uint32_t, uint32_t, struct mem *);
} codecs[] = {
    {"jpeg", COMPRESSION_JPEG, "JPEG/RGB", jpeg_encode},
    {"33003", COMPRESSION_J2K_YCC, "J2K/YUV16", j2k_encode},
    {"33005", COMPRESSION_J2K_RGB, "J2K/KDU", j2k_encode},
    {"none", COMPRESSION_NONE, "RAW/RGB", none_encode},
    {"deflate", COMPRESSION_ADOBE_DEFLATE, "ZIP/RGB", deflate_encode},
    {"lzw", COMPRESSION_LZW, "LZW/RGB", lzw_encode}, /* last: the label's */
};
enum { N_CODECS = sizeof codecs / sizeof codecs[0] };

/* ---- TIFF ---- */

struct tiff_out {
    const char *path;
    FILE *file;
    bool big, big_endian;
    uint64_t pos, link_at; /* link_at: where the next directory's offset belongs */
};

struct tag {
    uint16_t tag, type;
    uint64_t count, small[3];
    const uint64_t *numbers; /* or */
    const uint8_t *bytes;    /* or neither: small */
};

struct dir {
    struct tag tags[32];
    int n;
};

static void out_bytes(struct tiff_out *o, const void *data, size_t n)
{
    if (n && fwrite(data, 1, n, o->file) != n)
        die("%s: cannot write: %s", o->path, strerror(errno));
    o->pos += n;
}

static void out_number(struct tiff_out *o, uint64_t v, uint32_t size)
{
    uint8_t b[8];
    for (uint32_t i = 0; i < size; i++)
        b[i] = (uint8_t)(v >> 8 * (o->big_endian ? size - 1 - i : i));
    out_bytes(o, b, size);
}

static void out_align(struct tiff_out *o)
{
    while (o->pos & (o->big ? 7 : 1))
        out_bytes(o, "", 1);
}

/*
 * OpenSlide 3.4.1 reads the first link of a classic file as 8 bytes, because of NDPI, and drops the
 * upper half; so it opens a big-endian file only if the link's copy stands in bytes 8 to 11.
 */
static bool out_twice(const struct tiff_out *o)
{
    return o->link_at == 4 && o->big_endian && !o->big;
}

static void out_open(struct tiff_out *o)
{
    o->file = fopen(o->path, "wb");
    if (!o->file)
        die("%s: %s", o->path, strerror(errno));
    out_bytes(o, o->big_endian ? "MM" : "II", 2);
    out_number(o, o->big ? 43 : 42, 2);
    if (o->big) {
        out_number(o, 8, 2);
        out_number(o, 0, 2);
    }
    o->link_at = o->pos;
    out_number(o, 0, o->big ? 8 : 4);
    if (out_twice(o))
        out_number(o, 0, 8);
}

static void out_close(struct tiff_out *o)
{
    int failed = ferror(o->file);
    if (fclose(o->file) || failed)
        die("%s: cannot write: %s", o->path, strerror(errno));
}

static struct tag *dir_add(struct dir *d, uint32_t tag, uint16_t type, uint64_t count)
{
    struct tag *t = &d->tags[d->n++];
    *t = (struct tag){.tag = (uint16_t)tag, .type = type, .count = count};
    return t;
}

static void dir_short(struct dir *d, uint32_t tag, uint64_t count, uint64_t a, uint64_t b,
                      uint64_t c)
{
    struct tag *t = dir_add(d, tag, TIFF_SHORT, count);
    t->small[0] = a, t->small[1] = b, t->small[2] = c;
}

static void dir_long(struct dir *d, uint32_t tag, uint64_t v)
{
    dir_add(d, tag, TIFF_LONG, 1)->small[0] = v;
}

static void dir_bytes(struct dir *d, uint32_t tag, uint16_t type, const void *data, size_t n)
{
    dir_add(d, tag, type, n)->bytes = data;
}

static void dir_text(struct dir *d, uint32_t tag, const char *text)
{
    dir_bytes(d, tag, TIFF_ASCII, text, strlen(text) + 1);
}

static int tag_compare(const void *a, const void *b)
{
    return (int)((const struct tag *)a)->tag - (int)((const struct tag *)b)->tag;
}

static uint32_t tag_size(const struct tag *t)
{
    return t->type == TIFF_SHORT ? 2 : t->type == TIFF_LONG ? 4 : t->type == TIFF_LONG8 ? 8 : 1;
}

static void tag_write(struct tiff_out *o, const struct tag *t)
{
    if (t->bytes)
        out_bytes(o, t->bytes, t->count);
    for (uint64_t i = 0; !t->bytes && i < t->count; i++)
        out_number(o, t->numbers ? t->numbers[i] : t->small[i], tag_size(t));
}

/* Values that do not fit go first, then the directory, then the link to it. */
static void dir_write(struct tiff_out *o, struct dir *d)
{
    uint32_t word = o->big ? 8 : 4;
    uint64_t at[32], dir_at, next_at;
    qsort(d->tags, (size_t)d->n, sizeof d->tags[0], tag_compare);
    for (int i = 0; i < d->n; i++) {
        out_align(o);
        at[i] = o->pos;
        if (d->tags[i].count * tag_size(&d->tags[i]) > word)
            tag_write(o, &d->tags[i]);
    }
    out_align(o);
    dir_at = o->pos;
    out_number(o, (uint64_t)d->n, o->big ? 8 : 2);
    for (int i = 0; i < d->n; i++) {
        const struct tag *t = &d->tags[i];
        out_number(o, t->tag, 2);
        out_number(o, t->type, 2);
        out_number(o, t->count, word);
        uint64_t end = o->pos + word;
        if (t->count * tag_size(t) > word)
            out_number(o, at[i], word);
        else
            tag_write(o, t);
        while (o->pos < end)
            out_bytes(o, "", 1);
    }
    next_at = o->pos;
    out_number(o, 0, word);
    if (!o->big && o->pos > UINT32_MAX)
        die("%s: larger than 4 GB, use --bigtiff", o->path);
    if (fseeko(o->file, (off_t)o->link_at, SEEK_SET))
        die("%s: cannot seek: %s", o->path, strerror(errno));
    out_number(o, dir_at, word);
    if (out_twice(o))
        out_number(o, dir_at, word);
    if (fseeko(o->file, 0, SEEK_END))
        die("%s: cannot seek: %s", o->path, strerror(errno));
    o->pos = next_at + word;
    o->link_at = next_at;
}

/* ---- options ---- */

enum damage_kind { MISSING, TRUNCATE, GARBAGE, FOREIGN, OUTSIDE, FLIP };

struct damage {
    enum damage_kind kind;
    uint32_t col, row;
    uint64_t bytes;
};

struct opts {
    const char *out, *from, *mpp, *appmag, *description, *icc;
    uint32_t width, height, tile_w, tile_h, n_levels, seed;
    const struct codec *codec;
    struct form form;
    bool big, big_endian, shuffle, lying, no_thumbnail, no_label, no_macro, empty;
    enum tissue_kind tissue;
    uint32_t rect[4];
    double tissue_fraction, background_fraction; /* tissue_fraction < 0: not asked for */
    struct damage damages[MAX_DAMAGES];
    int n_damages;
};

static const char help[] =
    "Usage: mkslide [options] OUT.svs\n"
    "       mkslide --from REAL.svs --size WxH [options] OUT.svs\n"
    "Makes an Aperio slide for the tests. Equal arguments give equal bytes.\n"
    "\nPicture:\n"
    "  --size WxH              pixels of level 0 (1500x1100)\n"
    "  --levels L              levels, each a quarter of the one before (1)\n"
    "  --seed S                another picture (1)\n"
    "  --tissue KIND           ellipses, none, or rect:X,Y,W,H in level-0 pixels (ellipses)\n"
    "  --tissue-fraction F     one centred rectangle over the full width, F of the area\n"
    "\nTiles:\n"
    "  --tile N | TWxTH        tile size (240)\n"
    "  --compression NAME      jpeg, 33003, 33005, none, deflate (jpeg)\n"
    "  --photometric NAME      of jpeg: rgb, ycbcr (rgb)\n"
    "  --subsampling S         of ycbcr and 33003: 444, 422, 420 (420; 33003: 422)\n"
    "  --quality Q             1 to 100; J2K is lossless at 100 (80)\n"
    "  --complete-tiles        each tile brings its tables, no JPEGTables\n"
    "  --lying-subsampling     YCbCrSubSampling 2,2 whatever the stream has\n"
    "  --shuffle-tiles         tiles lie in the file in another order than the grid's\n"
    "\nFile:\n"
    "  --bigtiff, --big-endian\n"
    "  --no-thumbnail, --no-label, --no-macro\n"
    "  --empty-descriptions    of the associated images\n"
    "  --mpp TEXT              as written in the description; none leaves it out (0.4990)\n"
    "  --appmag TEXT           the same (20)\n"
    "  --description TEXT      the whole ImageDescription of the base\n"
    "  --icc FILE | fake:N     ICC profile, or N made-up bytes, at least 132\n"
    "\nDamage to the level-0 tile in column C, row R (each may be given again):\n"
    "  --missing C,R           offset and byte count 0\n"
    "  --truncate C,R:BYTES    byte count cut to BYTES\n"
    "  --garbage C,R           bytes overwritten, length kept\n"
    "  --foreign C,R           a valid, complete stream of another size\n"
    "  --outside C,R           offset far beyond the end of the file\n"
    "  --flip C,R              one byte in the middle of the entropy data inverted\n"
    "\nFrom a real slide:\n"
    "  --from REAL.svs         its compressed level-0 tiles, untouched, in pseudo-random order;\n"
    "                          BigTIFF when needed. Codec, tile size, ICC profile, description\n"
    "                          and thumbnail are the source's; no label, no macro. Of\n"
    "                          coarser levels a pixel is the mean of those of level 0 (JPEG only)\n"
    "  --background-fraction F that share of the rows, at the top, repeats the smallest tile (0)\n"
    "\n  --help                  this text\n";

enum opt_id {
    OPT_DAMAGE = 256, /* + enum damage_kind */
    OPT_SIZE = 300, OPT_LEVELS, OPT_SEED, OPT_TISSUE, OPT_TISSUE_FRACTION, OPT_TILE,
    OPT_COMPRESSION, OPT_PHOTOMETRIC, OPT_SUBSAMPLING, OPT_QUALITY, OPT_COMPLETE, OPT_LYING,
    OPT_SHUFFLE, OPT_BIG, OPT_BIG_ENDIAN, OPT_NO_THUMBNAIL, OPT_NO_LABEL, OPT_NO_MACRO, OPT_EMPTY,
    OPT_MPP, OPT_APPMAG, OPT_DESCRIPTION, OPT_ICC, OPT_FROM, OPT_BACKGROUND, OPT_HELP
};

static const struct option long_opts[] = {
    {"size", 1, NULL, OPT_SIZE}, {"levels", 1, NULL, OPT_LEVELS}, {"seed", 1, NULL, OPT_SEED},
    {"tissue", 1, NULL, OPT_TISSUE}, {"tissue-fraction", 1, NULL, OPT_TISSUE_FRACTION},
    {"tile", 1, NULL, OPT_TILE}, {"compression", 1, NULL, OPT_COMPRESSION},
    {"photometric", 1, NULL, OPT_PHOTOMETRIC}, {"subsampling", 1, NULL, OPT_SUBSAMPLING},
    {"quality", 1, NULL, OPT_QUALITY}, {"complete-tiles", 0, NULL, OPT_COMPLETE},
    {"lying-subsampling", 0, NULL, OPT_LYING}, {"shuffle-tiles", 0, NULL, OPT_SHUFFLE},
    {"bigtiff", 0, NULL, OPT_BIG}, {"big-endian", 0, NULL, OPT_BIG_ENDIAN},
    {"no-thumbnail", 0, NULL, OPT_NO_THUMBNAIL}, {"no-label", 0, NULL, OPT_NO_LABEL},
    {"no-macro", 0, NULL, OPT_NO_MACRO}, {"empty-descriptions", 0, NULL, OPT_EMPTY},
    {"mpp", 1, NULL, OPT_MPP}, {"appmag", 1, NULL, OPT_APPMAG},
    {"description", 1, NULL, OPT_DESCRIPTION}, {"icc", 1, NULL, OPT_ICC},
    {"missing", 1, NULL, OPT_DAMAGE + MISSING}, {"truncate", 1, NULL, OPT_DAMAGE + TRUNCATE},
    {"garbage", 1, NULL, OPT_DAMAGE + GARBAGE}, {"foreign", 1, NULL, OPT_DAMAGE + FOREIGN},
    {"outside", 1, NULL, OPT_DAMAGE + OUTSIDE}, {"flip", 1, NULL, OPT_DAMAGE + FLIP},
    {"from", 1, NULL, OPT_FROM}, {"background-fraction", 1, NULL, OPT_BACKGROUND},
    {"help", 0, NULL, OPT_HELP}, {0}};

/* Whole numbers in min .. max with exactly the separators given: "," reads "3,4". */
static bool parse_numbers(const char *text, const char *separators, uint64_t min, uint64_t max,
                          uint64_t *v)
{
    for (;; v++, text++, separators++) {
        char *end;
        errno = 0;
        if (!isdigit((unsigned char)*text))
            return false;
        *v = strtoull(text, &end, 10);
        if (errno || *v < min || *v > max || *end != *separators)
            return false;
        if (!*separators)
            return true;
        text = end;
    }
}

static bool parse_u32(const char *text, uint64_t min, uint64_t max, uint32_t *v)
{
    uint64_t n;
    bool ok = parse_numbers(text, "", min, max, &n);
    *v = ok ? (uint32_t)n : 0;
    return ok;
}

static bool parse_fraction(const char *text, double *v)
{
    char *end;
    *v = strtod(text, &end);
    return end != text && !*end && *v >= 0 && *v <= 1;
}

static bool parse_pair(const char *text, uint64_t max, uint32_t *a, uint32_t *b)
{
    uint64_t v[2];
    if (!parse_numbers(text, "x", 1, max, v))
        return false;
    *a = (uint32_t)v[0];
    *b = (uint32_t)v[1];
    return true;
}

static bool parse_tile(struct opts *o, const char *text)
{
    if (parse_u32(text, 1, MAX_TILE, &o->tile_w)) {
        o->tile_h = o->tile_w;
        return true;
    }
    return parse_pair(text, MAX_TILE, &o->tile_w, &o->tile_h);
}

static bool parse_tissue(struct opts *o, const char *text)
{
    uint64_t v[4];
    if (!strcmp(text, "ellipses") || !strcmp(text, "none")) {
        o->tissue = *text == 'n' ? TISSUE_NONE : TISSUE_ELLIPSES;
        return true;
    }
    if (strncmp(text, "rect:", 5) || !parse_numbers(text + 5, ",,,", 0, MAX_SIDE, v))
        return false;
    o->tissue = TISSUE_RECT;
    for (int i = 0; i < 4; i++)
        o->rect[i] = (uint32_t)v[i];
    return true;
}

static bool parse_codec(struct opts *o, const char *name)
{
    for (int i = 0; i < N_CODECS - 1; i++)
        if (!strcmp(name, codecs[i].name)) {
            o->codec = &codecs[i];
            return true;
        }
    return false;
}

static bool parse_photometric(struct opts *o, const char *name)
{
    o->form.ycbcr = !strcmp(name, "ycbcr");
    return o->form.ycbcr || !strcmp(name, "rgb");
}

static bool parse_subsampling(struct opts *o, const char *text)
{
    o->form.sub_x = strcmp(text, "444") ? 2 : 1;
    o->form.sub_y = strcmp(text, "420") ? 1 : 2;
    return !strcmp(text, "444") || !strcmp(text, "422") || !strcmp(text, "420");
}

static bool parse_damage(struct opts *o, enum damage_kind kind, const char *text)
{
    uint64_t v[3] = {0};
    if (o->n_damages == MAX_DAMAGES ||
        !parse_numbers(text, kind == TRUNCATE ? ",:" : ",", 0, UINT32_MAX, v))
        return false;
    o->damages[o->n_damages++] = (struct damage){kind, (uint32_t)v[0], (uint32_t)v[1], v[2]};
    return true;
}

static bool parse_option(struct opts *o, int id, const char *arg)
{
    uint32_t v;
    switch (id) {
    case OPT_SIZE: return parse_pair(arg, MAX_SIDE, &o->width, &o->height);
    case OPT_LEVELS: return parse_u32(arg, 1, MAX_LEVELS - 1, &o->n_levels);
    case OPT_SEED: return parse_u32(arg, 0, UINT32_MAX, &o->seed);
    case OPT_TISSUE: return parse_tissue(o, arg);
    case OPT_TISSUE_FRACTION: return parse_fraction(arg, &o->tissue_fraction);
    case OPT_TILE: return parse_tile(o, arg);
    case OPT_COMPRESSION: return parse_codec(o, arg);
    case OPT_PHOTOMETRIC: return parse_photometric(o, arg);
    case OPT_SUBSAMPLING: return parse_subsampling(o, arg);
    case OPT_QUALITY: return parse_u32(arg, 1, 100, &v) && (o->form.quality = (int)v);
    case OPT_COMPLETE: return o->form.complete = true;
    case OPT_LYING: return o->lying = true;
    case OPT_SHUFFLE: return o->shuffle = true;
    case OPT_BIG: return o->big = true;
    case OPT_BIG_ENDIAN: return o->big_endian = true;
    case OPT_NO_THUMBNAIL: return o->no_thumbnail = true;
    case OPT_NO_LABEL: return o->no_label = true;
    case OPT_NO_MACRO: return o->no_macro = true;
    case OPT_EMPTY: return o->empty = true;
    case OPT_MPP: return (o->mpp = arg);
    case OPT_APPMAG: return (o->appmag = arg);
    case OPT_DESCRIPTION: return (o->description = arg);
    case OPT_ICC: return (o->icc = arg);
    case OPT_FROM: return (o->from = arg);
    case OPT_BACKGROUND: return parse_fraction(arg, &o->background_fraction);
    default: return parse_damage(o, (enum damage_kind)(id - OPT_DAMAGE), arg);
    }
}

/* What depends on several options. */
static void opts_settle(struct opts *o)
{
    bool yuv = o->codec->compression == COMPRESSION_J2K_YCC;
    if (o->form.ycbcr && o->codec->compression != COMPRESSION_JPEG)
        die_usage("--photometric ycbcr is for jpeg");
    if (!o->form.sub_x) {
        o->form.sub_x = 2;
        o->form.sub_y = yuv ? 1 : 2;
    }
    o->form.ycbcr |= yuv;
    if (o->width >> 2 * (o->n_levels - 1) == 0 || o->height >> 2 * (o->n_levels - 1) == 0)
        die_usage("%ux%u is too small for %u levels", o->width, o->height, o->n_levels);
    if (o->tissue_fraction >= 0) {
        uint32_t h = (uint32_t)(o->tissue_fraction * o->height + 0.5);
        o->tissue = TISSUE_RECT;
        memcpy(o->rect, (uint32_t[]){0, (o->height - h) / 2, o->width, h}, sizeof o->rect);
    }
}

static void opts_parse(struct opts *o, int argc, char **argv)
{
    int id, index = 0;
    while ((id = getopt_long(argc, argv, "", long_opts, &index)) != -1) {
        if (id == OPT_HELP) {
            fputs(help, stdout);
            exit(fflush(stdout) ? 1 : 0);
        }
        if (id == '?')
            die_usage("try --help");
        if (!parse_option(o, id, optarg))
            die_usage("--%s: cannot use '%s'", long_opts[index].name, optarg);
    }
    if (optind + 1 != argc)
        die_usage("one output file is needed, try --help");
    o->out = argv[optind];
    opts_settle(o);
}

/* ---- slide ---- */

struct source {
    TIFF *tif;
    uint16_t photometric;
    uint32_t *tiles; /* its whole tiles that are there */
    uint32_t n_tiles, smallest;
    uint8_t **small; /* [its tiles][tile_h / shrink][tile_w / shrink][3] for the level being written */
};

struct maker {
    const struct opts *o;
    struct tiff_out out;
    struct picture picture;
    struct source src; /* tif NULL: a made picture */
    char *tail;        /* of the descriptions: the fields */
    struct mem bytes;  /* of the tile or strip being written */
    uint8_t *pixels;   /* [tile_h][tile_w][3] */
    uint32_t tile_w, tile_h;
    const struct codec *codec;
    struct form form;
};

static char *field(const char *name, const char *value)
{
    return strcmp(value, "none") ? text_make("|%s = %s", name, value) : text_make("%s", "");
}

static char *tail_make(const struct opts *o)
{
    char *appmag = field("AppMag", o->appmag), *mpp = field("MPP", o->mpp);
    char *tail = text_make(
        "%s|StripeWidth = 2040|ScanScope ID = SS1302|Filename = Patient^Doe^Jane|Title = Case 4711"
        "|Date = 12/29/09|Time = 09:59:15|User = b414003d-95c6-48b0-9369-8010ed517ba7"
        "|Barcode = 0815|Parmset = USM Filter%s|Left = 25.691574|Top = 23.449873"
        "|LineCameraSkew = -0.000424|LineAreaXOffset = 0.019265|LineAreaYOffset = -0.000313"
        "|Focus Offset = 0.000000|ImageID = 1004486|OriginalWidth = %u|Originalheight = %u"
        "|Filtered = 5", appmag, mpp, o->width, o->height);
    free(appmag);
    free(mpp);
    return tail;
}

static char *level_description(const struct maker *m, uint32_t level)
{
    const struct opts *o = m->o;
    uint32_t w = o->width, h = o->height;
    char scaled[40] = "";
    const char *name = m->form.ycbcr && m->codec == codecs ? "JPEG/YCC" : m->codec->text;
    if (level)
        snprintf(scaled, sizeof scaled, " -> %ux%u", w >> 2 * level, h >> 2 * level);
    return text_make(LIBRARY "\r\n%ux%u [0,0 %ux%u] (%ux%u)%s %s Q=%d%s", w, h, w, h, m->tile_w,
                     m->tile_h, scaled, name, m->form.quality, m->tail);
}

/* The source's description with the sizes of its second line, "WxH [..] (TWxTH)", made ours. */
static char *source_description(const struct maker *m)
{
    const char *text, *line, *rest;
    uint32_t w = m->o->width, h = m->o->height;
    if (!TIFFGetField(m->src.tif, TIFFTAG_IMAGEDESCRIPTION, &text))
        return text_make(LIBRARY "\r\n%ux%u", w, h);
    line = strchr(text, '\n');
    rest = line ? strstr(line, " (") : NULL;
    if (!rest || !isdigit((unsigned char)line[1]))
        return text_make("%s", text);
    return text_make("%.*s%ux%u [0,0 %ux%u]%s", (int)(line + 1 - text), text, w, h, w, h, rest);
}

static void icc_fake(struct mem *m, uint32_t n)
{
    static const char head[] = "\2\x10\0\0scnrRGB XYZ \7\xd9\0\14\0\35\0\0\0\0\0\0acsp";
    uint8_t *p = alloc(n, 1);
    for (uint32_t i = 132; i < n; i++)
        p[i] = (uint8_t)hash3(7, i, 0);
    for (uint32_t i = 0; i < 4; i++)
        p[i] = (uint8_t)(n >> (24 - 8 * i));
    memcpy(p + 8, head, sizeof head - 1);
    mem_set(m, p, n);
    free(p);
}

static void icc_load(struct mem *m, const char *name)
{
    uint8_t block[4096];
    size_t n;
    uint32_t size;
    if (!strncmp(name, "fake:", 5)) {
        if (!parse_u32(name + 5, 132, 1 << 28, &size))
            die_usage("--icc: cannot use '%s'", name);
        icc_fake(m, size);
        return;
    }
    FILE *f = fopen(name, "rb");
    if (!f)
        die("%s: %s", name, strerror(errno));
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        mem_write(m, block, n);
    if (ferror(f) || !m->len)
        die("%s: cannot read a profile", name);
    fclose(f);
}

/* What every directory has. */
static void dir_image(struct dir *d, uint32_t subtype, uint32_t w, uint32_t h, uint16_t compression,
                      uint16_t photometric)
{
    dir_long(d, TIFFTAG_SUBFILETYPE, subtype);
    dir_long(d, TIFFTAG_IMAGEWIDTH, w);
    dir_long(d, TIFFTAG_IMAGELENGTH, h);
    dir_short(d, TIFFTAG_BITSPERSAMPLE, 3, 8, 8, 8);
    dir_short(d, TIFFTAG_COMPRESSION, 1, compression, 0, 0);
    dir_short(d, TIFFTAG_PHOTOMETRIC, 1, photometric, 0, 0);
    dir_short(d, TIFFTAG_SAMPLESPERPIXEL, 1, 3, 0, 0);
    dir_short(d, TIFFTAG_PLANARCONFIG, 1, PLANARCONFIG_CONTIG, 0, 0);
    dir_long(d, TIFFTAG_IMAGEDEPTH, 1);
}

static void dir_places(struct dir *d, const struct tiff_out *o, bool tiled, uint64_t n,
                       const uint64_t *offsets, const uint64_t *counts)
{
    uint16_t type = o->big ? TIFF_LONG8 : TIFF_LONG;
    struct tag *t = dir_add(d, tiled ? TIFFTAG_TILEOFFSETS : TIFFTAG_STRIPOFFSETS, type, n);
    t->numbers = offsets;
    t = dir_add(d, tiled ? TIFFTAG_TILEBYTECOUNTS : TIFFTAG_STRIPBYTECOUNTS, TIFF_LONG, n);
    t->numbers = counts;
}

/* What goes with the form: JPEG's tables and the chroma's size. */
static void dir_form(struct dir *d, const struct maker *m, const struct form *f, struct mem *tables)
{
    bool jpeg = m->codec->compression == COMPRESSION_JPEG;
    if (jpeg && !f->complete) {
        jpeg_tables(f, tables);
        dir_bytes(d, TIFFTAG_JPEGTABLES, TIFF_UNDEFINED, tables->data, tables->len);
    }
    if (m->o->lying)
        dir_short(d, TIFFTAG_YCBCRSUBSAMPLING, 2, 2, 2, 0);
    else if (jpeg && f->ycbcr)
        dir_short(d, TIFFTAG_YCBCRSUBSAMPLING, 2, f->sub_x, f->sub_y, 0);
}

/* The same from the current directory of a real slide. */
static void dir_form_source(struct dir *d, TIFF *tif)
{
    uint32_t n;
    void *tables;
    uint16_t sub_x, sub_y;
    if (TIFFGetField(tif, TIFFTAG_JPEGTABLES, &n, &tables))
        dir_bytes(d, TIFFTAG_JPEGTABLES, TIFF_UNDEFINED, tables, n);
    if (TIFFGetField(tif, TIFFTAG_YCBCRSUBSAMPLING, &sub_x, &sub_y))
        dir_short(d, TIFFTAG_YCBCRSUBSAMPLING, 2, sub_x, sub_y, 0);
}

static void source_raw(const struct maker *m, uint32_t i, struct mem *out)
{
    TIFF *tif = m->src.tif;
    size_t n = TIFFGetStrileByteCount(tif, i);
    uint8_t *data = alloc(n, 1);
    tmsize_t got = TIFFIsTiled(tif) ? TIFFReadRawTile(tif, i, data, (tmsize_t)n)
                                    : TIFFReadRawStrip(tif, i, data, (tmsize_t)n);
    if (got != (tmsize_t)n)
        die("%s: cannot read tile or strip %u", m->o->from, i);
    mem_set(out, data, n);
    free(data);
}

/* Which of the source's tiles lies at (col, row). */
static uint32_t source_pick(const struct maker *m, uint32_t col, uint32_t row, uint32_t n_rows)
{
    if (row < m->o->background_fraction * n_rows)
        return m->src.smallest;
    return m->src.tiles[hash3(m->o->seed, col, row) % m->src.n_tiles];
}

/* One of the source's tiles, decoded by libtiff, each pixel the mean of shrink x shrink. */
static uint8_t *source_small(const struct maker *m, uint32_t i, uint32_t shrink)
{
    TIFF *tif = m->src.tif;
    uint32_t w = 0, tw = m->tile_w, th = m->tile_h, small_w = tw / shrink, small_h = th / shrink;
    TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &w);
    uint32_t cols = (w + tw - 1) / tw, n = shrink * shrink;
    uint32_t *raster = alloc((size_t)tw * th, sizeof *raster);
    uint32_t *sum = alloc((size_t)small_w * small_h, 3 * sizeof *sum);
    uint8_t *small = alloc((size_t)small_w * small_h, 3);
    if (!TIFFReadRGBATile(tif, i % cols * tw, i / cols * th, raster))
        die("%s: cannot decode tile %u", m->o->from, i);
    for (uint32_t y = 0; y < th; y++)
        for (uint32_t x = 0; x < tw; x++)
            for (uint32_t c = 0; c < 3; c++) /* the lowest row comes first */
                sum[3 * (y / shrink * small_w + x / shrink) + c] +=
                    raster[(th - 1 - y) * tw + x] >> 8 * c & 255;
    for (size_t k = 0; k < 3 * (size_t)small_w * small_h; k++)
        small[k] = (uint8_t)((sum[k] + n / 2) / n);
    free(sum);
    free(raster);
    return small;
}

static void source_shrink(struct maker *m, uint32_t shrink)
{
    struct source *s = &m->src;
    if (m->tile_w % shrink || m->tile_h % shrink || m->codec->compression != COMPRESSION_JPEG)
        die("%s: a level at 1/%u cannot be made of its tiles", m->o->from, shrink);
    for (uint32_t k = 0; k < s->n_tiles; k++) {
        free(s->small[s->tiles[k]]);
        s->small[s->tiles[k]] = source_small(m, s->tiles[k], shrink);
    }
}

/* Tile (col, row) at 1 / shrink: level 0's tiles side by side; white beyond its last one. */
static void source_tile(struct maker *m, uint32_t shrink, uint32_t col, uint32_t row)
{
    const uint32_t w = m->tile_w / shrink, h = m->tile_h / shrink;
    const uint32_t n_cols = (m->o->width + m->tile_w - 1) / m->tile_w;
    const uint32_t n_rows = (m->o->height + m->tile_h - 1) / m->tile_h;
    memset(m->pixels, 255, 3 * (size_t)m->tile_w * m->tile_h);
    for (uint32_t r = 0; r < shrink && row * shrink + r < n_rows; r++)
        for (uint32_t c = 0; c < shrink && col * shrink + c < n_cols; c++) {
            const uint8_t *small = m->src.small[source_pick(m, col * shrink + c, row * shrink + r, n_rows)];
            for (uint32_t y = 0; y < h; y++)
                memcpy(m->pixels + 3 * ((size_t)(r * h + y) * m->tile_w + c * w), small + 3 * (size_t)y * w,
                       3 * (size_t)w);
        }
}

static void source_open(struct maker *m)
{
    struct source *s = &m->src;
    uint16_t compression = 0, n_samples = 0;
    uint32_t w = 0, h = 0;
    TIFFSetWarningHandler(NULL);
    s->tif = TIFFOpen(m->o->from, "r");
    if (!s->tif || !TIFFIsTiled(s->tif))
        die("%s: not a tiled TIFF", m->o->from);
    TIFFGetField(s->tif, TIFFTAG_IMAGEWIDTH, &w);
    TIFFGetField(s->tif, TIFFTAG_IMAGELENGTH, &h);
    TIFFGetField(s->tif, TIFFTAG_TILEWIDTH, &m->tile_w);
    TIFFGetField(s->tif, TIFFTAG_TILELENGTH, &m->tile_h);
    TIFFGetField(s->tif, TIFFTAG_PHOTOMETRIC, &s->photometric);
    TIFFGetFieldDefaulted(s->tif, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(s->tif, TIFFTAG_SAMPLESPERPIXEL, &n_samples);
    m->codec = NULL;
    for (int i = 0; i < N_CODECS; i++)
        if (codecs[i].compression == compression)
            m->codec = &codecs[i];
    if (!m->codec || n_samples != 3 || m->tile_w - 1 >= MAX_TILE || m->tile_h - 1 >= MAX_TILE)
        die("%s: compression %d, %ux%u tiles, %d samples: not for --from", m->o->from, compression,
            m->tile_w, m->tile_h, n_samples);
    m->form.ycbcr = compression == COMPRESSION_J2K_YCC || s->photometric == PHOTOMETRIC_YCBCR;

    uint32_t cols = (w + m->tile_w - 1) / m->tile_w;
    s->tiles = alloc(TIFFNumberOfTiles(s->tif), sizeof *s->tiles);
    s->small = alloc(TIFFNumberOfTiles(s->tif), sizeof *s->small);
    for (uint32_t i = 0; i < (uint64_t)(h / m->tile_h) * cols; i++) {
        uint64_t n = TIFFGetStrileByteCount(s->tif, i);
        if (n == 0 || i % cols >= w / m->tile_w)
            continue;
        if (!s->n_tiles || n < TIFFGetStrileByteCount(s->tif, s->smallest))
            s->smallest = i;
        s->tiles[s->n_tiles++] = i;
    }
    if (!s->n_tiles)
        die("%s: no whole tile", m->o->from);
}

static const struct damage *damage_find(const struct opts *o, uint32_t col, uint32_t row)
{
    for (int i = 0; i < o->n_damages; i++)
        if (o->damages[i].col == col && o->damages[i].row == row)
            return &o->damages[i];
    return NULL;
}

/* A byte in the middle of the entropy-coded data that is no part of a marker, before or after. */
static void damage_flip(struct mem *b)
{
    size_t start = 0;
    while (start + 1 < b->len && !(b->data[start] == 0xff && b->data[start + 1] == 0xda))
        start++;
    size_t i = start + 1 < b->len ? (start + b->len) / 2 : b->len / 2;
    while (i > 0 && i + 1 < b->len &&
           (b->data[i] == 0 || b->data[i] == 0xff || b->data[i - 1] == 0xff))
        i++;
    if (i < b->len)
        b->data[i] ^= 0xff;
}

static void damage_apply(struct maker *m, const struct damage *d)
{
    struct mem *b = &m->bytes;
    struct form form = m->form;
    if (d->kind == TRUNCATE && d->bytes < b->len)
        b->len = d->bytes;
    for (size_t i = 0; d->kind == GARBAGE && i < b->len; i++)
        b->data[i] = (uint8_t)hash3(m->o->seed + 200, (uint32_t)i, d->row);
    if (d->kind == FLIP)
        damage_flip(b);
    if (d->kind == FOREIGN) {
        form.complete = true;
        memset(m->pixels, 128, 3 * (size_t)m->tile_w * m->tile_h);
        m->codec->encode(&form, m->pixels, m->tile_w / 2 + 1, m->tile_h / 2 + 1, b);
    }
}

/* The file's order of the tiles: the grid's, or a Fisher-Yates shuffle of it. */
static uint32_t *tile_order(const struct opts *o, uint32_t n)
{
    uint32_t *order = alloc(n, sizeof *order);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = o->shuffle ? hash3(o->seed + 300, i, n) % (i + 1) : i;
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* Writes the tiles of a level; offsets and counts of tiles left out stay 0. */
static void tiles_write(struct maker *m, uint32_t level, uint32_t cols, uint32_t rows,
                        uint64_t *offsets, uint64_t *counts)
{
    uint32_t *order = tile_order(m->o, cols * rows);
    for (uint32_t k = 0; k < cols * rows; k++) {
        uint32_t i = order[k], col = i % cols, row = i / cols;
        const struct damage *d = level ? NULL : damage_find(m->o, col, row);
        if (d && d->kind == MISSING)
            continue;
        if (m->src.tif && level == 0) {
            source_raw(m, source_pick(m, col, row, rows), &m->bytes);
        } else if (m->src.tif) {
            source_tile(m, 1u << 2 * level, col, row);
            m->codec->encode(&m->form, m->pixels, m->tile_w, m->tile_h, &m->bytes);
        } else {
            picture_tile(&m->picture, level, col * m->tile_w, row * m->tile_h, m->tile_w, m->tile_h,
                         m->pixels);
            m->codec->encode(&m->form, m->pixels, m->tile_w, m->tile_h, &m->bytes);
        }
        if (d)
            damage_apply(m, d);
        counts[i] = m->bytes.len;
        offsets[i] = d && d->kind == OUTSIDE ? m->out.big ? 1ull << 40 : 0xf0000000 : m->out.pos;
        if (!d || d->kind != OUTSIDE)
            out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    free(order);
}

static void damages_check(const struct opts *o, uint32_t cols, uint32_t rows)
{
    for (int i = 0; i < o->n_damages; i++)
        if (o->damages[i].col >= cols || o->damages[i].row >= rows)
            die_usage("there is no tile %u,%u", o->damages[i].col, o->damages[i].row);
}

static void icc_add(struct maker *m, struct dir *d, struct mem *icc)
{
    uint32_t n;
    void *data;
    if (m->o->icc)
        icc_load(icc, m->o->icc);
    else if (m->src.tif && TIFFGetField(m->src.tif, TIFFTAG_ICCPROFILE, &n, &data))
        mem_set(icc, data, n);
    if (icc->len)
        dir_bytes(d, TIFFTAG_ICCPROFILE, TIFF_UNDEFINED, icc->data, icc->len);
}

static void level_write(struct maker *m, uint32_t level)
{
    const struct opts *o = m->o;
    struct dir d = {.n = 0};
    struct mem tables = {0}, icc = {0};
    uint32_t w = o->width >> 2 * level, h = o->height >> 2 * level;
    uint32_t cols = (w + m->tile_w - 1) / m->tile_w, rows = (h + m->tile_h - 1) / m->tile_h;
    bool ycbcr = m->codec->compression == COMPRESSION_JPEG && m->form.ycbcr;
    uint16_t photometric = m->src.tif ? m->src.photometric
                           : ycbcr    ? PHOTOMETRIC_YCBCR
                                      : PHOTOMETRIC_RGB;
    char *text = level == 0 && o->description ? text_make("%s", o->description)
                 : m->src.tif && level == 0   ? source_description(m)
                                              : level_description(m, level);
    if ((uint64_t)cols * rows > MAX_TILES)
        die("%s: more than %d tiles", o->out, MAX_TILES);
    if (level == 0)
        damages_check(o, cols, rows);
    uint64_t *offsets = alloc((size_t)cols * rows, sizeof *offsets);
    uint64_t *counts = alloc((size_t)cols * rows, sizeof *counts);
    if (m->src.tif && level > 0)
        source_shrink(m, 1u << 2 * level);
    tiles_write(m, level, cols, rows, offsets, counts);

    dir_image(&d, 0, w, h, m->codec->compression, photometric);
    dir_short(&d, TIFFTAG_TILEWIDTH, 1, m->tile_w, 0, 0);
    dir_short(&d, TIFFTAG_TILELENGTH, 1, m->tile_h, 0, 0);
    dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, text);
    dir_places(&d, &m->out, true, (uint64_t)cols * rows, offsets, counts);
    if (m->src.tif && level == 0)
        dir_form_source(&d, m->src.tif);
    else
        dir_form(&d, m, &m->form, &tables);
    if (level == 0)
        icc_add(m, &d, &icc);
    dir_write(&m->out, &d);
    free(tables.data);
    free(icc.data);
    free(offsets);
    free(counts);
    free(text);
}

/* An associated image; its description is the caller's text, or empty. */
static void strips_write(struct maker *m, const uint8_t *rgb, uint32_t w, uint32_t h,
                         uint32_t strip, const struct codec *codec, uint32_t subtype,
                         const char *text)
{
    const struct form form = {.quality = m->form.quality};
    struct dir d = {.n = 0};
    struct mem tables = {0};
    uint64_t offsets[MAX_TILE], counts[MAX_TILE], n = 0;
    for (uint32_t y = 0; y < h; y += strip, n++) {
        uint32_t n_rows = h - y < strip ? h - y : strip;
        codec->encode(&form, rgb + 3 * (size_t)w * y, w, n_rows, &m->bytes);
        offsets[n] = m->out.pos;
        counts[n] = m->bytes.len;
        out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    dir_image(&d, subtype, w, h, codec->compression, PHOTOMETRIC_RGB);
    dir_long(&d, TIFFTAG_ROWSPERSTRIP, strip);
    dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, m->o->empty ? "" : text);
    dir_places(&d, &m->out, false, n, offsets, counts);
    if (codec->compression == COMPRESSION_LZW) {
        dir_short(&d, TIFFTAG_PREDICTOR, 1, 2, 0, 0);
    } else {
        jpeg_tables(&form, &tables);
        dir_bytes(&d, TIFFTAG_JPEGTABLES, TIFF_UNDEFINED, tables.data, tables.len);
    }
    dir_write(&m->out, &d);
    free(tables.data);
}

static void thumbnail_write(struct maker *m)
{
    uint64_t sw = m->o->width, sh = m->o->height;
    uint64_t w = sw < 1024 ? sw : 1024, h = sh * w / sw;
    if (h > 768) {
        h = sh < 768 ? sh : 768;
        w = sw * h / sh;
    }
    w = w ? w : 1, h = h ? h : 1;
    uint8_t *rgb = alloc(w * h, 3);
    char *text = text_make(LIBRARY "\n%ux%u -> %ux%u - %s", m->o->width, m->o->height, (uint32_t)w,
                           (uint32_t)h, m->tail);
    picture_sample(&m->picture, (uint32_t)w, (uint32_t)h, (uint32_t)w, rgb);
    strips_write(m, rgb, (uint32_t)w, (uint32_t)h, 16, &codecs[0], 0, text);
    free(text);
    free(rgb);
}

/* White paper with a barcode. */
static void label_write(struct maker *m)
{
    enum { W = 387, H = 463 };
    uint8_t *rgb = alloc(W * H, 3);
    memset(rgb, 235, 3 * W * H);
    for (uint32_t y = 280; y < 400; y++)
        for (uint32_t x = 40; x < 340; x++)
            memset(rgb + 3 * (y * W + x), hash3(m->o->seed + 400, x / 5, 0) & 1 ? 20 : 235, 3);
    strips_write(m, rgb, W, H, 7, &codecs[N_CODECS - 1], 1, LIBRARY "\nlabel 387x463");
    free(rgb);
}

/* The whole glass: gray, with the slide's picture right of where the label sticks. */
static void macro_write(struct maker *m)
{
    enum { W = 1280, H = 431, LEFT = 460 };
    uint8_t *rgb = alloc(W * H, 3);
    memset(rgb, 215, 3 * W * H);
    picture_sample(&m->picture, W - LEFT - 40, H - 40, W, rgb + 3 * (20 * W + LEFT));
    strips_write(m, rgb, W, H, 16, &codecs[0], 9, LIBRARY "\nmacro 1280x431");
    free(rgb);
}

/* The source's second directory as it is, where that is a JPEG thumbnail. */
static void source_thumbnail_write(struct maker *m)
{
    TIFF *tif = m->src.tif;
    struct dir d = {.n = 0};
    uint16_t compression = 0, photometric = 0;
    uint32_t w = 0, h = 0, rows = 0;
    const char *text = "";
    if (!TIFFSetDirectory(tif, 1) || TIFFIsTiled(tif))
        return;
    TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &w);
    TIFFGetField(tif, TIFFTAG_IMAGELENGTH, &h);
    TIFFGetField(tif, TIFFTAG_ROWSPERSTRIP, &rows);
    TIFFGetField(tif, TIFFTAG_COMPRESSION, &compression);
    TIFFGetField(tif, TIFFTAG_PHOTOMETRIC, &photometric);
    TIFFGetField(tif, TIFFTAG_IMAGEDESCRIPTION, &text);
    if (compression != COMPRESSION_JPEG)
        return;
    uint32_t n = TIFFNumberOfStrips(tif);
    uint64_t *offsets = alloc(n, sizeof *offsets), *counts = alloc(n, sizeof *counts);
    for (uint32_t i = 0; i < n; i++) {
        source_raw(m, i, &m->bytes);
        offsets[i] = m->out.pos;
        counts[i] = m->bytes.len;
        out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    dir_image(&d, 0, w, h, compression, photometric);
    dir_long(&d, TIFFTAG_ROWSPERSTRIP, rows);
    dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, m->o->empty ? "" : text);
    dir_places(&d, &m->out, false, n, offsets, counts);
    dir_form_source(&d, tif);
    dir_write(&m->out, &d);
    free(offsets);
    free(counts);
}

/* --from chooses BigTIFF by the exact sum of its tiles. */
static bool source_needs_big(const struct maker *m)
{
    uint32_t cols = (m->o->width + m->tile_w - 1) / m->tile_w;
    uint32_t rows = (m->o->height + m->tile_h - 1) / m->tile_h;
    uint64_t sum = 0;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t col = 0; col < cols; col++)
            sum += 8 + TIFFGetStrileByteCount(m->src.tif, source_pick(m, col, row, rows));
    return sum > 3900000000u;
}

static void slide_write(struct maker *m)
{
    const struct opts *o = m->o;
    out_open(&m->out);
    level_write(m, 0);
    if (!o->no_thumbnail && m->src.tif) {
        source_thumbnail_write(m);
        TIFFSetDirectory(m->src.tif, 0);
    } else if (!o->no_thumbnail) {
        thumbnail_write(m);
    }
    for (uint32_t level = 1; level < o->n_levels; level++)
        level_write(m, level);
    if (!o->no_label && !m->src.tif)
        label_write(m);
    if (!o->no_macro && !m->src.tif)
        macro_write(m);
    out_close(&m->out);
}

int main(int argc, char **argv)
{
    struct opts o = {.mpp = "0.4990", .appmag = "20", .width = 1500, .height = 1100, .tile_w = 240,
                     .tile_h = 240, .n_levels = 1, .seed = 1, .codec = &codecs[0],
                     .form = {.quality = 80}, .tissue_fraction = -1};
    opts_parse(&o, argc, argv);
    struct maker m = {.o = &o, .codec = o.codec, .form = o.form,
                      .tile_w = o.tile_w, .tile_h = o.tile_h,
                      .out = {.path = o.out, .big = o.big, .big_endian = o.big_endian},
                      .picture = {.width = o.width, .height = o.height, .seed = o.seed,
                                  .tissue = o.tissue}};
    memcpy(m.picture.rect, o.rect, sizeof o.rect);
    if (o.from) {
        source_open(&m);
        m.out.big |= source_needs_big(&m);
    }
    m.tail = tail_make(&o);
    m.pixels = alloc((size_t)m.tile_w * m.tile_h, 3);
    picture_init(&m.picture);
    slide_write(&m);

    picture_free(&m.picture);
    for (uint32_t k = 0; k < m.src.n_tiles; k++)
        free(m.src.small[m.src.tiles[k]]);
    free(m.src.small);
    if (m.src.tif)
        TIFFClose(m.src.tif);
    free(m.src.tiles);
    free(m.bytes.data);
    free(m.pixels);
    free(m.tail);
    return 0;
}
