/*
 * slide_ndpi.c - see slide_ndpi.h; and the reader.
 *
 * OpenSlide describes the slide as a whole (slide_metadata.h), so a build without OpenSlide does
 * not read the format. Levels that cannot be cut exactly, and those that OpenSlide makes by
 * shrinking, are left to OpenSlide.
 */
#include "convert/readers/slide_ndpi.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/jpeg_stream.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/slide_metadata.h"
#include "convert/readers/frame/slide_reader.h"
#include "convert/readers/frame/tile_file.h"
#include "convert/readers/tiff/tiff_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGNIFICATION = 65421, /* of the lens; negative for macro and map */
    FOCAL_PLANE = 65424,
    STARTS = 65426, /* of the intervals, in the stream */
    UPPER_STARTS = 65432,
    STRIP_OFFSETS = 273,
    STRIP_BYTES = 279,
    COMPRESSION_JPEG = 7,
    FLOAT = 11,   /* a type */
    MCU_ROWS = 8, /* px; chroma of half height is not read */
    MOST_HEAD = 1 << 14,
    MOST_DIRECTORIES = 256,
    MOST_SIDE = 4096,
    TILE_PIXELS = 1 << 18,
    LEAST_ROWS = 64,
    MOST_ROWS = 256,
};

void ndpi_level_free(struct ndpi_level *l)
{
    free(l->starts);
    free(l->head);
    *l = (struct ndpi_level){0};
}

/* --- the head of the stream --- */

/* The numbers of the head. */
struct head {
    uint8_t bytes[MOST_HEAD];
    size_t n;         /* bytes in the file; then of the head */
    size_t size;      /* offset of height and width in it */
    int64_t mcu_cols; /* px */
    int64_t interval; /* MCUs */
    bool has_jfif;
    bool is_halved;       /* chroma of half height */
    const char *obstacle; /* why its level cannot be cut into tiles, NULL so far */
};

static bool has_obstacle(struct head *h, const char *why)
{
    h->obstacle = h->obstacle ? h->obstacle : why;
    return false;
}

static unsigned u16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* Three components, of which the second and third may have half the width or height. */
static bool take_frame(struct head *h, size_t at, size_t n)
{
    const uint8_t *p = h->bytes + at; /* the segment, from its length on */
    if (n != 17 || p[2] != 8 || p[7] != 3)
        return has_obstacle(h, "its JPEG does not have three components of 8 bits");
    h->is_halved = p[9] == 0x12 || p[9] == 0x22;
    if ((!h->is_halved && p[9] != 0x11 && p[9] != 0x21) || p[12] != 0x11 || p[15] != 0x11)
        return has_obstacle(h, "its JPEG has unusual chroma");
    h->size = at + 3;
    h->mcu_cols = 8 * (p[9] >> 4);
    return true;
}

/* One segment; `at` is that of its length. False: a kind of stream that this does not read. */
static bool take_segment(struct head *h, int marker, size_t at, size_t n)
{
    const uint8_t *p = h->bytes + at;
    switch (marker) {
    case MARKER_SOF0: return take_frame(h, at, n);
    case MARKER_DRI: h->interval = n == 4 ? u16(p + 2) : 0; return n == 4;
    case MARKER_APP0:
        h->has_jfif = h->has_jfif || (n >= 7 && !memcmp(p + 2, "JFIF", 5));
        return true;
    case MARKER_APP14: return n < 7 || memcmp(p + 2, "Adobe", 5) != 0;
    case MARKER_DHT:
    case MARKER_DQT:
    case MARKER_SOS: return true;
    default: return marker == MARKER_COM || (marker > MARKER_APP0 && marker <= MARKER_APP15);
    }
}

/* Reads the segments up to SOS. The colours must be YCbCr for every reader, as JFIF's are. */
static bool parse_head(struct head *h)
{
    size_t at = 2;
    int marker = 0;
    if (h->n < 4 || h->bytes[0] != 0xff || h->bytes[1] != MARKER_SOI)
        return false;
    while (marker != MARKER_SOS) {
        if (h->n - at < 4 || h->bytes[at] != 0xff)
            return has_obstacle(h, "the head of its JPEG is damaged or long");
        marker = h->bytes[at + 1];
        const size_t n = u16(h->bytes + at + 2);
        if (n < 2 || n > h->n - at - 2 || !take_segment(h, marker, at + 2, n))
            return has_obstacle(h, "its JPEG is not baseline YCbCr");
        at += 2 + n;
    }
    h->n = at;
    if (h->interval < 1)
        return has_obstacle(h, "its JPEG has no restart markers");
    return (h->has_jfif && h->size) || has_obstacle(h, "its JPEG is not baseline YCbCr");
}

/* --- the level --- */

/* Is it the directory of a level of this size, in any focal plane? */
static bool is_level(const struct tiff_file *t, const struct tiff_directory *d,
                     const struct ndpi_level *l)
{
    const struct tiff_tag *lens = tiff_directory_tag(d, MAGNIFICATION);
    /* of a float, whose type tiff_file does not know, `at` is the value's bits */
    const bool is_picture =
        lens && lens->type == FLOAT && lens->count == 1 && lens->at > 0 && lens->at >> 31 == 0;
    return is_picture && tiff_file_value(t, d, TIFF_FILE_WIDTH, 0) == (uint64_t)l->width &&
           tiff_file_value(t, d, TIFF_FILE_LENGTH, 0) == (uint64_t)l->height &&
           tiff_file_value(t, d, TIFF_FILE_COMPRESSION, 0) == COMPRESSION_JPEG;
}

static bool is_in_focus(const struct tiff_file *t, const struct tiff_directory *d)
{
    return tiff_file_value(t, d, FOCAL_PLANE, 0) == 0;
}

int ndpi_planes(const struct slide_file *file, int64_t width, int64_t height)
{
    const struct ndpi_level l = {.width = width, .height = height};
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    int planes = 0;
    for (int k = 0; k < MOST_DIRECTORIES && d && tiff_directory_tag(d, TIFF_FILE_NDPI); k++) {
        planes += is_level(t, d, &l);
        d = d->next ? tiff_file_directory(t, d->next) : NULL;
    }
    return planes;
}

void ndpi_note_planes(int planes, struct slide_info *i)
{
    snprintf(i->note, sizeof i->note, "it has %d focal planes, of which plane 0 is stored", planes);
}

void ndpi_take_mpp(const struct slide_file *file, struct slide_info *i)
{
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    if (!d || !tiff_directory_tag(d, TIFF_FILE_NDPI))
        return;
    const double um = tiff_file_unit(t, d);
    i->mpp_x = i->mpp_x > 0 ? i->mpp_x : um / tiff_file_real(t, d, TIFF_FILE_RESOLUTION);
    i->mpp_y = i->mpp_y > 0 ? i->mpp_y : um / tiff_file_real(t, d, TIFF_FILE_RESOLUTION + 1);
}

/* Rows of a tile: a power of two, so that stripes are whole tiles. */
static int64_t choose_rows(int64_t cols)
{
    int64_t rows = MOST_ROWS;
    while (rows > LEAST_ROWS && rows * cols > TILE_PIXELS)
        rows /= 2;
    return rows;
}

/* The grid of intervals and tiles. False: the intervals are no grid. */
static bool take_grid(struct ndpi_level *l, struct head *h)
{
    l->cols = h->interval * h->mcu_cols;
    if (l->cols < LEAST_ROWS || l->cols > MOST_SIDE || l->width % l->cols || l->height % MCU_ROWS)
        return has_obstacle(h, "the restart intervals of its JPEG are no grid of tiles");
    l->rows = choose_rows(l->cols);
    l->across = l->width / l->cols;
    l->down = l->height / MCU_ROWS;
    return true;
}

/* Adds the upper halves of n offsets, in pieces, if the directory has them. */
static bool add_upper(const struct tiff_file *t, const struct tiff_tag *tag, uint64_t n,
                      uint64_t *starts)
{
    uint64_t upper[512];
    const uint64_t most = sizeof upper / sizeof *upper;
    for (uint64_t k = 0; tag && k < n; k += most) {
        const uint64_t some = n - k < most ? n - k : most;
        if (tag->count != n || !tiff_file_values(t, tag, k, (size_t)some, upper))
            return false;
        for (uint64_t j = 0; j < some; j++)
            starts[k + j] |= upper[j] << 32;
    }
    return true;
}

/* Offsets of the intervals from those in the stream. 1, 0: they contradict themselves, or -1. */
static int take_starts(struct ndpi_level *l, const struct tiff_file *t,
                       const struct tiff_directory *d, uint64_t from, uint64_t bytes, struct err *e)
{
    const uint64_t n = (uint64_t)(l->across * l->down);
    const struct tiff_tag *tag = tiff_directory_tag(d, STARTS);
    if (!tag || tag->count != n || n > t->bytes / 4)
        return 0;
    if (!(l->starts = memory_try((size_t)(n + 1), sizeof *l->starts, e)))
        return -1;
    if (!tiff_file_values(t, tag, 0, (size_t)n, l->starts) ||
        !add_upper(t, tiff_directory_tag(d, UPPER_STARTS), n, l->starts) ||
        l->starts[0] != l->head_bytes)
        return 0;
    l->starts[n] = bytes;
    for (uint64_t k = 0; k < n; k++)
        if (l->starts[k] > bytes || l->starts[k + 1] < l->starts[k] + 3) /* a byte and a marker */
            return 0;
    for (uint64_t k = 0; k <= n; k++)
        l->starts[k] += from;
    return 1;
}

/* The head of a picture of one tile. */
static int keep_head(struct ndpi_level *l, const struct head *h, struct err *e)
{
    if (!(l->head = memory_try(h->n, 1, e)))
        return -1;
    memcpy(l->head, h->bytes, h->n);
    l->head_bytes = h->n;
    const uint8_t size[4] = {(uint8_t)(l->rows >> 8), (uint8_t)l->rows, (uint8_t)(l->cols >> 8),
                             (uint8_t)l->cols};
    memcpy(l->head + h->size, size, sizeof size);
    return 1;
}

static int read_stream(struct ndpi_level *l, const struct tiff_file *t,
                       const struct tiff_directory *d, struct err *e)
{
    struct head h = {.n = 0};
    const uint64_t from = tiff_file_value(t, d, STRIP_OFFSETS, 0);
    const uint64_t bytes = tiff_file_value(t, d, STRIP_BYTES, 0);
    const struct tiff_tag *strips = tiff_directory_tag(d, STRIP_OFFSETS);
    if (!strips || strips->count != 1 || from > t->bytes || bytes > t->bytes - from) {
        err_set(e, "its level is not one JPEG");
        return 0;
    }
    h.n = read_at(t->fd, from, h.bytes, sizeof h.bytes);
    if (h.n < sizeof h.bytes && errno)
        return err_sys(e, "cannot read");
    const bool good = parse_head(&h);
    if (good && h.is_halved)
        return err_set(e, "its JPEG has restart markers and chroma of half height (4:2:0 or "
                          "4:4:0), which OpenSlide does not decode either; convert the slide "
                          "first, for example with bfconvert");
    if (!good || !take_grid(l, &h)) {
        err_set(e, "%s", h.obstacle);
        return 0;
    }
    int r = keep_head(l, &h, e);
    if (r > 0 && (r = take_starts(l, t, d, from, bytes, e)) == 0)
        err_set(e, "its table of restart intervals is missing or contradicts its JPEG");
    return r;
}

static int find_level(struct ndpi_level *l, const struct tiff_file *t, struct err *e)
{
    const struct tiff_directory *d = tiff_file_directory(t, t->first);
    err_set(e, "the file does not have this level, OpenSlide makes it");
    for (int k = 0; k < MOST_DIRECTORIES && d && tiff_directory_tag(d, TIFF_FILE_NDPI); k++) {
        if (is_level(t, d, l) && is_in_focus(t, d))
            return read_stream(l, t, d, e);
        d = d->next ? tiff_file_directory(t, d->next) : NULL;
    }
    return 0;
}

bool ndpi_is(const struct slide_file *file)
{
    return tiff_file_states(file, TIFF_FILE_NDPI);
}

int ndpi_level_read(struct ndpi_level *l, const struct slide_file *file, int64_t width,
                    int64_t height, struct err *e)
{
    *l = (struct ndpi_level){.file = file, .width = width, .height = height};
    errno = 0;
    const struct tiff_file *t = tiff_file_of(file);
    const int r = !t || t->is_big || t->is_swapped ? 0 : find_level(l, t, e);
    const int code = errno;
    if (r <= 0)
        ndpi_level_free(l);
    errno = code;
    return r == 0 && slide_may_pass(code) ? err_sys(e, "cannot read its directories") : r;
}

/* --- tiles --- */

/* The k-th of the intervals of a tile. */
static int64_t interval_of(const struct ndpi_level *l, int64_t col, int64_t row, int64_t k)
{
    const int64_t line = row * (l->rows / MCU_ROWS) + k;
    return (line < l->down ? line : l->down - 1) * l->across + col;
}

/* Bytes of a tile's stream, or 0 if that is more than its pixels' can be. */
static size_t stream_bytes(const struct ndpi_level *l, int64_t col, int64_t row)
{
    const uint64_t most = 6 * (uint64_t)(l->cols * l->rows) + 65536;
    uint64_t n = l->head_bytes;
    for (int64_t k = 0; k < l->rows / MCU_ROWS && n <= most; k++) {
        const int64_t i = interval_of(l, col, row, k);
        n += l->starts[i + 1] - l->starts[i];
    }
    return n <= most ? (size_t)n : 0;
}

/* Appends an interval, whose end is a marker; that becomes `marker`. 0, 1 or -1 as gather. */
static int append(const struct ndpi_level *l, int64_t interval, int marker, struct tile_bytes *out,
                  struct err *e)
{
    const uint64_t from = l->starts[interval];
    const size_t n = (size_t)(l->starts[interval + 1] - from);
    const bool is_last = interval + 1 == l->across * l->down;
    uint8_t *end = out->bytes + out->n + n - 2;
    if (read_at(l->file->fd, from, out->bytes + out->n, n) < n)
        return errno ? err_sys(e, "cannot read") : 1;
    if (end[0] != 0xff || end[1] != (is_last ? MARKER_EOI : MARKER_RST0 + (interval & 7)))
        return 1;
    end[1] = (uint8_t)marker;
    out->n += n;
    return 0;
}

int ndpi_level_gather(const void *level, int64_t col, int64_t row, struct tile_bytes *out,
                      struct err *e)
{
    const struct ndpi_level *l = level;
    const int64_t intervals = l->rows / MCU_ROWS;
    const size_t n = stream_bytes(l, col, row);
    int r = n == 0 ? 1 : tile_bytes_grow(out, n, e);
    if (r)
        return r;
    memcpy(out->bytes, l->head, l->head_bytes);
    out->n = l->head_bytes;
    for (int64_t k = 0; k < intervals && r == 0; k++)
        r = append(l, interval_of(l, col, row, k),
                   k + 1 == intervals ? MARKER_EOI : MARKER_RST0 + (int)(k & 7), out, e);
    return r;
}

void ndpi_level_prefetch(const struct ndpi_level *l, int64_t row, int64_t rows)
{
    const int64_t last = (row + rows) * (l->rows / MCU_ROWS);
    const uint64_t from = l->starts[interval_of(l, 0, row, 0)];
    const uint64_t to = l->starts[(last < l->down ? last : l->down) * l->across];
    if (to > from)
        posix_fadvise(l->file->fd, (off_t)from, (off_t)(to - from), POSIX_FADV_WILLNEED);
}

/* --- the reader --- */

struct ndpi {
    struct tiled_slide common;
    struct ndpi_level level;
};

static struct ndpi *from_slide(struct slide *s)
{
    return (struct ndpi *)s;
}

/* --- opening and closing --- */

static void ndpi_close(struct slide *s)
{
    struct ndpi *v = from_slide(s);
    tile_file_close(v->common.tiles);
    slide_metadata_close(v->common.slide.metadata);
    ndpi_level_free(&v->level);
    free(v);
}

static void open_tiles(struct ndpi *v, const struct slide_file *file, int threads,
                       struct slide_info *info)
{
    const struct ndpi_level *l = &v->level;
    struct tile_grid g = {.format = {.compression = TILE_JPEG,
                                     .photometric = TILE_PHOTOMETRIC_YCBCR,
                                     .cols = l->cols,
                                     .rows = l->rows},
                          .cols = l->across,
                          .rows = (l->height + l->rows - 1) / l->rows,
                          .gather = ndpi_level_gather,
                          .ctx = l};
    memcpy(g.background, info->background, sizeof g.background);
    info->tile_cols = l->cols;
    info->tile_rows = l->rows;
    info->has_eighth = info->gray_is_luma = true;
    v->common.tiles = tile_file_open(file, &g, threads);
}

static int ndpi_open(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                     struct slide_info *info, struct err *e)
{
    struct slide_info i;
    if (!ndpi_is(file))
        return 0;
    struct ndpi *v = memory_need(1, sizeof *v);
    v->common.slide.reader = &slide_ndpi;
    /* what OpenSlide rejects is reported by its own reader, which is asked next */
    int r = slide_metadata_open(&v->common.slide.metadata, file, level, &i, e);
    r = r == SLIDE_DAMAGED ? 0 : r;
    if (r > 0 && slide_metadata_confirm(v->common.slide.metadata, e))
        r = -1;
    if (r > 0)
        r = ndpi_level_read(&v->level, file, i.width, i.height, e);
    if (r > 0)
        open_tiles(v, file, threads, &i);
    if (r <= 0) {
        const int code = errno;
        ndpi_close(&v->common.slide);
        errno = code;
        return r;
    }
    ndpi_take_mpp(file, &i);
    const int planes = ndpi_planes(file, i.width, i.height);
    if (planes > 1)
        ndpi_note_planes(planes, &i);
    *info = i;
    *out = &v->common.slide;
    return 1;
}

/* --- tiles --- */

static void ndpi_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    ndpi_level_prefetch(&from_slide(s)->level, row, rows);
}

const struct slide_reader slide_ndpi = {
    .name = "ndpi",
    .open = ndpi_open,
    .read = tile_file_read,
    .read_eighth = tile_file_read_eighth,
    .read_kept = tile_file_read_kept,
    .is_missing = tile_file_is_missing,
    .refusal = tile_file_refusal,
    .prefetch = ndpi_prefetch,
    .properties = slide_metadata_properties,
    .thumbnail = slide_metadata_thumbnail,
    .icc = slide_metadata_icc,
    .close = ndpi_close,
};
