/*
 * tiff_segment.c - see tiff_segment.h.
 *
 * Uncompressed and PackBits segments are read here, JPEG goes to libjpeg, and JPEG 2000 is decoded
 * at once. Others go to libtiff (strip.h).
 */
#include "convert/readers/tiff/tiff_segment.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "common/codec/jpeg_rows.h"
#include "convert/tile/strip.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int damaged(struct err *e, const char *why)
{
    err_set(e, "%s", why);
    return PICTURE_DAMAGED;
}

static int truncated(struct err *e)
{
    return slide_may_pass(errno) ? err_sys(e, "cannot read")
                                 : damaged(e, "a strip or tile is truncated");
}

/* Bytes of a row. */
static size_t pitch_of(const struct tiff_picture *t)
{
    return (size_t)(t->format.cols * t->format.samples);
}

/* Rows that the segment must have. */
static int64_t rows_of(const struct tiff_picture *t, const struct picture_segment *s)
{
    return t->in_strips ? s->rows : t->format.rows;
}

/* --- through libtiff --- */

static _Thread_local char complaint[160]; /* the first message of libtiff */

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

/* The next row to t->line. */
static int library_row(struct strip *r, const struct tiff_picture *t, int64_t row, struct err *e)
{
    complaint[0] = 0;
    errno = 0;
    if (TIFFReadScanline(r->tiff, t->line, (uint32_t)row, 0) == 1)
        return 0;
    if (r->trouble || errno == ENOMEM) {
        errno = r->trouble ? r->trouble : ENOMEM;
        return err_sys(e, "cannot read");
    }
    err_set(e, "libtiff: %s", complaint);
    return PICTURE_DAMAGED;
}

/* Do streams of this compression end by a mark or a checksum, which libtiff does not read? */
static bool has_end(int compression)
{
    return compression == COMPRESSION_ADOBE_DEFLATE || compression == COMPRESSION_DEFLATE ||
           compression == COMPRESSION_LZW || compression == COMPRESSION_LZMA ||
           compression == COMPRESSION_ZSTD;
}

/* How many bytes row y lacks, if libtiff's message is that the stream ended early; else 0. */
static size_t missing_bytes(void)
{
    const char *n = strstr(complaint, "Not enough data") ? strstr(complaint, "(short ") : NULL;
    return n ? (size_t)strtoull(n + 7, NULL, 10) : 0;
}

/* Row y could not be decoded: is the stream damaged, so that the rows above may be wrong, too? It is
 * not if it only ended early, or after the last row. */
static bool is_wrong(const struct tiff_picture *t, int64_t y, int64_t rows)
{
    const size_t n = missing_bytes();
    return strstr(complaint, "Decoding error") || strstr(complaint, "checksum") ||
           (y < rows ? n == 0 : n > 0 && n < pitch_of(t));
}

/*
 * Asks for one row more than the segment has: libtiff then checks the end of the stream. A damaged
 * stream often makes more bytes than it should; none of its rows counts as whole. The last strip
 * may have rows below the picture.
 */
static int put_library(struct strip *r, struct tiff_picture *t, const struct picture_segment *s,
                       struct picture *p, struct err *e)
{
    const int64_t rows = has_end(t->format.compression) ? t->format.rows + 1 : s->rows;
    int bad = 0;
    for (int64_t y = 0; y < rows && !bad; y++) {
        bad = library_row(r, t, y, e);
        const bool wrong = bad == PICTURE_DAMAGED && is_wrong(t, y, s->rows);
        if (has_end(t->format.compression) && (wrong || (!bad && y == t->format.rows))) {
            picture_keep(p, 0);
            return wrong ? bad : damaged(e, "a strip or tile holds more than its rows");
        }
        if (bad == PICTURE_DAMAGED && y >= s->rows) /* the stream has ended */
            return 0;
        if (!bad)
            bad = y < s->rows ? picture_put(p, t->line, e) : stop_check(e);
    }
    return bad;
}

static int decode_library(struct tiff_picture *t, const struct picture_segment *s,
                          const struct tile_place *place, struct picture *p, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int64_t rows = has_end(t->format.compression) ? t->format.rows + 1 : rows_of(t, s);
    struct strip r;
    pthread_once(&once, listen);
    if (strip_open(&r, &t->format, rows, t->fill_order, t->file->fd, place->offset, place->bytes))
        return err_memory(e);
    const int bad = put_library(&r, t, s, p, e);
    const int code = errno;
    strip_close(&r);
    errno = code;
    return bad;
}

/* --- uncompressed --- */

static int put_plain(struct tiff_picture *t, const struct picture_segment *s,
                     const struct tile_place *place, struct picture *p, struct err *e)
{
    const size_t pitch = pitch_of(t);
    for (uint64_t y = 0, at = 0; y < (uint64_t)s->rows; y++, at += pitch) {
        errno = 0;
        if (place->bytes - at < pitch ||
            read_at(t->file->fd, place->offset + at, t->line, pitch) < pitch)
            return truncated(e);
        if (t->fill_order == 2)
            TIFFReverseBits(t->line, (tmsize_t)pitch);
        if (picture_put(p, t->line, e))
            return -1;
    }
    return 0;
}

/* --- PackBits --- */

/* A run can end in another row than it begins in, which libtiff's rows do not allow. */
struct packed {
    int fd;
    uint64_t at, end;
    size_t next, n; /* of buffer */
    size_t left;    /* bytes of the current run */
    int value;      /* that it repeats; -1: it repeats none */
    bool reversed;  /* the bits of each byte */
    uint8_t buffer[1 << 14];
};

/* The next byte of the file, or -1. */
static int packed_byte(struct packed *r)
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

/* The next byte of the picture, or -1. */
static int unpacked_byte(struct packed *r)
{
    int head = 128;
    while (r->left == 0 && head == 128) { /* 128: nothing */
        head = packed_byte(r);
        r->value = head > 128 ? packed_byte(r) : -1;
        r->left = head > 128 ? 257 - (size_t)head : head < 128 ? (size_t)(head + 1) : 0;
        if (head < 0 || (head > 128 && r->value < 0))
            return -1;
    }
    r->left--;
    return r->value >= 0 ? r->value : packed_byte(r);
}

static int put_packed(struct tiff_picture *t, const struct picture_segment *s,
                      const struct tile_place *place, struct picture *p, struct err *e)
{
    struct packed r = {.fd = t->file->fd,
                       .at = place->offset,
                       .end = place->offset + place->bytes,
                       .reversed = t->fill_order == 2};
    const size_t pitch = pitch_of(t);
    errno = 0;
    for (int64_t y = 0; y < s->rows; y++) {
        for (size_t k = 0; k < pitch; k++) {
            const int byte = unpacked_byte(&r);
            if (byte < 0)
                return truncated(e);
            t->line[k] = (uint8_t)byte;
        }
        if (picture_put(p, t->line, e))
            return -1;
    }
    return 0;
}

/* --- JPEG --- */

static void note(struct tiff_picture *t, const struct jpeg_rows_picture *stream)
{
    const enum tile_conflict conflict = stream->is_subsampled ? TILE_SUBSAMPLED
                                        : stream->is_other    ? TILE_STATES_OTHER
                                                              : TILE_AGREES;
    t->conflict = conflict > t->conflict ? conflict : t->conflict;
}

static int put_jpeg(struct tiff_picture *t, const struct picture_segment *s,
                    const struct tile_place *place, struct picture *p, struct err *e)
{
    const struct tile_format *f = &t->format;
    const struct jpeg_rows_input in = {.fd = t->file->fd,
                                       .at = place->offset,
                                       .bytes = place->bytes,
                                       .tables = t->tables,
                                       .tables_bytes = f->tables_bytes,
                                       .colours = f->samples == 1 ? JPEG_SINGLE
                                                  : f->photometric == TILE_PHOTOMETRIC_YCBCR
                                                      ? JPEG_YCBCR
                                                      : JPEG_RGB,
                                       .most_bytes = PICTURE_MOST_BYTES};
    struct jpeg_rows_picture stream;
    struct jpeg_rows *rows;
    int bad = picture_from_jpeg(jpeg_rows_open(&rows, &in, &stream, e));
    if (bad)
        return bad == PICTURE_OTHER ? PICTURE_DAMAGED : bad;
    if (stream.cols == f->cols && stream.rows >= rows_of(t, s) && stream.rows <= f->rows) {
        note(t, &stream);
        bad = picture_put_jpeg(p, s, rows, t->line, e);
    } else {
        err_set(e, "a stream of %d x %d px in a strip or tile of %d x %d px", (int)stream.cols,
                (int)stream.rows, (int)f->cols, (int)rows_of(t, s));
        bad = PICTURE_DAMAGED;
    }
    const int code = errno;
    jpeg_rows_close(rows);
    errno = code;
    return bad;
}

/* --- JPEG 2000 --- */

static int decode_whole(const struct tiff_picture *t, const struct tile_place *place,
                        const struct tile_format *f, uint8_t *pixels, struct err *e)
{
    uint8_t *bytes = memory_try((size_t)place->bytes, 1, e);
    struct tile_decoder *d = bytes ? tile_create(f, e) : NULL;
    int bad = d ? 0 : -1;
    errno = 0;
    if (bad == 0 && read_at(t->file->fd, place->offset, bytes, place->bytes) < place->bytes)
        bad = truncated(e);
    if (bad == 0) {
        bad = tile_decode(d, bytes, (size_t)place->bytes, f->samples, pixels, e);
        bad = bad == TILE_NO_MEMORY ? -1 : bad ? PICTURE_DAMAGED : 0;
    }
    const int code = errno;
    tile_free(d);
    free(bytes);
    errno = code;
    return bad;
}

static int put_j2k(struct tiff_picture *t, const struct picture_segment *s,
                   const struct tile_place *place, struct picture *p, struct err *e)
{
    struct tile_format f = t->format;
    f.rows = rows_of(t, s);
    f.photometric = f.samples == 1 ? TILE_PHOTOMETRIC_GRAY : f.photometric;
    uint8_t *pixels = memory_try(pitch_of(t), (size_t)f.rows, e);
    int bad = pixels ? decode_whole(t, place, &f, pixels, e) : -1;
    for (int64_t y = 0; y < s->rows && !bad; y++)
        bad = picture_put(p, pixels + (size_t)y * pitch_of(t), e);
    const int code = errno;
    free(pixels);
    errno = code;
    return bad;
}

/* --- any --- */

int tiff_segment_decode(struct tiff_picture *t, const struct picture_segment *s,
                        const struct tile_place *place, struct picture *p, struct err *e)
{
    const uint64_t all = t->file->bytes;
    struct tile_place here = *place;
    if (here.bytes == 0 || here.offset >= all)
        return damaged(e, "a strip or tile lies outside the file");
    if (here.bytes > all - here.offset) /* the rows before the end are decoded */
        here.bytes = all - here.offset;
    switch (t->format.compression) {
    case COMPRESSION_NONE: return put_plain(t, s, &here, p, e);
    case COMPRESSION_PACKBITS: return put_packed(t, s, &here, p, e);
    case COMPRESSION_JPEG: return put_jpeg(t, s, &here, p, e);
    case TILE_J2K_RGB:
    case TILE_J2K_YCBCR: return put_j2k(t, s, &here, p, e);
    default: return decode_library(t, s, &here, p, e);
    }
}
