/* verify.c - see verify.h. Group by group through the parallel loop; an item is an extent of
 * chunks. */
#include "process/commands/verify.h"

#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "common/store/chunks.h"
#include "common/store/store.h"

#include <stdlib.h>

/* Of an item: pixels, or stored bytes with --quick. A thread reads PIECE_BYTES of stored bytes at
 * once, which stay in the cache of its processor. */
enum { PIXEL_BYTES = 1 << 20, STORED_BYTES = 4 << 20, PIECE_BYTES = 256 << 10 };

struct verify {
    const struct verify_options *options;
    struct verify_report *report;
    struct store *store;
    struct store_chunk *list;       /* of the largest group */
    struct chunks chunks;           /* of the group being read */
    struct chunks_scratch *scratch; /* [threads] */
    int64_t group, rows;            /* rows of chunks of the group */
    int64_t row, col;               /* at which the next extent begins */
};

struct item {
    struct chunks_extent extent;
    int64_t bad;
    struct err first;
};

/* The chunks of the next item: about the same work for each item. */
static struct chunks_extent next_extent(const struct verify *v)
{
    const int64_t pixels = PIXEL_BYTES / store_chunk_bytes(store_info(v->store));
    if (!v->options->quick)
        return chunks_extent_at(&v->chunks, v->row, v->col, pixels);
    struct chunks_extent x = chunks_extent_at(&v->chunks, v->row, v->col, v->chunks.columns);
    x.n = chunks_that_fit(&v->chunks, x, STORED_BYTES);
    return x;
}

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct verify *v = ctx;
    struct item *it = slot;
    (void)number;
    if (stop_check(e))
        return -1;
    if (v->row == v->rows)
        return PIPE_END;
    it->extent = next_extent(v);
    it->bad = 0;
    v->col += it->extent.n;
    if (v->col == v->chunks.columns) {
        v->col = 0;
        v->row++;
    }
    return PIPE_ITEM;
}

/* 0, -1 or CHUNKS_DAMAGED. */
static int check_one(struct verify *v, struct chunks_scratch *s, int64_t row, int64_t col,
                     const uint8_t *stored, struct err *e)
{
    const uint8_t *pixels;
    if (chunks_check(&v->chunks, row, col, stored, e))
        return CHUNKS_DAMAGED;
    return v->options->quick ? 0 : chunks_unpack(&v->chunks, s, row, col, stored, &pixels, e);
}

/* Checks chunks that are read at once. */
static int check_piece(struct verify *v, struct item *it, struct chunks_extent x,
                       struct chunks_scratch *s, struct err *e)
{
    const struct store_chunk *c = &v->chunks.list[x.row * v->chunks.columns];
    const uint8_t *at;
    if (chunks_read(&v->chunks, s, x, &at, e))
        return -1;
    for (int64_t col = x.col; col < x.col + x.n; at += c[col++].bytes) {
        struct err why = {""};
        const int r = check_one(v, s, x.row, col, at, &why);
        if (r == CHUNKS_DAMAGED && it->bad++ == 0)
            it->first = why;
        if (r == -1) {
            *e = why;
            return -1;
        }
    }
    return 0;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct verify *v = ctx;
    struct item *it = slot;
    struct chunks_extent left = it->extent;
    if (v->chunks.list[left.row * v->chunks.columns + left.col].bytes == 0) /* left out */
        return 0;
    while (left.n > 0) {
        struct chunks_extent x = left;
        x.n = chunks_that_fit(&v->chunks, left, PIECE_BYTES);
        if (check_piece(v, it, x, &v->scratch[thread], e))
            return -1;
        left.col += x.n;
        left.n -= x.n;
    }
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct verify *v = ctx;
    const struct item *it = slot;
    const struct chunks_extent x = it->extent;
    struct verify_report *r = v->report;
    (void)e;
    for (int64_t k = 0; k < x.n; k++) {
        const struct store_chunk *c = &v->chunks.list[x.row * v->chunks.columns + x.col + k];
        r->chunks += c->bytes > 0;
        r->bytes += c->bytes;
        r->missing += c->status == STORE_MISSING;
        r->damaged += c->status == STORE_DAMAGED;
        r->left_out += c->status == STORE_LEFT_OUT;
    }
    if (r->bad == 0 && it->bad > 0)
        r->first = it->first;
    r->bad += it->bad;
    if (v->options->progress && x.col + x.n == v->chunks.columns) {
        const struct store_info *i = store_info(v->store);
        const double done = (double)(v->chunks.first_row + x.row + 1);
        const double all = (double)((i->height + i->chunk_rows - 1) / i->chunk_rows);
        v->options->progress(v->options->ctx, done / all);
    }
    return 0;
}

static int open_all(struct verify *v, const char *path, struct err *e)
{
    if (!(v->store = store_open(path, e)))
        return -1;
    const struct store_info *i = store_info(v->store);
    const size_t most = (size_t)(store_group_chunk_rows(i, 0) * store_chunk_columns(i));
    v->list = calloc(most, sizeof *v->list);
    v->scratch = calloc((size_t)v->options->threads, sizeof *v->scratch);
    return v->list && v->scratch ? 0 : err_set(e, "%s: out of memory", path);
}

static void close_all(struct verify *v)
{
    for (int t = 0; v->scratch && t < v->options->threads; t++)
        chunks_scratch_free(&v->scratch[t]);
    free(v->scratch);
    free(v->list);
    store_close(v->store);
}

static int verify_group(struct verify *v, struct item *items, int depth, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const struct store_info *i = store_info(v->store);
    v->rows = store_group_chunk_rows(i, v->group);
    v->row = v->col = 0;
    v->chunks = (struct chunks){.store = v->store,
                                .list = v->list,
                                .columns = store_chunk_columns(i),
                                .first_row = v->group * (i->group_rows / i->chunk_rows)};
    if (store_map_group(v->store, v->group, v->list, e))
        return -1;
    return pipe_run(&ops, v, items, sizeof *items, depth, v->options->threads, e);
}

/* The counts of tiles in the store's attributes against its tables. */
static int check_counts(const struct verify *v, struct err *e)
{
    const struct store_info *i = store_info(v->store);
    const struct verify_report *r = v->report;
    if (r->missing == i->tiles_missing && r->damaged == i->tiles_damaged &&
        r->left_out == i->tiles_left_out)
        return 0;
    return err_set(e,
                   "%s: the tables tile_status contradict the counts of tiles; convert the slide "
                   "again",
                   store_path(v->store));
}

int verify_store(const char *path, const struct verify_options *o, struct verify_report *report,
                 struct err *e)
{
    const int depth = 4 * o->threads;
    struct verify v = {.options = o, .report = report};
    struct item *items = NULL;
    int r = -1;
    *report = (struct verify_report){0};
    if (open_all(&v, path, e))
        goto out;
    if (!(items = calloc((size_t)depth, sizeof *items))) {
        err_set(e, "%s: out of memory", path);
        goto out;
    }
    for (; v.group < store_info(v.store)->group_count; v.group++)
        if (verify_group(&v, items, depth, e))
            goto out;
    r = check_counts(&v, e) || (report->bad == 0 && store_check(v.store, e)) ? -1 : 0;
out:
    free(items);
    close_all(&v);
    return r;
}
