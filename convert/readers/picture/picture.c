/* picture.c - see picture.h. */
#include "convert/readers/picture/picture.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "common/store/gray.h"
#include "convert/tile/tile_pixels.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 1 << 24 };

static const char what[] = "the pixels of a picture";

/* A rectangle from (x, y) in the picture, px. */
struct piece {
    int64_t x, y, cols, rows;
};

/*
 * The temporary file has the samples plane by plane, and in a plane tile by tile, in row-major
 * order. Tiles at the edges are smaller.
 */
struct picture {
    struct picture_form form;
    int64_t across, down; /* segments */
    int32_t *whole;       /* [planes][down][across] rows that are whole; -1: missing */
    pthread_mutex_t lock; /* while it is decoded */
    FILE *scratch;        /* NULL until it is decoded */
    struct err refusal;   /* the first damage */
    struct err failure;   /* why it cannot be decoded now, with its errno */
    int failed;           /* 0: it has not failed */
    /* while it is decoded: */
    struct picture_segment at;
    int64_t n_put;     /* rows of the segment */
    picture_row *scan; /* takes the rows; NULL: they are held */
    void *scan_ctx;
    struct piece held; /* what the buffer has: whole rows of a segment, in one row of tiles */
    int held_plane;
    int64_t room;    /* rows of the buffer */
    uint8_t *buffer; /* [room][held.cols][samples of a plane] */
    uint8_t *block;  /* [room][PICTURE_TILE][samples of a plane] */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes of a pixel in a plane. */
static int64_t step_of(const struct picture *p)
{
    return p->form.format.samples / p->form.planes;
}

struct picture_form picture_form_of(int64_t width, int64_t height, int samples)
{
    return (struct picture_form){
        .width = width,
        .height = height,
        .cols = width,
        .rows = height,
        .bytes = width * height * samples,
        .planes = 1,
        .format = {.photometric = samples < 3 ? TILE_PHOTOMETRIC_GRAY : TILE_PHOTOMETRIC_RGB,
                   .samples = samples,
                   .alpha_at = samples % 2 == 0 ? samples - 1 : 0},
        .mpp_x = NAN,
        .mpp_y = NAN,
        .background = {255, 255, 255}};
}

void picture_form_free(struct picture_form *f)
{
    if (f->close)
        f->close(f->ctx);
    free(f->icc);
    free(f->shown);
    *f = (struct picture_form){0};
}

struct picture *picture_open(const struct picture_form *f)
{
    struct picture *p = memory_need(1, sizeof *p);
    p->form = *f;
    p->across = (f->width + f->cols - 1) / f->cols;
    p->down = (f->height + f->rows - 1) / f->rows;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void picture_close(struct picture *p)
{
    if (!p)
        return;
    if (p->scratch)
        fclose(p->scratch);
    picture_form_free(&p->form);
    pthread_mutex_destroy(&p->lock);
    free(p->whole);
    free(p);
}

const char *picture_refusal(const struct picture *p)
{
    return p->refusal.msg;
}

const char *picture_conflict(const struct picture *p)
{
    return p->form.conflict;
}

int picture_icc(const struct picture *p, uint8_t **profile, size_t *bytes, struct err *e)
{
    if (!p->form.icc)
        return 0;
    if (!(*profile = memory_try(p->form.icc_bytes, 1, e)))
        return -1;
    memcpy(*profile, p->form.icc, p->form.icc_bytes);
    *bytes = p->form.icc_bytes;
    return 1;
}

/* --- the temporary file --- */

/* The tile that has the pixel. */
static struct piece tile_at(const struct picture *p, int64_t x, int64_t y)
{
    x -= x % PICTURE_TILE;
    y -= y % PICTURE_TILE;
    return (struct piece){x, y, least(p->form.width - x, PICTURE_TILE),
                          least(p->form.height - y, PICTURE_TILE)};
}

/* Where a pixel lies in the file. */
static uint64_t place_of(const struct picture *p, int plane, int64_t x, int64_t y)
{
    const struct piece t = tile_at(p, x, y);
    const int64_t before = t.y * p->form.width + t.x * t.rows;
    return (
        uint64_t)((plane * p->form.width * p->form.height + before + (y - t.y) * t.cols + x - t.x) *
                  step_of(p));
}

/* Writes the part of the held rows that lies in a tile: with one call if it is as wide as the tile. */
static int write_piece(struct picture *p, const struct piece *a, struct err *e)
{
    const bool whole = a->cols == tile_at(p, a->x, a->y).cols;
    const int64_t step = step_of(p);
    const size_t pitch = (size_t)(a->cols * step);
    const int fd = fileno(p->scratch);
    int bad = 0;
    for (int64_t y = 0; y < a->rows && !bad; y++) {
        const uint8_t *row = p->buffer + (y * p->held.cols + a->x - p->held.x) * step;
        if (whole)
            memcpy(p->block + (size_t)y * pitch, row, pitch);
        else
            bad = write_at(fd, place_of(p, p->held_plane, a->x, a->y + y), row, pitch);
    }
    if (whole)
        bad =
            write_at(fd, place_of(p, p->held_plane, a->x, a->y), p->block, (size_t)a->rows * pitch);
    return bad ? temporary_failed(what, e) : 0;
}

/* Writes the held rows. */
static int flush(struct picture *p, struct err *e)
{
    struct piece a = p->held;
    const int64_t end = a.x + a.cols;
    for (int bad = 0; a.rows > 0 && a.x < end; a.x += a.cols) {
        a.cols = least((a.x / PICTURE_TILE + 1) * PICTURE_TILE, end) - a.x;
        if ((bad = write_piece(p, &a, e)))
            return bad;
    }
    p->held.rows = 0;
    return 0;
}

/* --- decoding --- */

int picture_put(struct picture *p, const uint8_t *row, struct err *e)
{
    const struct piece one = {p->at.col * p->form.cols, p->at.row * p->form.rows + p->n_put,
                              p->at.cols, 1};
    struct piece *h = &p->held;
    if (p->scan) {
        p->scan(p->scan_ctx, one.x, one.y, one.cols, row);
        p->n_put++;
        return stop_check(e);
    }
    const bool goes_on = one.x == h->x && one.y == h->y + h->rows && p->at.plane == p->held_plane;
    if ((!goes_on || h->rows == p->room || one.y % PICTURE_TILE == 0) && flush(p, e))
        return -1;
    if (h->rows == 0) {
        *h = (struct piece){one.x, one.y, one.cols, 0};
        p->held_plane = p->at.plane;
    }
    const size_t pitch = (size_t)(one.cols * step_of(p));
    memcpy(p->buffer + (size_t)h->rows * pitch, row, pitch);
    h->rows++;
    p->n_put++;
    return stop_check(e);
}

void picture_keep(struct picture *p, int64_t rows)
{
    p->n_put = least(rows, p->n_put);
}

void picture_note(struct picture *p, const char *conflict)
{
    p->form.conflict = conflict;
}

static int decode_segment(struct picture *p, int64_t k, struct err *e)
{
    const struct picture_form *f = &p->form;
    const int64_t col = k % p->across, row = k / p->across % p->down;
    struct err why = {0};
    p->at = (struct picture_segment){.plane = (int)(k / p->across / p->down),
                                     .col = col,
                                     .row = row,
                                     .cols = least(f->width - col * f->cols, f->cols),
                                     .rows = least(f->height - row * f->rows, f->rows)};
    p->n_put = 0;
    const int r = f->decode(f->ctx, &p->at, p, &why);
    if (r == -1)
        return err_copy(e, &why);
    if (r == PICTURE_DAMAGED && !p->refusal.msg[0])
        p->refusal = why;
    p->whole[k] = r == PICTURE_MISSING ? -1 : (int32_t)p->n_put;
    return 0;
}

/* Allocates the buffers for rows that are not written yet. */
static int make_room(struct picture *p, struct err *e)
{
    const size_t step = (size_t)step_of(p);
    const size_t pitch = (size_t)least(p->form.cols, p->form.width) * step;
    p->room = pitch < BUFFER / PICTURE_TILE ? PICTURE_TILE : (int64_t)(BUFFER / pitch) + 1;
    p->buffer = memory_try(pitch, (size_t)p->room, e);
    p->block = memory_try((size_t)(PICTURE_TILE * p->room), step, e);
    p->whole = memory_try((size_t)(p->across * p->down * p->form.planes), sizeof *p->whole, e);
    return p->buffer && p->block && p->whole ? 0 : -1;
}

static int decode_all(struct picture *p, struct err *e)
{
    const struct picture_form *f = &p->form;
    int bad = make_room(p, e);
    if (!bad && !(p->scratch = temporary_open(what, e)))
        bad = -1;
    if (!bad)
        bad =
            temporary_room(p->scratch, f->width * f->height * f->format.samples, f->bytes, what, e);
    for (int64_t k = 0; k < p->across * p->down * f->planes && !bad; k++)
        bad = decode_segment(p, k, e);
    bad = bad ? bad : flush(p, e);
    const int code = errno;
    free(p->buffer);
    free(p->block);
    errno = code;
    return bad;
}

int picture_scan(struct picture *p, picture_row *row, void *ctx, struct err *e)
{
    const int64_t n = p->across * p->down * p->form.planes;
    p->scan = row;
    p->scan_ctx = ctx;
    p->whole = memory_try((size_t)n, sizeof *p->whole, e);
    int bad = p->whole ? 0 : -1;
    for (int64_t k = 0; k < n && !bad; k++) {
        bad = decode_segment(p, k, e);
        for (int64_t y = bad ? -1 : p->whole[k]; y >= 0 && y < p->at.rows; y++)
            row(ctx, p->at.col * p->form.cols, p->at.row * p->form.rows + y, p->at.cols, NULL);
    }
    return bad;
}

/* Decodes the picture unless that is done. */
static int prepare(struct picture *p, struct err *e)
{
    pthread_mutex_lock(&p->lock);
    if (!p->scratch && !p->failed && decode_all(p, &p->failure))
        p->failed = errno ? errno : EIO;
    pthread_mutex_unlock(&p->lock);
    if (!p->failed)
        return 0;
    errno = p->failed;
    return err_copy(e, &p->failure);
}

/* --- tiles --- */

/* n pixels of background. */
static void fill(const struct picture *p, int channels, int64_t n, uint8_t *out)
{
    uint8_t gray;
    gray_bytes_from_rgb(p->form.background, &gray, 1);
    if (channels == 1)
        memset(out, gray, (size_t)n);
    for (int64_t k = 0; channels == 3 && k < n; k++)
        memcpy(out + 3 * k, p->form.background, 3);
}

/* A segment, and the part of a tile that lies in it. */
struct share {
    int64_t col, row;
    struct piece in;
};

/* The first share of a tile, with NULL, or the next one; they come row by row. False: none. */
static bool next_share(const struct picture *p, const struct piece *tile, struct share *s)
{
    const struct picture_form *f = &p->form;
    if (s->in.cols == 0)
        s->in = (struct piece){tile->x, tile->y, 0, 0};
    else if ((s->in.x += s->in.cols) >= tile->x + tile->cols) {
        s->in.x = tile->x;
        s->in.y += s->in.rows;
    }
    s->col = s->in.x / f->cols;
    s->row = s->in.y / f->rows;
    s->in.cols = least((s->col + 1) * f->cols, tile->x + tile->cols) - s->in.x;
    s->in.rows = least((s->row + 1) * f->rows, tile->y + tile->rows) - s->in.y;
    return s->in.y < tile->y + tile->rows;
}

static enum store_status status_of(const struct picture *p, const struct share *s)
{
    const int64_t end = s->in.y + s->in.rows - s->row * p->form.rows;
    enum store_status status = STORE_WHOLE;
    for (int plane = 0; plane < p->form.planes; plane++) {
        const int32_t whole = p->whole[(plane * p->down + s->row) * p->across + s->col];
        if (whole < 0)
            return STORE_MISSING; /* all planes are */
        if (whole < end)
            status = STORE_DAMAGED;
    }
    return status;
}

/* One damaged row makes a tile damaged; it is missing if all its rows are. */
static enum store_status tile_status(const struct picture *p, const struct piece *tile)
{
    enum store_status all = STORE_MISSING;
    for (struct share s = {0}; next_share(p, tile, &s) && all != STORE_DAMAGED;) {
        const enum store_status one = status_of(p, &s);
        all = one == STORE_MISSING ? all : one;
    }
    return all;
}

/* Reads the samples of a tile, [rows][cols][samples] u8, by way of `plane`. */
static int read_samples(const struct picture *p, const struct piece *tile, uint8_t *samples,
                        uint8_t *plane, struct err *e)
{
    const size_t n = (size_t)(tile->cols * tile->rows), step = (size_t)step_of(p);
    const int planes = p->form.planes;
    for (int k = 0; k < planes; k++) {
        uint8_t *to = planes > 1 ? plane : samples;
        const uint64_t at = place_of(p, k, tile->x, tile->y);
        errno = 0;
        if (read_at(fileno(p->scratch), at, to, n * step) < n * step) {
            errno = errno ? errno : EIO;
            return err_sys(e, "cannot read the temporary file for %s", what);
        }
        for (size_t j = 0; planes > 1 && j < n; j++)
            samples[j * (size_t)planes + (size_t)k] = plane[j];
    }
    return 0;
}

/* Fills with background those parts of a whole tile that the file does not have. */
static void fill_missing(const struct picture *p, const struct piece *tile, int channels,
                         uint8_t *out)
{
    for (struct share s = {0}; next_share(p, tile, &s);) {
        uint8_t *to = out + ((s.in.y - tile->y) * PICTURE_TILE + s.in.x - tile->x) * channels;
        for (int64_t y = 0; status_of(p, &s) == STORE_MISSING && y < s.in.rows; y++)
            fill(p, channels, s.in.cols, to + y * PICTURE_TILE * channels);
    }
}

/* Whole pixels of a tile; *status becomes STORE_MISSING if all are transparent. */
static int cut(const struct picture *p, const struct piece *tile, int channels, uint8_t *out,
               enum store_status *status, struct err *e)
{
    const int64_t pitch = tile->cols * p->form.format.samples;
    uint8_t *samples = memory_try((size_t)(tile->rows + 1), (size_t)pitch, e);
    uint8_t *plane = samples ? memory_try((size_t)tile->rows, (size_t)tile->cols, e) : NULL;
    bool shown = false;
    const int bad = plane ? read_samples(p, tile, samples, plane, e) : -1;
    for (int64_t y = 0; y < tile->rows && !bad; y++)
        shown |= tile_take_pixels(&p->form.format, samples + y * pitch, (size_t)tile->cols,
                                  channels, out + y * PICTURE_TILE * channels);
    if (!bad)
        fill_missing(p, tile, channels, out);
    *status = shown ? STORE_WHOLE : STORE_MISSING;
    const int code = errno;
    free(samples);
    free(plane);
    errno = code;
    return bad;
}

int picture_read(struct picture *p, int64_t col, int64_t row, int channels, uint8_t *out,
                 enum store_status *status, struct err *e)
{
    const struct piece tile = tile_at(p, col * PICTURE_TILE, row * PICTURE_TILE);
    if (prepare(p, e))
        return -1;
    const int64_t across = (p->form.width + PICTURE_TILE - 1) / PICTURE_TILE;
    *status =
        !p->form.shown || p->form.shown[row * across + col] ? tile_status(p, &tile) : STORE_MISSING;
    if (*status == STORE_WHOLE && cut(p, &tile, channels, out, status, e))
        return -1;
    if (*status != STORE_WHOLE)
        fill(p, channels, (int64_t)PICTURE_TILE * PICTURE_TILE, out);
    return 0;
}

/* Copies a tile [PICTURE_TILE][PICTURE_TILE][3] to its place. */
static void place_tile(const struct picture *p, const struct piece *t, const uint8_t *tile,
                       uint8_t *rgb)
{
    for (int64_t y = 0; y < t->rows; y++)
        memcpy(rgb + 3 * ((t->y + y) * p->form.width + t->x), tile + 3 * y * PICTURE_TILE,
               (size_t)(3 * t->cols));
}

uint8_t *picture_rgb(struct picture *p, struct err *e)
{
    const struct picture_form *f = &p->form;
    uint8_t *rgb = memory_try((size_t)(f->width * f->height), 3, e);
    uint8_t *tile = memory_try(3 * PICTURE_TILE, PICTURE_TILE, e);
    enum store_status status = STORE_WHOLE;
    int bad = rgb && tile ? 0 : -1;
    for (int64_t y = 0; y < f->height; y += PICTURE_TILE)
        for (int64_t x = 0; x < f->width && !bad && status == STORE_WHOLE; x += PICTURE_TILE) {
            const struct piece t = tile_at(p, x, y);
            bad = picture_read(p, x / PICTURE_TILE, y / PICTURE_TILE, 3, tile, &status, e);
            if (!bad)
                place_tile(p, &t, tile, rgb);
        }
    const int code = bad ? errno : 0;
    free(tile);
    if (bad || status != STORE_WHOLE) {
        free(rgb);
        rgb = NULL;
    }
    errno = code;
    return rgb;
}
