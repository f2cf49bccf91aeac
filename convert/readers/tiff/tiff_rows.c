/*
 * tiff_rows.c - one segment of a TIFF picture as rows of samples; see tiff_rows.h.
 *
 * libtiff's decoders get a file of our own: a BigTIFF directory in memory of a picture of one
 * strip, and behind it the segment's bytes. So nothing else of the slide's file reaches them.
 * Uncompressed and PackBits segments are read here, JPEG goes to libjpeg, and JPEG 2000 is decoded
 * at once.
 */
#include "convert/readers/tiff/tiff_rows.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/jpeg_rows.h"
#include "convert/tile/tile.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum { TAGS = 12, HEAD = 16, ENTRY = 20, PICTURE = HEAD + 8 + ENTRY * TAGS + 8 };

/* --- through libtiff --- */

struct library_rows {
    struct rows rows;
    TIFF *tiff;
    uint8_t head[PICTURE];
    int fd;
    uint64_t at, bytes; /* of the segment in the slide's file */
    uint64_t position;  /* in the file of our own */
    int trouble;        /* errno of a failed read, or 0 */
    uint32_t row;
};

static _Thread_local char complaint[160]; /* what libtiff has said first */

static void note_complaint(thandle_t handle, const char *module, const char *fmt, va_list ap)
{
    (void)handle, (void)module;
    if (!complaint[0])
        vsnprintf(complaint, sizeof complaint, fmt, ap);
}

static void listen(void)
{
    TIFFSetErrorHandlerExt(note_complaint);
}

bool tiff_rows_know(int compression)
{
    const struct tile_compression *c = tile_compression((uint64_t)compression);
    return c && c->in_rows && TIFFIsCODECConfigured((uint16_t)compression);
}

static tmsize_t segment_read(thandle_t handle, void *to, tmsize_t n)
{
    struct library_rows *r = handle;
    uint8_t *out = to;
    size_t left = (size_t)n;
    if (r->position < PICTURE) {
        const size_t some = PICTURE - r->position < left ? PICTURE - r->position : left;
        memcpy(out, r->head + r->position, some);
        r->position += some;
        out += some;
        left -= some;
    }
    const uint64_t from = r->position - PICTURE;
    if (left > 0 && r->position >= PICTURE && from < r->bytes) {
        const size_t some = r->bytes - from < left ? (size_t)(r->bytes - from) : left;
        errno = 0;
        const size_t got = read_at(r->fd, r->at + from, out, some);
        if (got < some && errno)
            r->trouble = errno;
        r->position += got;
        left -= got;
    }
    return r->trouble ? -1 : n - (tmsize_t)left;
}

static tmsize_t segment_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle, (void)from, (void)n;
    return -1;
}

static toff_t segment_size(thandle_t handle)
{
    return PICTURE + ((struct library_rows *)handle)->bytes;
}

static toff_t segment_seek(thandle_t handle, toff_t to, int whence)
{
    struct library_rows *r = handle;
    r->position = to + (whence == SEEK_CUR   ? r->position
                        : whence == SEEK_END ? segment_size(handle)
                                             : 0);
    return r->position;
}

static int segment_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        *p++ = (uint8_t)(value >> 8 * k);
    return p;
}

static uint8_t *put_tag(uint8_t *p, uint32_t tag, uint64_t count, uint64_t value)
{
    const int type =
        tag == TIFFTAG_STRIPOFFSETS || tag == TIFFTAG_STRIPBYTECOUNTS ? TIFF_LONG8
        : tag == TIFFTAG_IMAGEWIDTH || tag == TIFFTAG_IMAGELENGTH || tag == TIFFTAG_ROWSPERSTRIP
            ? TIFF_LONG
            : TIFF_SHORT;
    return put(put(put(put(p, tag, 2), (uint64_t)type, 2), count, 8), value, 8);
}

static void make_head(const struct tiff_picture *f, int64_t rows, uint64_t bytes, uint8_t *p)
{
    const uint64_t samples = f->planes > 1 ? 1 : (uint64_t)f->samples, length = (uint64_t)rows;
    const uint64_t photometric = samples < 3 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
    memcpy(p, "II+\0\x08\0\0\0", 8);
    p = put(put(p + 8, HEAD, 8), TAGS, 8);
    p = put_tag(p, TIFFTAG_IMAGEWIDTH, 1, (uint64_t)f->cols);
    p = put_tag(p, TIFFTAG_IMAGELENGTH, 1, length);
    p = put_tag(p, TIFFTAG_BITSPERSAMPLE, 1, 8); /* of each */
    p = put_tag(p, TIFFTAG_COMPRESSION, 1, (uint64_t)f->compression);
    p = put_tag(p, TIFFTAG_PHOTOMETRIC, 1, photometric);
    p = put_tag(p, TIFFTAG_FILLORDER, 1, (uint64_t)f->fill_order);
    p = put_tag(p, TIFFTAG_STRIPOFFSETS, 1, PICTURE);
    p = put_tag(p, TIFFTAG_SAMPLESPERPIXEL, 1, samples);
    p = put_tag(p, TIFFTAG_ROWSPERSTRIP, 1, length);
    p = put_tag(p, TIFFTAG_STRIPBYTECOUNTS, 1, bytes);
    p = put_tag(p, TIFFTAG_PLANARCONFIG, 1, PLANARCONFIG_CONTIG);
    p = put_tag(p, TIFFTAG_PREDICTOR, 1, (uint64_t)f->predictor);
    put(p, 0, 8);
}

static int library_next(struct rows *rows, uint8_t *out, struct err *e)
{
    struct library_rows *r = (struct library_rows *)rows;
    complaint[0] = 0;
    errno = 0;
    if (TIFFReadScanline(r->tiff, out, r->row, 0) == 1) {
        r->row++;
        return 0;
    }
    if (r->trouble || errno == ENOMEM) {
        errno = r->trouble ? r->trouble : ENOMEM;
        return err_sys(e, "cannot read");
    }
    err_set(e, "libtiff: %s", complaint);
    return ROWS_DAMAGED;
}

static void library_close(struct rows *rows)
{
    struct library_rows *r = (struct library_rows *)rows;
    if (r->tiff)
        TIFFClose(r->tiff);
    free(r);
}

/* A segment of so many rows, of which libtiff has read nothing. NULL when out of memory. */
static struct library_rows *open_library(const struct tiff_picture *p,
                                         const struct tile_place *place, int64_t rows)
{
    static const struct rows_kind kind = {library_next, library_close};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct library_rows *r = memory_need(1, sizeof *r);
    pthread_once(&once, listen);
    r->rows.kind = &kind;
    r->fd = p->file->fd;
    r->at = place->offset;
    r->bytes = place->bytes;
    make_head(p, rows, place->bytes, r->head);
    r->tiff = TIFFClientOpen("a strip", "rm", r, segment_read, segment_write, segment_seek,
                             segment_close, segment_size, NULL, NULL);
    if (r->tiff)
        return r;
    library_close(&r->rows);
    return NULL;
}

/* Does a stream state where it ends, and libtiff not ask? */
static bool has_end(int compression)
{
    return compression == COMPRESSION_ADOBE_DEFLATE || compression == COMPRESSION_DEFLATE ||
           compression == COMPRESSION_LZW || compression == COMPRESSION_LZMA ||
           compression == COMPRESSION_ZSTD;
}

/*
 * The checksum of a stream follows its last row, so it is found by asking for one row more. The
 * whole segment is decoded for that first: rows that are wrong must not pass for whole, as a
 * damaged stream often makes more. The last strip may have rows below the picture.
 */
static int check_end(const struct tiff_picture *p, const struct tile_place *place, struct err *e)
{
    struct err why = {0};
    const size_t pitch = (size_t)(p->cols * (p->planes > 1 ? 1 : p->samples));
    struct library_rows *r = open_library(p, place, p->rows + 1);
    uint8_t *line = memory_try(pitch, 1, e);
    int bad = !r ? err_memory(e) : line ? 0 : -1;
    for (int64_t k = 0; k <= p->rows && bad == 0; k++)
        bad = library_next(&r->rows, line, &why);
    if (bad == -1 && why.msg[0])
        err_copy(e, &why);
    else if (bad == ROWS_DAMAGED && strstr(complaint, "Decoding error")) /* deflate, LZMA */
        err_copy(e, &why);
    else if (bad == ROWS_DAMAGED) /* it only ends, here or too early */
        bad = 0;
    else if (bad == 0) {
        err_set(e, "a strip or tile holds more than its rows");
        bad = ROWS_DAMAGED;
    }
    const int code = errno;
    if (r)
        library_close(&r->rows);
    free(line);
    errno = code;
    return bad;
}

static int library_open(struct rows **out, const struct tiff_picture *p,
                        const struct tile_place *place, int64_t rows, struct err *e)
{
    const int bad = has_end(p->compression) ? check_end(p, place, e) : 0;
    if (bad)
        return bad;
    struct library_rows *r = open_library(p, place, rows);
    if (!r)
        return err_memory(e);
    *out = &r->rows;
    return 0;
}

/* --- uncompressed --- */

struct plain_rows {
    struct rows rows;
    int fd;
    uint64_t at, end;
    size_t pitch;
    bool reversed; /* the bits of each byte */
};

static int plain_next(struct rows *rows, uint8_t *out, struct err *e)
{
    struct plain_rows *r = (struct plain_rows *)rows;
    errno = 0;
    const bool inside = r->end - r->at >= r->pitch;
    if (!inside || read_at(r->fd, r->at, out, r->pitch) < r->pitch) {
        if (inside && errno)
            return err_sys(e, "cannot read");
        err_set(e, "a strip or tile is truncated");
        return ROWS_DAMAGED;
    }
    if (r->reversed)
        TIFFReverseBits(out, (tmsize_t)r->pitch);
    r->at += r->pitch;
    return 0;
}

static void plain_close(struct rows *rows)
{
    free(rows);
}

static int plain_open(struct rows **out, const struct tiff_picture *p,
                      const struct tile_place *place)
{
    static const struct rows_kind kind = {plain_next, plain_close};
    struct plain_rows *r = memory_need(1, sizeof *r);
    *r = (struct plain_rows){.rows.kind = &kind,
                             .fd = p->file->fd,
                             .at = place->offset,
                             .end = place->offset + place->bytes,
                             .pitch = (size_t)(p->cols * (p->planes > 1 ? 1 : p->samples)),
                             .reversed = p->fill_order == 2};
    *out = &r->rows;
    return 0;
}

/* --- PackBits --- */

/* A run can end in another row than it begins in, which libtiff's rows do not allow. */
struct packed_rows {
    struct rows rows;
    int fd;
    uint64_t at, end;
    size_t pitch, next, n; /* next and n: of buffer */
    size_t left;           /* bytes of the current run */
    bool repeats;
    uint8_t value, buffer[1 << 14];
    bool reversed; /* the bits of each byte */
};

/* The next byte of the file, or -1. */
static int packed_byte(struct packed_rows *r)
{
    if (r->next == r->n) {
        const uint64_t left = r->end - r->at;
        r->next = 0;
        r->n = read_at(r->fd, r->at, r->buffer,
                       left < sizeof r->buffer ? (size_t)left : sizeof r->buffer);
        r->at += r->n;
        if (r->n == 0)
            return -1;
    }
    const uint8_t byte = r->buffer[r->next++];
    return r->reversed ? TIFFGetBitRevTable(1)[byte] : byte;
}

/* Begins with the next run. */
static bool begin_run(struct packed_rows *r)
{
    int head;
    do
        head = packed_byte(r);
    while (head == 128); /* nothing */
    r->repeats = head > 128;
    r->left = r->repeats ? 257 - (size_t)head : (size_t)head + 1;
    const int value = head >= 0 && r->repeats ? packed_byte(r) : 0;
    r->value = (uint8_t)value;
    return head >= 0 && value >= 0;
}

static int packed_next(struct rows *rows, uint8_t *out, struct err *e)
{
    struct packed_rows *r = (struct packed_rows *)rows;
    int byte = 0;
    errno = 0;
    for (size_t k = 0; k < r->pitch && byte >= 0; k++) {
        byte = r->left || begin_run(r) ? 0 : -1;
        if (byte == 0)
            byte = r->repeats ? r->value : packed_byte(r);
        out[k] = (uint8_t)byte;
        r->left--;
    }
    if (byte >= 0)
        return 0;
    if (slide_may_pass(errno))
        return err_sys(e, "cannot read");
    err_set(e, "a strip or tile is truncated");
    return ROWS_DAMAGED;
}

static int packed_open(struct rows **out, const struct tiff_picture *p,
                       const struct tile_place *place)
{
    static const struct rows_kind kind = {packed_next, plain_close};
    struct packed_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    r->fd = p->file->fd;
    r->at = place->offset;
    r->end = place->offset + place->bytes;
    r->pitch = (size_t)(p->cols * (p->planes > 1 ? 1 : p->samples));
    r->reversed = p->fill_order == 2;
    *out = &r->rows;
    return 0;
}

/* --- JPEG --- */

static void note(const struct tiff_picture *p, enum tile_conflict conflict)
{
    int old = *p->conflict;
    while (old < (int)conflict && !atomic_compare_exchange_weak(p->conflict, &old, (int)conflict))
        ;
}

static int stream_open(struct rows **out, const struct tiff_picture *p,
                       const struct tile_place *place, int64_t rows, struct err *e)
{
    struct rows_picture stream;
    const bool single = p->planes > 1 || p->samples == 1;
    const struct jpeg_rows_input in = {.fd = p->file->fd,
                                       .at = place->offset,
                                       .bytes = place->bytes,
                                       .tables = p->tables,
                                       .tables_bytes = p->tables_bytes,
                                       .colours = single ? JPEG_SINGLE
                                                  : p->photometric == TILE_PHOTOMETRIC_YCBCR
                                                      ? JPEG_YCBCR
                                                      : JPEG_RGB,
                                       .most_bytes = ROWS_MOST_BYTES};
    const int bad = jpeg_stream_open(out, &in, &stream, e);
    if (bad)
        return bad == ROWS_OTHER ? ROWS_DAMAGED : bad;
    if (stream.cols == p->cols && stream.rows >= rows && stream.rows <= p->rows) {
        note(p, stream.conflict);
        return 0;
    }
    rows_close(*out);
    *out = NULL;
    err_set(e, "a stream of %d x %d px in a strip or tile of %d x %d px", (int)stream.cols,
            (int)stream.rows, (int)p->cols, (int)rows);
    return ROWS_DAMAGED;
}

/* --- JPEG 2000 --- */

struct whole_rows {
    struct rows rows;
    size_t pitch, at;
    uint8_t *pixels;
};

static int whole_next(struct rows *rows, uint8_t *out, struct err *e)
{
    struct whole_rows *r = (struct whole_rows *)rows;
    (void)e;
    memcpy(out, r->pixels + r->at, r->pitch);
    r->at += r->pitch;
    return 0;
}

static void whole_close(struct rows *rows)
{
    free(((struct whole_rows *)rows)->pixels);
    free(rows);
}

static int decode_whole(const struct tiff_picture *p, const struct tile_place *place,
                        const struct tile_format *f, int channels, uint8_t *pixels, struct err *e)
{
    uint8_t *bytes = memory_try((size_t)place->bytes, 1, e);
    struct tile_decoder *d = bytes ? tile_create(f, e) : NULL;
    int bad = d ? 0 : -1;
    errno = 0;
    if (bad == 0 && read_at(p->file->fd, place->offset, bytes, place->bytes) < place->bytes)
        bad = errno ? err_sys(e, "cannot read") : ROWS_DAMAGED;
    if (bad == 0) {
        bad = tile_decode(d, bytes, (size_t)place->bytes, channels, pixels, e);
        bad = bad == TILE_NO_MEMORY ? -1 : bad ? ROWS_DAMAGED : 0;
    }
    const int code = errno;
    tile_free(d);
    free(bytes);
    errno = code;
    return bad;
}

static int whole_open(struct rows **out, const struct tiff_picture *p,
                      const struct tile_place *place, int64_t rows, struct err *e)
{
    static const struct rows_kind kind = {whole_next, whole_close};
    const int channels = p->planes > 1 || p->samples == 1 ? 1 : 3;
    const struct tile_format f = {.compression = p->compression,
                                  .photometric =
                                      channels == 1 ? TILE_PHOTOMETRIC_GRAY : p->photometric,
                                  .cols = p->cols,
                                  .rows = rows};
    struct whole_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    r->pitch = (size_t)(p->cols * channels);
    r->pixels = memory_try(r->pitch, (size_t)rows, e);
    const int bad = r->pixels ? decode_whole(p, place, &f, channels, r->pixels, e) : -1;
    if (bad)
        whole_close(&r->rows);
    else
        *out = &r->rows;
    return bad;
}

/* --- any --- */

int tiff_rows_open(struct rows **out, const struct tiff_picture *p, const struct tile_place *place,
                   int64_t rows, struct err *e)
{
    const uint64_t all = p->file->bytes;
    struct tile_place here = *place;
    *out = NULL;
    if (here.bytes == 0 || here.offset >= all) {
        err_set(e, "a strip or tile lies outside the file");
        return ROWS_DAMAGED;
    }
    if (here.bytes > all - here.offset) /* the rows before the end are decoded */
        here.bytes = all - here.offset;
    if (p->compression == TILE_NONE)
        return plain_open(out, p, &here);
    if (p->compression == COMPRESSION_PACKBITS)
        return packed_open(out, p, &here);
    if (p->compression == TILE_JPEG)
        return stream_open(out, p, &here, rows, e);
    if (p->compression == TILE_J2K_RGB || p->compression == TILE_J2K_YCBCR)
        return whole_open(out, p, &here, rows, e);
    return library_open(out, p, &here, rows, e);
}
