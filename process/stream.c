/*
 * stream.c - from stores to spectra; see stream.h.
 *
 * A store is a job of one or more parts: runs of rows of windows, each computed in one of the backend's
 * lanes. The pipe's items, in order: for every slab of a part first its READs (a run of chunks of one
 * chunk row each), then its RUNs (a part of the backend's work each); an END after a part's last
 * slab. RUNs wait for the READs of their slab. READs wait for the RUNs of the slab two before in the
 * same lane, which with SPECTRUM_SLOTS slots, and slabs at least half as high as a window and its halo,
 * are the last that could need what they write over. The lanes' slabs alternate: whichever lane has a
 * slot free gets the next.
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

enum {
    RUN_BYTES = 4 << 20,   /* of an item: so many that 64 threads do not wait for each other */
    PIECE_BYTES = 1 << 20, /* read in one go, and still in the cache when it is checked */
    MOST_SLAB_ROWS = 4096,
};

/* A run of rows of windows of a store, computed in one lane. */
struct part {
    struct job *job;
    struct spectrum_slide slide;
    struct store_chunk *chunks; /* of the rows that are streamed; within the job's */
};

/* One store on its way through. */
struct job {
    int64_t number; /* of the store */
    const char *path;
    struct store *store;
    struct store_chunk *chunks; /* [chunk rows][chunk columns] of all rows that are streamed */
    struct part *parts;
    int64_t n_parts, next_part; /* next_part: not yet given to a lane */
    struct result_slide result;
    uint8_t *counts; /* [ny][nx] of the slide, with tissue_only */
    double begun;
    atomic_llong read_us, unpack_us, wait_us;
    atomic_bool failed; /* its remaining items do nothing */
    struct err err;     /* set by the one who set failed */
    /* of the sink */
    int64_t parts_ended, rows_done, rows;
    bool ended;
    atomic_bool reported; /* it may be handed over and freed */
};

enum kind { READ, RUN, END };

struct item {
    enum kind kind;
    struct part *part;
    struct spectrum_slab slab;
    int64_t chunk_row, chunk_col, chunks; /* READ: the run; chunk_row of the part */
    void *memory;                         /* READ: the slab's slot, once it was waited for */
    int64_t k;                            /* RUN: which part of the slab */
    struct result_counts counts;          /* RUN: what it counted; owns its histogram */
};

/* Work areas of one thread. */
struct reader {
    unsigned char *packed, *pixels;
    size_t packed_size, pixels_size;
    struct codec_work *codec[CODECS]; /* by codec_id, made when first met */
    bool to_chunks; /* the slots are of SPECTRUM_CHUNKS */
};

/* Where source is in one lane. */
struct lane {
    struct part *part;
    struct spectrum_slab slab;
    enum kind kind;
    int64_t next;        /* READ: chunk number in the slab; RUN: part of the slab */
    int64_t slabs;       /* slabs begun: slab number k lies in slot k mod SLOTS */
    int64_t runs_end[2]; /* the item after the last RUN of the slab before (0), of this one (1) */
    int64_t reads_end;   /* the item after the last READ of this slab */
    int64_t parts;       /* parts begun: number k has sums k mod SUMS */
    int64_t ends[SPECTRUM_SUMS]; /* the item after the END of the part that had these sums last */
};

struct stream {
    const struct stream_setup *setup;
    struct spectrum *spectrum;
    struct reader *readers;
    struct lane *lanes;
    int n_lanes;
    int64_t memory;      /* bytes of slots of a lane */
    struct job **jobs;   /* [n_paths], made one after the other */

    /* where source is */
    int lane;            /* whose turn it is */
    int64_t next_path;   /* jobs made */
    int64_t handed;      /* jobs handed over to the caller */
    bool drained;        /* source has asked for a drain and got it */

    int64_t reported, seen; /* of the sink: jobs reported; the last job that it has seen an item of */
};

/* --- a job --- */

static void job_free(struct job *j)
{
    if (!j)
        return;
    result_slide_free(&j->result);
    store_close(j->store);
    free(j->chunks);
    free(j->parts);
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
    snprintf(r->kernel, sizeof r->kernel, "%s", s->setup->backend->kernel(s->spectrum));
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

/* Which groups are asked for, and so which rows of windows. */
static int choose_groups(const struct stream *s, struct job *j, int64_t *first_wy, int64_t *end_wy,
                         struct err *e)
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
    *first_wy = window_row_from(s, j, (first - 1) * i->group_rows);
    *end_wy = window_row_from(s, j, last * i->group_rows);
    return 0;
}

/* Bytes of a row of pixels in a slot. */
static int64_t row_bytes(const struct stream *s, const struct spectrum_slide *d)
{
    if (s->setup->backend->layout == SPECTRUM_ROWS)
        return d->pitch * (int64_t)sizeof(float);
    return (d->width + d->chunk_cols - 1) / d->chunk_cols * d->chunk_cols * d->channels;
}

/* Rows of a slab: as many as the memory allows, whole chunks, and not fewer than the ring needs. */
static int choose_slab(const struct stream *s, const struct job *j, struct spectrum_slide *d, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    const int64_t chunk = d->chunk_rows, each = row_bytes(s, d);
    const int64_t need = (p->window + 2 * p->radius + 1) / 2;
    const int64_t least = (need + chunk - 1) / chunk * chunk;
    int64_t rows = s->memory / SPECTRUM_SLOTS / each;
    const int64_t all = (d->end_row - d->first_row + chunk - 1) / chunk * chunk;
    rows = (rows < MOST_SLAB_ROWS || chunk > MOST_SLAB_ROWS ? rows : MOST_SLAB_ROWS) / chunk * chunk;
    rows = rows < all ? rows : all > least ? all : least;
    if (rows < least && s->setup->memory)
        return err_set(e, "%s: a slide of this width needs --memory %" PRId64 "M", store_path(j->store),
                       (least * each * SPECTRUM_SLOTS * s->n_lanes >> 20) + 1);
    d->slab_rows = rows < least ? least : rows;
    return 0;
}

/* Lists the chunks of rows first_row .. end_row - 1. */
static int list_chunks(struct job *j, int64_t first_row, int64_t end_row, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t first = first_row / i->group_rows;
    int64_t rows = 0, g = first;
    for (; g < i->group_count && g * i->group_rows < end_row; g++)
        rows += store_group_chunk_rows(i, g);
    j->chunks = calloc((size_t)(rows * columns), sizeof *j->chunks);
    if (!j->chunks)
        return err_set(e, "out of memory");
    struct store_chunk *out = j->chunks;
    for (g = first; g < i->group_count && g * i->group_rows < end_row; g++) {
        if (store_map_group(j->store, g, out, e))
            return -1;
        out += store_group_chunk_rows(i, g) * columns;
    }
    /* the list begins with the first group's first chunk row: move it to the first row streamed */
    const int64_t skip = (first_row - first * i->group_rows) / i->chunk_rows;
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
    return j->counts ? 0 : err_set(e, "out of memory");
}

/* Rows first_wy .. end_wy - 1 of windows as a part. */
static int set_part(const struct stream *s, struct job *j, struct part *part, int64_t first_wy,
                    int64_t end_wy, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    const struct store_info *i = store_info(j->store);
    const int64_t top = first_wy * p->stride - p->radius;
    const int64_t end = (end_wy - 1) * p->stride + p->window + p->radius;
    part->job = j;
    part->slide = (struct spectrum_slide){
        .width = i->width, .height = i->height, .nx = j->result.nx, .ny = j->result.ny,
        .first_wy = first_wy, .end_wy = end_wy,
        .first_row = (top < 0 ? 0 : top) / i->chunk_rows * i->chunk_rows,
        .end_row = end < i->height ? end : i->height,
        .pitch = (i->width + 15) / 16 * 16,
        .chunk_rows = i->chunk_rows, .chunk_cols = i->chunk_cols, .channels = i->channels,
        .scale = i->channels == 3 ? GRAY_SCALE_RGB : 1,
        .mean_db = j->result.mean_db, .std_db = j->result.std_db, .counts = j->counts};
    j->rows += part->slide.end_row - part->slide.first_row;
    return choose_slab(s, j, &part->slide, e);
}

/* Lanes that can still compute. */
static int lanes_alive(const struct stream *s)
{
    int n = 0;
    for (int k = 0; k < s->n_lanes; k++)
        n += s->setup->backend->alive(s->spectrum, k);
    return n;
}

/* In how many parts a store is computed: one, but when too few stores are left to keep all lanes busy. */
static int64_t count_parts(const struct stream *s, const struct job *j, int64_t window_rows)
{
    const int lanes = lanes_alive(s);
    const int64_t parts = s->setup->n_paths - j->number >= lanes ? 1 : lanes;
    return parts < window_rows ? parts : window_rows;
}

static int make_parts(const struct stream *s, struct job *j, int64_t first_wy, int64_t end_wy, struct err *e)
{
    const int64_t rows = end_wy - first_wy, n = count_parts(s, j, rows),
                  columns = store_chunk_columns(store_info(j->store));
    j->parts = calloc((size_t)n, sizeof *j->parts);
    if (!j->parts)
        return err_set(e, "out of memory");
    for (int64_t k = 0; k < n; k++)
        if (set_part(s, j, &j->parts[k], first_wy + rows * k / n, first_wy + rows * (k + 1) / n, e))
            return -1;
    const struct spectrum_slide *first = &j->parts[0].slide;
    if (list_chunks(j, first->first_row, j->parts[n - 1].slide.end_row, e))
        return -1;
    for (int64_t k = 0; k < n; k++)
        j->parts[k].chunks =
            j->chunks + (j->parts[k].slide.first_row - first->first_row) / first->chunk_rows * columns;
    j->n_parts = n;
    return 0;
}

static int choose_io(const struct stream *s, struct job *j, struct err *e)
{
    const enum stream_io io = s->setup->io;
    /* a backend that computes on the processors is never held up by a disk's copy into the page cache */
    const bool direct =
        io == STREAM_DIRECT ||
        (io == STREAM_AUTO && s->setup->backend->layout == SPECTRUM_CHUNKS && !store_is_cached(j->store));
    struct err why = {""};
    if (direct && store_read_directly(j->store, &why) && io == STREAM_DIRECT)
        return *e = why, -1;
    snprintf(j->result.io, sizeof j->result.io, "%s", store_reads_directly(j->store) ? "direct" : "buffered");
    return 0;
}

static int job_open(const struct stream *s, struct job *j, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    int64_t first_wy = 0, end_wy = 0;
    j->begun = cli_now();
    if (!(j->store = store_open(j->path, e)))
        return -1;
    describe(j, s);
    if (result_slide_alloc(&j->result, p->bins, e) || choose_groups(s, j, &first_wy, &end_wy, e) ||
        (p->tissue_only && choose_windows(s, j, e)) || choose_io(s, j, e))
        return -1;
    if (j->result.nx == 0 || first_wy >= end_wy) /* too small, or a group in which no window begins */
        return 0;
    return make_parts(s, j, first_wy, end_wy, e);
}

/* --- source --- */

/* Hands finished slides to the caller, in order. */
static int hand_over(struct stream *s, struct err *e)
{
    while (s->handed < s->next_path && atomic_load(&s->jobs[s->handed]->reported)) {
        struct job *j = s->jobs[s->handed];
        s->jobs[s->handed++] = NULL;
        int r = atomic_load(&j->failed) ? 0 : s->setup->keep(s->setup->ctx, j->number, &j->result, e);
        job_free(j);
        if (r)
            return -1;
    }
    return 0;
}

/* The windows that are complete once the slide's rows up to `row` are there. */
static int64_t complete_until(const struct stream *s, const struct spectrum_slide *d, int64_t row)
{
    const struct result_params *p = &s->setup->params;
    if (row >= d->end_row)
        return d->end_wy;
    const int64_t room = row - p->window - p->radius; /* last row of windows may begin here */
    const int64_t wy = room < 0 ? 0 : room / p->stride + 1;
    return wy < d->first_wy ? d->first_wy : wy < d->end_wy ? wy : d->end_wy;
}

/* Where the stored bytes of the slab's rows lie: has the kernel read them while we compute. */
static void prefetch(const struct part *part, int64_t row, int64_t rows)
{
    const struct store_info *i = store_info(part->job->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t first = (row - part->slide.first_row) / i->chunk_rows * columns;
    const int64_t n = (rows + i->chunk_rows - 1) / i->chunk_rows * columns;
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t k = first; k < first + n; k++) {
        const struct store_chunk *c = &part->chunks[k];
        if (c->bytes == 0)
            continue;
        low = c->offset < low ? c->offset : low;
        high = c->offset + c->bytes > high ? c->offset + c->bytes : high;
    }
    if (high > low)
        store_prefetch(part->job->store, low, high - low);
}

/* Begins the slab at `row` in a lane. */
static void begin_slab(struct stream *s, struct lane *l, int64_t row)
{
    struct part *part = l->part;
    struct spectrum_slide *d = &part->slide;
    const int64_t left = d->end_row - row;
    const int64_t rows = left < d->slab_rows ? left : d->slab_rows;
    const int64_t after = d->end_row - row - rows;
    l->slab = (struct spectrum_slab){
        .slide = d, .row = row, .rows = rows, .slot = (int)(l->slabs++ % SPECTRUM_SLOTS),
        .wy = complete_until(s, d, row), .end_wy = complete_until(s, d, row + rows)};
    if (row == d->first_row) {
        d->first_slot = l->slab.slot;
        l->slab.wy = d->first_wy;
        prefetch(part, row, rows);
    }
    if (after > 0)
        prefetch(part, row + rows, after < d->slab_rows ? after : d->slab_rows);
    l->kind = READ;
    l->next = 0;
}

/* Opens the next store. */
static int begin_job(struct stream *s, struct err *e)
{
    struct err why = {""};
    if (hand_over(s, e))
        return -1;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, "out of memory");
    j->number = s->next_path++;
    j->path = s->setup->paths[j->number];
    s->jobs[j->number] = j;
    if (job_open(s, j, &why))
        job_fail(j, &why);
    if (atomic_load(&j->failed) || j->n_parts == 0) { /* one part without a slab tells of it */
        free(j->parts);
        if (!(j->parts = calloc(1, sizeof *j->parts)))
            return err_set(e, "out of memory");
        j->parts->job = j;
        j->n_parts = 1;
    }
    return 0;
}

/* The next part that no lane has, or NULL at the end. */
static int take_part(struct stream *s, struct part **part, struct err *e)
{
    struct job *j = s->next_path > 0 ? s->jobs[s->next_path - 1] : NULL;
    *part = NULL;
    if (!j || j->next_part == j->n_parts) {
        if (s->next_path == s->setup->n_paths)
            return 0;
        if (begin_job(s, e))
            return -1;
        j = s->jobs[s->next_path - 1];
    }
    *part = &j->parts[j->next_part++];
    return 0;
}

/* Bytes of a slot for this part. */
static size_t slot_bytes(const struct stream *s, const struct spectrum_slide *d)
{
    const int64_t rows = (d->slab_rows + d->chunk_rows - 1) / d->chunk_rows * d->chunk_rows;
    return (size_t)(rows * row_bytes(s, d));
}

static int make_read(const struct lane *l, struct item *it)
{
    const struct part *part = l->part;
    const struct store_info *i = store_info(part->job->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t most = RUN_BYTES / store_chunk_bytes(i) > 1 ? RUN_BYTES / store_chunk_bytes(i) : 1;
    const int64_t row = l->next / columns, col = l->next % columns;
    const int64_t first = (l->slab.row - part->slide.first_row) / i->chunk_rows + row;
    const struct store_chunk *c = &part->chunks[first * columns + col];
    int64_t n = 1;
    while (n < most && col + n < columns && c[n].offset == c[n - 1].offset + c[n - 1].bytes)
        n++;
    it->kind = READ;
    it->chunk_row = first;
    it->chunk_col = col;
    it->chunks = n;
    return PIPE_ITEM;
}

/* The next READ or RUN of the slab under way, or 0 when it has no more. */
static int make_part(struct stream *s, struct lane *l, struct item *it, int64_t number, int64_t *after)
{
    const struct store_info *i = store_info(l->part->job->store);
    const int64_t sums_free = l->ends[l->part->slide.sums];
    if (l->kind == READ) {
        const int64_t rows = (l->slab.rows + i->chunk_rows - 1) / i->chunk_rows;
        if (l->next < rows * store_chunk_columns(i)) {
            *after = l->runs_end[0];
            make_read(l, it);
            l->next += it->chunks;
            return PIPE_ITEM;
        }
        l->kind = RUN;
        l->next = 0;
        l->reads_end = number;
    }
    if (l->next < s->setup->backend->parts(s->spectrum, &l->slab)) {
        it->kind = RUN;
        it->k = l->next++;
        *after = l->reads_end > sums_free ? l->reads_end : sums_free;
        return PIPE_ITEM;
    }
    l->runs_end[0] = l->runs_end[1];
    l->runs_end[1] = number;
    return 0;
}

/* Gives a lane its next part. PIPE_ITEM, PIPE_DRAIN when buffers must grow first, PIPE_END when there is
 * none. */
static int begin_part(struct stream *s, struct lane *l, struct err *e)
{
    const struct spectrum_backend *b = s->setup->backend;
    const int number = (int)(l - s->lanes);
    struct err why = {""};
    if (!l->part) {
        if (take_part(s, &l->part, e))
            return -1;
        if (!l->part)
            return PIPE_END;
        l->part->slide.lane = number;
        l->part->slide.sums = (int)(l->parts++ % SPECTRUM_SUMS);
    }
    struct job *j = l->part->job;
    struct spectrum_slide *d = &l->part->slide;
    if (lanes_alive(s) == 0) {
        err_set(&why, "%s: no device is left to compute it", j->path);
        job_fail(j, &why);
    }
    l->slab.slide = NULL;
    l->kind = END;
    if (atomic_load(&j->failed) || d->end_row == 0)
        return PIPE_ITEM;
    if (!b->fits(s->spectrum, d, slot_bytes(s, d))) {
        if (!s->drained) {
            s->drained = true;
            return PIPE_DRAIN;
        }
        if (b->reserve(s->spectrum, d, slot_bytes(s, d), &why)) {
            job_fail(j, &why);
            s->drained = false;
            return PIPE_ITEM;
        }
    }
    s->drained = false;
    begin_slab(s, l, d->first_row);
    return PIPE_ITEM;
}

/* After a slab: whose turn is it? A lane with a slot free, else the next one. */
static int next_lane(const struct stream *s)
{
    const struct spectrum_backend *b = s->setup->backend;
    int first = -1;
    for (int k = 1; k <= s->n_lanes; k++) {
        const int n = (s->lane + k) % s->n_lanes;
        const struct lane *l = &s->lanes[n];
        if (!l->part && (!b->alive(s->spectrum, n) && lanes_alive(s) > 0))
            continue; /* the others do its work */
        if (b->slot_free(s->spectrum, n, (int)(l->slabs % SPECTRUM_SLOTS)))
            return n;
        first = first < 0 ? n : first;
    }
    return first < 0 ? s->lane : first;
}

/* Does any lane have a part under way? */
static bool any_part(const struct stream *s)
{
    for (int k = 0; k < s->n_lanes; k++)
        if (s->lanes[k].part)
            return true;
    return false;
}

static int make_end(struct stream *s, struct lane *l, struct item *it, int64_t number)
{
    it->kind = END;
    it->part = l->part;
    l->ends[l->part->slide.sums] = number + 1;
    l->part = NULL;
    s->lane = next_lane(s);
    return PIPE_ITEM;
}

/* The lane whose turn it is has made a whole slab: its next one, or the part's end; then another's turn. */
static bool end_slab(struct stream *s, struct lane *l)
{
    const struct spectrum_slide *d = &l->part->slide;
    const int64_t row = l->slab.row + l->slab.rows;
    if (row >= d->end_row || atomic_load(&l->part->job->failed)) {
        l->kind = END;
        return false;
    }
    l->slab.slide = NULL; /* begun when the lane's turn comes again */
    l->slab.row = row;
    s->lane = next_lane(s);
    return true;
}

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    if (cli_check_stop(e))
        return -1;
    for (;;) {
        struct lane *l = &s->lanes[s->lane];
        if (!l->part && !s->setup->backend->alive(s->spectrum, s->lane) && lanes_alive(s) > 0)
            l = &s->lanes[s->lane = next_lane(s)]; /* it has failed since its turn came */
        if (!l->part || s->drained) {
            const int r = begin_part(s, l, e);
            if (r == PIPE_END) { /* nothing is left to begin: the other lanes end what they have */
                if (!any_part(s))
                    return PIPE_END;
                do
                    s->lane = (s->lane + 1) % s->n_lanes;
                while (!s->lanes[s->lane].part);
                continue;
            }
            if (r != PIPE_ITEM)
                return r;
        } else if (l->kind != END && !l->slab.slide)
            begin_slab(s, l, l->slab.row);
        if (l->kind == END)
            return make_end(s, l, it, number);
        if (make_part(s, l, it, number, after)) {
            it->part = l->part;
            it->slab = l->slab;
            return PIPE_ITEM;
        }
        if (!end_slab(s, l))
            return make_end(s, l, it, number);
    }
}

/* --- work --- */

/* Areas begin and end on pages, as reading past the page cache wants it. */
static int grow(unsigned char **area, size_t *size, size_t want, struct err *e)
{
    if (want <= *size)
        return 0;
    free(*area);
    *size = 0;
    want = (want + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
    *area = aligned_alloc(STORE_PAGE, want);
    if (!*area)
        return err_set(e, "out of memory");
    *size = want;
    return 0;
}

static const struct store_chunk *chunk_of(const struct item *it, int64_t col)
{
    return &it->part->chunks[it->chunk_row * store_chunk_columns(store_info(it->part->job->store)) + col];
}

/* Where a slot of SPECTRUM_CHUNKS has the chunk in column col of the item's chunk row. */
static uint8_t *place_of(const struct item *it, int64_t col)
{
    const struct store_info *i = store_info(it->part->job->store);
    const int64_t row = it->chunk_row - (it->slab.row - it->part->slide.first_row) / i->chunk_rows;
    return (uint8_t *)it->memory + (row * store_chunk_columns(i) + col) * store_chunk_bytes(i);
}

/* One chunk's pixels as gray into a slot of SPECTRUM_ROWS. */
static void lay(const struct item *it, int64_t col, const uint8_t *pixels)
{
    const struct spectrum_slide *d = &it->part->slide;
    const struct store_info *i = store_info(it->part->job->store);
    const int64_t row0 = d->first_row + it->chunk_row * i->chunk_rows; /* in the slide */
    const int64_t x = col * i->chunk_cols, right = it->slab.row + it->slab.rows;
    const int64_t rows = right - row0 < i->chunk_rows ? right - row0 : i->chunk_rows;
    const int64_t n = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    float *out = (float *)it->memory + (row0 - it->slab.row) * d->pitch + x;
    for (int64_t y = 0; y < rows; y++, out += d->pitch) {
        const uint8_t *in = pixels + y * i->chunk_cols * i->channels;
        if (i->channels == 3)
            gray_from_rgb(in, out, (size_t)n);
        else
            gray_from_bytes(in, out, (size_t)n);
    }
}

static int check_chunk(const struct item *it, int64_t col, const unsigned char *bytes, struct err *e)
{
    const struct store *store = it->part->job->store;
    const struct store_info *i = store_info(store);
    const struct store_chunk *c = chunk_of(it, col);
    if (codec_crc32(bytes, c->bytes) == c->crc32)
        return 0;
    return err_set(e, "%s: damaged: the checksum of the chunk at row %" PRId64 ", column %" PRId64
                      " px does not fit; convert the slide again", store_path(store),
                   it->part->slide.first_row + it->chunk_row * i->chunk_rows, col * i->chunk_cols);
}

/* Unpacks a chunk's stored bytes to out. */
static int unpack(struct reader *r, const struct item *it, int64_t col, const unsigned char *bytes,
                  uint8_t *out, struct err *e)
{
    const struct store *store = it->part->job->store;
    const struct store_info *i = store_info(store);
    const struct store_chunk *c = chunk_of(it, col);
    struct codec_work **codec = &r->codec[i->codec->id];
    if (!*codec && !(*codec = codec_create(i->codec, e)))
        return -1;
    if (codec_decode(*codec, bytes, c->bytes, out, (size_t)store_chunk_bytes(i)))
        return err_set(e, "%s: damaged: a chunk cannot be unpacked; convert the slide again",
                       store_path(store));
    return 0;
}

/* A chunk whose stored bytes are at `bytes`, which may be its place in the slot already. */
static int decode(struct reader *r, const struct item *it, int64_t col, const unsigned char *bytes,
                  struct err *e)
{
    const struct store_info *i = store_info(it->part->job->store);
    const bool chunks = r->to_chunks;
    const size_t whole = (size_t)store_chunk_bytes(i);
    const struct store_chunk *c = chunk_of(it, col);
    uint8_t *out = chunks ? place_of(it, col) : r->pixels;
    const uint8_t *pixels = out;
    if (c->bytes == 0)
        memset(out, 255, whole);
    else if (check_chunk(it, col, bytes, e))
        return -1;
    else if (c->bytes < whole) {
        if (unpack(r, it, col, bytes, out, e))
            return -1;
    } else if (!chunks)
        pixels = bytes;
    else if (bytes != out)
        memcpy(out, bytes, whole);
    if (!chunks)
        lay(it, col, pixels);
    return 0;
}

/* Are these chunks all stored as they are? Then they can be read to where they belong. */
static bool all_whole(const struct item *it, int64_t col, int64_t n)
{
    const int64_t whole = store_chunk_bytes(store_info(it->part->job->store));
    for (int64_t k = 0; k < n; k++)
        if (chunk_of(it, col + k)->bytes != whole)
            return false;
    return true;
}

/* n chunks, which lie together in the file. */
static int read_piece(struct reader *r, const struct item *it, int64_t col, int64_t n, size_t bytes,
                      struct err *e)
{
    struct job *j = it->part->job;
    const struct store_chunk *c = chunk_of(it, col);
    const unsigned char *at;
    const double begun = cli_now();
    if (r->to_chunks && !store_reads_directly(j->store) && all_whole(it, col, n)) {
        at = place_of(it, col);
        if (store_read(j->store, c[0].offset, place_of(it, col), bytes, e))
            return -1;
    } else if (grow(&r->packed, &r->packed_size, bytes + 2 * STORE_PAGE, e) ||
               grow(&r->pixels, &r->pixels_size, (size_t)store_chunk_bytes(store_info(j->store)), e) ||
               store_read_pages(j->store, c[0].offset, r->packed, bytes, &at, e))
        return -1;
    const double read = cli_now();
    for (int64_t k = 0; k < n; at += c[k++].bytes)
        if (decode(r, it, col + k, at, e))
            return -1;
    atomic_fetch_add(&j->read_us, (long long)((read - begun) * 1e6));
    atomic_fetch_add(&j->unpack_us, (long long)((cli_now() - read) * 1e6));
    return 0;
}

/* Past the page cache large reads are better, through it such that stay in the processor's. */
static int read_run(struct reader *r, const struct item *it, struct err *e)
{
    const size_t most = store_reads_directly(it->part->job->store) ? RUN_BYTES : PIECE_BYTES;
    for (int64_t first = 0, n; first < it->chunks; first += n) {
        const struct store_chunk *c = chunk_of(it, it->chunk_col + first);
        size_t bytes = c[0].bytes;
        for (n = 1; first + n < it->chunks && bytes + c[n].bytes <= most; n++)
            bytes += c[n].bytes;
        if (read_piece(r, it, it->chunk_col + first, n, bytes, e))
            return -1;
    }
    return 0;
}

/* Waits until the backend is done with what the slot held. Only here, after the RUN of the slab that was in it
 * has been queued, can the backend know. */
static int wait_for_slot(const struct stream *s, struct item *it, struct err *e)
{
    const struct spectrum_slide *d = &it->part->slide;
    const bool first = it->chunk_col == 0 && it->chunk_row * d->chunk_rows == it->slab.row - d->first_row;
    const double begun = cli_now();
    if (s->setup->backend->slot(s->spectrum, d->lane, it->slab.slot, &it->memory, e))
        return -1;
    if (first) /* the others wait beside it */
        atomic_fetch_add(&it->part->job->wait_us, (long long)((cli_now() - begun) * 1e6));
    return 0;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    struct job *j = it->part->job;
    const int64_t bins = s->setup->params.bins;
    struct err why = {""};
    (void)e;
    if (it->kind == END || atomic_load(&j->failed))
        return 0;
    if (it->kind == READ) {
        if (wait_for_slot(s, it, &why) || read_run(&s->readers[thread], it, &why))
            job_fail(j, &why);
        return 0;
    }
    uint64_t *histogram = it->counts.histogram;
    memset(histogram, 0, (size_t)bins * sizeof *histogram);
    it->counts = (struct result_counts){.histogram = histogram};
    if (s->setup->backend->run(s->spectrum, &it->slab, it->k, thread, &it->counts, &why))
        job_fail(j, &why);
    return 0;
}

/* --- sink --- */

static void sink_run(struct stream *s, struct item *it)
{
    struct job *j = it->part->job;
    const int64_t parts = s->setup->backend->parts(s->spectrum, &it->slab);
    result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
    const double rows = (double)j->rows_done + (double)it->slab.rows * (double)(it->k + 1) / (double)parts;
    if (s->setup->progress)
        s->setup->progress(s->setup->ctx, j->number, rows / (double)j->rows);
    if (it->k + 1 == parts)
        j->rows_done += it->slab.rows;
}

/* A part is through. */
static void sink_end(struct stream *s, struct item *it)
{
    struct job *j = it->part->job;
    struct result_slide *r = &j->result;
    struct spectrum_times times = {0, 0};
    struct err why = {""};
    if (!atomic_load(&j->failed) && it->part->slide.end_row > 0 &&
        s->setup->backend->finish(s->spectrum, &it->part->slide, &r->counts, &times, &why))
        job_fail(j, &why);
    r->stages[RESULT_COPY] += times.copy;
    r->stages[RESULT_KERNELS] += times.kernels;
    if (++j->parts_ended < j->n_parts)
        return;
    r->stages[RESULT_READ] = (double)atomic_load(&j->read_us) * 1e-6;
    r->stages[RESULT_UNPACK] = (double)atomic_load(&j->unpack_us) * 1e-6;
    r->stages[RESULT_WAIT] = (double)atomic_load(&j->wait_us) * 1e-6;
    r->seconds = cli_now() - j->begun;
    j->ended = true;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    struct job *j = it->part->job;
    (void)e;
    s->seen = j->number > s->seen ? j->number : s->seen;
    if (it->kind == RUN && !atomic_load(&j->failed))
        sink_run(s, it);
    if (it->kind == END)
        sink_end(s, it);
    while (s->reported <= s->seen && s->jobs[s->reported]->ended) {
        struct job *done = s->jobs[s->reported++];
        s->setup->report(s->setup->ctx, done->number, atomic_load(&done->failed) ? NULL : &done->result,
                         &done->err);
        atomic_store(&done->reported, true);
    }
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
    for (int64_t k = s->handed; s->jobs && k < s->next_path; k++)
        job_free(s->jobs[k]);
    free(s->jobs);
    free(s->lanes);
    s->setup->backend->close(s->spectrum); /* NULL where it was not opened */
}

static int open_all(struct stream *s, struct err *e)
{
    const struct stream_setup *setup = s->setup;
    s->readers = calloc((size_t)setup->threads, sizeof *s->readers);
    s->jobs = calloc((size_t)setup->n_paths, sizeof *s->jobs);
    if (!s->readers || !s->jobs)
        return err_set(e, "out of memory");
    if (setup->backend->open(&s->spectrum, setup->devices ? setup->devices : "", &setup->params,
                             setup->threads, e))
        return -1;
    for (int t = 0; t < setup->threads; t++)
        s->readers[t].to_chunks = setup->backend->layout == SPECTRUM_CHUNKS;
    s->n_lanes = setup->backend->lanes(s->spectrum);
    s->memory = (setup->memory ? setup->memory : setup->backend->memory) / s->n_lanes;
    s->lanes = calloc((size_t)s->n_lanes, sizeof *s->lanes);
    return s->lanes ? 0 : err_set(e, "out of memory");
}

static struct item *make_items(const struct stream *s, int depth, struct err *e)
{
    struct item *items = calloc((size_t)depth, sizeof *items);
    for (int k = 0; items && k < depth; k++)
        if (!(items[k].counts.histogram = malloc((size_t)s->setup->params.bins * sizeof(uint64_t)))) {
            while (k-- > 0)
                free(items[k].counts.histogram);
            free(items);
            items = NULL;
        }
    if (!items)
        err_set(e, "out of memory");
    return items;
}

int stream_run(const struct stream_setup *setup, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    struct stream s = {.setup = setup, .seen = -1};
    struct item *items = NULL;
    int depth = 4 * setup->threads + 4;
    int r = open_all(&s, e);
    if (r == 0 && s.n_lanes > 1)
        depth += 128 * s.n_lanes; /* a lane that is held up must not hold up the others */
    if (r == 0)
        r = (items = make_items(&s, depth, e)) ? 0 : -1;
    if (r == 0)
        r = pipe_run(&ops, &s, items, sizeof *items, depth, setup->threads, e);
    if (r == 0)
        r = hand_over(&s, e);
    close_all(&s, items, depth);
    return r;
}
