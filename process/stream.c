/*
 * stream.c - from stores to spectra; see stream.h.
 *
 * A store is a job of one or more bands: runs of rows of windows, each computed on one of the backend's
 * devices. The pipe's items, in order: for every slab of a band first its LOADs (one extent each: consecutive
 * chunks of one chunk row), then its COMPUTEs (one unit of the slab each); a FINISH after a band's last
 * slab. COMPUTEs wait for the LOADs of their slab. LOADs wait for the COMPUTEs of the slab two before on the
 * same device, which with SPECTRUM_BUFFERS buffers, and slabs at least half as high as a window and its halo,
 * are the last that could need what they write over. The devices' items are mixed: the device with the fewest
 * LOADs under way gets the next.
 *
 * The calling thread does all the talk, and all that needs HDF5, while the others work: it opens the next stores
 * ahead, a group at a time, and hands those that are done to the caller, who tells of them and writes them.
 */
#include "process/stream.h"

#include "common/chunks.h"
#include "common/cli.h"
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
    EXTENT_BYTES = 4 << 20, /* of an item: so many that 64 threads do not wait for each other */
    MOST_SLAB_ROWS = 4096,
    MOST_LOSSES = 2, /* of a band with a device each: then it is the store that they fail on */
    MOST_JOBS = 128, /* open at once: behind a large store many small ones may be through */
};

_Static_assert(MOST_LOSSES == 2, "a band has room for one note");

_Static_assert((int)SPECTRUM_STAGING_MORE == (int)CHUNKS_MARGIN, "stores are read straight into staging buffers");

/* A run of rows of windows of a store, computed on one device. */
struct band {
    struct job *job;
    struct spectrum_band geometry;
    struct chunks chunks; /* of the rows that are streamed */
    int64_t rows_done;
    atomic_bool lost; /* its device has failed: its remaining items do nothing */
    struct err why;   /* set by the one who set lost */
    int losses;       /* how often it was */
    struct band *next; /* of those that are to be dealt out again */
    atomic_bool noted; /* `note` is to be told */
    struct err note;
};

/* One store on its way through. */
struct job {
    int64_t number; /* of the store */
    const char *path;
    struct store *store;
    struct store_chunk *listed; /* [chunk rows][chunk columns] of all groups that are streamed */
    struct store_chunk *chunks; /* the same from the first row that is streamed on */
    int64_t next_group, end_group; /* to be listed */
    int64_t listed_rows;           /* of chunks, so far */
    struct band *bands;
    int64_t n_bands, next_band; /* next_band: not yet given to a device */
    struct result_slide result;
    uint8_t *wanted; /* [ny][nx] of the slide, with tissue_only */
    double opening, begun; /* seconds for opening it; when it would have begun had it been opened at once */
    atomic_llong read_us, unpack_us, wait_us;
    atomic_bool failed; /* its remaining items do nothing */
    struct err err;     /* set by the one who set failed */
    int64_t rows;
    /* of sink */
    int64_t bands_ended, rows_done;
    bool ended;
};

enum kind { LOAD, COMPUTE, FINISH };

struct item {
    enum kind kind;
    struct band *band;
    struct spectrum_slab slab;
    struct chunks_extent extent;          /* LOAD: of the band's chunks */
    int64_t k;                            /* COMPUTE: which unit of the slab */
    struct result_counts counts;          /* COMPUTE, FINISH: what was counted; owns its histogram */
    struct spectrum_times times;          /* FINISH */
};

/* Where source is with one device. */
struct feed {
    atomic_int loading; /* LOADs made and not yet worked on */
    struct band *band;
    struct spectrum_slab slab;
    enum kind kind;
    int64_t next;        /* LOAD: chunk number in the slab; COMPUTE: unit of the slab */
    int64_t slabs;       /* slabs begun: slab number k lies in buffer k mod BUFFERS */
    int64_t computes_end[2]; /* the item after the last COMPUTE of the slab before (0), of this one (1) */
    int64_t loads_end;   /* the item after the last LOAD of this slab */
    int64_t bands;       /* bands begun: number k has sums k mod SUMS */
    int64_t ends[SPECTRUM_SUMS]; /* the item after the FINISH of the band that had these sums last */
};

struct stream {
    const struct stream_setup *setup;
    struct spectrum *spectrum;
    struct chunks_scratch *scratch; /* [threads] */
    struct feed *feeds;
    int n_devices;
    int64_t memory;      /* bytes of buffers of a device */
    struct job **jobs;   /* [n_paths], made one after the other */
    /* how many jobs are ... each at most as many as the one before */
    atomic_llong made;   /* the last may not be opened yet */
    atomic_llong opened; /* source may deal them out */
    atomic_llong dealt;  /* it has begun to */
    atomic_llong over;   /* in order */
    atomic_llong handed; /* to the caller */

    /* of source and sink, which the pipe calls one at a time */
    int turn;            /* whose turn it is */
    struct job *dealing; /* it has bands that no device has, or is NULL */
    struct band *again;  /* lost ones, for other devices */
    int64_t bands_out;   /* bands that were dealt out and are not through */
    bool drained;        /* source has asked for a drain and got it */

    atomic_llong progress, shown; /* number of a job * 100 + hundredths that are done */
    atomic_int notes;             /* bands that have something to tell */
};

/* --- a job --- */

static void job_free(struct job *j)
{
    if (!j)
        return;
    result_slide_free(&j->result);
    store_close(j->store);
    free(j->listed);
    free(j->bands);
    free(j->wanted);
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

/* Is nothing to be done for the band any more? */
static bool is_gone(struct band *band)
{
    return atomic_load(&band->lost) || atomic_load(&band->job->failed);
}

/* A device could not do its work for a band: its store fails, or, where it is the device that has failed, the band is
 * lost to it. */
static void band_fail(const struct stream *s, struct band *band, const struct err *e)
{
    bool no = false;
    if (s->setup->backend->alive(s->spectrum, band->geometry.assigned.device))
        job_fail(band->job, e);
    else if (atomic_compare_exchange_strong(&band->lost, &no, true))
        band->why = *e;
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
    snprintf(r->device, sizeof r->device, "%s", s->setup->backend->device_name(s->spectrum));
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

/* Bytes of a row of pixels in a buffer. */
static int64_t row_bytes(const struct stream *s, const struct spectrum_band *d)
{
    if (s->setup->backend->layout == SPECTRUM_ROWS)
        return d->pitch * (int64_t)sizeof(float);
    const struct layout l = spectrum_band_layout(d);
    return layout_row_bytes(&l);
}

/* Rows of a slab: as many as the memory allows, whole chunks, and not fewer than the ring needs. */
static int choose_slab(const struct stream *s, const struct job *j, struct spectrum_band *d, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    const int64_t chunk = d->chunk_rows, each = row_bytes(s, d);
    const int64_t need = (p->window + 2 * p->radius + 1) / 2;
    const int64_t least = (need + chunk - 1) / chunk * chunk;
    int64_t rows = s->memory / SPECTRUM_BUFFERS / each;
    const int64_t all = (d->end_row - d->first_row + chunk - 1) / chunk * chunk;
    const int64_t most = chunk > MOST_SLAB_ROWS ? chunk : MOST_SLAB_ROWS;
    rows = (rows < most ? rows : most) / chunk * chunk;
    rows = rows < all ? rows : all > least ? all : least;
    if (rows < least && s->setup->memory && s->setup->backend->layout == SPECTRUM_ROWS)
        return err_set(e, "%s: a slide of this width needs --memory %" PRId64 "M", store_path(j->store),
                       (least * each * SPECTRUM_BUFFERS * s->n_devices >> 20) + 1);
    d->slab_rows = rows < least ? least : rows;
    return 0;
}

/* Room for the chunks of rows first_row .. end_row - 1. */
static int alloc_chunks(struct job *j, int64_t first_row, int64_t end_row, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t first = first_row / i->group_rows, columns = store_chunk_columns(i);
    int64_t rows = 0, g = first;
    for (; g < i->group_count && g * i->group_rows < end_row; g++)
        rows += store_group_chunk_rows(i, g);
    j->listed = calloc((size_t)(rows * columns), sizeof *j->listed);
    if (!j->listed)
        return err_set(e, "out of memory");
    j->chunks = j->listed + (first_row - first * i->group_rows) / i->chunk_rows * columns;
    j->next_group = first;
    j->end_group = g;
    return 0;
}

static int list_next_group(struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t g = j->next_group++;
    if (store_map_group(j->store, g, j->listed + j->listed_rows * store_chunk_columns(i), e))
        return -1;
    j->listed_rows += store_group_chunk_rows(i, g);
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
    j->wanted = malloc((size_t)(j->result.nx * j->result.ny) + 1);
    if (j->wanted)
        spectrum_tissue_windows(&s->setup->params, t.mask, t.cols, t.rows, STORE_CELL, j->result.nx,
                                j->result.ny, j->wanted);
    free(t.mask);
    return j->wanted ? 0 : err_set(e, "out of memory");
}

/* Rows first_wy .. end_wy - 1 of windows as a band. */
static int set_band(const struct stream *s, struct job *j, struct band *band, int64_t first_wy,
                    int64_t end_wy, struct err *e)
{
    const struct result_params *p = &s->setup->params;
    const struct store_info *i = store_info(j->store);
    const int64_t top = first_wy * p->stride - p->radius;
    const int64_t end = (end_wy - 1) * p->stride + p->window + p->radius;
    band->job = j;
    band->geometry = (struct spectrum_band){
        .width = i->width, .height = i->height, .nx = j->result.nx, .ny = j->result.ny,
        .first_wy = first_wy, .end_wy = end_wy,
        .first_row = (top < 0 ? 0 : top) / i->chunk_rows * i->chunk_rows,
        .end_row = end < i->height ? end : i->height,
        .pitch = (i->width + 15) / 16 * 16,
        .chunk_rows = i->chunk_rows, .chunk_cols = i->chunk_cols, .channels = i->channels,
        .scale = i->channels == 3 ? GRAY_SCALE_RGB : 1,
        .mean_db = j->result.maps[RESULT_MEAN].values,
        .std_db = j->result.maps[RESULT_STD].values, .wanted = j->wanted};
    j->rows += band->geometry.end_row - band->geometry.first_row;
    return choose_slab(s, j, &band->geometry, e);
}

/* Lanes that can still compute. */
static int devices_alive(const struct stream *s)
{
    int n = 0;
    for (int k = 0; k < s->n_devices; k++)
        n += s->setup->backend->alive(s->spectrum, k);
    return n;
}

/* In how many bands a store is computed: one, but when too few stores are left to keep all devices busy. */
static int64_t count_bands(const struct stream *s, const struct job *j, int64_t window_rows)
{
    const int devices = devices_alive(s);
    const int64_t bands = s->setup->n_paths - j->number >= devices ? 1 : devices;
    return bands < window_rows ? bands : window_rows;
}

/* The band's rows of the job's chunks, whose first row of pixels is `top`. */
static void view_chunks(const struct job *j, struct band *band, int64_t top)
{
    const struct spectrum_band *d = &band->geometry;
    const int64_t columns = store_chunk_columns(store_info(j->store));
    band->chunks = (struct chunks){.store = j->store, .columns = columns,
                                   .list = j->chunks + (d->first_row - top) / d->chunk_rows * columns,
                                   .first_row = d->first_row / d->chunk_rows};
}

static int make_bands(const struct stream *s, struct job *j, int64_t first_wy, int64_t end_wy, struct err *e)
{
    const int64_t rows = end_wy - first_wy, n = count_bands(s, j, rows);
    j->bands = calloc((size_t)n, sizeof *j->bands);
    if (!j->bands)
        return err_set(e, "out of memory");
    for (int64_t k = 0; k < n; k++)
        if (set_band(s, j, &j->bands[k], first_wy + rows * k / n, first_wy + rows * (k + 1) / n, e))
            return -1;
    const struct spectrum_band *first = &j->bands[0].geometry;
    if (alloc_chunks(j, first->first_row, j->bands[n - 1].geometry.end_row, e))
        return -1;
    for (int64_t k = 0; k < n; k++)
        view_chunks(j, &j->bands[k], first->first_row);
    j->n_bands = n;
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
    if (!(j->store = store_open(j->path, e)))
        return -1;
    describe(j, s);
    if (result_slide_alloc(&j->result, p->bins, e) || choose_groups(s, j, &first_wy, &end_wy, e) ||
        (p->tissue_only && choose_windows(s, j, e)) || choose_io(s, j, e))
        return -1;
    if (j->result.nx == 0 || first_wy >= end_wy) /* too small, or a group in which no window begins */
        return 0;
    return make_bands(s, j, first_wy, end_wy, e);
}

/* --- the calling thread --- */

static void tell_notes(struct stream *s)
{
    for (int64_t k = atomic_load(&s->handed); k < atomic_load(&s->opened) && atomic_load(&s->notes) > 0; k++)
        for (int64_t p = 0; p < s->jobs[k]->n_bands; p++) {
            struct band *band = &s->jobs[k]->bands[p];
            if (!atomic_exchange(&band->noted, false))
                continue;
            atomic_fetch_sub(&s->notes, 1);
            if (s->setup->note)
                s->setup->note(s->setup->ctx, k, band->note.msg);
        }
}

static void show_progress(struct stream *s)
{
    const int64_t now = atomic_load(&s->progress);
    atomic_store(&s->shown, now);
    if (s->setup->progress && now / 100 >= atomic_load(&s->handed))
        s->setup->progress(s->setup->ctx, now / 100, (double)(now % 100) / 100);
}

/* Hands the next job, which is over, to the caller. */
static int hand_over(struct stream *s, struct err *e)
{
    const int64_t k = atomic_load(&s->handed);
    struct job *j = s->jobs[k];
    const int r = s->setup->report(s->setup->ctx, k, atomic_load(&j->failed) ? NULL : &j->result, &j->err, e);
    s->jobs[k] = NULL;
    job_free(j);
    atomic_store(&s->handed, k + 1);
    return r;
}

/* It is opened, or cannot be: source may have it. */
static int publish(struct stream *s, struct job *j, struct err *e)
{
    if (atomic_load(&j->failed) || j->n_bands == 0) { /* one band without a slab tells of it */
        free(j->bands);
        if (!(j->bands = calloc(1, sizeof *j->bands)))
            return err_set(e, "out of memory");
        j->bands->job = j;
        j->n_bands = 1;
    }
    atomic_store(&s->opened, atomic_load(&s->made));
    return 0;
}

/* Another step of opening the job made last: its store, then one group after the other. */
static int open_further(struct stream *s, struct job *j, struct err *e)
{
    const double begun = cli_now();
    struct err why = {""};
    if (j->store ? list_next_group(j, &why) : job_open(s, j, &why))
        job_fail(j, &why);
    j->opening += cli_now() - begun;
    return j->next_group < j->end_group && !atomic_load(&j->failed) ? 0 : publish(s, j, e);
}

static bool may_open(const struct stream *s)
{
    const int64_t made = atomic_load(&s->made);
    return atomic_load(&s->opened) < made ||
           (made < s->setup->n_paths && made - atomic_load(&s->dealt) <= s->n_devices &&
            made - atomic_load(&s->handed) < MOST_JOBS);
}

static int open_ahead(struct stream *s, struct err *e)
{
    const int64_t made = atomic_load(&s->made);
    if (atomic_load(&s->opened) < made)
        return open_further(s, s->jobs[made - 1], e);
    struct job *j = s->jobs[made] = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, "out of memory");
    j->number = made;
    j->path = s->setup->paths[made];
    atomic_store(&s->made, made + 1);
    return open_further(s, j, e);
}

static bool due(void *ctx)
{
    const struct stream *s = ctx;
    return atomic_load(&s->handed) < atomic_load(&s->over) || atomic_load(&s->notes) > 0 ||
           atomic_load(&s->progress) != atomic_load(&s->shown) || may_open(s);
}

static int idle(void *ctx, struct err *e)
{
    struct stream *s = ctx;
    const int64_t to_hand = atomic_load(&s->over) - atomic_load(&s->handed);
    const bool starving = may_open(s) && atomic_load(&s->opened) == atomic_load(&s->dealt);
    tell_notes(s); /* after a look at what is over: a store's notes come before its report */
    show_progress(s);
    if (to_hand > 0 && (!starving || to_hand > s->n_devices))
        return hand_over(s, e);
    return may_open(s) ? open_ahead(s, e) : 0;
}

/* --- source --- */

/* The windows that are complete once the slide's rows up to `row` are there. */
static int64_t complete_until(const struct stream *s, const struct spectrum_band *d, int64_t row)
{
    const struct result_params *p = &s->setup->params;
    if (row >= d->end_row)
        return d->end_wy;
    const int64_t room = row - p->window - p->radius; /* last row of windows may begin here */
    const int64_t wy = room < 0 ? 0 : room / p->stride + 1;
    return wy < d->first_wy ? d->first_wy : wy < d->end_wy ? wy : d->end_wy;
}

/* Begins the slab at `row` on a device. */
static void begin_slab(struct stream *s, struct feed *l, int64_t row)
{
    struct band *band = l->band;
    struct spectrum_band *d = &band->geometry;
    const int64_t left = d->end_row - row;
    const int64_t rows = left < d->slab_rows ? left : d->slab_rows;
    l->slab = (struct spectrum_slab){
        .band = d, .row = row, .rows = rows, .buffer = (int)(l->slabs++ % SPECTRUM_BUFFERS),
        .wy = complete_until(s, d, row), .end_wy = complete_until(s, d, row + rows)};
    if (row == d->first_row) {
        d->assigned.first_buffer = l->slab.buffer;
        l->slab.wy = d->first_wy;
    }
    l->kind = LOAD;
    l->next = 0;
}

/* Is there, at the moment, a band that no device has? */
static bool bands_left(const struct stream *s)
{
    return s->again || s->dealing || atomic_load(&s->dealt) < atomic_load(&s->opened);
}

/* The next of them. */
static struct band *take_band(struct stream *s)
{
    struct band *again = s->again;
    if (again) {
        s->again = again->next;
        return again;
    }
    s->bands_out++;
    if (!s->dealing) {
        s->dealing = s->jobs[atomic_fetch_add(&s->dealt, 1)];
        s->dealing->begun = cli_now() - s->dealing->opening;
    }
    struct job *j = s->dealing;
    struct band *band = &j->bands[j->next_band++];
    if (j->next_band == j->n_bands)
        s->dealing = NULL;
    return band;
}

/* Bytes of a buffer for this band. */
static size_t buffer_bytes(const struct stream *s, const struct spectrum_band *d)
{
    const int64_t rows = (d->slab_rows + d->chunk_rows - 1) / d->chunk_rows * d->chunk_rows;
    return (size_t)(rows * row_bytes(s, d));
}

static void make_load(const struct feed *l, struct item *it)
{
    const struct band *band = l->band;
    const struct store_info *i = store_info(band->job->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t most = EXTENT_BYTES / store_chunk_bytes(i) > 1 ? EXTENT_BYTES / store_chunk_bytes(i) : 1;
    const int64_t row = l->next / columns, col = l->next % columns;
    const int64_t first = (l->slab.row - band->geometry.first_row) / i->chunk_rows + row;
    it->kind = LOAD;
    it->extent = chunks_extent_at(&band->chunks, first, col, most);
}

/* The next LOAD or COMPUTE of the slab under way, or 0 when it has no more. */
static int make_item(struct stream *s, struct feed *l, struct item *it, int64_t number, int64_t *after)
{
    const struct store_info *i = store_info(l->band->job->store);
    const int64_t sums_free = l->ends[l->band->geometry.assigned.number % SPECTRUM_SUMS];
    const int64_t chunk_rows = (l->slab.rows + i->chunk_rows - 1) / i->chunk_rows;
    if (l->kind == LOAD) {
        *after = l->computes_end[0];
        make_load(l, it);
        atomic_fetch_add(&l->loading, 1);
        if ((l->next += it->extent.n) == chunk_rows * store_chunk_columns(i)) {
            l->kind = COMPUTE;
            l->next = 0;
            l->loads_end = number + 1;
        }
        return PIPE_ITEM;
    }
    if (l->next < s->setup->backend->units(s->spectrum, &l->slab)) {
        it->kind = COMPUTE;
        it->k = l->next++;
        *after = l->loads_end > sums_free ? l->loads_end : sums_free;
        return PIPE_ITEM;
    }
    l->computes_end[0] = l->computes_end[1];
    l->computes_end[1] = number;
    return 0;
}

/* Gives a device its next band. PIPE_ITEM, or PIPE_DRAIN when buffers must grow first. */
static int begin_band(struct stream *s, struct feed *l)
{
    const struct spectrum_backend *b = s->setup->backend;
    const int number = (int)(l - s->feeds);
    const bool drained = s->drained;
    struct err why = {""};
    s->drained = false;
    if (!l->band) {
        l->band = take_band(s);
        l->band->geometry.assigned.device = number;
        l->band->geometry.assigned.number = l->bands++;
    }
    struct job *j = l->band->job;
    struct spectrum_band *d = &l->band->geometry;
    if (devices_alive(s) == 0) {
        const char *last = l->band->why.msg;
        err_set(&why, "%s: no device is left to compute it%s%s", j->path, *last ? ": " : "", last);
        job_fail(j, &why);
    }
    l->slab.band = NULL;
    l->kind = FINISH;
    if (atomic_load(&j->failed) || d->end_row == 0)
        return PIPE_ITEM;
    if (!b->fits(s->spectrum, d, buffer_bytes(s, d))) {
        if (!drained) {
            s->drained = true;
            return PIPE_DRAIN;
        }
        if (b->reserve(s->spectrum, d, buffer_bytes(s, d), &why)) {
            band_fail(s, l->band, &why);
            return PIPE_ITEM;
        }
    }
    begin_slab(s, l, d->first_row);
    return PIPE_ITEM;
}

/* Has the device as many LOADs under way as its bus can use? Where chunks must be unpacked any number is of use. */
static bool has_enough(const struct stream *s, const struct feed *l)
{
    const struct spectrum_backend *b = s->setup->backend;
    return b->most_loads > 0 && atomic_load(&l->loading) >= b->most_loads &&
           (b->unpacks >> store_info(l->band->job->store)->codec->id & 1);
}

/* How little a device needs an item: what is read for it already, more when it must wait for a buffer. What
 * computes or ends a slab comes first. -1: there is nothing to do for it now. */
static int64_t claim(const struct stream *s, int number)
{
    const struct spectrum_backend *b = s->setup->backend;
    const struct feed *l = &s->feeds[number];
    if (!l->band && (!bands_left(s) || (!b->alive(s->spectrum, number) && devices_alive(s) > 0)))
        return -1; /* the others do its work */
    if (l->band && l->kind != LOAD)
        return 0;
    if (l->band && has_enough(s, l))
        return -1;
    const bool new_slab = !l->band || !l->slab.band;
    const int64_t waits = new_slab && !b->buffer_free(s->spectrum, number, (int)(l->slabs % SPECTRUM_BUFFERS));
    return 1 + atomic_load(&l->loading) + (waits << 32);
}

/* Whose turn is it? Items go round, so that all devices are fed at a time; the one that is fed slowest gets
 * the next. -1: nobody's now. */
static int next_device(const struct stream *s)
{
    int64_t least = -1;
    int best = -1;
    for (int k = 1; k <= s->n_devices; k++) {
        const int n = (s->turn + k) % s->n_devices;
        const int64_t c = claim(s, n);
        if (c >= 0 && (best < 0 || c < least)) {
            best = n;
            least = c;
        }
    }
    return best;
}

static bool all_done(const struct stream *s)
{
    for (int k = 0; k < s->n_devices; k++)
        if (s->feeds[k].band)
            return false;
    return !s->dealing && atomic_load(&s->dealt) == s->setup->n_paths && s->bands_out == 0;
}

static int make_finish(const struct stream *s, struct feed *l, struct item *it, int64_t number, int64_t *after)
{
    it->kind = FINISH;
    it->band = l->band;
    if (s->setup->backend->finish)
        *after = l->computes_end[1]; /* the band's last COMPUTE */
    l->ends[l->band->geometry.assigned.number % SPECTRUM_SUMS] = number + 1;
    l->band = NULL;
    return PIPE_ITEM;
}

/* A whole slab has been made for the device. Returns whether its band has another. */
static bool end_slab(struct feed *l)
{
    const struct spectrum_band *d = &l->band->geometry;
    const int64_t row = l->slab.row + l->slab.rows;
    if (row >= d->end_row || is_gone(l->band)) {
        l->kind = FINISH;
        return false;
    }
    l->slab.band = NULL; /* begun when the device's turn comes again */
    l->slab.row = row;
    l->kind = LOAD;
    return true;
}

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    if (cli_check_stop(e))
        return -1;
    for (;;) {
        const int turn = s->drained ? s->turn : next_device(s); /* the device that asked to drain goes on */
        if (turn < 0)
            return all_done(s) ? PIPE_END : PIPE_WAIT;
        struct feed *l = &s->feeds[s->turn = turn];
        if (!l->band || s->drained) {
            const int r = begin_band(s, l);
            if (r != PIPE_ITEM)
                return r;
        } else if (l->kind != FINISH && !l->slab.band)
            begin_slab(s, l, l->slab.row);
        if (l->kind == FINISH)
            return make_finish(s, l, it, number, after);
        if (make_item(s, l, it, number, after)) {
            it->band = l->band;
            it->slab = l->slab;
            return PIPE_ITEM;
        }
        if (!end_slab(l))
            return make_finish(s, l, it, number, after);
    }
}

/* --- work --- */

/* Where a thread lays pixels: a buffer of SPECTRUM_ROWS. */
struct layer {
    const struct item *item;
    float *buffer;
};

/* One chunk's pixels as gray into a buffer of SPECTRUM_ROWS. */
static void lay(void *ctx, int64_t col, const uint8_t *pixels)
{
    const struct layer *l = ctx;
    const struct item *it = l->item;
    const struct spectrum_band *d = &it->band->geometry;
    const struct store_info *i = store_info(it->band->job->store);
    const int64_t row0 = d->first_row + it->extent.row * i->chunk_rows; /* in the slide */
    const int64_t x = col * i->chunk_cols, right = it->slab.row + it->slab.rows;
    const int64_t rows = right - row0 < i->chunk_rows ? right - row0 : i->chunk_rows;
    const int64_t n = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    float *out = l->buffer + (row0 - it->slab.row) * d->pitch + x;
    for (int64_t y = 0; y < rows; y++, out += d->pitch) {
        const uint8_t *in = pixels + y * i->chunk_cols * i->channels;
        if (i->channels == 3)
            gray_from_rgb(in, out, (size_t)n);
        else
            gray_from_bytes(in, out, (size_t)n);
    }
}

/* Adds a thread's seconds to the job's, and begins them anew. */
static void add_seconds(struct job *j, struct chunks_scratch *r)
{
    atomic_fetch_add(&j->read_us, (long long)(r->read_seconds * 1e6));
    atomic_fetch_add(&j->unpack_us, (long long)(r->unpack_seconds * 1e6));
    r->read_seconds = r->unpack_seconds = 0;
}

/* Where in a buffer of SPECTRUM_CHUNKS an extent lies. */
static size_t place_of(const struct item *it, struct chunks_extent x)
{
    const struct spectrum_band *d = &it->band->geometry;
    const struct layout l = spectrum_band_layout(d);
    return (size_t)layout_chunk(&l, x.row - (it->slab.row - d->first_row) / d->chunk_rows, x.col);
}

/* The first chunks of x through a staging buffer to a device; *n: how many. */
static int send_some(struct stream *s, const struct item *it, struct chunks_extent x, int thread,
                     int64_t *n, struct err *e)
{
    const struct spectrum_backend *b = s->setup->backend;
    struct job *j = it->band->job;
    struct chunks_scratch *r = &s->scratch[thread];
    const int64_t whole = store_chunk_bytes(store_info(j->store));
    const double begun = cli_now();
    const struct spectrum_staging staging = b->staging(s->spectrum, thread);
    const uint8_t *pixels;
    atomic_fetch_add(&j->wait_us, (long long)((cli_now() - begun) * 1e6));
    const int64_t room = (int64_t)staging.bytes / whole;
    assert(room > 0);
    *n = x.n = room < x.n ? room : x.n;
    if (chunks_load(&it->band->chunks, r, x, staging.memory, &pixels, e)) {
        job_fail(j, e); /* whatever has become of the device */
        return -1;
    }
    add_seconds(j, r);
    return b->send(s->spectrum, &it->slab, &staging, pixels, place_of(it, x), (size_t)(x.n * whole), e);
}

static int send_extent(struct stream *s, const struct item *it, int thread, struct err *e)
{
    struct chunks_extent x = it->extent;
    for (int64_t n; x.n > 0; x.col += n, x.n -= n)
        if (send_some(s, it, x, thread, &n, e))
            return -1;
    return 0;
}

/* An extent into a buffer of SPECTRUM_ROWS. */
static int lay_extent(struct stream *s, const struct item *it, int thread, struct err *e)
{
    struct layer l = {it, s->setup->backend->buffer(s->spectrum, it->slab.buffer)};
    struct chunks_scratch *r = &s->scratch[thread];
    if (chunks_visit(&it->band->chunks, r, it->extent, lay, &l, e))
        return -1;
    add_seconds(it->band->job, r);
    return 0;
}

/* Has the kernel read ahead the stored bytes of these rows of pixels. */
static void prefetch(const struct band *band, int64_t row, int64_t rows)
{
    const int64_t each = band->geometry.chunk_rows;
    chunks_prefetch(&band->chunks, (row - band->geometry.first_row) / each, (rows + each - 1) / each);
}

/* With a slab's first LOAD: this slab where it is the band's first, and the next one. */
static void prefetch_with(const struct item *it)
{
    const struct spectrum_band *d = &it->band->geometry;
    const int64_t next = it->slab.row + it->slab.rows, left = d->end_row - next;
    if (it->extent.col > 0 || it->extent.row * d->chunk_rows != it->slab.row - d->first_row)
        return;
    if (it->slab.row == d->first_row)
        prefetch(it->band, it->slab.row, it->slab.rows);
    if (left > 0)
        prefetch(it->band, next, left < d->slab_rows ? left : d->slab_rows);
}

static int load_extent(struct stream *s, const struct item *it, int thread, struct err *e)
{
    prefetch_with(it);
    return s->setup->backend->layout == SPECTRUM_ROWS ? lay_extent(s, it, thread, e) : send_extent(s, it, thread, e);
}

static int compute_slab(struct stream *s, struct item *it, int thread, struct err *e)
{
    return s->setup->backend->compute(s->spectrum, &it->slab, it->k, thread, &it->counts, e);
}

/* All slabs of a band have been computed. */
static int finish_band(struct stream *s, struct item *it, struct err *e)
{
    const struct spectrum_backend *b = s->setup->backend;
    const struct spectrum_band *d = &it->band->geometry;
    return b->finish && d->end_row > 0 ? b->finish(s->spectrum, d, &it->counts, &it->times, e) : 0;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    const int64_t bins = s->setup->params.bins;
    struct err why = {""};
    (void)e;
    if (it->kind == LOAD) {
        if (!is_gone(it->band) && load_extent(s, it, thread, &why))
            band_fail(s, it->band, &why);
        atomic_fetch_sub(&s->feeds[it->band->geometry.assigned.device].loading, 1);
        return 0;
    }
    uint64_t *histogram = it->counts.histogram;
    memset(histogram, 0, (size_t)bins * sizeof *histogram);
    it->counts = (struct result_counts){.histogram = histogram};
    it->times = (struct spectrum_times){0, 0};
    if (!is_gone(it->band) && (it->kind == COMPUTE ? compute_slab(s, it, thread, &why) : finish_band(s, it, &why)))
        band_fail(s, it->band, &why);
    return 0;
}

/* --- sink --- */

static void sink_compute(struct stream *s, struct item *it)
{
    struct job *j = it->band->job;
    const int64_t units = s->setup->backend->units(s->spectrum, &it->slab);
    result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
    const double rows = (double)j->rows_done + (double)it->slab.rows * (double)(it->k + 1) / (double)units;
    const int64_t hundredths = (int64_t)(100 * rows / (double)j->rows);
    if (s->setup->progress)
        atomic_store(&s->progress, j->number * 100 + (hundredths < 99 ? hundredths : 99));
    if (it->k + 1 == units) {
        j->rows_done += it->slab.rows;
        it->band->rows_done += it->slab.rows;
    }
}

/* A band's device has failed: it goes to another one. */
static void deal_again(struct stream *s, struct band *band)
{
    err_set(&band->note, "%.900s; another device computes it again", band->why.msg);
    atomic_store(&band->noted, true);
    atomic_fetch_add(&s->notes, 1);
    band->job->rows_done -= band->rows_done;
    band->rows_done = 0;
    atomic_store(&band->lost, false);
    band->next = s->again;
    s->again = band;
}

/* A band is through, or lost. */
static void sink_finish(struct stream *s, struct item *it)
{
    struct band *band = it->band;
    struct job *j = band->job;
    struct result_slide *r = &j->result;
    if (atomic_load(&band->lost) && !atomic_load(&j->failed)) {
        if (devices_alive(s) > 0 && ++band->losses < MOST_LOSSES) {
            deal_again(s, band);
            return;
        }
        job_fail(j, &band->why);
    }
    s->bands_out--;
    if (!atomic_load(&j->failed))
        result_add_counts(&r->counts, &it->counts, s->setup->params.bins);
    r->stages[RESULT_COPY] += it->times.copy;
    r->stages[RESULT_KERNELS] += it->times.kernels;
    if (++j->bands_ended < j->n_bands)
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
    (void)e;
    if (it->kind == COMPUTE && !is_gone(it->band))
        sink_compute(s, it);
    if (it->kind == FINISH)
        sink_finish(s, it);
    while (atomic_load(&s->over) < atomic_load(&s->opened) && s->jobs[atomic_load(&s->over)]->ended)
        atomic_fetch_add(&s->over, 1);
    return 0;
}

/* --- the run --- */

static void close_all(struct stream *s, struct item *items, int depth)
{
    for (int k = 0; items && k < depth; k++)
        free(items[k].counts.histogram);
    free(items);
    for (int t = 0; s->scratch && t < s->setup->threads; t++)
        chunks_scratch_free(&s->scratch[t]);
    free(s->scratch);
    for (int64_t k = s->handed; s->jobs && k < s->made; k++)
        job_free(s->jobs[k]);
    free(s->jobs);
    free(s->feeds);
    s->setup->backend->close(s->spectrum); /* NULL where it was not opened */
}

static int open_all(struct stream *s, struct err *e)
{
    const struct stream_setup *setup = s->setup;
    s->scratch = calloc((size_t)setup->threads, sizeof *s->scratch);
    s->jobs = calloc((size_t)setup->n_paths, sizeof *s->jobs);
    if (!s->scratch || !s->jobs)
        return err_set(e, "out of memory");
    if (setup->backend->open(&s->spectrum, setup->devices ? setup->devices : "", &setup->params,
                             setup->threads, setup->memory ? setup->memory : INT64_MAX, e))
        return -1;
    s->n_devices = setup->backend->devices(s->spectrum);
    s->memory = setup->backend->memory;
    if (setup->memory && (setup->backend->layout == SPECTRUM_ROWS || setup->memory / s->n_devices < s->memory))
        s->memory = setup->memory / s->n_devices; /* buffers on a device need not grow with the memory of the host */
    s->feeds = calloc((size_t)s->n_devices, sizeof *s->feeds);
    return s->feeds ? 0 : err_set(e, "out of memory");
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
    static const struct pipe_ops ops = {
        .source = source, .work = work, .sink = sink, .light = true, .due = due, .idle = idle};
    struct stream s = {.setup = setup};
    struct item *items = NULL;
    int depth = 4 * setup->threads + 4;
    int r = open_all(&s, e);
    if (r == 0 && s.n_devices > 1)
        depth += 128 * s.n_devices; /* a device that is held up must not hold up the others */
    if (r == 0)
        r = (items = make_items(&s, depth, e)) ? 0 : -1;
    if (r == 0)
        r = pipe_run(&ops, &s, items, sizeof *items, depth, setup->threads, e);
    while (r == 0 && due(&s))
        r = idle(&s, e);
    close_all(&s, items, depth);
    return r;
}
