/* rows.c - see rows.h: JPEG streams, and files in JPEG and PNG. */
#include "convert/readers/picture/rows.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/jpeg_rows.h"
#include "convert/readers/frame/slide_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_PNG
#include "convert/readers/picture/png_input.h"
#endif

/* --- JPEG --- */

struct stream_rows {
    struct rows rows;
    struct jpeg_rows *jpeg;
};

static int result_of(int r)
{
    return r == 0                                          ? 0
           : r == JPEG_ROWS_OTHER                          ? ROWS_OTHER
           : r == JPEG_NO_MEMORY || r == JPEG_ROWS_TROUBLE ? -1
                                                           : ROWS_DAMAGED;
}

static int stream_next(struct rows *r, uint8_t *out, struct err *e)
{
    return result_of(jpeg_rows_next(((struct stream_rows *)r)->jpeg, out, e));
}

static void stream_close(struct rows *r)
{
    jpeg_rows_close(((struct stream_rows *)r)->jpeg);
    free(r);
}

int jpeg_stream_open(struct rows **out, const struct jpeg_rows_input *in, struct rows_picture *p,
                     struct err *e)
{
    static const struct rows_kind kind = {stream_next, stream_close};
    struct stream_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    struct jpeg_rows_picture s = {0};
    const int bad = result_of(jpeg_rows_open(&r->jpeg, in, &s, e));
    *p = (struct rows_picture){s.cols, s.rows, s.channels,
                               s.is_subsampled ? TILE_SUBSAMPLED
                               : s.is_other    ? TILE_STATES_OTHER
                                               : TILE_AGREES};
    *out = bad ? NULL : &r->rows;
    if (bad) {
        const int code = errno;
        free(r);
        errno = code;
    }
    return bad;
}

int jpeg_picture_open(struct rows **out, const struct slide_file *file, struct rows_picture *p,
                      struct err *e)
{
    const struct jpeg_rows_input in = {
        .fd = file->fd, .bytes = file->bytes, .colours = JPEG_FILE, .most_bytes = ROWS_MOST_BYTES};
    return jpeg_stream_open(out, &in, p, e);
}

/* --- the ICC profile: up to 255 pieces in markers APP2, each with its number and how many --- */

enum { APP2 = 0xe2, SOS = 0xda, PIECE_HEAD = 14, MOST_PIECES = 255, MOST_MARKERS = 100000 };

struct pieces {
    struct {
        uint64_t at;
        size_t bytes;
    } list[MOST_PIECES + 1]; /* by number, from 1; at 0: it is not there */
    int n;                   /* how many there are to be */
};

static void take_piece(struct pieces *p, const uint8_t head[4 + PIECE_HEAD], uint64_t at, size_t n)
{
    const int number = head[4 + 12], all = head[4 + 13];
    if (n < PIECE_HEAD || memcmp(head + 4, "ICC_PROFILE", 12) != 0 || number < 1)
        return;
    p->list[number].at = at + PIECE_HEAD;
    p->list[number].bytes = n - PIECE_HEAD;
    p->n = all;
}

/* False: the file cannot be read, or has no markers where they have to be. */
static bool find_pieces(const struct slide_file *f, struct pieces *p)
{
    uint8_t head[4 + PIECE_HEAD];
    uint64_t at = 2;
    for (int k = 0; k < MOST_MARKERS; k++) {
        memset(head, 0, sizeof head);
        if (read_at(f->fd, at, head, sizeof head) < 4 || head[0] != 0xff)
            return false;
        const size_t n = (size_t)head[2] << 8 | head[3]; /* with these two bytes */
        if (head[1] == SOS || n < 2)
            return n >= 2;
        if (head[1] == APP2)
            take_piece(p, head, at + 4, n - 2);
        at += 2 + n;
    }
    return true;
}

static size_t bytes_of(const struct pieces *p)
{
    size_t all = 0;
    for (int k = 1; k <= p->n; k++) {
        if (!p->list[k].at)
            return 0;
        all += p->list[k].bytes;
    }
    return all;
}

int jpeg_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e)
{
    struct pieces p = {.n = 0};
    errno = 0;
    const bool found = find_pieces(file, &p);
    if (!found && errno)
        return err_sys(e, "cannot read");
    const size_t all = found ? bytes_of(&p) : 0;
    if (all == 0)
        return 0;
    if (!(*icc = memory_try(all, 1, e)))
        return -1;
    *bytes = 0;
    for (int k = 1; k <= p.n; k++)
        *bytes += read_at(file->fd, p.list[k].at, *icc + *bytes, p.list[k].bytes);
    return *bytes == all ? 1 : err_sys(e, "cannot read");
}

/*
 * --- PNG ---
 *
 * HAVE_PNG comes from the Makefile's probe.
 *
 * libpng hands out rows before it has seen the checksum of the chunk that they come from. So the
 * checksums are compared first, and for libpng the file ends where the data of the first wrong one
 * begin.
 */

#ifdef HAVE_PNG

enum {
    BUFFER = 1 << 16,
    SIGNATURE = 8,
};

struct png_rows {
    struct rows rows;
    png_structp png;
    png_infop info;
    jmp_buf failed;
    char why[160];
    const struct slide_file *file;
    uint64_t at, end; /* of what has not been read; find_end() */
    int trouble;      /* errno of a failed read, or 0 */
    bool no_memory;   /* an allocation of libpng has failed */
    int64_t cols, height, y;
    int samples;     /* of a pixel: 1 to 4 */
    uint8_t *line;   /* [cols][samples] */
    uint8_t *alpha;  /* [cols] */
    uint8_t **whole; /* [height] rows of an interlaced picture, else NULL */
    uint8_t *pixels; /* of these */
};

/* --- checksums --- */

static uint32_t crc_of(uint32_t crc, const uint8_t *p, size_t n)
{
    static const uint32_t nibbles[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                         0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                         0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                         0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    while (n-- > 0) {
        crc ^= *p++;
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return crc;
}

static uint32_t number(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Is the chunk of n bytes of data whole? 1, 0 or -1. */
static int check_chunk(const struct slide_file *f, uint64_t at, uint32_t n, uint8_t *buffer,
                       struct err *e)
{
    uint32_t crc = UINT32_MAX;
    uint64_t left = 4 + (uint64_t)n; /* with its type */
    uint8_t stated[4];
    for (at += 4; left > 0;) {
        const size_t some = left < BUFFER ? (size_t)left : BUFFER;
        if (read_at(f->fd, at, buffer, some) < some)
            return errno ? err_sys(e, "cannot read") : 0;
        crc = crc_of(crc, buffer, some);
        at += some;
        left -= some;
    }
    if (read_at(f->fd, at, stated, 4) < 4)
        return errno ? err_sys(e, "cannot read") : 0;
    return (crc ^ UINT32_MAX) == number(stated);
}

/* Where libpng may read to: the data of the first chunk of pixels with a wrong checksum, or the end
 * of the file. Other chunks with wrong checksums libpng leaves out or rejects itself. */
static int find_end(struct png_rows *r, const struct slide_file *f, struct err *e)
{
    uint8_t head[8], *buffer = memory_need(BUFFER, 1);
    const uint64_t all = f->bytes;
    uint64_t at = SIGNATURE;
    int good = 1;
    r->end = all;
    while (good >= 0 && at <= all && all - at >= 12) {
        errno = 0;
        if (read_at(f->fd, at, head, sizeof head) < sizeof head) {
            good = err_sys(e, "cannot read");
            break;
        }
        const uint32_t n = number(head);
        if (n > all - at - 12) /* cut off */
            break;
        const bool pixels = !memcmp(head + 4, "IDAT", 4);
        good = pixels ? check_chunk(f, at, n, buffer, e) : 1;
        if (good == 0) {
            r->end = at + sizeof head;
            break;
        }
        at += 12 + (uint64_t)n;
    }
    free(buffer);
    return good < 0 ? -1 : 0;
}

/* --- what libpng calls --- */

static void fail(png_structp png, png_const_charp text)
{
    struct png_rows *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", text);
    longjmp(r->failed, 1);
}

static void take(png_structp png, png_bytep out, png_size_t n)
{
    struct png_rows *r = png_get_io_ptr(png);
    errno = 0;
    if (n > r->end - r->at)
        png_error(png, "the file ends early, or a checksum is wrong");
    if (read_at(r->file->fd, r->at, out, n) < n) {
        r->trouble = errno;
        png_error(png, "cannot read");
    }
    r->at += n;
}

/* --- opening --- */

static void close_png(struct rows *rows)
{
    struct png_rows *r = (struct png_rows *)rows;
    png_destroy_read_struct(&r->png, &r->info, NULL);
    free(r->line);
    free(r->alpha);
    free(r->whole);
    free(r->pixels);
    free(r);
}

static int judge(const struct png_rows *r, struct err *e)
{
    if (r->trouble) {
        errno = r->trouble;
        return err_sys(e, "cannot read");
    }
    if (r->no_memory)
        return err_memory(e);
    err_set(e, "%s", r->why);
    return ROWS_DAMAGED;
}

/* Room for all rows of an interlaced picture. */
static int take_whole(struct png_rows *r, struct err *e)
{
    const uint64_t pitch = (uint64_t)r->cols * (uint64_t)r->samples;
    const uint64_t bytes = pitch * (uint64_t)r->height;
    if (bytes > ROWS_MOST_BYTES) {
        err_set(e, "an interlaced PNG of %" PRId64 " x %" PRId64 " px; save it without", r->cols,
                r->height);
        return ROWS_OTHER;
    }
    r->pixels = memory_try_zero(1, (size_t)bytes, e);
    r->whole = memory_try_zero((size_t)r->height, sizeof *r->whole, e);
    if (!r->pixels || !r->whole)
        return -1;
    for (int64_t y = 0; y < r->height; y++)
        r->whole[y] = r->pixels + (size_t)y * pitch;
    return 0;
}

static int read_header(struct png_rows *r, struct rows_picture *p, struct err *e)
{
    if (setjmp(r->failed))
        return judge(r, e);
    png_set_read_fn(r->png, r, take);
    png_read_info(r->png, r->info);
    if (png_get_bit_depth(r->png, r->info) == 16) {
        err_set(e, "a PNG of 16 bits; only 8-bit RGB and gray are converted");
        return ROWS_OTHER;
    }
    png_set_expand(r->png);
    const bool interlaced = png_set_interlace_handling(r->png) > 1;
    png_read_update_info(r->png, r->info);
    r->cols = png_get_image_width(r->png, r->info);
    r->height = png_get_image_height(r->png, r->info);
    r->samples = png_get_channels(r->png, r->info);
    r->line = memory_try((size_t)r->cols, 4, e);
    r->alpha = memory_try((size_t)r->cols, 1, e);
    r->rows.alpha = r->samples % 2 == 0 ? r->alpha : NULL;
    if (!r->line || !r->alpha)
        return -1;
    assert(png_get_rowbytes(r->png, r->info) <= (size_t)r->cols * 4);
    *p = (struct rows_picture){
        .cols = r->cols, .rows = r->height, .channels = r->samples < 3 ? 1 : 3};
    return interlaced ? take_whole(r, e) : 0;
}

/* --- rows --- */

static void compose(const struct png_rows *r, const uint8_t *line, uint8_t *out)
{
    const int colours = r->samples < 3 ? 1 : 3;
    const bool alpha = r->samples % 2 == 0;
    for (int64_t x = 0; x < r->cols; x++, line += r->samples, out += colours) {
        const int a = alpha ? line[colours] : 255;
        r->alpha[x] = (uint8_t)a;
        for (int k = 0; k < colours; k++)
            out[k] = (uint8_t)((line[k] * a + 255 * (255 - a) + 127) / 255);
    }
}

/* Decodes a row into r->line, or all rows of an interlaced picture. */
static int decode_row(struct png_rows *r, struct err *e)
{
    if (setjmp(r->failed))
        return judge(r, e);
    if (!r->whole)
        png_read_row(r->png, r->line, NULL);
    else if (r->y == 0)
        png_read_image(r->png, r->whole);
    return 0;
}

static int next_row(struct rows *rows, uint8_t *out, struct err *e)
{
    struct png_rows *r = (struct png_rows *)rows;
    if (r->y >= r->height) {
        err_set(e, "it has no further rows");
        return ROWS_DAMAGED;
    }
    const int bad = decode_row(r, e);
    if (bad == 0)
        compose(r, r->whole ? r->whole[r->y] : r->line, out);
    r->y++;
    return bad;
}

static int open_png(struct png_rows **out, const struct slide_file *file, struct rows_picture *p,
                    struct err *e)
{
    static const struct rows_kind kind = {next_row, close_png};
    struct png_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    r->file = file;
    int bad = find_end(r, file, e);
    if (bad == 0)
        bad = png_input_open(&r->png, &r->info, r, fail, &r->no_memory) ? err_memory(e)
                                                                        : read_header(r, p, e);
    if (bad) {
        const int code = errno;
        close_png(&r->rows);
        errno = code;
        return bad;
    }
    *out = r;
    return 0;
}

int png_rows_open(struct rows **out, const struct slide_file *file, struct rows_picture *p,
                  struct err *e)
{
    struct png_rows *r = NULL;
    const int bad = open_png(&r, file, p, e);
    *out = r ? &r->rows : NULL;
    return bad;
}

/* libpng unpacks the profile, up to 8 MB, and checks its length. */
int png_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e)
{
    struct rows_picture p;
    struct png_rows *r = NULL;
    char *name;
    int method, found = 0;
    png_bytep profile = NULL;
    png_uint_32 n = 0;
    const int bad = open_png(&r, file, &p, e);
    if (bad)
        return bad == -1 ? -1 : 0;
    if (png_get_iCCP(r->png, r->info, &name, &method, &profile, &n) == PNG_INFO_iCCP && n > 0) {
        found = (*icc = memory_try(n, 1, e)) ? 1 : -1;
        *bytes = n;
        if (found > 0)
            memcpy(*icc, profile, n);
    }
    close_png(&r->rows);
    return found;
}

#else

int png_rows_open(struct rows **r, const struct slide_file *file, struct rows_picture *p,
                  struct err *e)
{
    (void)file, (void)p;
    *r = NULL;
    err_set(e, "this build cannot read PNG: libpng was missing; install it (libpng-dev) and "
               "build again");
    return ROWS_OTHER;
}

int png_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e)
{
    (void)file, (void)icc, (void)bytes, (void)e;
    return 0;
}

#endif
