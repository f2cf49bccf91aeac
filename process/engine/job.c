/* job.c - see job.h. */
#include "process/engine/job.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/store/gray.h"
#include "common/store/store_read.h"
#include "process/draw/raster.h"
#include "process/engine/job_windows.h"
#include "process/spectrum/spectrum_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * --- origin ---
 *
 * What a result says about the store of a job and its slide.
 */

/* Shrinks a picture to fit RESULT_MOST_THUMBNAIL. */
static void shrink(const struct store_picture *from, struct result_picture *to)
{
    const int64_t longer = from->width > from->height ? from->width : from->height;
    const int64_t most = longer < RESULT_MOST_THUMBNAIL ? longer : RESULT_MOST_THUMBNAIL;
    to->width = from->width * most / longer > 0 ? from->width * most / longer : 1;
    to->height = from->height * most / longer > 0 ? from->height * most / longer : 1;
    to->rgb = memory_need((size_t)(to->width * to->height), 3);
    shrink_rgb(from->rgb, from->width, from->height, to->rgb, to->width, to->height);
}

static int copy_thumbnail(struct job *j, struct err *e)
{
    struct store_picture from;
    const int found = store_read_thumbnail(j->store, &from, e);
    if (found <= 0)
        return found;
    shrink(&from, &j->result.thumbnail);
    free(from.rgb);
    return 0;
}

static void copy_attributes(const struct store_info *i, struct result_origin *o)
{
    o->mpp_x = i->mpp_x;
    o->mpp_y = i->mpp_y;
    o->downsample = i->downsample;
    o->objective_power = i->objective_power;
    o->bounds_x = i->bounds_x;
    o->bounds_y = i->bounds_y;
    o->tiles = (i->height + i->chunk_rows - 1) / i->chunk_rows * store_chunk_columns(i);
    o->chunk_rows = i->chunk_rows;
    o->chunk_cols = i->chunk_cols;
    o->tiles_missing = i->tiles_missing;
    o->tiles_damaged = i->tiles_damaged;
    o->tiles_left_out = i->tiles_left_out;
    memcpy(o->vendor, i->vendor, sizeof o->vendor);
    o->jpeg_quality = i->jpeg_quality;
    o->jpeg_twice = i->jpeg_twice;
    memcpy(o->glass, i->glass, sizeof o->glass);
    memcpy(o->jpeg_subsampling, i->jpeg_subsampling, sizeof o->jpeg_subsampling);
    memcpy(o->background, i->background, sizeof o->background);
    memcpy(o->tile_compression, i->tile_compression, sizeof o->tile_compression);
}

/* After the job's tissue and regions are chosen (job_windows.h): fills j->result.origin, the
 * thresholds of its samples and its thumbnail. The message names the file. */
static int job_describe_origin(struct job *j, struct err *e)
{
    struct result_slide *r = &j->result;
    int64_t thresholds[FEATURES_SAMPLES];
    copy_attributes(store_info(j->store), &r->origin);
    features_thresholds(j->tissue, j->inside, r->nx, r->ny, thresholds);
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        r->spectra[k].threshold = thresholds[k];
    return copy_thumbnail(j, e);
}

enum {
    MOST_SLAB_ROWS = 4096,
    MOST_JOBS = 128, /* open at once: behind a large store many small ones may be done */
};

int job_devices_alive(const struct job_terms *t)
{
    const struct spectrum_use *u = t->setup->use;
    int n = 0;
    for (int k = 0; k < u->n; k++)
        n += u->backend->alive(u->devices[k]);
    return n;
}

/* --- failures --- */

void job_fail(struct job *j, const struct err *e)
{
    bool no = false;
    if (atomic_compare_exchange_strong(&j->failed, &no, true))
        j->err = *e;
}

static void lose(struct band *band, const struct err *e)
{
    bool no = false;
    if (atomic_compare_exchange_strong(&band->lost, &no, true))
        band->why = *e;
}

void job_no_room(struct band *band, const struct err *e)
{
    band->no_room = true;
    lose(band, e);
}

void job_device_error(struct band *band, const struct err *e)
{
    struct err named = *e;
    if (!band->job->terms->setup->use->backend->alive(job_device(band))) {
        lose(band, e);
        return;
    }
    err_add(&named, "%s", band->job->path);
    job_fail(band->job, &named);
}

bool job_is_gone(const struct band *band)
{
    return atomic_load(&band->lost) || atomic_load(&band->job->failed);
}

void *job_memory(const struct job *j, size_t n, size_t each, struct err *e)
{
    void *p = memory_try_zero(n, each, e);
    if (!p)
        err_add(e, "%s", j->path);
    return p;
}

/* --- opening --- */

/* The attributes of the result that describe the store. */
static void describe(struct job *j)
{
    const struct stream_setup *setup = j->terms->setup;
    const struct store_info *i = store_info(j->store);
    struct result_slide *r = &j->result;
    size_t n;
    const char *name = path_stem(j->path, &n);
    snprintf(r->name, sizeof r->name, "%.*s", (int)(n < 255 ? n : 255), name);
    snprintf(r->source_name, sizeof r->source_name, "%s", i->source_name);
    snprintf(r->quickhash, sizeof r->quickhash, "%s", i->quickhash);
    snprintf(r->backend, sizeof r->backend, "%s", setup->use->backend->name);
    snprintf(r->kernel, sizeof r->kernel, "%s", setup->use->kernel);
    r->content_crc32 = i->content_crc32;
    r->source_bytes = i->source_bytes;
    r->level = i->level;
    r->width = i->width;
    r->height = i->height;
    r->group_rows = i->group_rows;
    r->group_count = i->group_count;
    r->source_gray = i->channels == 1;
    r->nx = result_windows_along(i->width, &setup->params);
    r->ny = result_windows_along(i->height, &setup->params);
}

/* The first row of windows that begins at or below a row of pixels, at most ny. */
static int64_t window_row_from(const struct job *j, int64_t row)
{
    const int64_t stride = j->terms->setup->params.stride;
    const int64_t wy = (row + stride - 1) / stride;
    return wy < j->result.ny ? wy : j->result.ny;
}

/* The groups that the user wants, and so the rows of windows. */
static int choose_groups(struct job *j, int64_t *first_wy, int64_t *end_wy, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    int64_t first = j->terms->setup->first_group, last = j->terms->setup->last_group;
    if (first == 0) {
        first = 1;
        last = i->group_count;
    }
    if (last > i->group_count)
        return err_set(
            e, "%s: has %" PRId64 " group%s; --groups %" PRId64 "-%" PRId64 " is out of range",
            j->path, i->group_count, i->group_count == 1 ? "" : "s", first, last);
    memset(j->result.groups + first - 1, 1, (size_t)(last - first + 1));
    *first_wy = window_row_from(j, (first - 1) * i->group_rows);
    *end_wy = window_row_from(j, last * i->group_rows);
    return 0;
}

/* Has the devices read the store themselves. */
static int open_for_devices(struct job *j, struct err *e)
{
    const struct spectrum_backend *b = j->terms->setup->use->backend;
    const struct codec *codec = store_info(j->store)->codec;
    if (!(b->unpacks >> codec->id & 1))
        return err_set(e,
                       "%s: codec %s is unpacked by the host, so --io gds cannot read it; choose "
                       "--io auto",
                       j->path, codec->name);
    if (store_read_directly(j->store, e))
        return -1;
    j->file = b->open_file(store_direct_fd(j->store), e);
    if (!j->file)
        err_add(e, "%s", j->path);
    return j->file ? 0 : -1;
}

/* How the store is read. With `auto`, a device that copies itself gets files that are not in the
 * page cache past it. Threads that also compute gain nothing from that. */
static int choose_io(struct job *j, struct err *e)
{
    const struct stream_setup *setup = j->terms->setup;
    const bool copies = setup->use->backend->layout == SPECTRUM_CHUNKS;
    const bool direct = setup->io == STREAM_DIRECT ||
                        (setup->io == STREAM_AUTO && copies && !store_is_cached(j->store));
    struct err why = {0};
    if (setup->io == STREAM_GDS)
        return open_for_devices(j, e);
    if (direct && store_read_directly(j->store, &why) && setup->io == STREAM_DIRECT) {
        *e = why;
        return -1;
    }
    const char *how = store_reads_directly(j->store) ? "direct" : "buffered";
    snprintf(j->result.io, sizeof j->result.io, "%s", how);
    return 0;
}

/* --- bands --- */

int64_t job_row_bytes(const struct job_terms *t, const struct spectrum_band *d)
{
    if (t->setup->use->backend->layout == SPECTRUM_ROWS)
        return d->pitch * (int64_t)sizeof(float);
    const struct layout l = spectrum_band_layout(d);
    return layout_row_bytes(&l);
}

/* Does the backend unpack the chunks of this codec? */
static bool sends_packed(const struct job_terms *t, const struct codec *codec)
{
    return codec->id != CODEC_NONE && (t->setup->use->backend->unpacks >> codec->id & 1);
}

/* The fewest rows of a slab: half of what a row of windows needs, or what its steps need. Then two
 * slabs hold it, and buffers can be reused two slabs later. */
static int64_t lowest_slab(const struct job_terms *t, const struct spectrum_band *d)
{
    const struct result_params *p = &t->setup->params;
    const int64_t half = (p->window + 1) / 2, steps = features_steps(p->window, p->stride);
    const int64_t need = (half > steps ? half : steps) + p->radius;
    return (need + d->chunk_rows - 1) / d->chunk_rows * d->chunk_rows;
}

/* Rows of a slab: whole chunks, as many as the memory allows. */
static int choose_slab(const struct job *j, struct spectrum_band *d, struct err *e)
{
    const struct job_terms *t = j->terms;
    const struct spectrum_backend *b = t->setup->use->backend;
    const int64_t chunk = d->chunk_rows, each = job_row_bytes(t, d), lowest = lowest_slab(t, d);
    const int64_t all = (d->end_row - d->first_row + chunk - 1) / chunk * chunk;
    const int64_t most = chunk > MOST_SLAB_ROWS ? chunk : MOST_SLAB_ROWS;
    const bool packed = sends_packed(t, store_info(j->store)->codec);
    int64_t rows = (packed ? t->packed_memory : t->memory) / b->buffers / each;
    rows = (rows < most ? rows : most) / chunk * chunk;
    rows = rows < all ? rows : all > lowest ? all : lowest;
    if (rows < lowest && t->setup->memory && b->layout == SPECTRUM_ROWS)
        return err_set(e, "%s: a slide of this width needs --memory %" PRId64 "M", j->path,
                       (lowest * each * b->buffers * t->setup->use->n >> 20) + 1);
    d->lowest = rows <= lowest;
    d->slab_rows = d->lowest ? lowest : rows;
    return 0;
}

/* Window rows first_wy .. end_wy - 1 as a band. */
static int set_band(struct job *j, struct band *band, int64_t first_wy, int64_t end_wy,
                    struct err *e)
{
    const struct result_params *p = &j->terms->setup->params;
    const struct store_info *i = store_info(j->store);
    const int64_t top = first_wy * p->stride - p->radius;
    const int64_t end = (end_wy - 1) * p->stride + p->window + p->radius;
    band->job = j;
    band->geometry =
        (struct spectrum_band){.width = i->width,
                               .height = i->height,
                               .nx = j->result.nx,
                               .ny = j->result.ny,
                               .first_wy = first_wy,
                               .end_wy = end_wy,
                               .first_row = (top < 0 ? 0 : top) / i->chunk_rows * i->chunk_rows,
                               .end_row = end < i->height ? end : i->height,
                               .pitch = (i->width + 15) / 16 * 16,
                               .chunk_rows = i->chunk_rows,
                               .chunk_cols = i->chunk_cols,
                               .channels = i->channels,
                               .scale = i->channels == 3 ? GRAY_SCALE_RGB : 1,
                               .maps = j->result.maps};
    j->rows += band->geometry.end_row - band->geometry.first_row;
    return choose_slab(j, &band->geometry, e);
}

/* A store is one band, unless it has too many windows for one, or too few stores are left to keep
 * all devices busy. */
static int64_t count_bands(const struct job *j, int64_t window_rows)
{
    const struct stream_setup *setup = j->terms->setup;
    const int devices = job_devices_alive(j->terms);
    const int64_t most = setup->use->backend->most_windows;
    const int64_t rows = most > j->result.nx ? most / j->result.nx : 1; /* of windows, per band */
    const int64_t least = most ? (window_rows + rows - 1) / rows : 1;
    int64_t bands = setup->n_paths - j->number >= devices ? 1 : devices;
    bands = bands > least ? bands : least;
    return bands < window_rows ? bands : window_rows;
}

/* Allocates the list of the chunks of all bands; it begins with a group. */
static int alloc_list(struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t end_row = j->bands[j->n_bands - 1].geometry.end_row;
    int64_t rows = 0, g = j->bands[0].geometry.first_row / i->group_rows;
    j->first_group = g;
    for (; g < i->group_count && g * i->group_rows < end_row; g++)
        rows += store_group_chunk_rows(i, g);
    j->end_group = g;
    j->list = job_memory(j, (size_t)(rows * store_chunk_columns(i)), sizeof *j->list, e);
    return j->list ? 0 : -1;
}

/* The band's part of the list. */
static void view_list(const struct job *j, struct band *band)
{
    const struct store_info *i = store_info(j->store);
    const int64_t row = band->geometry.first_row / i->chunk_rows, columns = store_chunk_columns(i);
    const int64_t before = row - j->first_group * (i->group_rows / i->chunk_rows);
    band->chunks = chunks_of(j->store, j->list + before * columns, row);
    band->geometry.chunks = &band->chunks;
    band->geometry.file = j->file;
}

static int make_bands(struct job *j, int64_t first_wy, int64_t end_wy, struct err *e)
{
    const int64_t rows = end_wy - first_wy, n = count_bands(j, rows);
    struct band *bands = memory_need((size_t)n, sizeof *bands);
    j->bands = bands;
    j->n_bands = n;
    for (int64_t k = 0; k < n; k++)
        if (set_band(j, &bands[k], first_wy + rows * k / n, first_wy + rows * (k + 1) / n, e))
            return -1;
    if (alloc_list(j, e))
        return -1;
    for (int64_t k = 0; k < n; k++)
        view_list(j, &bands[k]);
    return 0;
}

/* --- opening, as a whole --- */

static int open_store(struct job *j, struct err *e)
{
    const struct result_params *p = &j->terms->setup->params;
    int64_t first_wy = 0, end_wy = 0;
    if (!(j->store = store_open(j->path, e)))
        return -1;
    describe(j);
    const struct stream_setup *setup = j->terms->setup;
    const int64_t damaged = store_info(j->store)->tiles_damaged;
    if (setup->reject_damaged && damaged > 0)
        return err_set(e, "%s: %" PRId64 " damaged tile%s; rejected (--on-damage fail)", j->path,
                       damaged, damaged == 1 ? "" : "s");
    if (setup->opened && setup->opened(setup->ctx, j->number, j->result.quickhash, e))
        return -1;
    if (result_slide_alloc(&j->result, p, e))
        return err_add(e, "%s", j->path);
    if (choose_groups(j, &first_wy, &end_wy, e) || job_choose_places(j, e) ||
        job_describe_origin(j, e) || choose_io(j, e))
        return -1;
    if (j->result.nx == 0 || first_wy >= end_wy) /* too small, or no window begins in the groups */
        return 0;
    return make_bands(j, first_wy, end_wy, e);
}

static int list_groups(struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    for (int64_t g = j->first_group; g < j->end_group; g++) {
        struct store_chunk *out = j->list + j->listed_rows * store_chunk_columns(i);
        if (stop_check(e) || store_map_group(j->store, g, out, e))
            return -1;
        j->listed_rows += store_group_chunk_rows(i, g);
    }
    return 0;
}

/* The most stored bytes of a slab of the band. */
static int64_t most_stored(const struct band *band)
{
    const struct spectrum_band *d = &band->geometry;
    const int64_t rows = (d->end_row - d->first_row + d->chunk_rows - 1) / d->chunk_rows,
                  slab = d->slab_rows / d->chunk_rows;
    int64_t most = 1;
    for (int64_t row = 0; row < rows; row += slab) {
        int64_t sum = 0;
        const int64_t end = rows - row < slab ? rows : row + slab;
        for (int64_t k = row * band->chunks.columns; k < end * band->chunks.columns; k++)
            sum += band->chunks.list[k].bytes;
        most = sum > most ? sum : most;
    }
    return most;
}

bool job_lower_slabs(struct band *band)
{
    struct spectrum_band *d = &band->geometry;
    if (d->end_row == 0 || d->lowest) /* nothing to compute has no slabs */
        return false;
    const int64_t lowest = lowest_slab(band->job->terms, d),
                  half = d->slab_rows / 2 / d->chunk_rows * d->chunk_rows;
    d->lowest = half <= lowest;
    d->slab_rows = d->lowest ? lowest : half;
    if (d->packed_bytes)
        d->packed_bytes = most_stored(band);
    return true;
}

/* Which windows count, and what the bands will send. */
static int plan_bands(struct job *j, struct err *e)
{
    const struct codec *codec = store_info(j->store)->codec;
    for (int64_t k = 0; k < j->n_bands && sends_packed(j->terms, codec); k++)
        j->bands[k].geometry.packed_bytes = most_stored(&j->bands[k]);
    return job_choose_windows(j, e);
}

void job_open(struct job *j)
{
    const double begun = clock_now();
    struct err why = {0};
    if (open_store(j, &why) || (j->n_bands > 0 && (list_groups(j, &why) || plan_bands(j, &why))))
        job_fail(j, &why);
    j->opening = clock_now() - begun;
    if (atomic_load(&j->failed) || j->n_bands == 0) {
        free(j->bands);
        j->nothing.job = j;
        j->bands = &j->nothing;
        j->n_bands = 1;
    }
}

/* The result says how the devices have read the store. */
static void close_file(struct job *j)
{
    if (j->file)
        snprintf(j->result.io, sizeof j->result.io, "%s",
                 j->terms->setup->use->backend->close_file(j->file));
    j->file = NULL;
}

static void job_free(struct job *j)
{
    if (!j)
        return;
    result_slide_free(&j->result);
    close_file(j);
    store_close(j->store);
    free(j->list);
    if (j->bands != &j->nothing)
        free(j->bands);
    job_free_windows(j);
    free(j);
}

/* --- the queue --- */

void job_queue_create(struct job_queue *q, const struct job_terms *t)
{
    q->terms = t;
    q->n = t->setup->n_paths;
    q->jobs = memory_need((size_t)q->n, sizeof *q->jobs);
    q->states = memory_need((size_t)q->n, sizeof *q->states);
}

void job_queue_free(struct job_queue *q)
{
    for (int64_t k = 0; k < q->n; k++)
        job_free(q->jobs[k]);
    free(q->jobs);
    free(q->states);
}

static enum job_state state_of(const struct job_queue *q, int64_t k)
{
    return (enum job_state)atomic_load(&q->states[k]);
}

struct job *job_queue_add(struct job_queue *q)
{
    const int64_t k = atomic_load(&q->created);
    struct job *j = memory_need(1, sizeof *j);
    j->terms = q->terms;
    j->number = k;
    j->path = q->terms->setup->paths[k];
    q->jobs[k] = j;
    atomic_store(&q->states[k], JOB_OPENING);
    atomic_store(&q->created, k + 1);
    return j;
}

void job_queue_opened(struct job_queue *q, const struct job *j)
{
    atomic_store(&q->states[j->number], JOB_OPEN);
}

bool job_queue_ready(const struct job_queue *q)
{
    const int64_t k = atomic_load(&q->assigned);
    return k < q->n && state_of(q, k) == JOB_OPEN;
}

/* Do reports come first? Done jobs keep their memory until then. Devices without a store come
 * first, unless many reports are due. */
static bool reports_come_first(const struct job_queue *q)
{
    const int64_t first = atomic_load(&q->reported);
    const int64_t most = job_queue_ready(q) ? 1 : q->terms->setup->use->n + 1;
    int64_t due = 0;
    while (due < most && first + due < q->n && state_of(q, first + due) == JOB_DONE)
        due++;
    return due == most;
}

bool job_queue_may_open(const struct job_queue *q)
{
    const int64_t created = atomic_load(&q->created);
    return created < q->n && created - atomic_load(&q->assigned) <= q->terms->setup->use->n &&
           created - atomic_load(&q->reported) < MOST_JOBS && !reports_come_first(q);
}

struct job *job_queue_assign(struct job_queue *q)
{
    const int64_t k = atomic_load(&q->assigned);
    struct job *j = q->jobs[k];
    j->begun = clock_now() - j->opening;
    atomic_store(&q->states[k], JOB_ASSIGNED);
    atomic_store(&q->assigned, k + 1);
    return j;
}

void job_queue_done(struct job_queue *q, struct job *j)
{
    struct result_slide *r = &j->result;
    r->stages[RESULT_READ] = (double)atomic_load(&j->read_us) * 1e-6;
    r->stages[RESULT_UNPACK] = (double)atomic_load(&j->unpack_us) * 1e-6;
    r->stages[RESULT_WAIT] = (double)atomic_load(&j->wait_us) * 1e-6;
    r->seconds = clock_now() - j->begun;
    spectrum_describe(j->terms->setup->use, j->devices, r->device, sizeof r->device);
    atomic_store(&q->states[j->number], JOB_DONE);
}

bool job_queue_may_report(const struct job_queue *q)
{
    const int64_t k = atomic_load(&q->reported);
    return k < q->n && state_of(q, k) == JOB_DONE;
}

int job_queue_report(struct job_queue *q, struct err *e)
{
    const struct stream_setup *setup = q->terms->setup;
    const int64_t k = atomic_load(&q->reported);
    struct job *j = q->jobs[k];
    const bool failed = atomic_load(&j->failed);
    close_file(j);
    const int r = setup->report(setup->ctx, k, failed ? NULL : &j->result, &j->err, e);
    q->jobs[k] = NULL;
    job_free(j);
    atomic_store(&q->states[k], JOB_REPORTED);
    atomic_store(&q->reported, k + 1);
    return r;
}
