/*
 * stream.c - from stores to spectra; see stream.h.
 *
 * The pipe's items, in order: for every slab of every store first its READs (a run of chunks of one
 * chunk row each), then its RUNs (a part of the backend's work each); an END after a store's last
 * slab. RUNs wait for the READs of their slab. READs wait for the RUNs of the slab two before, which
 * with SPECTRUM_SLOTS slots, and slabs at least half as high as a window and its halo, are the last
 * that could need what they write over.
 *
 * HDF5 is used in source only, which is never on two threads at once: opening stores, and handing
 * finished slides to the caller, who writes them.
 */
#include "process/stream.h"

#include "common/cli.h"
#include "common/codec.h"
#include "common/gray.h"
#include "common/pipe.h"
#include "common/store.h"


#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_BYTES = 2 << 20 };                  /* read in one go */
enum { MOST_SLAB_ROWS = 4096, AUTO_MEMORY = 512 << 20 };

/* One store on its way through. */
struct job {
    struct job *next;
    int64_t number; /* of the store */
    const char *path;
    struct store *store;
    struct store_chunk *chunks; /* [chunk rows][chunk columns] of the rows that are streamed */
    struct result_slide result;
    struct spectrum_slide slide;
    uint8_t *counts; /* [ny][nx] of the slide, with tissue_only */
    double begun;
    atomic_bool failed; /* its remaining items do nothing */
    struct err err;     /* set by the one who set failed */
    atomic_bool ended;  /* its END has passed the sink */
};

enum kind { READ, RUN, END };

struct item {
    enum kind kind;
    struct job *job;
    struct spectrum_slab slab;
    int64_t chunk_row, chunk_col, chunks; /* READ: the run */
    float *rows;                          /* READ: the slab's slot */
    int64_t part;                         /* RUN */
    struct result_counts counts;          /* RUN: what it counted; owns its histogram */
};

/* Work areas of one thread. */
struct reader {
    unsigned char *packed, *pixels;
    size_t packed_size, pixels_size;
    struct codec_work *codec[CODECS]; /* by codec_id, made when first met */
};

struct stream {
    const struct stream_setup *setup;
    struct spectrum *spectrum;
    struct reader *readers;
    size_t slot_bytes, want_slot_bytes;
    bool drained;       /* source has asked for a drain and got it */
    struct job *first, *last; /* jobs not yet handed to the caller, in order */

    /* where source is */
    int64_t next_path;
    struct job *job;
    struct spectrum_slab slab;
    enum kind kind;
    int64_t next;        /* READ: chunk number in the slab; RUN: part */
    int64_t slabs;       /* slabs begun over the whole run: slab number k lies in slot k mod SLOTS */
    int64_t runs_end[2]; /* the item after the last RUN of the slab before (0), of this one (1) */
    int64_t reads_end;   /* the item after the last READ of this slab */
    float *rows;
};

/* --- a job --- */

static void job_free(struct job *j)
{
    if (!j)
        return;
    result_slide_free(&j->result);
    store_close(j->store);
    free(j->chunks);
    free(j->counts);
    free(j);
}

/* Every message about a store names it. */
static void job_fail(struct job *j, const struct err *e)
{
    bool no = false;
    if (!atomic_compare_exchange_strong(&j->failed, &no, true))
        return;
    j->err = *e;
    if (strncmp(e->msg, j->path, strlen(j->path)))
        err_add(&j->err, "%s", j->path);
}

/* What the result says of the store. */
static void describe(struct job *j, const struct stream *s)
{
    const struct store_info *i = store_info(j->store);
    struct result_slide *r = &j->result;
    const char *base = cli_base_name(j->path);
    size_t n = strlen(base);
    if (n > 3 && !strcmp(base + n - 3, ".h5"))
        n -= 3;
    snprintf(r->name, sizeof r->name, "%.*s", (int)(n < 255 ? n : 255), base);
    snprintf(r->source_name, sizeof r->source_name, "%s", i->source_name);
    snprintf(r->quickhash, sizeof r->quickhash, "%s", i->quickhash);
    snprintf(r->backend, sizeof r->backend, "%s", s->setup->backend->name);
    snprintf(r->device, sizeof r->device, "%s", s->setup->backend->device(s->spectrum));
    r->source_bytes = i->source_bytes;
    r->level = i->level;
    r->width = i->width;
    r->height = i->height;
    r->group_rows = i->group_rows;
    r->group_count = i->group_count;
    r->source_gray = i->channels == 1;
    r->nx = spectrum_windows(i->width, &s->setup->params);
    r->ny = spectrum_windows(i->height, &s->setup->params);
}

/* The first row of windows that begins at or below a row of pixels, at most ny. */
static int64_t window_row_from(const struct stream *s, const struct job *j, int64_t row)
{
    const int64_t wy = (row + s->setup->params.stride - 1) / s->setup->params.stride;
    return wy < j->result.ny ? wy : j->result.ny;
}

static int choose_groups(const struct stream *s, struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    int64_t first = s->setup->first_group, last = s->setup->last_group;
    if (first == 0) {
        first = 1;
        last = i->group_count;
    }
    if (last > i->group_count)
        return err_set(e, "%s: has groups 1-%" PRId64 ", not %" PRId64, store_path(j->store),
                       i->group_count, last);
    memset(j->result.groups + first - 1, 1, (size_t)(last - first + 1));
    j->slide.first_wy = window_row_from(s, j, (first - 1) * i->group_rows);
    j->slide.end_wy = window_row_from(s, j, last * i->group_rows);
    return 0;
}

/* Rows of a slab: as many as the memory allows, whole chunks, and not fewer than the ring needs. */
static int choose_slab(const struct stream *s, struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const struct result_params *p = &s->setup->params;
    const int64_t row_bytes = j->slide.pitch * (int64_t)sizeof(float), chunk = i->chunk_rows;
    const int64_t memory = s->setup->memory ? s->setup->memory : AUTO_MEMORY;
    const int64_t need = (p->window + 2 * p->radius + 1) / 2;
    const int64_t least = (need + chunk - 1) / chunk * chunk;
    int64_t rows = memory / SPECTRUM_SLOTS / row_bytes;
    const int64_t all = (j->slide.end_row - j->slide.first_row + chunk - 1) / chunk * chunk;
    rows = (rows < MOST_SLAB_ROWS || chunk > MOST_SLAB_ROWS ? rows : MOST_SLAB_ROWS) / chunk * chunk;
    rows = rows < all ? rows : all > least ? all : least;
    if (rows < least && s->setup->memory)
        return err_set(e, "%s: a slide of this width needs --memory %" PRId64 "M",
                       store_path(j->store), (least * row_bytes * SPECTRUM_SLOTS >> 20) + 1);
    j->slide.slab_rows = rows < least ? least : rows;
    return 0;
}

/* Lists the chunks of all rows that are streamed. */
static int list_chunks(struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t first = j->slide.first_row / i->group_rows, end = j->slide.end_row;
    int64_t rows = 0, g = first;
    for (; g < i->group_count && g * i->group_rows < end; g++)
        rows += store_group_chunk_rows(i, g);
    j->chunks = calloc((size_t)(rows * columns), sizeof *j->chunks);
    if (!j->chunks)
        return err_set(e, "out of memory");
    struct store_chunk *out = j->chunks;
    for (g = first; g < i->group_count && g * i->group_rows < end; g++) {
        if (store_map_group(j->store, g, out, e))
            return -1;
        out += store_group_chunk_rows(i, g) * columns;
    }
    /* the list begins with the first group's first chunk row: move it to the first row streamed */
    const int64_t skip = (j->slide.first_row - first * i->group_rows) / i->chunk_rows;
    memmove(j->chunks, j->chunks + skip * columns,
            (size_t)((rows - skip) * columns) * sizeof *j->chunks);
    return 0;
}

/* Which windows have enough tissue. */
static int choose_windows(const struct stream *s, struct job *j, struct err *e)
{
    struct store_tissue t;
    const int r = store_read_tissue(j->store, &t, e);
    if (r < 0)
        return -1;
    if (r == 0)
        return err_set(e, "%s: has no map of the tissue; convert the slide without --no-tissue", j->path);
    j->counts = malloc((size_t)(j->result.nx * j->result.ny) + 1);
    if (j->counts)
        spectrum_tissue_windows(&s->setup->params, t.mask, t.cols, t.rows, STORE_CELL, j->result.nx,
                                j->result.ny, j->counts);
    free(t.mask);
    j->slide.counts = j->counts;
    return j->counts ? 0 : err_set(e, "out of memory");
}

static int job_open(const struct stream *s, struct job *j, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    j->begun = cli_now();
    if (!(j->store = store_open(j->path, e)))
        return -1;
    const struct store_info *i = store_info(j->store);
    describe(j, s);
    if (result_slide_alloc(&j->result, p->bins, e) || choose_groups(s, j, e) ||
        (p->tissue_only && choose_windows(s, j, e)))
        return -1;
    struct spectrum_slide *d = &j->slide;
    d->width = i->width;
    d->height = i->height;
    d->nx = j->result.nx;
    d->ny = j->result.ny;
    d->mean_db = j->result.mean_db;
    d->std_db = j->result.std_db;
    d->scale = i->channels == 3 ? GRAY_SCALE_RGB : 1;
    d->pitch = (i->width + 15) / 16 * 16;
    if (d->nx == 0 || d->first_wy >= d->end_wy) { /* too small, or a group in which no window begins */
        d->end_row = d->first_row = 0;
        return 0;
    }
    const int64_t top = d->first_wy * p->stride - p->radius;
    const int64_t end = (d->end_wy - 1) * p->stride + p->window + p->radius;
    d->first_row = (top < 0 ? 0 : top) / i->chunk_rows * i->chunk_rows;
    d->end_row = end < i->height ? end : i->height;
    return choose_slab(s, j, e) || list_chunks(j, e) ? -1 : 0;
}

/* --- source --- */

/* Hands finished slides to the caller, in order. */
static int hand_over(struct stream *s, struct err *e)
{
    while (s->first && atomic_load(&s->first->ended)) {
        struct job *j = s->first;
        s->first = j->next;
        if (!s->first)
            s->last = NULL;
        int r = atomic_load(&j->failed) ? 0 : s->setup->keep(s->setup->ctx, j->number, &j->result, e);
        job_free(j);
        if (r)
            return -1;
    }
    return 0;
}

/* The windows that are complete once the slide's rows up to `row` are there. */
static int64_t complete_until(const struct stream *s, const struct job *j, int64_t row)
{
    const struct result_params *p = &s->setup->params;
    if (row >= j->slide.end_row)
        return j->slide.end_wy;
    const int64_t room = row - p->window - p->radius; /* last row of windows may begin here */
    const int64_t wy = room < 0 ? 0 : room / p->stride + 1;
    return wy < j->slide.first_wy ? j->slide.first_wy
                                  : wy < j->slide.end_wy ? wy : j->slide.end_wy;
}

/* Where the stored bytes of the slab's rows lie: has the kernel read them while we compute. */
static void prefetch(const struct job *j, int64_t row, int64_t rows)
{
    const struct store_info *i = store_info(j->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t first = (row - j->slide.first_row) / i->chunk_rows * columns;
    const int64_t n = (rows + i->chunk_rows - 1) / i->chunk_rows * columns;
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t k = first; k < first + n; k++) {
        const struct store_chunk *c = &j->chunks[k];
        if (c->bytes == 0)
            continue;
        low = c->offset < low ? c->offset : low;
        high = c->offset + c->bytes > high ? c->offset + c->bytes : high;
    }
    if (high > low)
        store_prefetch(j->store, low, high - low);
}

static int begin_slab(struct stream *s, int64_t row, struct err *e)
{
    struct job *j = s->job;
    const int64_t left = j->slide.end_row - row;
    const int64_t rows = left < j->slide.slab_rows ? left : j->slide.slab_rows;
    const int64_t after = j->slide.end_row - row - rows;
    s->slab = (struct spectrum_slab){
        .slide = &j->slide, .row = row, .rows = rows, .slot = (int)(s->slabs++ % SPECTRUM_SLOTS),
        .wy = complete_until(s, j, row), .end_wy = complete_until(s, j, row + rows)};
    if (row == j->slide.first_row) {
        j->slide.first_slot = s->slab.slot;
        s->slab.wy = j->slide.first_wy;
        prefetch(j, row, rows);
    }
    if (after > 0)
        prefetch(j, row + rows, after < j->slide.slab_rows ? after : j->slide.slab_rows);
    s->kind = READ;
    s->next = 0;
    return s->setup->backend->slot(s->spectrum, s->slab.slot, &s->rows, e);
}

/* Opens the next store and puts its first item on the way. */
static int begin_job(struct stream *s, struct err *e)
{
    struct err why = {""};
    if (hand_over(s, e))
        return -1;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, "out of memory");
    j->number = s->next_path++;
    if (s->last)
        s->last->next = j;
    else
        s->first = j;
    s->last = s->job = j;
    j->path = s->setup->paths[j->number];
    if (job_open(s, j, &why))
        job_fail(j, &why);
    s->kind = atomic_load(&j->failed) || j->slide.end_row == 0 ? END : READ;
    const size_t want = (size_t)(j->slide.slab_rows * j->slide.pitch) * sizeof(float);
    if (s->kind == READ && want > s->want_slot_bytes)
        s->want_slot_bytes = want;
    return 0;
}

static void grow_ring(struct stream *s)
{
    struct err why = {""};
    s->drained = false;
    if (s->setup->backend->reserve(s->spectrum, s->want_slot_bytes, &why)) {
        job_fail(s->job, &why);
        s->kind = END;
        s->want_slot_bytes = s->slot_bytes = 0; /* the old ring is gone too */
    } else
        s->slot_bytes = s->want_slot_bytes;
}

static int make_read(struct stream *s, struct item *it)
{
    const struct job *j = s->job;
    const struct store_info *i = store_info(j->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t most = RUN_BYTES / store_chunk_bytes(i) > 1 ? RUN_BYTES / store_chunk_bytes(i) : 1;
    const int64_t row = s->next / columns, col = s->next % columns;
    const int64_t first = (s->slab.row - j->slide.first_row) / i->chunk_rows + row;
    const struct store_chunk *c = &j->chunks[first * columns + col];
    int64_t n = 1;
    while (n < most && col + n < columns && c[n].offset == c[n - 1].offset + c[n - 1].bytes)
        n++;
    it->kind = READ;
    it->chunk_row = first;
    it->chunk_col = col;
    it->chunks = n;
    it->rows = s->rows;
    s->next += n;
    return PIPE_ITEM;
}

/* The next READ or RUN of the slab under way, or 0 when it has no more. */
static int make_part(struct stream *s, struct item *it, int64_t number, int64_t *after)
{
    const struct store_info *i = store_info(s->job->store);
    if (s->kind == READ) {
        const int64_t rows = (s->slab.rows + i->chunk_rows - 1) / i->chunk_rows;
        if (s->next < rows * store_chunk_columns(i)) {
            *after = s->runs_end[0];
            return make_read(s, it);
        }
        s->kind = RUN;
        s->next = 0;
        s->reads_end = number;
    }
    if (s->next < s->setup->backend->parts(s->spectrum, &s->slab)) {
        it->kind = RUN;
        it->part = s->next++;
        *after = s->reads_end;
        return PIPE_ITEM;
    }
    s->runs_end[0] = s->runs_end[1];
    s->runs_end[1] = number;
    return 0;
}

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    if (cli_check_stop(e))
        return -1;
    if (!s->job) {
        if (s->next_path == s->setup->n_paths)
            return PIPE_END;
        if (begin_job(s, e))
            return -1;
    }
    struct job *j = s->job;
    if (s->want_slot_bytes > s->slot_bytes) { /* the ring grows when nothing is in it */
        if (!s->drained) {
            s->drained = true;
            return PIPE_DRAIN;
        }
        grow_ring(s);
    }
    if (s->kind != END && !s->slab.slide && begin_slab(s, j->slide.first_row, e))
        return -1;
    it->job = j;
    while (s->kind != END) {
        if (make_part(s, it, number, after)) {
            it->slab = s->slab;
            return PIPE_ITEM;
        }
        const int64_t row = s->slab.row + s->slab.rows;
        if (row >= j->slide.end_row || atomic_load(&j->failed))
            s->kind = END;
        else if (begin_slab(s, row, e))
            return -1;
    }
    it->kind = END;
    s->job = NULL;
    s->slab.slide = NULL;
    return PIPE_ITEM;
}

/* --- work --- */

static int grow(unsigned char **area, size_t *size, size_t want, struct err *e)
{
    if (want <= *size)
        return 0;
    free(*area);
    *size = 0;
    *area = malloc(want);
    if (!*area)
        return err_set(e, "out of memory");
    *size = want;
    return 0;
}

/* One chunk's pixels as gray into the slab; rgb is the whole chunk. */
static void lay(const struct item *it, int64_t col, const uint8_t *pixels)
{
    const struct job *j = it->job;
    const struct store_info *i = store_info(j->store);
    const int64_t row0 = j->slide.first_row + it->chunk_row * i->chunk_rows; /* in the slide */
    const int64_t x = col * i->chunk_cols, right = it->slab.row + it->slab.rows;
    const int64_t rows = right - row0 < i->chunk_rows ? right - row0 : i->chunk_rows;
    const int64_t n = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    float *out = it->rows + (row0 - it->slab.row) * j->slide.pitch + x;
    for (int64_t y = 0; y < rows; y++, out += j->slide.pitch) {
        const uint8_t *in = pixels + y * i->chunk_cols * i->channels;
        if (i->channels == 3)
            gray_from_rgb(in, out, (size_t)n);
        else
            gray_from_bytes(in, out, (size_t)n);
    }
}

static int decode(struct reader *r, const struct item *it, int64_t k, const unsigned char *bytes,
                  struct err *e)
{
    const struct store *store = it->job->store;
    const struct store_info *i = store_info(store);
    const int64_t columns = store_chunk_columns(i), col = it->chunk_col + k;
    const struct store_chunk *c = &it->job->chunks[it->chunk_row * columns + col];
    const size_t whole = (size_t)store_chunk_bytes(i);
    struct codec_work **codec = &r->codec[i->codec->id];
    if (c->bytes == 0) {
        memset(r->pixels, 255, whole);
        lay(it, col, r->pixels);
        return 0;
    }
    if (codec_crc32(bytes, c->bytes) != c->crc32)
        return err_set(e, "%s: damaged: the checksum of the chunk at row %" PRId64 ", column %" PRId64
                          " px does not fit; convert the slide again", store_path(store),
                       it->job->slide.first_row + it->chunk_row * i->chunk_rows, col * i->chunk_cols);
    if (c->bytes == whole) {
        lay(it, col, bytes);
        return 0;
    }
    if (!*codec && !(*codec = codec_create(i->codec, e)))
        return -1;
    if (codec_decode(*codec, bytes, c->bytes, r->pixels, whole))
        return err_set(e, "%s: damaged: a chunk cannot be unpacked; convert the slide again",
                       store_path(store));
    lay(it, col, r->pixels);
    return 0;
}

static int read_run(struct reader *r, const struct item *it, struct err *e)
{
    const struct store_info *i = store_info(it->job->store);
    const struct store_chunk *c =
        &it->job->chunks[it->chunk_row * store_chunk_columns(i) + it->chunk_col];
    size_t bytes = 0, at = 0;
    for (int64_t k = 0; k < it->chunks; k++)
        bytes += c[k].bytes;
    if (grow(&r->packed, &r->packed_size, bytes, e) ||
        grow(&r->pixels, &r->pixels_size, (size_t)store_chunk_bytes(i), e) ||
        store_read(it->job->store, c[0].offset, r->packed, bytes, e))
        return -1;
    for (int64_t k = 0; k < it->chunks; at += c[k++].bytes)
        if (decode(r, it, k, r->packed + at, e))
            return -1;
    return 0;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    const int64_t bins = s->setup->params.bins;
    struct err why = {""};
    (void)e;
    if (it->kind == END || atomic_load(&it->job->failed))
        return 0;
    if (it->kind == READ) {
        if (read_run(&s->readers[thread], it, &why))
            job_fail(it->job, &why);
        return 0;
    }
    uint64_t *histogram = it->counts.histogram;
    memset(histogram, 0, (size_t)bins * sizeof *histogram);
    it->counts = (struct result_counts){.histogram = histogram};
    if (s->setup->backend->run(s->spectrum, &it->slab, it->part, thread, &it->counts, &why))
        job_fail(it->job, &why);
    return 0;
}

/* --- sink --- */

static int sink(void *ctx, void *slot, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    struct job *j = it->job;
    (void)e;
    if (it->kind == RUN && !atomic_load(&j->failed)) {
        result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
        const double slab = (double)it->slab.rows / (double)(j->slide.end_row - j->slide.first_row);
        if (s->setup->progress)
            s->setup->progress(s->setup->ctx, j->number,
                               (double)(it->slab.row - j->slide.first_row) /
                                       (double)(j->slide.end_row - j->slide.first_row) +
                                   slab * (double)(it->part + 1) /
                                       (double)s->setup->backend->parts(s->spectrum, &it->slab));
    }
    if (it->kind != END)
        return 0;
    struct err why = {""};
    if (!atomic_load(&j->failed) && j->slide.end_row > 0 &&
        s->setup->backend->finish(s->spectrum, &j->slide, &j->result.counts, &why))
        job_fail(j, &why);
    j->result.seconds = cli_now() - j->begun;
    s->setup->report(s->setup->ctx, j->number, atomic_load(&j->failed) ? NULL : &j->result, &j->err);
    atomic_store(&j->ended, true);
    return 0;
}

/* --- the run --- */

static void close_all(struct stream *s, struct item *items, int depth)
{
    for (int k = 0; items && k < depth; k++)
        free(items[k].counts.histogram);
    free(items);
    for (int t = 0; s->readers && t < s->setup->threads; t++) {
        free(s->readers[t].packed);
        free(s->readers[t].pixels);
        for (int c = 0; c < CODECS; c++)
            codec_free(s->readers[t].codec[c]);
    }
    free(s->readers);
    while (s->first) {
        struct job *next = s->first->next;
        job_free(s->first);
        s->first = next;
    }
    s->setup->backend->close(s->spectrum);
}

int stream_run(const struct stream_setup *setup, struct err *e)
{
    static const struct pipe_ops ops = {source, work, sink};
    const int depth = 4 * setup->threads + 4;
    struct stream s = {.setup = setup};
    struct item *items = calloc((size_t)depth, sizeof *items);
    int r = 0;
    s.readers = calloc((size_t)setup->threads, sizeof *s.readers);
    if (!items || !s.readers)
        r = err_set(e, "out of memory");
    for (int k = 0; k < depth && r == 0; k++)
        if (!(items[k].counts.histogram = malloc((size_t)setup->params.bins * sizeof(uint64_t))))
            r = err_set(e, "out of memory");
    if (r == 0)
        r = setup->backend->open(&s.spectrum, &setup->params, setup->threads, e);
    if (r == 0)
        r = pipe_run(&ops, &s, items, sizeof *items, depth, setup->threads, e);
    if (r == 0)
        r = hand_over(&s, e);
    close_all(&s, items, depth);
    return r;
}
