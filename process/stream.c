/*
 * stream.c - the run: what the threads do with the items of the schedule; see stream.h.
 *
 *   source  the schedule's next item.
 *
 *   work    LOAD: chunks into a device's buffer. COMPUTE: a unit of a slab. FINISH: what the
 *           backend has counted itself.
 *
 *   sink    adds counts to the job's result, in item order.
 *
 *   idle    the calling thread opens stores ahead of the devices, reports jobs that are done, and
 *           shows notes and progress: everything that needs HDF5 or prints.
 */
#include "process/stream.h"

#include "common/chunks.h"
#include "common/cli.h"
#include "common/gray.h"
#include "common/pipe.h"
#include "common/stop.h"
#include "common/store.h"
#include "process/job.h"
#include "process/schedule.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)SPECTRUM_STAGING_MORE == (int)CHUNKS_MARGIN,
               "chunks are read straight into staging buffers");

/* Chunks of an extent that the device does not unpack. */
struct marks {
    uint8_t *left; /* [room] */
    size_t room;
};

struct stream {
    const struct stream_setup *setup;
    struct job_terms terms;
    struct job_line line;
    struct schedule *schedule;
    struct chunks_scratch *scratch; /* [threads] */
    struct marks *marks;            /* [threads] */
    struct item *items;             /* [depth] */
    int depth;
    atomic_llong progress, shown; /* number of a job * 100 + hundredths that are computed */
    atomic_int notes;             /* bands with a note to report */
};

/* --- the calling thread --- */

static void report_notes(struct stream *s)
{
    const int64_t end = atomic_load(&s->line.dealt);
    for (int64_t k = atomic_load(&s->line.reported); k < end && atomic_load(&s->notes) > 0; k++)
        for (int64_t b = 0; b < s->line.jobs[k]->n_bands; b++) {
            struct band *band = &s->line.jobs[k]->bands[b];
            if (!atomic_exchange(&band->noted, false))
                continue;
            atomic_fetch_sub(&s->notes, 1);
            if (s->setup->note)
                s->setup->note(s->setup->ctx, k, band->note.msg);
        }
}

/* Number of windows that are to be computed for a job. */
static int64_t count_windows(const struct job *j)
{
    int64_t n = 0;
    for (int64_t b = 0; b < j->n_bands; b++) {
        const struct spectrum_band *g = &j->bands[b].geometry;
        n += (g->end_wy - g->first_wy) * g->nx;
    }
    return n;
}

/* Window rows of a job that have their values, from the first on. */
static int64_t final_rows(struct job *j)
{
    int64_t rows = 0;
    for (int64_t b = 0; b < j->n_bands; b++) {
        const int64_t final = atomic_load(&j->bands[b].rows_final);
        rows = final > rows ? final : rows;
        if (final < j->bands[b].geometry.end_wy)
            break;
    }
    return rows;
}

static void show_progress(struct stream *s)
{
    const int64_t now = atomic_load(&s->progress), k = now / 100;
    atomic_store(&s->shown, now);
    if (s->setup->progress && now > 0 && k >= atomic_load(&s->line.reported))
        s->setup->progress(s->setup->ctx, k, (double)(now % 100) / 100,
                           count_windows(s->line.jobs[k]));
    if (s->setup->live && now > 0 && k >= atomic_load(&s->line.reported))
        s->setup->live(s->setup->ctx, k, &s->line.jobs[k]->result, final_rows(s->line.jobs[k]));
}

static bool due(void *ctx)
{
    const struct stream *s = ctx;
    return job_line_to_report(&s->line, 1) > 0 || atomic_load(&s->notes) > 0 ||
           atomic_load(&s->progress) != atomic_load(&s->shown) || job_line_may_open(&s->line);
}

/* Devices without a store come before reports, unless many reports are waiting. */
static int idle(void *ctx, struct err *e)
{
    struct stream *s = ctx;
    const int64_t to_report = job_line_to_report(&s->line, s->terms.n_devices + 1);
    const bool may_open = job_line_may_open(&s->line);
    const bool starving = may_open && !job_line_ready(&s->line);
    report_notes(s); /* after counting, so that a store's notes come before its report */
    show_progress(s);
    if (to_report > 0 && (!starving || to_report > s->terms.n_devices))
        return job_line_report(&s->line, e);
    return may_open ? job_line_open(&s->line, e) : 0;
}

/* --- source --- */

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct stream *s = ctx;
    return stop_check(e) ? -1 : schedule_next(s->schedule, slot, number, after);
}

/* --- work: LOAD --- */

/* Where a thread lays pixels: a buffer of SPECTRUM_ROWS. */
struct layer {
    const struct item *item;
    float *buffer;
};

/* Lays the pixels of the chunk in column `col` as gray into the buffer. */
static void lay(void *ctx, int64_t col, const uint8_t *pixels)
{
    const struct layer *l = ctx;
    const struct item *it = l->item;
    const struct spectrum_band *d = &it->band->geometry;
    const int64_t top = d->first_row + it->extent.row * d->chunk_rows, x = col * d->chunk_cols;
    const int64_t left = it->slab.row + it->slab.rows - top;
    const int64_t rows = left < d->chunk_rows ? left : d->chunk_rows;
    const int64_t n = d->width - x < d->chunk_cols ? d->width - x : d->chunk_cols;
    float *out = l->buffer + (top - it->slab.row) * d->pitch + x;
    for (int64_t y = 0; y < rows; y++, out += d->pitch) {
        const uint8_t *in = pixels + y * d->chunk_cols * d->channels;
        if (d->channels == 3)
            gray_from_rgb(in, out, (size_t)n);
        else
            gray_from_bytes(in, out, (size_t)n);
    }
}

/* Adds a thread's seconds to the job's. */
static void add_seconds(struct job *j, struct chunks_scratch *r)
{
    atomic_fetch_add(&j->read_us, (long long)(r->read_seconds * 1e6));
    atomic_fetch_add(&j->unpack_us, (long long)(r->unpack_seconds * 1e6));
    r->read_seconds = r->unpack_seconds = 0;
}

/* An extent into a buffer of SPECTRUM_ROWS. */
static void lay_extent(struct stream *s, const struct item *it, int thread)
{
    struct layer l = {it, s->setup->backend->buffer(s->terms.spectrum, it->slab.buffer)};
    struct chunks_scratch *r = &s->scratch[thread];
    struct err why = {""};
    if (chunks_visit(&it->band->chunks, r, it->extent, lay, &l, &why))
        job_fail(it->band->job, &why);
    add_seconds(it->band->job, r);
}

/* Where in a buffer of SPECTRUM_CHUNKS an extent lies. */
static size_t place_of(const struct item *it, struct chunks_extent x)
{
    const struct spectrum_band *d = &it->band->geometry;
    const struct layout l = spectrum_band_layout(d);
    return (size_t)layout_chunk(&l, x.row - (it->slab.row - d->first_row) / d->chunk_rows, x.col);
}

/* The first chunks of x through a staging buffer to a device. Returns how many, or -1 if the job or
 * the band is gone. */
static int64_t send_some(struct stream *s, const struct item *it, struct chunks_extent x,
                         int thread)
{
    const struct spectrum_backend *b = s->setup->backend;
    struct job *j = it->band->job;
    const size_t whole = (size_t)store_chunk_bytes(store_info(j->store));
    const double begun = cli_now();
    const struct spectrum_staging staging = b->staging(s->terms.spectrum, thread);
    const uint8_t *pixels;
    struct err why = {""};
    atomic_fetch_add(&j->wait_us, (long long)((cli_now() - begun) * 1e6));
    const int64_t room = (int64_t)(staging.bytes / whole);
    assert(room > 0);
    x.n = room < x.n ? room : x.n;
    const int r =
        chunks_load(&it->band->chunks, &s->scratch[thread], x, staging.memory, &pixels, &why);
    add_seconds(j, &s->scratch[thread]);
    if (r) {
        job_fail(j, &why);
        return -1;
    }
    if (b->send(s->terms.spectrum, &it->slab, &staging, pixels, place_of(it, x),
                (size_t)x.n * whole, &why)) {
        job_device_error(it->band, &why);
        return -1;
    }
    return x.n;
}

/* Pixels of an extent into a buffer of SPECTRUM_CHUNKS. 0, or -1 if the job or the band is gone. */
static int send_pixels(struct stream *s, const struct item *it, struct chunks_extent x, int thread)
{
    for (int64_t n; x.n > 0; x.col += n, x.n -= n)
        if ((n = send_some(s, it, x, thread)) < 0)
            return -1;
    return 0;
}

/* Pixels of a chunk that the device has left to the host. */
static int send_left(struct stream *s, const struct item *it, int64_t row, int64_t col, int thread)
{
    atomic_fetch_add(&it->band->left, 1);
    return send_pixels(s, it, (struct chunks_extent){row, col, 1}, thread);
}

/* Chunks that were left out. */
static void send_blank(struct stream *s, const struct item *it, int thread)
{
    const struct spectrum_backend *b = s->setup->backend;
    const size_t whole = (size_t)store_chunk_bytes(store_info(it->band->job->store));
    struct err why = {""};
    if (!b->blank)
        send_pixels(s, it, it->extent, thread);
    else if (b->blank(s->terms.spectrum, &it->slab, place_of(it, it->extent),
                      (size_t)it->extent.n * whole, &why))
        job_device_error(it->band, &why);
}

static int grow_marks(struct marks *m, size_t n)
{
    if (n <= m->room)
        return 0;
    free(m->left);
    m->left = malloc(n);
    m->room = m->left ? n : 0;
    return m->left ? 0 : -1;
}

/* Stored bytes of x, which fit the staging buffer, to a device. Returns how many chunks of them it
 * leaves to the host, or -1 if the job or the band is gone. */
static int64_t send_stored(struct stream *s, const struct item *it, struct chunks_extent x,
                           const struct spectrum_staging *staging, int thread)
{
    const struct band *band = it->band;
    const size_t whole = (size_t)store_chunk_bytes(store_info(band->job->store));
    const uint8_t *stored;
    struct err why = {""};
    const int r =
        chunks_load_stored(&band->chunks, &s->scratch[thread], x, staging->memory, &stored, &why);
    add_seconds(band->job, &s->scratch[thread]);
    if (r || grow_marks(&s->marks[thread], (size_t)x.n)) {
        if (r == 0)
            err_set(&why, "%s: out of memory", band->job->path);
        job_fail(band->job, &why);
        return -1;
    }
    const int64_t left = s->setup->backend->send_packed(
        s->terms.spectrum, &it->slab, staging, stored, (int64_t)(place_of(it, x) / whole),
        &band->chunks.list[x.row * band->chunks.columns + x.col], x.n, s->marks[thread].left,
        &why);
    if (left < 0)
        job_device_error(it->band, &why);
    return left;
}

/* The first chunks of x as they are stored, except those that the device does not unpack. Returns
 * how many, or -1 if the job or the band is gone. */
static int64_t send_some_packed(struct stream *s, const struct item *it, struct chunks_extent x,
                                int thread)
{
    const struct chunks *c = &it->band->chunks;
    const double begun = cli_now();
    const struct spectrum_staging staging =
        s->setup->backend->staging(s->terms.spectrum, thread);
    atomic_fetch_add(&it->band->job->wait_us, (long long)((cli_now() - begun) * 1e6));
    x.n = chunks_that_fit(c, x, staging.bytes);
    if (c->list[x.row * c->columns + x.col].bytes > staging.bytes) /* then it is the only one */
        return send_left(s, it, x.row, x.col, thread) ? -1 : 1;
    const int64_t left = send_stored(s, it, x, &staging, thread);
    for (int64_t k = 0; left > 0 && k < x.n; k++)
        if (s->marks[thread].left[k] && send_left(s, it, x.row, x.col + k, thread))
            return -1;
    return left < 0 ? -1 : x.n;
}

/* An extent into a buffer of SPECTRUM_CHUNKS. */
static void send_extent(struct stream *s, const struct item *it, int thread)
{
    const struct chunks *c = &it->band->chunks;
    struct chunks_extent x = it->extent;
    if (c->list[x.row * c->columns + x.col].bytes == 0) {
        send_blank(s, it, thread);
        return;
    }
    if (!it->band->geometry.packed_bytes) {
        send_pixels(s, it, x, thread);
        return;
    }
    for (int64_t n; x.n > 0; x.col += n, x.n -= n)
        if ((n = send_some_packed(s, it, x, thread)) < 0)
            return;
}

/* Has the kernel read ahead the stored bytes of these rows of pixels. */
static void prefetch(const struct band *band, int64_t row, int64_t rows)
{
    const int64_t each = band->geometry.chunk_rows;
    const int64_t first = (row - band->geometry.first_row) / each;
    chunks_prefetch(&band->chunks, first, (rows + each - 1) / each);
}

/* With a slab's first LOAD: the next slab, and this one if it is the band's first. */
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

static void load(struct stream *s, const struct item *it, int thread)
{
    prefetch_with(it);
    if (s->setup->backend->layout == SPECTRUM_ROWS)
        lay_extent(s, it, thread);
    else
        send_extent(s, it, thread);
}

/* --- work: COMPUTE and FINISH --- */

static void clear_counts(const struct stream *s, struct item *it)
{
    uint64_t *histogram = it->counts.histogram;
    memset(histogram, 0, (size_t)s->setup->params.bins * sizeof *histogram);
    it->counts = (struct result_counts){.histogram = histogram};
    it->times = (struct spectrum_times){0};
}

/* Waits for the chunks that the device unpacks, and sends it the pixels of those that it cannot
 * unpack. -1 if the job or the band is gone. */
static int complete_slab(struct stream *s, struct item *it, int thread)
{
    const struct spectrum_band *d = &it->band->geometry;
    const int64_t columns = it->band->chunks.columns,
                  first = (it->slab.row - d->first_row) / d->chunk_rows;
    int64_t place;
    struct err why = {""};
    int r;
    while ((r = s->setup->backend->next_left(s->terms.spectrum, &it->slab, &place, &why)) > 0)
        if (send_left(s, it, first + place / columns, place % columns, thread))
            return -1;
    if (r < 0)
        job_device_error(it->band, &why);
    return r;
}

static void compute(struct stream *s, struct item *it, int thread)
{
    const struct spectrum_backend *b = s->setup->backend;
    struct err why = {""};
    if (it->band->geometry.packed_bytes && complete_slab(s, it, thread))
        return;
    if (b->compute(s->terms.spectrum, &it->slab, it->unit, thread, &it->counts, &why))
        job_device_error(it->band, &why);
}

static void finish(struct stream *s, struct item *it)
{
    const struct spectrum_backend *b = s->setup->backend;
    const struct spectrum_band *d = &it->band->geometry;
    struct err why = {""};
    if (b->finish && d->end_row > 0 &&
        b->finish(s->terms.spectrum, d, &it->counts, &it->times, &why))
        job_device_error(it->band, &why);
}

/* Errors end the job or lose the band, never the run. */
static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    const bool gone = job_is_gone(it->band);
    (void)e;
    if (it->kind != ITEM_LOAD)
        clear_counts(s, it);
    if (it->kind == ITEM_LOAD && !gone)
        load(s, it, thread);
    if (it->kind == ITEM_LOAD)
        schedule_loaded(s->schedule, it->band);
    if (it->kind == ITEM_COMPUTE && !gone)
        compute(s, it, thread);
    if (it->kind == ITEM_FINISH && !gone)
        finish(s, it);
    return 0;
}

/* --- sink --- */

static void sink_compute(struct stream *s, struct item *it)
{
    struct job *j = it->band->job;
    const int64_t units = s->setup->backend->units(s->terms.spectrum, &it->slab);
    const double of_slab = (double)it->slab.rows * (double)(it->unit + 1) / (double)units;
    const int64_t hundredths = (int64_t)(100 * ((double)j->rows_done + of_slab) / (double)j->rows);
    result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
    if (s->setup->progress || s->setup->live)
        atomic_store(&s->progress, j->number * 100 + (hundredths < 99 ? hundredths : 99));
    if (it->unit + 1 == units) {
        j->rows_done += it->slab.rows;
        it->band->rows_done += it->slab.rows;
        if (!s->setup->backend->finish) /* with it, maps return when the band is finished */
            atomic_store(&it->band->rows_final, it->slab.end_wy);
    }
}

static void sink_finish(struct stream *s, struct item *it)
{
    struct job *j = it->band->job;
    if (!schedule_finished(s->schedule, it->band)) {
        atomic_fetch_add(&s->notes, 1);
        return;
    }
    if (!atomic_load(&j->failed)) {
        result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
        atomic_store(&it->band->rows_final, it->band->geometry.end_wy);
    }
    j->result.stages[RESULT_COPY] += it->times.copy;
    j->result.stages[RESULT_KERNELS] += it->times.kernels;
    atomic_fetch_add(&j->unpack_us, (long long)(it->times.unpack * 1e6));
    j->result.tiles_on_host += atomic_load(&it->band->left);
    j->devices |= UINT64_C(1) << it->band->geometry.assigned.device;
    if (++j->bands_done == j->n_bands)
        job_line_done(&s->line, j);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct stream *s = ctx;
    struct item *it = slot;
    (void)e;
    if (it->kind == ITEM_COMPUTE && !job_is_gone(it->band))
        sink_compute(s, it);
    if (it->kind == ITEM_FINISH)
        sink_finish(s, it);
    return 0;
}

/* --- the run --- */

/* Bytes of buffers per device, of which `best` serve the backend best. Buffers on a device need not
 * grow with the memory of the host. */
static int64_t buffer_memory(const struct stream_setup *setup, int n_devices, int64_t best)
{
    const int64_t each = setup->memory / n_devices;
    if (setup->memory && (setup->backend->layout == SPECTRUM_ROWS || each < best))
        return each;
    return best;
}

/* Slots of the pipe. With several devices, one that is held up must not hold up the others. */
static int choose_depth(const struct stream *s)
{
    const int devices = s->terms.n_devices;
    return 4 * s->setup->threads + 4 + (devices > 1 ? 128 * devices : 0);
}

static int make_items(struct stream *s, struct err *e)
{
    const size_t bytes = (size_t)s->setup->params.bins * sizeof(uint64_t);
    s->depth = choose_depth(s);
    s->items = calloc((size_t)s->depth, sizeof *s->items);
    for (int k = 0; s->items && k < s->depth; k++)
        if (!(s->items[k].counts.histogram = malloc(bytes)))
            return err_set(e, "out of memory");
    return s->items ? 0 : err_set(e, "out of memory");
}

static int open_all(struct stream *s, struct err *e)
{
    const struct stream_setup *setup = s->setup;
    s->scratch = calloc((size_t)setup->threads, sizeof *s->scratch);
    s->marks = calloc((size_t)setup->threads, sizeof *s->marks);
    if (!s->scratch || !s->marks)
        return err_set(e, "out of memory");
    s->terms.setup = setup;
    s->terms.spectrum = setup->spectrum;
    s->terms.n_devices = setup->backend->devices(setup->spectrum);
    s->terms.memory = buffer_memory(setup, s->terms.n_devices, setup->backend->memory);
    s->terms.packed_memory =
        buffer_memory(setup, s->terms.n_devices, setup->backend->packed_memory);
    if (job_line_create(&s->line, &s->terms, e) || make_items(s, e))
        return -1;
    s->schedule = schedule_create(&s->terms, &s->line, e);
    return s->schedule ? 0 : -1;
}

static void close_all(struct stream *s)
{
    for (int k = 0; s->items && k < s->depth; k++)
        free(s->items[k].counts.histogram);
    free(s->items);
    for (int t = 0; s->scratch && t < s->setup->threads; t++)
        chunks_scratch_free(&s->scratch[t]);
    free(s->scratch);
    for (int t = 0; s->marks && t < s->setup->threads; t++)
        free(s->marks[t].left);
    free(s->marks);
    schedule_free(s->schedule);
    job_line_free(&s->line);
}

int stream_run(const struct stream_setup *setup, struct err *e)
{
    static const struct pipe_ops ops = {
        .source = source, .work = work, .sink = sink, .light = true, .due = due, .idle = idle};
    struct stream s = {.setup = setup};
    int r = open_all(&s, e);
    if (r == 0)
        r = pipe_run(&ops, &s, s.items, sizeof *s.items, s.depth, setup->threads, e);
    while (r == 0 && due(&s))
        r = idle(&s, e);
    close_all(&s);
    return r;
}
