/*
 * device.h - a backend for tests: devices of plain C that take chunks as the GPU backend does.
 *
 * A device checks the contract of spectrum.h: every chunk of a slab is sent exactly once before the
 * slab is computed, and a slab's rows are still there while the next slab of its band is computed.
 * It collects the rows of a band, and in `finish` has the CPU backend compute the band in one go. A
 * device can be made to fail at its n-th call.
 */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include "common/codec/codec.h"
#include "common/store/chunks.h"
#include "process/spectrum/spectrum.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, STAGING_BYTES = 1 << 20, THREADS = 3 };

/* Set before a run. */
static struct {
    int devices;
    int failing;        /* number of the device that fails; -1: none */
    int64_t fail_call;  /* at which of its calls */
    atomic_bool failed; /* has it done so? The other device may leave it too few calls */
} device_plan = {.devices = 1, .failing = -1};

struct device_buffer {
    uint8_t *bytes;
    uint8_t *sent; /* [chunks]: 1 if sent and not yet computed */
    const struct spectrum_band *band;
    int64_t row; /* of the slab that it holds */
};

struct spectrum { /* a device of this backend; the CPU's stays behind its pointer */
    struct spectrum_use cpu;
    int number;
    atomic_bool failed;
    atomic_llong calls; /* that change it */
    pthread_mutex_t lock;
    size_t buffer_bytes;
    struct device_buffer buffers[SPECTRUM_BUFFERS];
    struct device_rows { /* of the bands in progress */
        const struct spectrum_band *band;
        float *gray; /* [rows][pitch] */
    } rows[SPECTRUM_SUMS];
    uint8_t *staging[THREADS];
};

static struct spectrum *device_create(int number, const struct spectrum_setup *s, struct err *note,
                                      struct err *e)
{
    struct spectrum *d = calloc(1, sizeof *d);
    if (!d || s->threads > THREADS || spectrum_cpu.open(&d->cpu, s, note, e))
        return NULL;
    d->number = number;
    pthread_mutex_init(&d->lock, NULL);
    for (int t = 0; t < s->threads; t++)
        if (!(d->staging[t] = aligned_alloc(STORE_PAGE, STAGING_BYTES + CHUNKS_MARGIN)))
            return NULL;
    return d;
}

static int device_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                       struct err *e)
{
    u->kernel = "test";
    for (; u->n < device_plan.devices; u->n++) {
        u->labels[u->n] = (struct spectrum_label){"device", u->n};
        if (!(u->devices[u->n] = device_create(u->n, s, note, e)))
            return err_set(e, "out of memory");
    }
    return 0;
}

static void device_close(struct spectrum_use *u)
{
    for (int k = 0; k < u->n; k++) {
        struct spectrum *d = u->devices[k];
        spectrum_cpu.close(&d->cpu);
        for (int n = 0; n < SPECTRUM_BUFFERS; n++) {
            free(d->buffers[n].bytes);
            free(d->buffers[n].sent);
        }
        for (int n = 0; n < SPECTRUM_SUMS; n++)
            free(d->rows[n].gray);
        for (int t = 0; t < THREADS; t++)
            free(d->staging[t]);
        free(d);
    }
}

static bool device_alive(const struct spectrum *d)
{
    return !d->failed;
}

static int device_reserve(struct spectrum *d, const struct spectrum_band *g, size_t bytes,
                          bool drained, struct err *e)
{
    (void)g;
    if (d->buffer_bytes >= bytes)
        return 0;
    if (!drained)
        return SPECTRUM_DRAIN;
    for (int k = 0; k < SPECTRUM_BUFFERS; k++) {
        struct device_buffer *u = &d->buffers[k];
        free(u->bytes);
        free(u->sent);
        u->bytes = malloc(bytes);
        u->sent = calloc(bytes / 16, 1); /* no chunk is smaller */
        if (!u->bytes || !u->sent)
            return err_set(e, "out of memory");
    }
    d->buffer_bytes = bytes;
    return 0;
}

static bool device_buffer_free(const struct spectrum *d, int k)
{
    return (d->calls + k) % 3 != 0; /* now and then the device is busy */
}

/* Counts a call; -1 if the device has failed, or fails now. */
static int device_call(struct spectrum *d, struct err *e)
{
    if (++d->calls >= device_plan.fail_call && d->number == device_plan.failing)
        d->failed = device_plan.failed = true;
    return d->failed ? err_set(e, "test device %d has failed", d->number) : 0;
}

static int64_t slab_chunks(const struct spectrum_slab *s)
{
    const struct spectrum_band *g = s->band;
    const int64_t columns = (g->width + g->chunk_cols - 1) / g->chunk_cols;
    return (s->rows + g->chunk_rows - 1) / g->chunk_rows * columns;
}

/* Takes n chunks for places first, first + 1 ... of the slab. */
static int send_locked(struct spectrum *d, const struct spectrum_slab *s, const uint8_t *from,
                       int64_t first, int64_t n, struct err *e)
{
    const struct spectrum_band *g = s->band;
    const size_t whole = (size_t)(g->chunk_rows * g->chunk_cols * g->channels);
    struct device_buffer *u = &d->buffers[s->buffer];
    if (device_call(d, e))
        return -1;
    if (first < 0 || first + n > slab_chunks(s))
        return err_set(e, "a chunk is sent to a wrong place");
    if (u->band != g) /* whatever a store that has failed left there */
        memset(u->sent, 0, d->buffer_bytes / 16);
    else if (u->row != s->row && memchr(u->sent, 1, d->buffer_bytes / 16))
        return err_set(e, "a slab is sent over one that was not computed");
    for (int64_t k = first; k < first + n; k++)
        if (u->sent[k]++)
            return err_set(e, "a chunk is sent over another one");
    memcpy(u->bytes + (size_t)first * whole, from, (size_t)n * whole);
    u->band = g;
    u->row = s->row;
    return 0;
}

static int device_load(struct spectrum *d, const struct spectrum_slab *s, struct chunks_extent x,
                       struct spectrum_thread *t, struct err *e)
{
    const struct spectrum_band *g = s->band;
    const int64_t most = STAGING_BYTES / (g->chunk_rows * g->chunk_cols * g->channels);
    const int64_t above = (s->row - g->first_row) / g->chunk_rows;
    for (int r = 0; x.n > 0;) {
        const uint8_t *pixels;
        const struct chunks_extent some = {x.row, x.col, x.n < most ? x.n : most};
        const int64_t first = (x.row - above) * g->chunks->columns + x.col;
        if (chunks_load(g->chunks, &t->scratch, some, d->staging[t->number], &pixels, e))
            return SPECTRUM_BAD_STORE;
        pthread_mutex_lock(&d->lock);
        r = send_locked(d, s, pixels, first, some.n, e);
        pthread_mutex_unlock(&d->lock);
        if (r)
            return r;
        x.col += some.n;
        x.n -= some.n;
    }
    return 0;
}

static int64_t device_units(const struct spectrum *d, const struct spectrum_slab *s)
{
    (void)d, (void)s;
    return 1;
}

/* Adds the rows of a slab to those of its band. */
static void collect(const struct spectrum_slab *s, const uint8_t *bytes, float *rows)
{
    const struct spectrum_band *g = s->band;
    const int64_t columns = (g->width + g->chunk_cols - 1) / g->chunk_cols;
    for (int64_t y = 0; y < s->rows; y++)
        for (int64_t x = 0; x < g->width; x++) {
            const int64_t chunk = y / g->chunk_rows * columns + x / g->chunk_cols;
            const int64_t at = (chunk * g->chunk_rows + y % g->chunk_rows) * g->chunk_cols;
            const uint8_t *p = bytes + (at + x % g->chunk_cols) * g->channels;
            const int rgb = g->channels == 3 ? 299 * p[0] + 587 * p[1] + 114 * p[2] : p[0];
            rows[(s->row - g->first_row + y) * g->pitch + x] = (float)rgb;
        }
}

static int compute_locked(struct spectrum *d, const struct spectrum_slab *s, struct err *e)
{
    const struct spectrum_band *g = s->band;
    struct device_buffer *u = &d->buffers[s->buffer];
    const struct device_buffer *above =
        &d->buffers[(s->buffer + SPECTRUM_BUFFERS - 1) % SPECTRUM_BUFFERS];
    struct device_rows *r = &d->rows[g->assigned.number % SPECTRUM_SUMS];
    if (device_call(d, e))
        return -1;
    for (int64_t k = 0; k < slab_chunks(s); k++)
        if (!u->sent[k])
            return err_set(e, "a slab is computed before its chunks are there");
    memset(u->sent, 0, (size_t)slab_chunks(s));
    if (s->row > g->first_row && (above->band != g || above->row + g->slab_rows != s->row))
        return err_set(e, "a slab was overwritten while windows needed it");
    if (r->band != g) {
        free(r->gray);
        r->gray = calloc((size_t)((g->end_row - g->first_row) * g->pitch), sizeof *r->gray);
        r->band = g;
    }
    if (!r->gray)
        return err_set(e, "out of memory");
    collect(s, u->bytes, r->gray);
    return 0;
}

static int device_compute(struct spectrum *d, const struct spectrum_slab *s, int64_t unit,
                          struct spectrum_thread *t, struct result_counts *counts, struct err *e)
{
    (void)unit, (void)t, (void)counts;
    pthread_mutex_lock(&d->lock);
    const int r = compute_locked(d, s, e);
    pthread_mutex_unlock(&d->lock);
    return r;
}

static int device_finish(struct spectrum *d, const struct spectrum_band *g,
                         struct result_counts *counts, struct spectrum_times *times, struct err *e)
{
    struct device_rows *rows = &d->rows[g->assigned.number % SPECTRUM_SUMS];
    struct spectrum *cpu = d->cpu.devices[0];
    struct spectrum_band whole = *g;
    struct spectrum_thread first = {0};
    const size_t bytes = (size_t)((g->end_row - g->first_row) * g->pitch) * sizeof(float);
    pthread_mutex_lock(&d->lock); /* the bands of a device share its spectrum_cpu */
    int r = device_call(d, e);
    whole.slab_rows = g->end_row - g->first_row;
    whole.assigned = (struct spectrum_assignment){0};
    if (r == 0)
        r = spectrum_cpu.reserve(cpu, &whole, bytes, true, e);
    if (r == 0)
        memcpy(spectrum_cpu_buffer(cpu, 0), rows->gray, bytes);
    const struct spectrum_slab s = {.band = &whole,
                                    .row = whole.first_row,
                                    .rows = whole.slab_rows,
                                    .wy = whole.first_wy,
                                    .end_wy = whole.end_wy};
    for (int64_t k = 0; r == 0 && k < spectrum_cpu.units(cpu, &s); k++)
        r = spectrum_cpu.compute(cpu, &s, k, &first, counts, e);
    rows->band = NULL;
    pthread_mutex_unlock(&d->lock);
    times->copy = times->kernels = 0;
    return r;
}

static const struct spectrum_backend device_backend = {.name = "test",
                                                       .layout = SPECTRUM_CHUNKS,
                                                       .buffers = SPECTRUM_BUFFERS,
                                                       .memory = 4 << 20,
                                                       .unpacks = 1u << CODEC_NONE,
                                                       .most_loads = 4,
                                                       .open = device_open,
                                                       .close = device_close,
                                                       .alive = device_alive,
                                                       .reserve = device_reserve,
                                                       .buffer_free = device_buffer_free,
                                                       .load = device_load,
                                                       .units = device_units,
                                                       .compute = device_compute,
                                                       .finish = device_finish};

#endif
