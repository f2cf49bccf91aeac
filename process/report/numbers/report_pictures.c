/* report_pictures.c - see report_pictures.h. */
#include "process/report/numbers/report_pictures.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/codec/jpeg_encoder.h"
#include "process/draw/html.h"
#include "process/draw/png_file.h"
#include "process/draw/raster.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAP, THUMB, KINDS }; /* what a slide has in each size */
enum { SIZES = 5, TRIED = 3, QUALITY = 60 };
enum { LEAST_BYTES = 1000 }; /* no slide's pictures take fewer */

/* Longest side of the map and of the thumbnail in px, and about how many bytes both take. */
static const struct {
    int map, thumb;
    int64_t bytes;
} sizes[SIZES] = {
    {256, 160, 40000}, {128, 128, 16000}, {96, 96, 9000}, {72, 80, 6000}, {48, 56, 3500}};

struct report_picture {
    uint32_t bytes[TRIED][KINDS];
    int64_t at;    /* in the spool */
    uint8_t *data; /* [data_bytes] until they are in the spool; owned */
    size_t data_bytes;
};

struct report_spool {
    FILE *f;
    const struct report_setup *setup;
    int first_size, tried; /* sizes first_size .. first_size + tried - 1 are encoded */
    bool late;
};

/* --- the spool --- */

/* The bytes of a picture if n slides share the page. */
static int64_t share_of(const struct report_setup *o, int64_t n)
{
    return o->max_size / (n > 0 ? n : 1);
}

/* From the largest size of which n slides may fit. If not even the smallest does, only slides to
 * look at will have pictures: one size is enough, because encoding takes most of the time. n may be
 * too large; that `least` slides do not fit is certain. */
static void choose_sizes(struct report_spool *s, int64_t least, int64_t n)
{
    const int64_t each = share_of(s->setup, n);
    s->tried = TRIED;
    s->late = share_of(s->setup, least) < LEAST_BYTES;
    while (s->first_size + TRIED < SIZES && sizes[s->first_size].bytes > each)
        s->first_size++;
    if (sizes[SIZES - 1].bytes > each)
        s->tried = 1;
}

static const char spool_name[] = "pictures";

struct report_spool *report_spool_create(const struct report_setup *o, int64_t least, int64_t n,
                                         struct err *e)
{
    struct report_spool *s = memory_need(1, sizeof *s);
    if (!(s->f = temporary_open(spool_name, e))) {
        free(s);
        return NULL;
    }
    s->setup = o;
    choose_sizes(s, least, n);
    return s;
}

bool report_spool_is_late(const struct report_spool *s)
{
    return s->late;
}

void report_spool_free(struct report_spool *s)
{
    if (s)
        fclose(s->f);
    free(s);
}

void report_pictures_free(struct report_picture *p)
{
    if (p)
        free(p->data);
    free(p);
}

int report_pictures_keep(struct report_spool *s, struct report_picture *p, struct err *e)
{
    if (!p)
        return 0;
    p->at = ftello(s->f);
    if (p->at < 0 || fwrite(p->data, 1, p->data_bytes, s->f) != p->data_bytes)
        return temporary_failed(spool_name, e);
    free(p->data);
    p->data = NULL;
    return 0;
}

void report_pictures_describe(const struct report_picture *p, FILE *f)
{
    if (!p) {
        fputs("null", f);
        return;
    }
    fprintf(f, "[%" PRId64, p->at);
    for (int k = 0; k < TRIED; k++)
        fprintf(f, ", %" PRIu32 ", %" PRIu32, p->bytes[k][MAP], p->bytes[k][THUMB]);
    putc(']', f);
}

int report_spool_descriptor(struct report_spool *s)
{
    fflush(s->f);
    return fileno(s->f);
}

/* --- maps --- */

/* The entries of the palette up to the last that a picture uses. A map without gaps has no
 * transparent one; the table of transparency would be a tenth of a small picture. */
static int entries_of(const uint8_t *pixels, int64_t n)
{
    int most = 0;
    for (int64_t k = 0; k < n; k++)
        most = pixels[k] > most ? pixels[k] : most;
    return most + 1;
}

/* The map is that of focus_db, or of mean_db if the result lacks it. */
static int map_of(const struct result_slide *s)
{
    return s->maps[RESULT_FOCUS].values ? RESULT_FOCUS : RESULT_MEAN;
}

/* The number of a block's colour, or that for "no value". The range is the same for all slides. */
static uint8_t block_colour(const struct result_slide *s, int64_t x, int64_t y, int64_t block)
{
    const struct result_map_kind *kind = s->maps[map_of(s)].kind;
    const double mean = shrink_map(s, map_of(s), x, y, block);
    return (uint8_t)(isnan(mean) ? COLOURS_CLEAR
                                 : colours_number(mean, kind->low, kind->high, COLOURS_MAP));
}

/* A picture of at most `side` px on each side: blocks of windows become a pixel each. */
static int put_map(FILE *f, const struct result_slide *s, int side, struct err *e)
{
    const int64_t longest = s->nx > s->ny ? s->nx : s->ny;
    const int64_t block = (longest + side - 1) / side;
    const int64_t width = (s->nx + block - 1) / block, height = (s->ny + block - 1) / block;
    uint8_t *pixels = memory_need((size_t)width, (size_t)height);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            pixels[y * width + x] = block_colour(s, x, y, block);
    const int entries = entries_of(pixels, width * height);
    const int bad = png_file_colours(f, pixels, width, height, entries, 6, e);
    free(pixels);
    return bad;
}

/* --- thumbnails --- */

/* Nothing is written if the slide has no thumbnail, or the program no libjpeg. */
static void put_thumb(FILE *f, const struct result_slide *s, int side)
{
    const struct result_picture *t = &s->thumbnail;
    if (!t->rgb || t->width < 1 || t->height < 1)
        return;
    const int64_t longest = t->width > t->height ? t->width : t->height;
    const int64_t most = longest < side ? longest : side;
    const int64_t w = (t->width * most + longest - 1) / longest;
    const int64_t h = (t->height * most + longest - 1) / longest;
    uint8_t *pixels = memory_need((size_t)(w * h), 3);
    size_t n = 0;
    shrink_rgb(t->rgb, t->width, t->height, pixels, w, h);
    uint8_t *bytes = jpeg_encode(pixels, (int)w, (int)h, 3, QUALITY, true, &n);
    if (bytes)
        fwrite(bytes, 1, n, f);
    free(bytes);
    free(pixels);
}

/* --- all pictures of a slide --- */

static int put_all(const struct report_spool *spool, const struct result_slide *s,
                   struct report_picture *p, FILE *f, struct err *e)
{
    for (int k = 0; k < spool->tried; k++) {
        const int size = spool->first_size + k;
        const int64_t before = ftello(f);
        if (put_map(f, s, sizes[size].map, e))
            return -1;
        const int64_t middle = ftello(f);
        put_thumb(f, s, sizes[size].thumb);
        p->bytes[k][MAP] = (uint32_t)(middle - before);
        p->bytes[k][THUMB] = (uint32_t)(ftello(f) - middle);
    }
    return 0;
}

int report_pictures_make(const struct report_spool *spool, const struct result_slide *s,
                         struct report_picture **out, struct err *e)
{
    *out = NULL;
    if (s->nx * s->ny == 0)
        return 0;
    struct report_picture *p = memory_need(1, sizeof *p);
    char *data = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&data, &n);
    int bad = f ? put_all(spool, s, p, f, e) : err_memory(e);
    if (f && fclose(f) && !bad)
        bad = err_memory(e);
    if (bad) {
        free(data);
        free(p);
        return -1;
    }
    p->data = (uint8_t *)data;
    p->data_bytes = n;
    *out = p;
    return 0;
}

/* --- out of the spool --- */

int report_spool_sizes(const struct report_spool *s)
{
    return s->tried;
}

int64_t report_pictures_bytes(const struct report_picture *p, int size)
{
    int64_t sum = 0;
    for (int k = 0; k < KINDS; k++)
        sum += ((int64_t)p->bytes[size][k] + 2) / 3 * 4 + 1;
    return sum;
}

/* n bytes of the spool in base64. */
static int put_bytes(const struct report_spool *s, int64_t at, size_t n, FILE *f, struct err *e)
{
    uint8_t *bytes = memory_need(n + 1, 1);
    int bad = 0;
    if (fseeko(s->f, at, SEEK_SET) || fread(bytes, 1, n, s->f) != n)
        bad = err_sys(e, "the temporary file for pictures cannot be read");
    if (!bad)
        html_base64(f, bytes, n);
    free(bytes);
    return bad;
}

int report_pictures_put(const struct report_spool *s, const struct report_picture *p, int size,
                        FILE *f, struct err *e)
{
    int64_t at = p->at;
    for (int k = 0; k < size; k++)
        at += (int64_t)p->bytes[k][MAP] + p->bytes[k][THUMB];
    const int bad = put_bytes(s, at, p->bytes[size][MAP], f, e);
    putc(' ', f);
    return bad || put_bytes(s, at + p->bytes[size][MAP], p->bytes[size][THUMB], f, e) ? -1 : 0;
}
