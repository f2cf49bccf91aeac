/* map_tiff.c - maps as OME-TIFF; see map_formats.h. */
#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/stop.h"
#include "process/draw/html.h"
#include "process/map/map_formats.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

enum { TILE = 256, FAST = 1, MOST_LEVELS = 24 };

/* A file being written. */
struct tiff {
    const struct map_slide *m;
    TIFF *t;
    struct map_rows *rows;
    int64_t cols, height; /* places of the level */
    int64_t block;        /* places of the map along a side of one of the level's */
    float *read;          /* [cols of the map] */
    double *sum;          /* [cols] of the level's row */
    int32_t *count;       /* [cols] */
    float *band;          /* [TILE][cols]: rows of the level */
    float *tile;          /* [TILE][TILE] */
};

static char problem[256]; /* what libtiff said last; one thread writes files */

static void on_error(const char *module, const char *fmt, va_list ap)
{
    (void)module;
    vsnprintf(problem, sizeof problem, fmt, ap);
}

static int failed(struct err *e)
{
    if (errno)
        return err_write(e, "cannot write the TIFF file%s%s", problem[0] ? ": " : "", problem);
    return err_blame(e, ERR_DISK, "cannot write the TIFF file: %s",
                     problem[0] ? problem : "the disk is full, or it cannot be written");
}

bool map_tiff_available(void)
{
    return true;
}

bool map_tiff_is_ours(const char *path)
{
    const char *software = NULL;
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandler(NULL);
    TIFF *t = TIFFOpen(path, "r");
    const bool ours = t && TIFFGetField(t, TIFFTAG_SOFTWARE, &software) && software &&
                      !strncmp(software, MAP_TIFF_SOFTWARE, strlen(MAP_TIFF_SOFTWARE));
    if (t)
        TIFFClose(t);
    return ours;
}

/* --- the description --- */

static void put_size(FILE *f, const char *name, double places, double mpp)
{
    if (isnan(mpp))
        fprintf(f, " %s=\"%.9g\" %sUnit=\"pixel\"", name, places, name);
    else
        fprintf(f, " %s=\"%.9g\" %sUnit=\"\xc2\xb5m\"", name, places * mpp, name);
}

static void put_channels(FILE *f, const struct map_slide *m, const int *maps, int n)
{
    for (int c = 0; c < n; c++)
        fprintf(f, "<Channel ID=\"Channel:0:%d\" Name=\"%s\" SamplesPerPixel=\"1\"/>", c,
                map_feature_name(m, maps[c]));
    for (int c = 0; c < n; c++)
        fprintf(f,
                "<TiffData IFD=\"%d\" FirstC=\"%d\" FirstZ=\"0\" FirstT=\"0\" PlaneCount=\"1\"/>",
                c, c);
}

static void put_planes(FILE *f, const struct map_slide *m, int n)
{
    for (int c = 0; c < n; c++) {
        fprintf(f, "<Plane TheC=\"%d\" TheZ=\"0\" TheT=\"0\"", c);
        put_size(f, "PositionX", m->left, m->mpp_x);
        put_size(f, "PositionY", m->top, m->mpp_y);
        fputs("/>", f);
    }
}

/* The OME-XML, to be free()d. */
static char *describe(const struct map_slide *m, const int *maps, int n)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = memory_stream(&text, &bytes);
    fputs(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
        "<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" "
        "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation="
        "\"http://www.openmicroscopy.org/Schemas/OME/2016-06 "
        "http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\" Creator=\"h5spec " WSI_VERSION
        "\"><Image ID=\"Image:0\" Name=\"",
        f);
    html_text(f, m->s.name);
    fputs("\">", f);
    if (m->partial)
        fprintf(f, "<Description>partial: %s</Description>", m->lacks);
    fprintf(f,
            "<Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"float\" SizeX=\"%" PRId64
            "\" SizeY=\"%" PRId64 "\" SizeC=\"%d\" SizeZ=\"1\" SizeT=\"1\"",
            m->cols, m->rows, n);
    put_size(f, "PhysicalSizeX", m->pitch, m->mpp_x);
    put_size(f, "PhysicalSizeY", m->pitch, m->mpp_y);
    fputs(" BigEndian=\"false\" Interleaved=\"false\">", f);
    put_channels(f, m, maps, n);
    put_planes(f, m, n);
    fputs("</Pixels></Image></OME>", f);
    memory_stream_end(f);
    return text;
}

/* --- one level of one channel --- */

static void set_fields(struct tiff *o, bool reduced)
{
    TIFF *t = o->t;
    TIFFSetField(t, TIFFTAG_SUBFILETYPE, reduced ? FILETYPE_REDUCEDIMAGE : 0);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, (uint32_t)o->cols);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, (uint32_t)o->height);
    TIFFSetField(t, TIFFTAG_TILEWIDTH, TILE);
    TIFFSetField(t, TIFFTAG_TILELENGTH, TILE);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 32);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(t, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
    TIFFSetField(t, TIFFTAG_ZIPQUALITY, FAST);
    TIFFSetField(t, TIFFTAG_SOFTWARE, MAP_TIFF_SOFTWARE " " WSI_VERSION);
}

/* Makes the next row of the level from rows of the map. */
static int next_row(struct tiff *o, int64_t y, float *out, struct err *e)
{
    const int64_t left = o->m->rows - y * o->block, n = left < o->block ? left : o->block;
    if (o->block == 1)
        return map_rows_next(o->rows, out, NULL, e);
    memset(o->sum, 0, (size_t)o->cols * sizeof *o->sum);
    memset(o->count, 0, (size_t)o->cols * sizeof *o->count);
    for (int64_t j = 0; j < n; j++) {
        if (map_rows_next(o->rows, o->read, NULL, e))
            return -1;
        for (int64_t i = 0; i < o->m->cols; i++)
            if (!isnan(o->read[i])) {
                o->sum[i / o->block] += (double)o->read[i];
                o->count[i / o->block]++;
            }
    }
    for (int64_t c = 0; c < o->cols; c++)
        out[c] = o->count[c] ? (float)(o->sum[c] / o->count[c]) : NAN;
    return 0;
}

static int write_tiles(struct tiff *o, int64_t y, int64_t n, struct err *e)
{
    for (int64_t x = 0; x < o->cols; x += TILE) {
        const int64_t wide = o->cols - x < TILE ? o->cols - x : TILE;
        for (int64_t k = 0; k < TILE * TILE; k++)
            o->tile[k] = NAN;
        for (int64_t r = 0; r < n; r++)
            memcpy(o->tile + r * TILE, o->band + r * o->cols + x, (size_t)wide * sizeof *o->tile);
        if (TIFFWriteTile(o->t, o->tile, (uint32_t)x, (uint32_t)y, 0, 0) < 0)
            return failed(e);
    }
    return 0;
}

static int write_level(struct tiff *o, int map, struct err *e)
{
    int bad = (o->rows = map_rows_open_tissue(o->m, map, e)) ? 0 : -1;
    for (int64_t y = 0; y < o->height && !bad; y += TILE) {
        const int64_t n = o->height - y < TILE ? o->height - y : TILE;
        for (int64_t r = 0; r < n && !bad; r++)
            bad = stop_check(e) || next_row(o, y + r, o->band + r * o->cols, e) ? -1 : 0;
        bad = bad || write_tiles(o, y, n, e) ? -1 : 0;
    }
    map_rows_close(o->rows);
    o->rows = NULL;
    if (!bad && !TIFFWriteDirectory(o->t))
        bad = failed(e);
    return bad;
}

/* --- the file --- */

static int64_t half(int64_t n, int level)
{
    const int64_t block = (int64_t)1 << level;
    return (n + block - 1) / block;
}

static int levels_of(const struct map_slide *m)
{
    int n = 0;
    while (half(m->cols, n) > TILE || half(m->rows, n) > TILE)
        n++;
    return n;
}

static int write_channel(struct tiff *o, int map, const char *text, struct err *e)
{
    const int levels = levels_of(o->m);
    for (int level = 0; level <= levels; level++) {
        o->block = (int64_t)1 << level;
        o->cols = half(o->m->cols, level);
        o->height = half(o->m->rows, level);
        set_fields(o, level > 0);
        if (level == 0 && text)
            TIFFSetField(o->t, TIFFTAG_IMAGEDESCRIPTION, text);
        if (level == 0 && levels > 0) {
            const uint64_t places[MOST_LEVELS] = {0};
            TIFFSetField(o->t, TIFFTAG_SUBIFD, levels, places);
        }
        if (write_level(o, map, e))
            return -1;
    }
    return 0;
}

static int write_channels(struct tiff *o, const int *maps, int n, struct err *e)
{
    const size_t cols = (size_t)o->m->cols;
    char *text = describe(o->m, maps, n);
    o->read = memory_try(cols, sizeof *o->read, e);
    o->sum = memory_try(cols, sizeof *o->sum, e);
    o->count = memory_try(cols, sizeof *o->count, e);
    o->band = memory_try(TILE * cols, sizeof *o->band, e);
    o->tile = memory_try(1, sizeof(float[TILE][TILE]), e);
    int bad = o->read && o->sum && o->count && o->band && o->tile ? 0 : -1;
    for (int c = 0; c < n && !bad; c++)
        bad = write_channel(o, maps[c], c == 0 ? text : NULL, e);
    free(text);
    free(o->read);
    free(o->sum);
    free(o->count);
    free(o->band);
    free(o->tile);
    return bad;
}

int map_write_tiff(const struct map_slide *m, const int *maps, int n, int fd, struct err *e)
{
    struct tiff o = {.m = m};
    /* places and their lower resolutions; files beyond 2 GiB are BigTIFF */
    const double bytes = (double)n * (double)m->cols * (double)m->rows * sizeof(float) * 4 / 3;
    const int copy = dup(fd);
    problem[0] = 0;
    errno = 0;
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandler(on_error);
    o.t = copy < 0 ? NULL : TIFFFdOpen(copy, "map", bytes > 2e9 ? "wl8" : "wl");
    if (!o.t) {
        if (copy >= 0)
            close(copy);
        return failed(e);
    }
    const int bad = write_channels(&o, maps, n, e);
    if (!bad && !TIFFFlush(o.t)) {
        TIFFClose(o.t);
        return failed(e);
    }
    TIFFClose(o.t);
    return bad;
}
