/*
 * stream.c - the run: what the threads do with the items of the schedule; see stream.h.
 *
 *   source  the next store, as long as too few are open for the devices; else the schedule's next
 *           item. Stores have a queue of their own, behind those of the devices.
 *
 *   work    OPEN: a store, ahead of the devices. LOAD: chunks into a device's buffer. COMPUTE: a
 *           unit of a slab. FINISH: what the backend has counted itself.
 *
 *   sink    adds counts to the job's result, in item order.
 *
 *   idle    the calling thread reports jobs that are done, and shows notes and progress: everything
 *           that writes or prints. It shares HDF5 with the OPENs (h5_library.h).
 */
#include "process/engine/stream.h"

#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/store/store.h"
#include "process/engine/job.h"
#include "process/engine/loop.h"
#include "process/engine/schedule.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct stream {
    const struct stream_setup *setup;
    struct job_terms terms;
    struct job_queue queue;
    struct schedule *schedule;
    struct spectrum_thread *threads; /* [threads] */
    struct step *items;              /* [depth] */
    int depth;
    atomic_llong progress, shown; /* number of a job * 100 + hundredths that are computed */
    atomic_int notes;             /* bands with a note to report */
};

/* --- the calling thread --- */

static void report_notes(struct stream *s)
{
    const int64_t end = atomic_load(&s->queue.assigned);
    for (int64_t k = atomic_load(&s->queue.reported); k < end && atomic_load(&s->notes) > 0; k++)
        for (int64_t b = 0; b < s->queue.jobs[k]->n_bands; b++) {
            struct band *band = &s->queue.jobs[k]->bands[b];
            if (!atomic_load(&band->noted))
                continue;
            if (s->setup->note)
                s->setup->note(s->setup->ctx, k, band->note.msg);
            atomic_store(&band->noted, false);
            atomic_fetch_sub(&s->notes, 1);
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
    if (s->setup->progress && now > 0 && k >= atomic_load(&s->queue.reported))
        s->setup->progress(s->setup->ctx, k, (double)(now % 100) / 100,
                           count_windows(s->queue.jobs[k]));
    if (s->setup->live && now > 0 && k >= atomic_load(&s->queue.reported))
        s->setup->live(s->setup->ctx, k, &s->queue.jobs[k]->result, final_rows(s->queue.jobs[k]));
}

static bool due(void *ctx)
{
    const struct stream *s = ctx;
    return job_queue_may_report(&s->queue) || atomic_load(&s->notes) > 0 ||
           atomic_load(&s->progress) != atomic_load(&s->shown);
}

static int idle(void *ctx, struct err *e)
{
    struct stream *s = ctx;
    const bool to_report = job_queue_may_report(&s->queue);
    report_notes(s); /* after looking, so that a store's notes come before its report */
    show_progress(s);
    return to_report ? job_queue_report(&s->queue, e) : 0;
}

/* --- source --- */

static int next_store(struct stream *s, struct step *it, struct loop_order *order)
{
    it->kind = ITEM_OPEN;
    it->job = job_queue_add(&s->queue);
    order->queue = schedule_queues(s->setup->use->n);
    return LOOP_ITEM;
}

static int source(void *ctx, void *slot, int64_t number, struct loop_order *order, struct err *e)
{
    struct stream *s = ctx;
    (void)number;
    if (stop_check(e))
        return -1;
    return job_queue_may_open(&s->queue) ? next_store(s, slot, order)
                                         : schedule_next(s->schedule, slot, order);
}

/* --- work: LOAD --- */

/* Has the kernel read ahead the stored bytes of these rows of pixels. */
static void prefetch(const struct band *band, int64_t row, int64_t rows)
{
    const int64_t each = band->geometry.chunk_rows;
    const int64_t first = (row - band->geometry.first_row) / each;
    chunks_prefetch(&band->chunks, first, (rows + each - 1) / each);
}

/* With a slab's first LOAD: the next slab, and this one if it is the band's first. */
static void prefetch_with(const struct step *it)
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

/* Adds what a thread has counted to the band and its job. */
static void add_thread(struct band *band, struct spectrum_thread *t)
{
    struct job *j = band->job;
    atomic_fetch_add(&j->read_us, (long long)(t->scratch.read_seconds * 1e6));
    atomic_fetch_add(&j->unpack_us, (long long)(t->scratch.unpack_seconds * 1e6));
    atomic_fetch_add(&j->wait_us, (long long)(t->wait_seconds * 1e6));
    for (int k = 0; k < HOST_DECODED_REASONS; k++)
        atomic_fetch_add(&band->host_decoded[k], t->host_decoded[k]);
    t->scratch.read_seconds = t->scratch.unpack_seconds = t->wait_seconds = 0;
    memset(t->host_decoded, 0, sizeof t->host_decoded);
}

/* The return value of `load` or `compute` of the backend. */
static void take_error(struct band *band, int r, const struct err *why)
{
    if (r == SPECTRUM_BAD_STORE)
        job_fail(band->job, why);
    else if (r)
        job_device_error(band, why);
}

static void load(struct stream *s, struct step *it, int thread)
{
    struct spectrum_thread *t = &s->threads[thread];
    struct err why = {0};
    prefetch_with(it);
    const int r =
        s->setup->use->backend->load(job_device(it->band), &it->slab, it->extent, t, &why);
    add_thread(it->band, t);
    take_error(it->band, r, &why);
}

/* --- work: COMPUTE and FINISH --- */

static void clear_counts(const struct stream *s, struct step *it)
{
    uint64_t *histogram = it->counts.histogram;
    memset(histogram, 0, (size_t)s->setup->params.bins * sizeof *histogram);
    it->counts = (struct result_counts){.histogram = histogram};
    it->times = (struct spectrum_times){0};
}

static void compute(struct stream *s, struct step *it, int thread)
{
    struct spectrum_thread *t = &s->threads[thread];
    struct err why = {0};
    const int r = s->setup->use->backend->compute(job_device(it->band), &it->slab, it->unit, t,
                                                  &it->counts, &why);
    add_thread(it->band, t);
    take_error(it->band, r, &why);
}

static void finish(struct stream *s, struct step *it)
{
    const struct spectrum_backend *b = s->setup->use->backend;
    const struct spectrum_band *d = &it->band->geometry;
    struct err why = {0};
    if (b->finish && d->end_row > 0 &&
        b->finish(job_device(it->band), d, &it->counts, &it->times, &why))
        job_device_error(it->band, &why);
}

static void work_on_band(struct stream *s, struct step *it, int thread)
{
    const bool gone = job_is_gone(it->band);
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
}

/* Errors end the job or lose the band, never the run. */
static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct step *it = slot;
    (void)e;
    if (it->kind == ITEM_OPEN)
        job_open(it->job);
    else
        work_on_band(ctx, it, thread);
    return 0;
}

/* --- sink --- */

static void sink_compute(struct stream *s, struct step *it)
{
    struct job *j = it->band->job;
    const int64_t units = s->setup->use->backend->units(job_device(it->band), &it->slab);
    const double of_slab = (double)it->slab.rows * (double)(it->unit + 1) / (double)units;
    const int64_t hundredths = (int64_t)(100 * ((double)j->rows_done + of_slab) / (double)j->rows);
    result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
    if (s->setup->progress || s->setup->live)
        atomic_store(&s->progress, j->number * 100 + (hundredths < 99 ? hundredths : 99));
    if (it->unit + 1 == units) {
        j->rows_done += it->slab.rows;
        it->band->rows_done += it->slab.rows;
        if (!s->setup->use->backend->finish) /* with it, maps return when the band is finished */
            atomic_store(&it->band->rows_final, it->slab.end_wy);
    }
}

static void sink_finish(struct stream *s, struct step *it)
{
    struct job *j = it->band->job;
    if (!schedule_finished(s->schedule, it->band)) {
        atomic_fetch_add(&s->notes, !atomic_exchange(&it->band->noted, true));
        return;
    }
    if (!atomic_load(&j->failed)) {
        if (s->setup->use->backend
                ->finish) /* else all rows may be final: `live` reads the counts */
            result_add_counts(&j->result.counts, &it->counts, s->setup->params.bins);
        atomic_store(&it->band->rows_final, it->band->geometry.end_wy);
    }
    j->result.stages[RESULT_COPY] += it->times.copy;
    j->result.stages[RESULT_KERNELS] += it->times.kernels;
    atomic_fetch_add(&j->unpack_us, (long long)(it->times.unpack * 1e6));
    for (int k = 0; k < HOST_DECODED_REASONS; k++) {
        j->result.host_decoded[k] += atomic_load(&it->band->host_decoded[k]);
        j->result.tiles_on_host += atomic_load(&it->band->host_decoded[k]);
    }
    j->devices |= UINT64_C(1) << it->band->geometry.assigned.device;
    if (++j->bands_done == j->n_bands)
        job_queue_done(&s->queue, j);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct stream *s = ctx;
    struct step *it = slot;
    (void)e;
    if (it->kind == ITEM_OPEN)
        job_queue_opened(&s->queue, it->job);
    if (it->kind == ITEM_COMPUTE && !job_is_gone(it->band))
        sink_compute(s, it);
    if (it->kind == ITEM_FINISH)
        sink_finish(s, it);
    return 0;
}

/* --- the run --- */

static int most_threads(void *ctx)
{
    const struct stream *s = ctx;
    return atomic_load(s->setup->threads_now);
}

/* Bytes of buffers per device, of which `best` serve the backend best. Buffers on a device need not
 * grow with the memory of the host. */
static int64_t buffer_memory(const struct stream_setup *setup, int64_t best)
{
    const int64_t each = setup->memory / setup->use->n;
    const int threads = setup->threads_now ? atomic_load(setup->threads_now) : setup->use->threads;
    const int64_t of_use = threads * setup->use->backend->thread_memory;
    if (setup->memory && (setup->use->backend->layout == SPECTRUM_ROWS || each < best))
        return each;
    return of_use > 0 && of_use < best ? of_use : best;
}

/* Slots of the loop. With several devices, one that is held up must not hold up the others; devices
 * that unpack chunks want slabs ahead. */
static int choose_depth(const struct stream *s)
{
    const int devices = s->setup->use->n;
    const bool chunks = s->setup->use->backend->layout == SPECTRUM_CHUNKS;
    return 4 * s->setup->use->threads + 4 + (chunks || devices > 1 ? 128 * devices : 0);
}

static void make_threads(struct stream *s)
{
    s->threads = memory_need((size_t)s->setup->use->threads, sizeof *s->threads);
    for (int t = 0; t < s->setup->use->threads; t++)
        s->threads[t].number = t;
}

static void make_items(struct stream *s)
{
    const size_t bins = (size_t)s->setup->params.bins;
    s->depth = choose_depth(s);
    s->items = memory_need((size_t)s->depth, sizeof *s->items);
    for (int k = 0; k < s->depth; k++)
        s->items[k].counts.histogram = memory_need(bins, sizeof(uint64_t));
}

static void open_all(struct stream *s)
{
    const struct stream_setup *setup = s->setup;
    store_init(); /* changes the environment, which only one thread may do */
    s->terms.setup = setup;
    s->terms.memory = buffer_memory(setup, setup->use->backend->memory);
    s->terms.packed_memory = buffer_memory(setup, setup->use->backend->packed_memory);
    job_queue_create(&s->queue, &s->terms);
    make_threads(s);
    make_items(s);
    s->schedule = schedule_create(&s->terms, &s->queue);
}

static void close_all(struct stream *s)
{
    for (int k = 0; k < s->depth; k++)
        free(s->items[k].counts.histogram);
    free(s->items);
    for (int t = 0; t < s->setup->use->threads; t++)
        chunks_scratch_free(&s->threads[t].scratch);
    free(s->threads);
    schedule_free(s->schedule);
    job_queue_free(&s->queue);
}

int stream_run(const struct stream_setup *setup, struct err *e)
{
    struct stream s = {.setup = setup};
    open_all(&s);
    const struct loop_ops ops = {.source = source,
                                 .work = work,
                                 .sink = sink,
                                 .queues = schedule_queues(setup->use->n) + 1,
                                 .due = due,
                                 .idle = idle,
                                 .most = setup->threads_now ? most_threads : NULL};
    int r = loop_run(&ops, &s, s.items, sizeof *s.items, s.depth, setup->use->threads, e);
    while (r == 0 && due(&s))
        r = idle(&s, e);
    close_all(&s);
    return r;
}
