/* mkslide_source.c - the tiles of a real slide (--from); see mkslide.h. */
#include "tests/mkslide.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The source's description with the sizes of its second line, "WxH [..] (TWxTH)", made ours. */
char *source_description(const struct maker *m)
{
    const char *text, *line, *rest;
    uint32_t w = m->o->width, h = m->o->height;
    if (!TIFFGetField(m->src.tif, TIFFTAG_IMAGEDESCRIPTION, &text))
        return memory_print(LIBRARY "\r\n%ux%u", w, h);
    line = strchr(text, '\n');
    rest = line ? strstr(line, " (") : NULL;
    if (!rest || !isdigit((unsigned char)line[1]))
        return memory_copy(text);
    return memory_print("%.*s%ux%u [0,0 %ux%u]%s", (int)(line + 1 - text), text, w, h, w, h, rest);
}

/* The same from the current directory of a real slide. */
void dir_form_source(struct dir *d, TIFF *tif)
{
    uint32_t n;
    void *tables;
    uint16_t sub_x, sub_y;
    if (TIFFGetField(tif, TIFFTAG_JPEGTABLES, &n, &tables))
        dir_bytes(d, TIFFTAG_JPEGTABLES, TIFF_UNDEFINED, tables, n);
    if (TIFFGetField(tif, TIFFTAG_YCBCRSUBSAMPLING, &sub_x, &sub_y))
        dir_short(d, TIFFTAG_YCBCRSUBSAMPLING, 2, sub_x, sub_y, 0);
}

void source_raw(const struct maker *m, uint32_t i, struct mem *out)
{
    TIFF *tif = m->src.tif;
    size_t n = TIFFGetStrileByteCount(tif, i);
    uint8_t *data = memory_need(n, 1);
    tmsize_t got = TIFFIsTiled(tif) ? TIFFReadRawTile(tif, i, data, (tmsize_t)n)
                                    : TIFFReadRawStrip(tif, i, data, (tmsize_t)n);
    if (got != (tmsize_t)n)
        die(1, "%s: cannot read tile or strip %u", m->o->from, i);
    mem_set(out, data, n);
    free(data);
}

/* Which of the source's tiles lies at (col, row). */
uint32_t source_pick(const struct maker *m, uint32_t col, uint32_t row, uint32_t n_rows)
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
    uint32_t *raster = memory_need((size_t)tw * th, sizeof *raster);
    uint32_t *sum = memory_need((size_t)small_w * small_h, 3 * sizeof *sum);
    uint8_t *small = memory_need((size_t)small_w * small_h, 3);
    if (!TIFFReadRGBATile(tif, i % cols * tw, i / cols * th, raster))
        die(1, "%s: cannot decode tile %u", m->o->from, i);
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

void source_shrink(struct maker *m, uint32_t shrink)
{
    struct source *s = &m->src;
    if (m->tile_w % shrink || m->tile_h % shrink || m->codec->compression != COMPRESSION_JPEG)
        die(1, "%s: a level at 1/%u cannot be made of its tiles", m->o->from, shrink);
    for (uint32_t k = 0; k < s->n_tiles; k++) {
        free(s->small[s->tiles[k]]);
        s->small[s->tiles[k]] = source_small(m, s->tiles[k], shrink);
    }
}

/* Tile (col, row) at 1 / shrink: level 0's tiles side by side; black beyond its last one. */
void source_tile(struct maker *m, uint32_t shrink, uint32_t col, uint32_t row)
{
    const uint32_t w = m->tile_w / shrink, h = m->tile_h / shrink;
    const uint32_t n_cols = (m->o->width + m->tile_w - 1) / m->tile_w;
    const uint32_t n_rows = (m->o->height + m->tile_h - 1) / m->tile_h;
    memset(m->pixels, 0, 3 * (size_t)m->tile_w * m->tile_h);
    for (uint32_t r = 0; r < shrink && row * shrink + r < n_rows; r++)
        for (uint32_t c = 0; c < shrink && col * shrink + c < n_cols; c++) {
            const uint32_t i = source_pick(m, col * shrink + c, row * shrink + r, n_rows);
            uint8_t *to = m->pixels + 3 * ((size_t)r * h * m->tile_w + (size_t)c * w);
            for (uint32_t y = 0; y < h; y++, to += 3 * (size_t)m->tile_w)
                memcpy(to, m->src.small[i] + 3 * (size_t)y * w, 3 * (size_t)w);
        }
}

void source_open(struct maker *m)
{
    struct source *s = &m->src;
    uint16_t compression = 0, n_samples = 0;
    uint32_t w = 0, h = 0;
    TIFFSetWarningHandler(NULL);
    s->tif = TIFFOpen(m->o->from, "r");
    if (!s->tif || !TIFFIsTiled(s->tif))
        die(1, "%s: not a tiled TIFF", m->o->from);
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
        die(1, "%s: compression %d, %ux%u tiles, %d samples: not for --from", m->o->from,
            compression, m->tile_w, m->tile_h, n_samples);
    m->form.ycbcr = compression == COMPRESSION_J2K_YCC || s->photometric == PHOTOMETRIC_YCBCR;

    uint32_t cols = (w + m->tile_w - 1) / m->tile_w;
    s->tiles = memory_need(TIFFNumberOfTiles(s->tif), sizeof *s->tiles);
    s->small = memory_need(TIFFNumberOfTiles(s->tif), sizeof *s->small);
    for (uint32_t i = 0; i < (uint64_t)(h / m->tile_h) * cols; i++) {
        uint64_t n = TIFFGetStrileByteCount(s->tif, i);
        if (n == 0 || i % cols >= w / m->tile_w)
            continue;
        if (!s->n_tiles || n < TIFFGetStrileByteCount(s->tif, s->smallest))
            s->smallest = i;
        s->tiles[s->n_tiles++] = i;
    }
    if (!s->n_tiles)
        die(1, "%s: no whole tile", m->o->from);
}

/* The source's second directory as it is, where that is a JPEG thumbnail. */
void source_thumbnail_write(struct maker *m)
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
    uint64_t *offsets = memory_need(n, sizeof *offsets), *counts = memory_need(n, sizeof *counts);
    for (uint32_t i = 0; i < n; i++) {
        source_raw(m, i, &m->bytes);
        offsets[i] = m->out.pos;
        counts[i] = m->bytes.len;
        out_bytes(&m->out, m->bytes.data, m->bytes.len);
    }
    dir_image(&d, 0, w, h, compression, photometric, PLANARCONFIG_CONTIG);
    dir_long(&d, TIFFTAG_ROWSPERSTRIP, rows);
    dir_text(&d, TIFFTAG_IMAGEDESCRIPTION, m->o->empty ? "" : text);
    dir_places(&d, &m->out, false, n, offsets, counts);
    dir_form_source(&d, tif);
    dir_write(&m->out, &d);
    free(offsets);
    free(counts);
}

/* --from chooses BigTIFF by the exact sum of its tiles. */
bool source_needs_big(const struct maker *m)
{
    uint32_t cols = (m->o->width + m->tile_w - 1) / m->tile_w;
    uint32_t rows = (m->o->height + m->tile_h - 1) / m->tile_h;
    uint64_t sum = 0;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t col = 0; col < cols; col++)
            sum += 8 + TIFFGetStrileByteCount(m->src.tif, source_pick(m, col, row, rows));
    return sum > 3900000000u;
}

void source_close(struct maker *m)
{
    for (uint32_t k = 0; k < m->src.n_tiles; k++)
        free(m->src.small[m->src.tiles[k]]);
    free(m->src.small);
    if (m->src.tif)
        TIFFClose(m->src.tif);
    free(m->src.tiles);
}
