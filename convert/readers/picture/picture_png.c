/*
 * picture_png.c - PNG files as pictures; see picture.h. HAVE_PNG comes from the Makefile's probe.
 *
 * libpng hands out rows before it has seen the checksum of the chunk that they come from. So after
 * a failure only rows from earlier chunks are whole, unless the file just ends.
 */
#include "convert/readers/picture/picture.h"

#ifdef HAVE_PNG

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "convert/readers/picture/png_input.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNATURE = 8, CHUNK_HEAD = 8, CHECKSUM = 4 };

struct png_file {
    const struct slide_file *file;
    png_structp png;
    png_infop info;
    jmp_buf failed;
    char why[160];
    uint64_t at, next; /* of what has not been read; of the next chunk */
    int trouble;       /* errno of a failed read, or 0 */
    bool no_memory;    /* an allocation of libpng has failed */
    bool is_cut;       /* the file ends early */
    int64_t cols, rows;
    int64_t n_put, whole; /* rows; whole: from chunks whose checksums are right */
    int samples;          /* of a pixel: 1 to 4 */
    int passes;           /* more than 1: it is interlaced */
    uint8_t *pixels;      /* a row [cols][samples], or all rows of an interlaced picture */
};

/* --- what libpng calls --- */

static void fail(png_structp png, png_const_charp text)
{
    struct png_file *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", text);
    longjmp(r->failed, 1);
}

/* libpng reads the length and the type of a chunk in one piece. */
static void begin_chunk(struct png_file *r, const uint8_t head[CHUNK_HEAD])
{
    r->next =
        r->at + CHUNK_HEAD + CHECKSUM +
        ((uint64_t)head[0] << 24 | (uint64_t)head[1] << 16 | (uint64_t)head[2] << 8 | head[3]);
    r->whole = r->n_put;
}

static void take(png_structp png, png_bytep out, png_size_t n)
{
    struct png_file *r = png_get_io_ptr(png);
    errno = 0;
    r->is_cut = n > r->file->bytes - r->at;
    if (r->is_cut)
        png_error(png, "the file ends early");
    if (read_at(r->file->fd, r->at, out, n) < n) {
        r->trouble = errno;
        png_error(png, "cannot read");
    }
    if (r->at == r->next && n == CHUNK_HEAD)
        begin_chunk(r, out);
    r->at += n;
}

/* --- opening --- */

static void close_png(void *ctx)
{
    struct png_file *r = ctx;
    png_destroy_read_struct(&r->png, &r->info, NULL);
    free(r->pixels);
    free(r);
}

static int judge(const struct png_file *r, struct err *e)
{
    if (r->trouble) {
        errno = r->trouble;
        return err_sys(e, "cannot read");
    }
    if (r->no_memory)
        return err_memory(e);
    err_set(e, "%s", r->why);
    return PICTURE_DAMAGED;
}

static int read_header(struct png_file *r, struct err *e)
{
    if (setjmp(r->failed))
        return judge(r, e);
    png_set_read_fn(r->png, r, take);
    png_read_info(r->png, r->info);
    if (png_get_bit_depth(r->png, r->info) == 16) {
        err_set(e, "a PNG of 16 bits; only 8-bit RGB and gray are converted");
        return PICTURE_OTHER;
    }
    png_set_expand(r->png);
    r->passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->cols = png_get_image_width(r->png, r->info);
    r->rows = png_get_image_height(r->png, r->info);
    r->samples = png_get_channels(r->png, r->info);
    assert(png_get_rowbytes(r->png, r->info) == (size_t)(r->cols * r->samples));
    if (r->passes == 1 || (uint64_t)(r->cols * r->rows * r->samples) <= PICTURE_MOST_BYTES)
        return 0;
    err_set(e, "an interlaced PNG of %" PRId64 " x %" PRId64 " px; save it without", r->cols,
            r->rows);
    return PICTURE_OTHER;
}

/* libpng unpacks the profile, up to 8 MB, and checks its length. */
static int take_icc(const struct png_file *r, struct picture_form *f, struct err *e)
{
    char *name;
    int method;
    png_bytep profile = NULL;
    png_uint_32 n = 0;
    if (png_get_iCCP(r->png, r->info, &name, &method, &profile, &n) != PNG_INFO_iCCP || n == 0)
        return 0;
    if (!(f->icc = memory_try(n, 1, e)))
        return -1;
    memcpy(f->icc, profile, n);
    f->icc_bytes = n;
    return 0;
}

/* Of a resolution per metre. */
static void take_mpp(const struct png_file *r, struct picture_form *f)
{
    png_uint_32 x = 0, y = 0;
    int unit = PNG_RESOLUTION_UNKNOWN;
    if (!png_get_pHYs(r->png, r->info, &x, &y, &unit) || unit != PNG_RESOLUTION_METER)
        return;
    f->mpp_x = x > 0 ? 1e6 / x : NAN;
    f->mpp_y = y > 0 ? 1e6 / y : NAN;
}

/* --- rows --- */

/* An interlaced picture as a whole. */
static int decode_all(struct png_file *r, struct err *e)
{
    for (int pass = 0; pass < r->passes; pass++)
        for (int64_t y = 0; y < r->rows; y++) {
            if (stop_check(e))
                return -1;
            png_read_row(r->png, r->pixels + y * r->cols * r->samples, NULL);
        }
    return 0;
}

static int decode(void *ctx, const struct picture_segment *s, struct picture *p, struct err *e)
{
    struct png_file *r = ctx;
    const size_t pitch = (size_t)(r->cols * r->samples);
    (void)s;
    if (!(r->pixels = memory_try_zero(pitch, r->passes > 1 ? (size_t)r->rows : 1, e)))
        return -1;
    if (setjmp(r->failed)) {
        picture_keep(p, r->is_cut ? r->n_put : r->whole);
        return judge(r, e);
    }
    if (r->passes > 1 && decode_all(r, e))
        return -1;
    for (; r->n_put < r->rows; r->n_put++) {
        if (r->passes == 1)
            png_read_row(r->png, r->pixels, NULL);
        if (picture_put(p, r->pixels + (r->passes > 1 ? r->n_put * (int64_t)pitch : 0), e))
            return -1;
    }
    return 0;
}

int picture_open_png(struct picture_form *f, const struct slide_file *file, struct err *e)
{
    struct png_file *r = memory_need(1, sizeof *r);
    *f = (struct picture_form){.close = close_png, .ctx = r};
    r->file = file;
    r->next = SIGNATURE;
    int bad = png_input_open(&r->png, &r->info, r, fail, &r->no_memory) ? err_memory(e)
                                                                        : read_header(r, e);
    if (bad)
        return bad;
    *f = picture_form_of(r->cols, r->rows, r->samples);
    f->decode = decode;
    f->close = close_png;
    f->ctx = r;
    take_mpp(r, f);
    return take_icc(r, f, e);
}

#else

int picture_open_png(struct picture_form *f, const struct slide_file *file, struct err *e)
{
    (void)file;
    *f = (struct picture_form){0};
    err_set(e, "this build cannot read PNG: libpng was missing; install it (libpng-dev) and "
               "build again");
    return PICTURE_OTHER;
}

#endif
