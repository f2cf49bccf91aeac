/*
 * schedule.c - see schedule.h.
 *
 * A feed is the state of the schedule for one device: the band, the slab and the item that come
 * next. Its items have two queues of the loop for themselves. Feeds take turns, so that all devices
 * are supplied at the same time; the feed with the fewest LOADs in progress is served first.
 */
#include "process/engine/schedule.h"

#include "common/base/memory.h"
#include "common/store/store_read.h"
#include "process/engine/loop.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXTENT_BYTES = 4 << 20, /* pixels of a LOAD: large, so that 64 threads rarely meet in source */
    PACKED_EXTENT_BYTES = 16 << 20, /* the same for chunks that are sent as they are stored */
    MOST_LOSSES = 2, /* devices that fail with a band; then the store itself is the reason */
};

struct feed {
    atomic_int loading;        /* LOADs in progress */
    struct band *band;         /* NULL: the device needs one */
    struct spectrum_slab slab; /* slab.band NULL: the slab at slab.row has not begun */
    enum item_kind kind;
    int64_t next;  /* LOAD: chunk of the slab, COMPUTE: unit of the slab */
    int lowered;   /* how often slabs had to be lower, because memory was short */
    int buffers;   /* of the device that are used */
    int64_t slabs; /* slabs begun; slab k is in buffer k % buffers */
    int64_t bands; /* bands begun; band k has sums k % SPECTRUM_SUMS */
    int64_t loads; /* LOADs produced so far: those of this slab and of all before it */
    int64_t works; /* COMPUTEs and FINISHes produced so far */
    /* How many of these there were after the last COMPUTE of the previous slab, of the one before
     * ... */
    int64_t computes_end[SPECTRUM_MOST_BUFFERS];
    bool finishing[SPECTRUM_SUMS]; /* FINISH of the band that has these sums is in progress */
};

struct schedule {
    const struct job_terms *terms;
    struct job_queue *queue;
    struct feed *feeds;    /* [n_devices] */
    int turn;              /* the feed that was served last */
    bool drained;          /* that feed has asked for a drain */
    struct job *assigning; /* it has bands that no device has; or NULL */
    struct band *lost;     /* list of bands to compute again */
    int64_t bands_out;     /* bands that were assigned and are not finished */
};

struct schedule *schedule_create(const struct job_terms *t, struct job_queue *q)
{
    struct schedule *s = memory_need(1, sizeof *s);
    struct feed *feeds = memory_need((size_t)t->setup->use->n, sizeof *feeds);
    *s = (struct schedule){.terms = t, .queue = q, .feeds = feeds};
    for (int k = 0; k < t->setup->use->n; k++)
        feeds[k].buffers = t->setup->use->backend->buffers;
    return s;
}

void schedule_free(struct schedule *s)
{
    if (s)
        free(s->feeds);
    free(s);
}

static const struct spectrum_backend *backend(const struct schedule *s)
{
    return s->terms->setup->use->backend;
}

/* --- bands --- */

/* Is there a device that may still compute the band, because it has not lost it? */
static bool another_device(const struct schedule *s, const struct band *band)
{
    const struct spectrum_use *u = s->terms->setup->use;
    for (int k = 0; k < u->n; k++)
        if (!(band->lost_to >> k & 1) && u->backend->alive(u->devices[k]))
            return true;
    return false;
}

/* Where the list of lost bands has the first one that the device may take; NULL: it has none. */
static struct band **lost_band(struct schedule *s, int device)
{
    for (struct band **at = &s->lost; *at; at = &(*at)->next)
        if (!((*at)->lost_to >> device & 1) || !another_device(s, *at))
            return at;
    return NULL;
}

/* Is there a band that no device has, and that this one may take? */
static bool bands_left(struct schedule *s, int device)
{
    return lost_band(s, device) || s->assigning || job_queue_ready(s->queue);
}

/* The next of these. */
static struct band *take_band(struct schedule *s, int device)
{
    struct band **at = lost_band(s, device);
    if (at) {
        struct band *lost = *at;
        *at = lost->next;
        return lost;
    }
    s->bands_out++;
    if (!s->assigning)
        s->assigning = job_queue_assign(s->queue);
    struct job *j = s->assigning;
    struct band *band = &j->bands[j->next_band++];
    if (j->next_band == j->n_bands)
        s->assigning = NULL;
    return band;
}

/* Bytes of a buffer for this band. */
static size_t buffer_bytes(const struct schedule *s, const struct spectrum_band *d)
{
    const int64_t rows = (d->slab_rows + d->chunk_rows - 1) / d->chunk_rows * d->chunk_rows;
    return (size_t)(rows * job_row_bytes(s->terms, d));
}

/* With no device left, a band is lost before it begins. */
static void lose_band(struct band *band)
{
    const struct err last = band->why;
    err_blame(&band->why, last.kind, "no device is left to compute it%s%s", *last.msg ? ": " : "",
              last.msg);
    atomic_store(&band->lost, true);
}

/* Memory is short: lower slabs, in the end fewer buffers. Returns false if less cannot be used. */
static bool use_less(struct feed *f)
{
    if (job_lower_slabs(f->band))
        f->lowered++;
    else if (f->buffers > SPECTRUM_BUFFERS)
        f->buffers = f->band->geometry.buffers = SPECTRUM_BUFFERS;
    else
        return false;
    return true;
}

/* The device's memory must hold the band, if need be with less of it. Returns LOOP_DRAIN if buffers
 * must grow first, which they can only when nothing is in progress; else LOOP_ITEM. */
static int make_room(struct schedule *s, struct feed *f, bool drained)
{
    struct band *band = f->band;
    const struct spectrum_band *d = &band->geometry;
    struct err why = {0};
    int r;
    while ((r = backend(s)->reserve(job_device(band), d, buffer_bytes(s, d), drained, &why)) ==
               SPECTRUM_NO_ROOM &&
           use_less(f))
        ;
    if (r == SPECTRUM_NO_ROOM)
        job_no_room(band, &why);
    else if (r < 0)
        job_device_error(band, &why);
    return r == SPECTRUM_DRAIN ? LOOP_DRAIN : LOOP_ITEM;
}

/* --- slabs --- */

/* The end of the window rows that are complete once the slide's rows up to `row` are loaded. */
static int64_t complete_until(const struct schedule *s, const struct spectrum_band *d, int64_t row)
{
    const struct result_params *p = &s->terms->setup->params;
    if (row >= d->end_row)
        return d->end_wy;
    const int64_t last = row - p->window - p->radius; /* where the last of them may begin */
    const int64_t wy = last < 0 ? 0 : last / p->stride + 1;
    return wy < d->first_wy ? d->first_wy : wy < d->end_wy ? wy : d->end_wy;
}

static void begin_slab(struct schedule *s, struct feed *f, int64_t row)
{
    struct spectrum_band *d = &f->band->geometry;
    const int64_t left = d->end_row - row, rows = left < d->slab_rows ? left : d->slab_rows;
    f->slab = (struct spectrum_slab){.band = d,
                                     .row = row,
                                     .rows = rows,
                                     .buffer = (int)(f->slabs++ % f->buffers),
                                     .wy = complete_until(s, d, row),
                                     .end_wy = complete_until(s, d, row + rows)};
    if (row == d->first_row) {
        d->assigned.first_buffer = f->slab.buffer;
        f->slab.wy = d->first_wy;
    }
    f->kind = ITEM_LOAD;
    f->next = 0;
}

/* All items of the slab exist. Returns whether the band has another slab. */
static bool end_slab(struct feed *f)
{
    const int64_t row = f->slab.row + f->slab.rows;
    if (row >= f->band->geometry.end_row || job_is_gone(f->band)) {
        f->kind = ITEM_FINISH;
        return false;
    }
    f->slab.band = NULL; /* it begins when it is the device's turn again */
    f->slab.row = row;
    f->kind = ITEM_LOAD;
    return true;
}

/* Begins the band of a feed, or gives it one. LOOP_ITEM or LOOP_DRAIN. */
static int begin_band(struct schedule *s, struct feed *f)
{
    const bool drained = s->drained;
    s->drained = false;
    if (!f->band) {
        const int device = (int)(f - s->feeds);
        f->band = take_band(s, device);
        f->band->geometry.assigned.device = device;
        f->band->geometry.assigned.number = f->bands++;
        f->band->geometry.buffers = f->buffers;
        for (int k = 0; k < f->lowered; k++) /* what was too high for an earlier band */
            job_lower_slabs(f->band);
    }
    if (job_devices_alive(s->terms) == 0)
        lose_band(f->band);
    f->slab.band = NULL;
    f->kind = ITEM_FINISH;
    if (job_is_gone(f->band) || f->band->geometry.end_row == 0)
        return LOOP_ITEM;
    if (make_room(s, f, drained) == LOOP_DRAIN) {
        s->drained = true;
        return LOOP_DRAIN;
    }
    if (!job_is_gone(f->band))
        begin_slab(s, f, f->band->geometry.first_row);
    return LOOP_ITEM;
}

/* --- items --- */

/* The loop's queues of a device. */
static int loads_of(const struct schedule *s, const struct feed *f)
{
    return 2 * (int)(f - s->feeds);
}

static int works_of(const struct schedule *s, const struct feed *f)
{
    return loads_of(s, f) + 1;
}

static int make_load(const struct schedule *s, struct feed *f, struct step *it,
                     struct loop_order *order)
{
    const struct store_info *i = store_info(f->band->job->store);
    const int64_t columns = f->band->chunks.columns;
    const int64_t rows = (f->slab.rows + i->chunk_rows - 1) / i->chunk_rows;
    const int64_t first = (f->slab.row - f->band->geometry.first_row) / i->chunk_rows;
    const int64_t row = first + f->next / columns, col = f->next % columns;
    it->kind = ITEM_LOAD;
    const int64_t most = f->band->geometry.packed_bytes ? PACKED_EXTENT_BYTES : EXTENT_BYTES;
    it->extent = chunks_extent_at(&f->band->chunks, row, col, most / store_chunk_bytes(i));
    *order = (struct loop_order){.queue = loads_of(s, f),
                                 .other = works_of(s, f),
                                 .after_other = f->computes_end[f->buffers - 3]};
    atomic_fetch_add(&f->loading, 1);
    f->loads++;
    f->next += it->extent.n;
    if (f->next == rows * columns) {
        f->kind = ITEM_COMPUTE;
        f->next = 0;
    }
    return LOOP_ITEM;
}

static int make_compute(const struct schedule *s, struct feed *f, struct step *it,
                        struct loop_order *order)
{
    const bool in_order = backend(s)->finish != NULL;
    it->kind = ITEM_COMPUTE;
    it->unit = f->next++;
    *order = (struct loop_order){.queue = works_of(s, f),
                                 .after = in_order ? f->computes_end[0] : 0,
                                 .other = loads_of(s, f),
                                 .after_other = f->loads};
    f->works++;
    return LOOP_ITEM;
}

/* Where the device's work goes on after a COMPUTE has returned, waiting for a band's end must not
 * hold up the next band. */
static int make_finish(const struct schedule *s, struct feed *f, struct step *it,
                       struct loop_order *order)
{
    it->kind = ITEM_FINISH;
    it->band = f->band;
    *order = (struct loop_order){.queue = works_of(s, f),
                                 .after = f->computes_end[0],
                                 .other = loads_of(s, f),
                                 .after_other = f->loads,
                                 .aside = backend(s)->finish != NULL};
    f->works++;
    f->finishing[f->band->geometry.assigned.number % SPECTRUM_SUMS] = true;
    f->band = NULL;
    return LOOP_ITEM;
}

/* The next LOAD or COMPUTE of the slab in progress. LOOP_END if it has no more. */
static int make_step(struct schedule *s, struct feed *f, struct step *it, struct loop_order *order)
{
    it->band = f->band;
    it->slab = f->slab;
    if (f->kind == ITEM_LOAD)
        return make_load(s, f, it, order);
    if (f->next < backend(s)->units(job_device(f->band), &f->slab))
        return make_compute(s, f, it, order);
    memmove(f->computes_end + 1, f->computes_end, sizeof f->computes_end - sizeof *f->computes_end);
    f->computes_end[0] = f->works;
    return LOOP_END;
}

/* --- turns --- */

/* Has the device as many LOADs in progress as it can use? */
static bool has_enough(const struct schedule *s, const struct feed *f)
{
    const struct spectrum_backend *b = backend(s);
    const struct codec *codec = store_info(f->band->job->store)->codec;
    const int most = f->band->geometry.packed_bytes ? b->packed_loads : b->most_loads;
    return most > 0 && atomic_load(&f->loading) >= most && (b->unpacks >> codec->id & 1);
}

/* The next work of a device, the most urgent last. */
enum need {
    NEEDS_NOTHING, /* there is nothing for it now */
    NEEDS_BUFFER,  /* a LOAD, for which it has to wait for a buffer */
    NEEDS_LOAD,    /* the fewer LOADs it has in progress, the more urgent */
    NEEDS_COMPUTE, /* or a FINISH */
};

static enum need need_of(struct schedule *s, int number)
{
    const struct spectrum_backend *b = backend(s);
    const struct spectrum *device = s->terms->setup->use->devices[number];
    const struct feed *f = &s->feeds[number];
    if (!f->band && !bands_left(s, number))
        return NEEDS_NOTHING;
    if (!f->band && !b->alive(device) && job_devices_alive(s->terms) > 0)
        return NEEDS_NOTHING; /* the other devices take its bands */
    if (!f->band && f->finishing[f->bands % SPECTRUM_SUMS])
        return NEEDS_NOTHING;
    if (f->band && f->kind != ITEM_LOAD)
        return NEEDS_COMPUTE;
    if (f->band && has_enough(s, f))
        return NEEDS_NOTHING;
    const bool new_slab = !f->band || !f->slab.band;
    const int buffer = (int)(f->slabs % f->buffers);
    return new_slab && !b->buffer_free(device, buffer) ? NEEDS_BUFFER : NEEDS_LOAD;
}

/* The device with the most urgent need; among equals the next in turn. -1: none needs an item now.
 */
static int next_device(struct schedule *s)
{
    const int n = s->terms->setup->use->n;
    enum need most = NEEDS_NOTHING;
    int best = -1, fewest = 0;
    for (int k = 1; k <= n; k++) {
        const int device = (s->turn + k) % n;
        const enum need need = need_of(s, device);
        const int loading = need == NEEDS_COMPUTE ? 0 : atomic_load(&s->feeds[device].loading);
        if (need > most || (need == most && best >= 0 && loading < fewest)) {
            best = device;
            most = need;
            fewest = loading;
        }
    }
    return best;
}

static bool all_done(const struct schedule *s)
{
    for (int k = 0; k < s->terms->setup->use->n; k++)
        if (s->feeds[k].band)
            return false;
    return !s->assigning && atomic_load(&s->queue->assigned) == s->queue->n && s->bands_out == 0;
}

/* The next item of a device that needs one. */
static int next_step(struct schedule *s, struct feed *f, struct step *it, struct loop_order *order)
{
    if (!f->band || s->drained) {
        if (begin_band(s, f) == LOOP_DRAIN)
            return LOOP_DRAIN;
    } else if (f->kind != ITEM_FINISH && !f->slab.band)
        begin_slab(s, f, f->slab.row);
    if (f->kind == ITEM_FINISH)
        return make_finish(s, f, it, order);
    if (make_step(s, f, it, order) == LOOP_ITEM)
        return LOOP_ITEM;
    return end_slab(f) ? LOOP_WAIT : make_finish(s, f, it, order);
}

int schedule_next(struct schedule *s, struct step *it, struct loop_order *order)
{
    for (;;) {
        const int turn =
            s->drained ? s->turn : next_device(s); /* after a drain, who asked for it */
        if (turn < 0)
            return all_done(s) ? LOOP_END : LOOP_WAIT;
        struct feed *f = &s->feeds[s->turn = turn];
        const int r = next_step(s, f, it, order);
        if (r == LOOP_WAIT)
            continue;
        return r;
    }
}

void schedule_loaded(struct schedule *s, const struct band *band)
{
    atomic_fetch_sub(&s->feeds[band->geometry.assigned.device].loading, 1);
}

bool schedule_finished(struct schedule *s, struct band *band)
{
    struct job *j = band->job;
    const struct spectrum_assignment *was = &band->geometry.assigned;
    s->feeds[was->device].finishing[was->number % SPECTRUM_SUMS] = false;
    if (atomic_load(&band->lost) && !atomic_load(&j->failed)) {
        band->lost_to |= UINT64_C(1) << was->device;
        band->losses += !band->no_room;
        band->no_room = false;
        if (another_device(s, band) && band->losses < MOST_LOSSES) {
            if (!atomic_load(&band->noted))
                err_set(&band->note, "%.900s; another device computes it again", band->why.msg);
            j->rows_done -= band->rows_done;
            band->rows_done = 0;
            for (int k = 0; k < HOST_DECODED_REASONS; k++)
                atomic_store(&band->host_decoded[k], 0);
            atomic_store(&band->lost, false);
            band->next = s->lost;
            s->lost = band;
            return false;
        }
        err_add(&band->why, "%s", j->path);
        job_fail(j, &band->why);
    }
    s->bands_out--;
    return true;
}
