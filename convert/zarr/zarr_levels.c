/* zarr_levels.c - see zarr_levels.h. */
#include "convert/zarr/zarr_levels.h"

#include "common/base/memory.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "common/codec/jpeg_encoder.h"
#include "common/store/chunks.h"
#include "convert/zarr/zarr_shard.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_QUALITY = 75, /* of JPEG: that of the slide, within these */
    MOST_QUALITY = 90,
    TOGETHER = 8,           /* chunks of the store that one thread reads at a time */
    ZSTD_BLOCK = 128 << 10, /* the most bytes in a block of a Zstandard frame */
    ZSTD_EXTRA = 64,        /* more than its pixels a chunk never takes */
};

/* A level that is being made. */
struct level {
    int64_t height, width;
    uint8_t *rows; /* u8 [room][width][channels]: those that are in no chunk yet */
    int64_t have;  /* of these */
    int64_t taken; /* of the whole level, up to now */
    struct zarr_shard shard;
};

struct item {
    int64_t column;              /* of chunks, of the level that is encoded */
    struct chunks_extent chunks; /* of the store */
    uint8_t *pixels, *bytes;     /* a chunk, and the same encoded */
    uint8_t *jpeg;               /* instead of `bytes`: free() it */
    size_t n;
};

struct pyramid {
    const struct store_info *i;
    struct chunks chunks;
    int threads;
    const atomic_int *threads_now;
    bool jpeg;
    struct level *levels; /* [n]; number 0 is not used */
    int n;
    struct chunks_scratch *scratch; /* [threads] */
    struct codec_work **codecs;     /* [threads] */
    struct item *items;
    int depth;
    int64_t row, column; /* what is read: the row of chunks and the next column */
    int level;           /* what is encoded */
};

static int64_t half(int64_t n)
{
    return n / 2 + n % 2;
}

static int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

int zarr_levels(const struct store_info *i)
{
    int n = 1;
    for (int64_t side = i->width > i->height ? i->width : i->height; side > ZARR_SMALLEST; n++)
        side = half(side);
    return n;
}

bool zarr_levels_are_jpeg(const struct store_info *i)
{
    return i->codec->id == CODEC_JPEG;
}

/* --- pixels --- */

/* The means of 2 x 2 px, rounded, of in[rows][cols][channels]. An odd last row or column is
 * taken twice. */
static void halve(const uint8_t *in, size_t pitch, int64_t rows, int64_t cols, int64_t channels,
                  uint8_t *out, size_t out_pitch)
{
    for (int64_t y = 0; y < rows; y += 2, out += out_pitch) {
        const uint8_t *a = in + (size_t)y * pitch, *b = y + 1 < rows ? a + pitch : a;
        for (int64_t x = 0; x < cols / 2; x++)
            for (int64_t c = 0; c < channels; c++) {
                const int64_t k = 2 * x * channels + c, next = k + channels;
                out[x * channels + c] = (uint8_t)((a[k] + a[next] + b[k] + b[next] + 2) >> 2);
            }
        for (int64_t c = 0; c < channels && cols % 2; c++) {
            const int64_t k = (cols - 1) * channels + c;
            out[cols / 2 * channels + c] = (uint8_t)((2 * a[k] + 2 * b[k] + 2) >> 2);
        }
    }
}

static size_t pitch_of(const struct pyramid *p, const struct level *l)
{
    return (size_t)(l->width * p->i->channels);
}

/* Where level l has the pixel of column x that comes after the rows it has. */
static uint8_t *place(const struct pyramid *p, const struct level *l, int64_t x)
{
    return l->rows + (size_t)l->have * pitch_of(p, l) + (size_t)(x * p->i->channels);
}

/* The chunk in `column` of the first rows of the level, whole: beyond the slide its last pixels are
 * repeated. */
static void copy_chunk(const struct pyramid *p, const struct level *l, int64_t rows, int64_t column,
                       uint8_t *out)
{
    const int64_t x = column * ZARR_SIDE, c = p->i->channels;
    const int64_t cols = l->width - x < ZARR_SIDE ? l->width - x : ZARR_SIDE;
    for (int64_t y = 0; y < ZARR_SIDE; y++, out += ZARR_SIDE * c) {
        const int64_t from = y < rows ? y : rows - 1;
        memcpy(out, l->rows + (size_t)from * pitch_of(p, l) + x * c, (size_t)(cols * c));
        for (int64_t k = cols * c; k < ZARR_SIDE * c; k++)
            out[k] = out[k - c];
    }
}

/* --- encoding --- */

static int quality_of(const struct store_info *i)
{
    const int64_t q = i->jpeg_quality > 0 ? i->jpeg_quality : MOST_QUALITY;
    return (int)(q < LEAST_QUALITY ? LEAST_QUALITY : q > MOST_QUALITY ? MOST_QUALITY : q);
}

/* A Zstandard frame that holds n bytes as they are: RFC 8878, 3.1.1. */
static size_t zstd_frame_of_pixels(const uint8_t *pixels, size_t n, uint8_t *out)
{
    const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0}; /* magic; one segment, size in 4 bytes */
    uint8_t *to = out + sizeof head;
    memcpy(out, head, sizeof head);
    for (int k = 0; k < 4; k++)
        *to++ = (uint8_t)(n >> 8 * k);
    for (size_t at = 0; at < n;) {
        const size_t part = n - at < ZSTD_BLOCK ? n - at : ZSTD_BLOCK;
        const size_t block = part << 3 | (at + part == n); /* of type 0: as it is */
        for (int k = 0; k < 3; k++)
            *to++ = (uint8_t)(block >> 8 * k);
        memcpy(to, pixels + at, part);
        to += part;
        at += part;
    }
    return (size_t)(to - out);
}

static int encode(struct pyramid *p, struct item *m, int thread, struct err *e)
{
    const struct codec_params params = {.codec = codec_find("zstd"),
                                        .rows = ZARR_SIDE,
                                        .cols = ZARR_SIDE,
                                        .channels = p->i->channels};
    if (p->jpeg) {
        m->jpeg = jpeg_encode(m->pixels, ZARR_SIDE, ZARR_SIDE, (int)p->i->channels,
                              quality_of(p->i), false, &m->n);
        return m->jpeg ? 0 : err_memory(e);
    }
    if (codec_encode(p->codecs[thread], &params, m->pixels, m->bytes, &m->n, e))
        return -1;
    if (m->n == 0)
        m->n = zstd_frame_of_pixels(m->pixels, codec_pixel_bytes(&params), m->bytes);
    return 0;
}

/* --- a row of chunks of a level --- */

static int next_column(void *ctx, void *item, int64_t number, struct err *e)
{
    const struct pyramid *p = ctx;
    struct item *m = item;
    m->column = number;
    if (stop_check(e))
        return -1;
    return number < ceil_div(p->levels[p->level].width, ZARR_SIDE) ? PIPE_ITEM : PIPE_END;
}

static int64_t rows_of_chunks(const struct level *l)
{
    return l->have < ZARR_SIDE ? l->have : ZARR_SIDE;
}

/* Encodes a chunk, and halves it into the next level. */
static int work_column(void *ctx, void *item, int thread, struct err *e)
{
    struct pyramid *p = ctx;
    struct item *m = item;
    const struct level *l = &p->levels[p->level], *next = l + 1;
    const int64_t rows = rows_of_chunks(l), x = m->column * ZARR_SIDE, c = p->i->channels;
    const int64_t cols = l->width - x < ZARR_SIDE ? l->width - x : ZARR_SIDE;
    copy_chunk(p, l, rows, m->column, m->pixels);
    if (p->level + 1 < p->n)
        halve(m->pixels, (size_t)(ZARR_SIDE * c), rows, cols, c, place(p, next, x / 2),
              pitch_of(p, next));
    return encode(p, m, thread, e);
}

static int put_column(void *ctx, void *item, struct err *e)
{
    struct pyramid *p = ctx;
    struct item *m = item;
    const int bad =
        zarr_shard_put(&p->levels[p->level].shard, m->jpeg ? m->jpeg : m->bytes, m->n, e);
    free(m->jpeg);
    m->jpeg = NULL;
    return bad;
}

static int most(void *ctx)
{
    const struct pyramid *p = ctx;
    const int now = p->threads_now ? atomic_load(p->threads_now) : p->threads;
    return now < 1 ? 1 : now < p->threads ? now : p->threads;
}

static bool is_due(const struct level *l)
{
    return l->have >= ZARR_SIDE || (l->have > 0 && l->taken == l->height);
}

/* Writes the chunks of the rows that a level has; so the next level gets rows, and perhaps has
 * enough of them, too. */
static int flush(struct pyramid *p, int k, struct err *e)
{
    const struct pipe_ops ops = {next_column, work_column, put_column, most};
    for (; k < p->n && is_due(&p->levels[k]); k++) {
        struct level *l = &p->levels[k];
        const int64_t rows = rows_of_chunks(l);
        p->level = k;
        if (pipe_run(&ops, p, p->items, sizeof *p->items, p->depth, p->threads, e))
            return -1;
        l->have -= rows;
        memmove(l->rows, l->rows + (size_t)rows * pitch_of(p, l), (size_t)l->have * pitch_of(p, l));
        if (k + 1 < p->n) {
            l[1].have += half(rows);
            l[1].taken += half(rows);
        }
    }
    return 0;
}

/* --- a row of chunks of the store --- */

static int next_chunks(void *ctx, void *item, int64_t number, struct err *e)
{
    struct pyramid *p = ctx;
    struct item *m = item;
    (void)number;
    if (stop_check(e))
        return -1;
    if (p->column == p->chunks.columns)
        return PIPE_END;
    m->chunks = chunks_extent_at(&p->chunks, p->row, p->column, TOGETHER);
    p->column += m->chunks.n;
    return PIPE_ITEM;
}

static int64_t rows_in_slide(const struct pyramid *p)
{
    const int64_t left = p->i->height - p->row * p->i->chunk_rows;
    return left < p->i->chunk_rows ? left : p->i->chunk_rows;
}

static void take_chunk(void *ctx, int64_t col, const uint8_t *pixels)
{
    const struct pyramid *p = ctx;
    const struct store_info *i = p->i;
    const int64_t x = col * i->chunk_cols;
    const int64_t cols = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    halve(pixels, (size_t)(i->chunk_cols * i->channels), rows_in_slide(p), cols, i->channels,
          place(p, &p->levels[1], x / 2), pitch_of(p, &p->levels[1]));
}

static int work_chunks(void *ctx, void *item, int thread, struct err *e)
{
    struct pyramid *p = ctx;
    const struct item *m = item;
    return chunks_visit(&p->chunks, &p->scratch[thread], m->chunks, take_chunk, p, e) ? -1 : 0;
}

static int no_sink(void *ctx, void *item, struct err *e)
{
    (void)ctx, (void)item, (void)e;
    return 0;
}

static int read_rows(struct pyramid *p, struct err *e)
{
    const struct pipe_ops ops = {next_chunks, work_chunks, no_sink, most};
    const int64_t all = ceil_div(p->i->height, p->i->chunk_rows);
    struct level *l = &p->levels[1];
    for (p->row = 0; p->row < all; p->row++) {
        p->column = 0;
        if (pipe_run(&ops, p, p->items, sizeof *p->items, p->depth, p->threads, e))
            return -1;
        l->have += half(rows_in_slide(p));
        l->taken += half(rows_in_slide(p));
        while (is_due(l))
            if (flush(p, 1, e))
                return -1;
    }
    return 0;
}

/* --- begin and end --- */

/* Room for what the last rows of chunks have left, and one more row of chunks. */
static int begin_level(struct pyramid *p, int k, const char *folder, struct err *e)
{
    struct level *l = &p->levels[k];
    const int64_t chunks = ceil_div(l->height, ZARR_SIDE) * ceil_div(l->width, ZARR_SIDE);
    const int64_t room = ZARR_SIDE + (k == 1 ? half(p->i->chunk_rows) : 0);
    char *path = memory_print("%s/%d/c/0/0/0", folder, k);
    l->rows = memory_try((size_t)room, pitch_of(p, l), e);
    const int bad = !l->rows || zarr_shard_begin(&l->shard, path, chunks, e);
    free(path);
    return bad ? -1 : 0;
}

static int begin(struct pyramid *p, const char *folder, struct err *e)
{
    const size_t chunk = (size_t)(ZARR_SIDE * ZARR_SIDE * p->i->channels);
    p->levels = memory_need((size_t)p->n, sizeof *p->levels);
    p->scratch = memory_need((size_t)p->threads, sizeof *p->scratch);
    p->codecs = memory_need((size_t)p->threads, sizeof *p->codecs);
    p->items = memory_need((size_t)p->depth, sizeof *p->items);
    for (int t = 0; t < p->threads; t++)
        p->codecs[t] = codec_create();
    for (int k = 0; k < p->depth; k++)
        if (!(p->items[k].pixels = memory_try(1, chunk, e)) ||
            !(p->items[k].bytes = memory_try(1, chunk + ZSTD_EXTRA, e)))
            return -1;
    p->levels[0].height = p->i->height;
    p->levels[0].width = p->i->width;
    for (int k = 1; k < p->n; k++) {
        p->levels[k].height = half(p->levels[k - 1].height);
        p->levels[k].width = half(p->levels[k - 1].width);
        if (begin_level(p, k, folder, e))
            return -1;
    }
    return 0;
}

static int end(struct pyramid *p, struct err *e)
{
    for (int k = 1; k < p->n; k++)
        if (zarr_shard_end(&p->levels[k].shard, e))
            return -1;
    return 0;
}

static void release(struct pyramid *p)
{
    for (int k = 1; k < p->n; k++) {
        zarr_shard_close(&p->levels[k].shard);
        free(p->levels[k].rows);
    }
    for (int k = 0; k < p->depth; k++) {
        free(p->items[k].pixels);
        free(p->items[k].bytes);
        free(p->items[k].jpeg);
    }
    for (int t = 0; t < p->threads; t++) {
        codec_free(p->codecs[t]);
        chunks_scratch_free(&p->scratch[t]);
    }
    free(p->levels);
    free(p->scratch);
    free(p->codecs);
    free(p->items);
}

int zarr_levels_write(struct store *s, const struct store_chunk *list, const char *folder,
                      int threads, const atomic_int *threads_now, struct err *e)
{
    struct pyramid p = {.i = store_info(s),
                        .chunks = chunks_of(s, list, 0),
                        .threads = threads,
                        .threads_now = threads_now,
                        .jpeg = zarr_levels_are_jpeg(store_info(s)),
                        .n = zarr_levels(store_info(s)),
                        .depth = 2 * threads + 2};
    if (p.n == 1)
        return 0;
    const int bad = begin(&p, folder, e) || read_rows(&p, e) || end(&p, e);
    release(&p);
    return bad ? -1 : 0;
}
