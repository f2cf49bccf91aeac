/* verify.c - see verify.h. Group by group through the parallel loop; an item is an extent of
 * chunks. */
#include "process/commands/verify.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "common/store/chunks.h"
#include "common/store/store_image.h"
#include "common/store/store_read.h"
#include "process/options/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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
        struct err why = {0};
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
    v->scratch = memory_need((size_t)v->options->threads, sizeof *v->scratch);
    v->list = memory_try_zero(most, sizeof *v->list, e);
    return v->list ? 0 : err_add(e, "%s", path);
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
    v->chunks = chunks_of(v->store, v->list, v->group * (i->group_rows / i->chunk_rows));
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
                   "%s: tile_status contradicts the counts of tiles; convert the slide "
                   "again with --force",
                   store_path(v->store));
}

/* An image beside the store must show this store. */
static int check_image(const char *path, const struct store_info *i, struct err *e)
{
    int64_t content;
    char *image = store_image_find(path, &content);
    const int bad = image && content != i->content_crc32
                        ? err_set(e,
                                  "%s: the OME-Zarr image beside it shows another store; "
                                  "`wsi-store zarr` makes it again",
                                  path)
                        : 0;
    free(image);
    return bad;
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
    items = memory_need((size_t)depth, sizeof *items);
    for (; v.group < store_info(v.store)->group_count; v.group++)
        if (verify_group(&v, items, depth, e))
            goto out;
    r = check_counts(&v, e) || (report->bad == 0 && (store_check(v.store, e) ||
                                                     check_image(path, store_info(v.store), e)))
            ? -1
            : 0;
out:
    free(items);
    close_all(&v);
    return r;
}

/* --- the command: are stores and results undamaged? --- */

struct job {
    const struct options *o;
    double *bytes; /* [n + 1]: size of the files before file k */
    int k;         /* the file being read */
    int64_t valid, bad;
    int64_t trouble; /* of those that failed: of the machine, not of the file */
};

/* The findings in a file. */
struct finding {
    const char *path;
    bool is_result, valid;
    struct verify_report store;
    int64_t slides, windows; /* of a result */
    struct err why;
};

static void show_progress(void *ctx, double fraction)
{
    const struct job *v = ctx;
    const double before = v->bytes[v->k], size = v->bytes[v->k + 1] - before;
    const double all = v->bytes[v->o->files.n];
    progress_item(v->k, path_base_name(v->o->files.paths[v->k]), before / all, size / all);
    progress_show(fraction, (before + fraction * size) / 1e6);
}

/* --- reports --- */

static void print_text(const struct finding *f)
{
    const struct verify_report *s = &f->store;
    char size[32];
    cli_print_text(stdout, f->path);
    if (f->is_result) {
        printf(": valid result: %" PRId64 " slide%s, %" PRId64 " windows\n", f->slides,
               f->slides == 1 ? "" : "s", f->windows);
        return;
    }
    printf(": valid: %" PRId64 " chunk%s, %s", s->chunks, s->chunks == 1 ? "" : "s",
           number_size(size, (double)s->bytes));
    if (s->missing + s->damaged + s->left_out > 0)
        printf("; tiles of the slide: %" PRId64 " missing, %" PRId64 " damaged, %" PRId64
               " left out",
               s->missing, s->damaged, s->left_out);
    puts("");
}

static void print_json(const struct finding *f)
{
    const struct verify_report *s = &f->store;
    json_begin("input", f->path);
    json_text("kind", f->is_result ? "result" : "store");
    json_text("status", f->valid ? "valid" : "failed");
    if (f->is_result) {
        json_int("slides", f->slides);
        json_int("windows", f->windows);
    } else {
        json_int("chunks", s->chunks);
        json_int("bytes", s->bytes);
        json_int("damaged_chunks", s->bad);
        json_int("tiles_missing", s->missing);
        json_int("tiles_damaged", s->damaged);
        json_int("tiles_left_out", s->left_out);
    }
    if (!f->valid)
        json_failure(&f->why);
    puts("}");
}

static void report(struct job *v, const struct finding *f)
{
    v->valid += f->valid;
    v->bad += !f->valid;
    v->trouble += !f->valid && err_is_trouble(&f->why);
    progress_clear();
    if (v->o->json)
        print_json(f);
    else if (f->valid && !v->o->quiet)
        print_text(f);
    fflush(stdout);
    if (!f->valid)
        cli_say("%s", f->why.msg);
}

static void last_line(const struct job *v, double bytes, double seconds)
{
    char size[32], memory[32], time[32];
    cli_say("%" PRId64 " valid, %" PRId64 " failed: %s; %s, %.0f MB/s, peak memory %s", v->valid,
            v->bad, number_size(size, bytes), clock_text(time, seconds),
            bytes / 1e6 / (seconds > 0 ? seconds : 1),
            number_size(memory, (double)cli_peak_memory()));
}

/* --- checks --- */

static int check_result(struct finding *f)
{
    struct result *r = result_check(f->path, &f->why) ? NULL : result_open(f->path, &f->why);
    if (!r)
        return -1;
    f->slides = result_slides(r);
    f->windows = result_totals(r)->windows;
    result_close(r);
    return 0;
}

static int check_store(struct job *v, struct finding *f)
{
    const struct verify_options how = {
        .threads = v->o->threads, .quick = v->o->quick, .progress = show_progress, .ctx = v};
    if (verify_store(f->path, &how, &f->store, &f->why))
        return -1;
    if (f->store.bad)
        return err_set(&f->why, "%s (%" PRId64 " of %" PRId64 " chunks are damaged)",
                       f->store.first.msg, f->store.bad, f->store.chunks);
    return 0;
}

/* Is it another file now, or the same with other bytes? */
static bool has_changed(const char *path, const struct stat *before)
{
    struct stat now;
    return stat(path, &now) || now.st_dev != before->st_dev || now.st_ino != before->st_ino ||
           now.st_size != before->st_size || clock_ns(&now.st_mtim) != clock_ns(&before->st_mtim);
}

/* Checks file v->k. -1 when a signal stopped it. */
static int check_file(struct job *v)
{
    const char *path = v->o->files.paths[v->k];
    struct stat before;
    const bool there = !stat(path, &before);
    struct finding f = {.path = path, .is_result = result_is(path)};
    f.valid = (f.is_result ? check_result(&f) : check_store(v, &f)) == 0;
    if (!f.valid && stop_signal()) {
        cli_say("%s", f.why.msg);
        return -1;
    }
    if (!f.valid && there && has_changed(path, &before))
        err_blame(&f.why, ERR_TROUBLE, "%s: changed while it was read; run again", path);
    report(v, &f);
    return 0;
}

int verify_main(struct options *o)
{
    const double begun = clock_now();
    struct job v = {.o = o, .bad = o->files.failed, .trouble = o->files.trouble};
    stop_catch_signals();
    v.bytes = input_files_sizes(&o->files);
    progress_begin(o->quiet ? PROGRESS_NO : o->progress, "file", o->files.n, "MB/s");
    while (v.k < o->files.n && !check_file(&v))
        v.k++;
    progress_end();
    if (!o->quiet)
        last_line(&v, v.bytes[v.k], clock_now() - begun);
    free(v.bytes);
    return v.k < o->files.n ? EXIT_STOPPED
           : v.trouble      ? EXIT_TROUBLE
           : v.bad          ? EXIT_PART
                            : EXIT_DONE;
}
