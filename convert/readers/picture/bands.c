/* bands.c - see bands.h. */
#include "convert/readers/picture/bands.h"

#include "common/base/memory.h"
#include "common/store/gray.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* BANDS_TILE rows of a column. */
struct band {
    int64_t number; /* -1: none */
    enum store_status status;
    uint8_t *pixels; /* [BANDS_TILE][used][channels] */
    uint8_t *shown;  /* [used]: 0 where all pixels of a column of them are transparent */
};

struct column {
    pthread_mutex_t lock;
    bool has_lock;
    struct rows *rows; /* of the current segment, or NULL */
    enum store_status status;
    int64_t next;  /* row of the picture that is decoded next */
    int64_t used;  /* px of a row that lie in the picture */
    uint8_t *line; /* [cols][channels] */
    struct band *bands;
};

struct bands {
    struct bands_picture picture;
    int64_t n_columns;
    int64_t n_bands; /* of each column */
    struct column *columns;
    pthread_mutex_t lock; /* of `refusal` */
    struct err refusal;
};

/* --- opening and closing --- */

static int open_column(const struct bands *b, struct column *c, int64_t k, struct err *e)
{
    const struct bands_picture *p = &b->picture;
    const int64_t left = p->width - k * p->cols;
    c->used = left < p->cols ? left : p->cols;
    c->bands = memory_need((size_t)b->n_bands, sizeof *c->bands);
    c->has_lock = !pthread_mutex_init(&c->lock, NULL);
    for (int64_t n = 0; n < b->n_bands; n++) {
        c->bands[n].number = -1;
        c->bands[n].pixels = memory_try((size_t)(BANDS_TILE * c->used), (size_t)p->channels, e);
        c->bands[n].shown = memory_try((size_t)c->used, 1, e);
        if (!c->bands[n].pixels || !c->bands[n].shown)
            return -1;
    }
    c->line = memory_try((size_t)p->cols, (size_t)p->channels, e);
    return c->line ? 0 : -1;
}

/* How many bands can be in use: tiles are read in order, 2 * threads + 2 at a time. */
static int64_t bands_in_use(const struct bands_picture *p, int threads)
{
    const int64_t across = (p->width + BANDS_TILE - 1) / BANDS_TILE;
    const int64_t down = (p->height + BANDS_TILE - 1) / BANDS_TILE;
    const int64_t n = (2 * threads + 2) / across + 2;
    return n < down ? n : down;
}

static int check_memory(const struct bands *b, struct err *e)
{
    const struct bands_picture *p = &b->picture;
    const double bands = (double)(b->n_bands * BANDS_TILE * p->channels) * (double)p->width;
    const double whole = (double)b->n_columns * (double)p->whole_bytes;
    if (bands + whole <= (double)ROWS_MOST_BYTES)
        return 0;
    return err_set(e,
                   "unsupported: %" PRId64 " x %" PRId64 " px in parts of %" PRId64 " x %" PRId64
                   " px need %.1f GiB of memory; write the picture in tiles of 256 px first",
                   p->width, p->height, p->cols, p->rows,
                   (bands + whole) / (double)((uint64_t)1 << 30));
}

struct bands *bands_open(const struct bands_picture *p, int threads, struct err *e)
{
    struct bands *b = memory_need(1, sizeof *b);
    b->picture = *p;
    b->n_bands = bands_in_use(p, threads);
    b->n_columns = (p->width + p->cols - 1) / p->cols;
    pthread_mutex_init(&b->lock, NULL);
    int r = check_memory(b, e);
    if (r == 0 && !(b->columns = memory_try_zero((size_t)b->n_columns, sizeof *b->columns, e)))
        r = -1;
    for (int64_t k = 0; k < b->n_columns && r == 0; k++)
        r = open_column(b, &b->columns[k], k, e);
    if (r == 0)
        return b;
    bands_close(b);
    return NULL;
}

static void close_column(const struct bands *b, struct column *c)
{
    rows_close(c->rows);
    for (int64_t n = 0; c->bands && n < b->n_bands; n++) {
        free(c->bands[n].pixels);
        free(c->bands[n].shown);
    }
    free(c->bands);
    free(c->line);
    if (c->has_lock)
        pthread_mutex_destroy(&c->lock);
}

void bands_close(struct bands *b)
{
    if (!b)
        return;
    for (int64_t k = 0; b->columns && k < b->n_columns; k++)
        close_column(b, &b->columns[k]);
    pthread_mutex_destroy(&b->lock);
    free(b->columns);
    free(b);
}

/* --- rows --- */

static void note_refusal(struct bands *b, const struct err *why)
{
    pthread_mutex_lock(&b->lock);
    if (!b->refusal.msg[0])
        b->refusal = *why;
    pthread_mutex_unlock(&b->lock);
}

const char *bands_refusal(const struct bands *b)
{
    return b->refusal.msg;
}

static void leave_segment(struct column *c, enum store_status status)
{
    rows_close(c->rows);
    c->rows = NULL;
    c->status = status;
}

static int begin_segment(struct bands *b, struct column *c, struct err *e)
{
    const struct bands_picture *p = &b->picture;
    struct err why = {0};
    leave_segment(c, STORE_MISSING);
    const int r = p->begin(p->ctx, c - b->columns, c->next / p->rows, &c->rows, &why);
    if (r == -1)
        return err_copy(e, &why);
    if (r)
        note_refusal(b, &why);
    c->status = r ? STORE_DAMAGED : c->rows ? STORE_WHOLE : STORE_MISSING;
    return 0;
}

/* Decodes the next row of a column into c->line, if its segment is whole so far. */
static int next_row(struct bands *b, struct column *c, struct err *e)
{
    struct err why = {0};
    if (c->next % b->picture.rows == 0 && begin_segment(b, c, e))
        return -1;
    if (c->status == STORE_WHOLE) {
        const int r = c->rows->kind->next(c->rows, c->line, &why);
        if (r == -1)
            return err_copy(e, &why);
        if (r) {
            note_refusal(b, &why);
            leave_segment(c, STORE_DAMAGED);
        }
    }
    c->next++;
    return 0;
}

static void fill(const struct bands_picture *p, int64_t n, uint8_t *out)
{
    uint8_t gray;
    gray_bytes_from_rgb(p->background, &gray, 1);
    if (p->channels == 1)
        memset(out, gray, (size_t)n);
    for (int64_t k = 0; p->channels == 3 && k < n; k++)
        memcpy(out + 3 * k, p->background, 3);
}

/* Damage of one row is damage of its band; a band is missing if all its rows are. */
static enum store_status joined(enum store_status a, enum store_status b)
{
    return a == STORE_DAMAGED || b == STORE_DAMAGED ? STORE_DAMAGED
           : a == STORE_WHOLE || b == STORE_WHOLE   ? STORE_WHOLE
                                                    : STORE_MISSING;
}

static void take_row(const struct column *c, size_t pitch, struct band *d, uint8_t *row)
{
    const uint8_t *alpha = c->rows->alpha;
    memcpy(row, c->line, pitch);
    if (!alpha)
        memset(d->shown, 1, (size_t)c->used);
    for (int64_t x = 0; alpha && x < c->used; x++)
        d->shown[x] |= alpha[x];
}

/* Decodes the band that begins at c->next. */
static int fill_band(struct bands *b, struct column *c, struct err *e)
{
    const struct bands_picture *p = &b->picture;
    const size_t pitch = (size_t)(c->used * p->channels);
    struct band *d = &c->bands[c->next / BANDS_TILE % b->n_bands];
    const int64_t number = c->next / BANDS_TILE;
    d->number = -1;
    d->status = STORE_MISSING;
    memset(d->shown, 0, (size_t)c->used);
    for (int64_t y = 0; y < BANDS_TILE && c->next < p->height; y++) {
        uint8_t *row = d->pixels + (size_t)y * pitch;
        if (next_row(b, c, e))
            return -1;
        if (c->status == STORE_WHOLE)
            take_row(c, pitch, d, row);
        else
            fill(p, c->used, row);
        d->status = joined(d->status, c->status);
    }
    d->number = number;
    return 0;
}

/* The band of a column, decoded. NULL on failure. */
static const struct band *band_of(struct bands *b, struct column *c, int64_t number, struct err *e)
{
    const int64_t first = number * BANDS_TILE, segment = first / b->picture.rows * b->picture.rows;
    const struct band *d = &c->bands[number % b->n_bands];
    if (d->number == number)
        return d;
    if (c->next > first || segment - c->next > b->n_bands * BANDS_TILE)
        c->next = segment; /* back, or far ahead */
    while (c->next % BANDS_TILE)
        if (next_row(b, c, e))
            return NULL;
    while (c->next <= first)
        if (fill_band(b, c, e))
            return NULL;
    return d;
}

/* --- tiles --- */

/* A rectangle of one column as part of a tile. */
struct part {
    int64_t x, from, cols, rows; /* x in the tile, `from` in the column */
};

static void copy_pixels(const uint8_t *from, int from_channels, int64_t n, int channels,
                        uint8_t *out)
{
    if (channels == from_channels)
        memcpy(out, from, (size_t)(n * channels));
    else if (channels == 1)
        gray_bytes_from_rgb(from, out, (size_t)n);
    else
        for (int64_t k = 0; k < n; k++)
            memset(out + 3 * k, from[k], 3);
}

/* Areas that were never scanned are transparent, and count as missing. */
static enum store_status part_status(const struct band *d, const struct part *t)
{
    for (int64_t x = 0; d->status == STORE_WHOLE && x < t->cols; x++)
        if (d->shown[t->from + x])
            return STORE_WHOLE;
    return d->status == STORE_WHOLE ? STORE_MISSING : d->status;
}

static int read_part(struct bands *b, struct column *c, int64_t row, const struct part *t,
                     int channels, uint8_t *out, enum store_status *status, struct err *e)
{
    const int own = b->picture.channels;
    pthread_mutex_lock(&c->lock);
    const struct band *d = band_of(b, c, row, e);
    for (int64_t y = 0; d && y < t->rows; y++)
        copy_pixels(d->pixels + (y * c->used + t->from) * own, own, t->cols, channels,
                    out + (y * BANDS_TILE + t->x) * channels);
    if (d)
        *status = joined(*status, part_status(d, t));
    else
        c->next = c->next / b->picture.rows * b->picture.rows; /* begins anew */
    pthread_mutex_unlock(&c->lock);
    return d ? 0 : -1;
}

static void fill_tile(const struct bands *b, int channels, uint8_t *out)
{
    const int64_t n = BANDS_TILE * BANDS_TILE;
    struct bands_picture p = b->picture;
    p.channels = channels;
    fill(&p, n, out);
}

int bands_read(struct bands *b, int64_t col, int64_t row, int channels, uint8_t *out,
               enum store_status *status, struct err *e)
{
    const struct bands_picture *p = &b->picture;
    const int64_t x = col * BANDS_TILE, y = row * BANDS_TILE;
    const int64_t end = p->width - x < BANDS_TILE ? p->width : x + BANDS_TILE;
    const int64_t rows = p->height - y < BANDS_TILE ? p->height - y : BANDS_TILE;
    *status = STORE_MISSING;
    for (int64_t at = x, next; at < end; at = next) {
        const int64_t k = at / p->cols;
        next = (k + 1) * p->cols < end ? (k + 1) * p->cols : end;
        const struct part t = {at - x, at - k * p->cols, next - at, rows};
        if (read_part(b, &b->columns[k], row, &t, channels, out, status, e))
            return -1;
    }
    if (*status != STORE_WHOLE)
        fill_tile(b, channels, out);
    return 0;
}
