/*
 * mkslide: makes Aperio SVS slides for the tests.
 *
 * Real slides cannot be kept with the source, so the tests make their own: they have the
 * directories, tags and tile streams of a scanner's file, a picture that is a pure function of
 * (seed, x, y), and damage at chosen tiles. Equal arguments give equal bytes: only integers are
 * used, and no time stamps.
 *
 *   mkslide_picture  pixels of any level, row by row. A row of a coarser level averages 4 rows of
 *                    the level above, so memory is a few rows, tiles come in any order, and levels
 *                    agree
 *   mkslide_codecs   pixels of a tile or strip to bytes: one row of codecs[] each
 *   mkslide_tiff     our own writer of directories: libtiff refuses to write what scanners write
 *                    (tile sizes that are no multiple of 16) and what damage needs (offsets outside
 *                    the file). libtiff does LZW and deflate, and reads the source of --from
 *   mkslide_source   --from: the compressed tiles of a real slide, untouched, on a grid of any
 *                    size; coarser levels are made of its tiles, reduced
 *   mkslide_containers  descriptions of TIFF files of other programs: --container
 *   mkslide_options  the command line
 *   mkslide          errors, memory, descriptions, damage, levels, associated images, main
 *
 * The first error ends the program with status 1, or 2 for wrong usage.
 */
#include "tests/mkslide.h"

#include "common/base/number.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("mkslide: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    exit(status);
}

void mem_write(struct mem *m, const void *data, size_t n)
{
    if (m->pos + n > m->cap) {
        m->cap = 2 * (m->pos + n);
        m->data = realloc(m->data, m->cap);
        if (!m->data)
            memory_end();
    }
    if (n)
        memcpy(m->data + m->pos, data, n);
    m->pos += n;
    m->len = m->pos > m->len ? m->pos : m->len;
}

void mem_set(struct mem *m, const void *data, size_t n)
{
    m->pos = m->len = 0;
    mem_write(m, data, n);
}

static char *field(const char *name, const char *value)
{
    return strcmp(value, "none") ? memory_print("|%s = %s", name, value) : memory_copy("");
}

static char *tail_make(const struct opts *o)
{
    char *appmag = field("AppMag", o->appmag), *mpp = field("MPP", o->mpp);
    char *tail = memory_print(
        "%s|StripeWidth = 2040|ScanScope ID = SS1302|Filename = Patient^Doe^Jane|Title = Case 4711"
        "|Date = 12/29/09|Time = 09:59:15|User = b414003d-95c6-48b0-9369-8010ed517ba7"
        "|Barcode = 0815|Parmset = USM Filter%s|Left = 25.691574|Top = 23.449873"
        "|LineCameraSkew = -0.000424|LineAreaXOffset = 0.019265|LineAreaYOffset = -0.000313"
        "|Focus Offset = 0.000000|ImageID = 1004486|OriginalWidth = %u|Originalheight = %u"
        "|Filtered = 5",
        appmag, mpp, o->width, o->height);
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
    return memory_print(LIBRARY "\r\n%ux%u [0,0 %ux%u] (%ux%u)%s %s Q=%d%s", w, h, w, h, m->tile_w,
                        m->tile_h, scaled, name, m->form.quality, m->tail);
}

static void icc_fake(struct mem *m, uint32_t n)
{
    static const char head[] = "\2\x10\0\0scnrRGB XYZ \7\xd9\0\14\0\35\0\0\0\0\0\0acsp";
    uint8_t *p = memory_need(n, 1);
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
    int64_t size;
    struct err e = {0};
    if (!strncmp(name, "fake:", 5)) {
        if (number_int("--icc fake", name + 5, 132, 1 << 28, &size, &e))
            die(2, "%s", e.msg);
        icc_fake(m, (uint32_t)size);
        return;
    }
    FILE *f = fopen(name, "rb");
    if (!f)
        die(1, "%s: %s", name, strerror(errno));
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        mem_write(m, block, n);
    if (ferror(f) || !m->len)
        die(1, "%s: cannot read a profile", name);
    fclose(f);
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

/* How the tile is damaged; `bytes` is TRUNCATE's. */
static enum damage_kind damage_find(const struct opts *o, uint32_t col, uint32_t row,
                                    uint32_t *bytes)
{
    for (int kind = 0; kind < NO_DAMAGE; kind++)
        for (int i = 0; i < o->damaged[kind].n; i++) {
            const uint32_t *at = o->damaged[kind].at[i];
            *bytes = at[2];
            if (at[0] == col && at[1] == row)
                return (enum damage_kind)kind;
        }
    return NO_DAMAGE;
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

static void damage_apply(struct maker *m, enum damage_kind kind, uint32_t row, uint32_t bytes)
{
    struct mem *b = &m->bytes;
    struct form form = m->form;
    if (kind == TRUNCATE && bytes < b->len)
        b->len = bytes;
    for (size_t i = 0; kind == GARBAGE && i < b->len; i++)
        b->data[i] = (uint8_t)hash3(m->o->seed + 200, (uint32_t)i, row);
    if (kind == FLIP)
        damage_flip(b);
    if (kind == FOREIGN) {
        form.complete = true;
        memset(m->pixels, 128, 3 * (size_t)m->tile_w * m->tile_h);
        m->codec->encode(m->codec, &form, m->pixels, m->tile_w / 2 + 1, m->tile_h / 2 + 1, b);
    }
}

/* The file's order of the tiles: the grid's, or a Fisher-Yates shuffle of it. */
static uint32_t *tile_order(const struct opts *o, uint32_t n)
{
    uint32_t *order = memory_need(n, sizeof *order);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = o->shuffle ? hash3(o->seed + 300, i, n) % (i + 1) : i;
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* Gray of one of the colours of m->pixels. */
static void take_plane(struct maker *m, int plane)
{
    for (size_t k = 0; k < (size_t)m->tile_w * m->tile_h; k++) {
        uint8_t *p = m->pixels + 3 * k;
        p[0] = p[1] = p[2] = p[plane];
    }
}

/* Writes the tiles of a level, or of one of its planes; offsets and counts of tiles left out stay
 * 0. Damage is in the first plane, missing tiles are so in all. */
static void tiles_write(struct maker *m, uint32_t level, int plane, uint32_t cols, uint32_t rows,
                        uint64_t *offsets, uint64_t *counts)
{
    uint32_t *order = tile_order(m->o, cols * rows);
    for (uint32_t k = 0; k < cols * rows; k++) {
        uint32_t i = order[k], col = i % cols, row = i / cols, bytes = 0;
        enum damage_kind kind = level ? NO_DAMAGE : damage_find(m->o, col, row, &bytes);
        if (kind == MISSING)
            continue;
        kind = plane ? NO_DAMAGE : kind;
        if (m->src.tif && level > 0)
            source_tile(m, 1u << 2 * level, col, row);
        else if (!m->src.tif)
            picture_tile(&m->picture, level, col * m->tile_w, row * m->tile_h, m->tile_w, m->tile_h,
                         m->pixels);
        if (!m->src.tif && m->o->planes)
            take_plane(m, plane);
        if (m->src.tif && level == 0)
            source_raw(m, source_pick(m, col, row, rows), &m->bytes);
        else
            m->codec->encode(m->codec, &m->form, m->pixels, m->tile_w, m->tile_h, &m->bytes);
        damage_apply(m, kind, row, bytes);
        counts[i] = m->bytes.len;
        offsets[i] = kind == OUTSIDE ? m->out.big ? 1ull << 40 : 0xf0000000 : m->out.pos;
        if (kind != OUTSIDE)
            out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    free(order);
}

static void damages_check(const struct opts *o, uint32_t cols, uint32_t rows)
{
    for (int kind = 0; kind < NO_DAMAGE; kind++)
        for (int i = 0; i < o->damaged[kind].n; i++) {
            const uint32_t *at = o->damaged[kind].at[i];
            if (at[0] >= cols || at[1] >= rows)
                die(2, "there is no tile %u,%u", at[0], at[1]);
        }
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
    uint16_t photometric = m->src.tif                   ? m->src.photometric
                           : ycbcr                      ? PHOTOMETRIC_YCBCR
                           : m->form.gray && !o->planes ? PHOTOMETRIC_MINISBLACK
                                                        : PHOTOMETRIC_RGB;
    const struct container *in = o->container;
    char *text = level == 0 && o->description ? memory_copy(o->description)
                 : in->describe               ? level ? NULL : in->describe(m)
                               : m->src.tif && level == 0 ? source_description(m)
                                              : level_description(m, level);
    if ((uint64_t)cols * rows > MAX_TILES)
        die(1, "%s: more than %d tiles", o->out, MAX_TILES);
    if (level == 0)
        damages_check(o, cols, rows);
    const uint32_t n_planes = o->planes ? 3 : 1, n = cols * rows;
    uint64_t *offsets = memory_need((size_t)n_planes * n, sizeof *offsets);
    uint64_t *counts = memory_need((size_t)n_planes * n, sizeof *counts);
    if (m->src.tif && level > 0)
        source_shrink(m, 1u << 2 * level);
    for (uint32_t k = 0; k < n_planes; k++)
        tiles_write(m, level, (int)k, cols, rows, offsets + k * n, counts + k * n);

    const bool reduced = in->describe && level > 0;
    dir_image(&d, reduced, w, h, m->codec->compression, photometric,
              o->planes ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    dir_short(&d, TIFFTAG_TILEWIDTH, 1, m->tile_w, 0, 0);
    dir_short(&d, TIFFTAG_TILELENGTH, 1, m->tile_h, 0, 0);
    if (text)
        dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, text);
    if (m->codec->predictor)
        dir_short(&d, TIFFTAG_PREDICTOR, 1, m->codec->predictor, 0, 0);
    if (in->software && level == 0)
        dir_text(&d, TIFFTAG_SOFTWARE, in->software);
    if (in->subs && level == 0 && o->n_levels > 1)
        dir_add(&d, TIFFTAG_SUBIFD, TIFF_LONG8, o->n_levels - 1)->numbers = m->subs;
    dir_places(&d, &m->out, true, (uint64_t)n_planes * n, offsets, counts);
    if (m->src.tif && level == 0)
        dir_form_source(&d, m->src.tif);
    else
        dir_form(&d, m, &m->form, &tables);
    if (level == 0)
        icc_add(m, &d, &icc);
    if (in->subs && level > 0)
        m->subs[level - 1] = dir_write_sub(&m->out, &d);
    else
        dir_write(&m->out, &d);
    free(tables.data);
    free(icc.data);
    free(offsets);
    free(counts);
    free(text);
}

/* An associated image; its description is the caller's text, or empty. */
static void strips_write(struct maker *m, const struct form *form, const uint8_t *rgb, uint32_t w,
                         uint32_t h, uint32_t strip, const struct codec *codec, uint32_t subtype,
                         const char *text)
{
    struct dir d = {.n = 0};
    struct mem tables = {0};
    uint64_t offsets[MAX_TILE], counts[MAX_TILE], n = 0;
    for (uint32_t y = 0; y < h; y += strip, n++) {
        uint32_t n_rows = h - y < strip ? h - y : strip;
        codec->encode(codec, form, rgb + 3 * (size_t)w * y, w, n_rows, &m->bytes);
        offsets[n] = m->out.pos;
        counts[n] = m->bytes.len;
        out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    dir_image(&d, subtype, w, h, codec->compression,
              form->ycbcr ? PHOTOMETRIC_YCBCR : PHOTOMETRIC_RGB, PLANARCONFIG_CONTIG);
    dir_long(&d, TIFFTAG_ROWSPERSTRIP, strip);
    dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, m->o->empty ? "" : text);
    dir_places(&d, &m->out, false, n, offsets, counts);
    if (codec->compression == COMPRESSION_LZW) {
        dir_short(&d, TIFFTAG_PREDICTOR, 1, 2, 0, 0);
    } else if (!form->complete) {
        jpeg_tables(form, &tables);
        dir_bytes(&d, TIFFTAG_JPEGTABLES, TIFF_UNDEFINED, tables.data, tables.len);
    }
    if (form->ycbcr)
        dir_short(&d, TIFFTAG_YCBCRSUBSAMPLING, 2, form->sub_x, form->sub_y, 0);
    dir_write(&m->out, &d);
    free(tables.data);
}

static struct form plain_form(const struct maker *m)
{
    return (struct form){.quality = m->form.quality};
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
    uint8_t *rgb = memory_need(w * h, 3);
    char *text = memory_print(LIBRARY "\n%ux%u -> %ux%u - %s", m->o->width, m->o->height,
                              (uint32_t)w, (uint32_t)h, m->tail);
    picture_sample(&m->picture, (uint32_t)w, (uint32_t)h, (uint32_t)w, rgb);
    const struct form plain = plain_form(m);
    strips_write(m, m->o->like_tiles ? &m->form : &plain, rgb, (uint32_t)w, (uint32_t)h, 16,
                 &codecs[0], 0, text);
    free(text);
    free(rgb);
}

/* White paper with a barcode. */
static void label_write(struct maker *m)
{
    enum { W = 387, H = 463 };
    uint8_t *rgb = memory_need(W * H, 3);
    memset(rgb, 235, 3 * W * H);
    for (uint32_t y = 280; y < 400; y++)
        for (uint32_t x = 40; x < 340; x++)
            memset(rgb + 3 * (y * W + x), hash3(m->o->seed + 400, x / 5, 0) & 1 ? 20 : 235, 3);
    const struct form plain = plain_form(m);
    strips_write(m, &plain, rgb, W, H, 7, &codecs[N_CODECS - 1], 1,
                 m->o->container->describe ? "Label" : LIBRARY "\nlabel 387x463");
    free(rgb);
}

/* The whole glass: gray, with the slide's picture right of where the label sticks. */
static void macro_write(struct maker *m)
{
    enum { W = 1280, H = 431, LEFT = 460 };
    uint8_t *rgb = memory_need(W * H, 3);
    memset(rgb, 215, 3 * W * H);
    picture_sample(&m->picture, W - LEFT - 40, H - 40, W, rgb + 3 * (20 * W + LEFT));
    const struct form plain = plain_form(m);
    strips_write(m, &plain, rgb, W, H, 16, &codecs[0], 9,
                 m->o->container->describe ? "Macro" : LIBRARY "\nmacro 1280x431");
    free(rgb);
}

static void slide_write(struct maker *m)
{
    const struct opts *o = m->o;
    const bool aperio = !o->container->describe, subs = o->container->subs;
    out_open(&m->out);
    if (!subs)
        level_write(m, 0);
    if (aperio && !o->no_thumbnail && m->src.tif) {
        source_thumbnail_write(m);
        TIFFSetDirectory(m->src.tif, 0);
    } else if (aperio && !o->no_thumbnail) {
        thumbnail_write(m);
    }
    for (uint32_t level = 1; level < o->n_levels; level++)
        level_write(m, level);
    if (subs)
        level_write(m, 0);
    if (!o->no_label && !m->src.tif)
        label_write(m);
    if (!o->no_macro && !m->src.tif)
        macro_write(m);
    out_close(&m->out);
}

int main(int argc, char **argv)
{
    struct opts o;
    opts_parse(&o, argc, argv);
    struct maker m = {.o = &o,
                      .codec = o.codec,
                      .form = o.form,
                      .tile_w = o.tile_w,
                      .tile_h = o.tile_h,
                      .out = {.path = o.out, .big = o.big, .big_endian = o.big_endian},
                      .picture = {.width = o.width,
                                  .height = o.height,
                                  .seed = o.seed,
                                  .tissue = o.tissue,
                                  .stain = o.stain,
                                  .blur = o.blur,
                                  .fiducials = o.fiducials}};
    memcpy(m.picture.rect, o.rect, sizeof o.rect);
    if (o.from) {
        source_open(&m);
        m.out.big |= source_needs_big(&m);
    }
    m.tail = tail_make(&o);
    m.pixels = memory_need((size_t)m.tile_w * m.tile_h, 3);
    picture_init(&m.picture);
    slide_write(&m);

    picture_free(&m.picture);
    source_close(&m);
    free(m.bytes.data);
    free(m.pixels);
    free(m.tail);
    return 0;
}
