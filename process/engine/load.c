/* load.c - see load.h. */
#include "process/engine/load.h"

#include "common/base/cli.h"
#include "common/store/gray.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

_Static_assert((int)SPECTRUM_STAGING_MORE == (int)CHUNKS_MARGIN,
               "chunks are read straight into staging buffers");

/* Chunks of an extent that the device does not unpack. */
struct marks {
    uint8_t *left; /* [room] */
    size_t room;
};

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
static void lay_extent(struct load *s, const struct item *it, int thread)
{
    struct layer l = {it, s->backend->buffer(s->spectrum, it->slab.buffer)};
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
static int64_t send_some(struct load *s, const struct item *it, struct chunks_extent x, int thread)
{
    const struct spectrum_backend *b = s->backend;
    struct job *j = it->band->job;
    const size_t whole = (size_t)store_chunk_bytes(store_info(j->store));
    const double begun = cli_now();
    const struct spectrum_staging staging = b->staging(s->spectrum, thread);
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
    if (b->send(s->spectrum, &it->slab, &staging, pixels, place_of(it, x), (size_t)x.n * whole,
                &why)) {
        job_device_error(it->band, &why);
        return -1;
    }
    return x.n;
}

/* Pixels of an extent into a buffer of SPECTRUM_CHUNKS. 0, or -1 if the job or the band is gone. */
static int send_pixels(struct load *s, const struct item *it, struct chunks_extent x, int thread)
{
    for (int64_t n; x.n > 0; x.col += n, x.n -= n)
        if ((n = send_some(s, it, x, thread)) < 0)
            return -1;
    return 0;
}

/* Pixels of a chunk that the device has left to the host. */
static int send_left(struct load *s, const struct item *it, int64_t row, int64_t col, int thread)
{
    atomic_fetch_add(&it->band->left, 1);
    return send_pixels(s, it, (struct chunks_extent){row, col, 1}, thread);
}

/* Chunks that were left out. */
static void send_blank(struct load *s, const struct item *it, int thread)
{
    const struct spectrum_backend *b = s->backend;
    const size_t whole = (size_t)store_chunk_bytes(store_info(it->band->job->store));
    struct err why = {""};
    if (!b->blank)
        send_pixels(s, it, it->extent, thread);
    else if (b->blank(s->spectrum, &it->slab, place_of(it, it->extent),
                      (size_t)it->extent.n * whole, &why))
        job_device_error(it->band, &why);
}

/* Without memory the job fails. */
static int grow_marks(struct marks *m, size_t n, struct job *j)
{
    struct err why = {""};
    if (n <= m->room)
        return 0;
    free(m->left);
    m->left = malloc(n);
    m->room = m->left ? n : 0;
    if (m->left)
        return 0;
    err_set(&why, "%s: out of memory", j->path);
    job_fail(j, &why);
    return -1;
}

/* Pixels of the `n` chunks of x that are marked. */
static int send_marked(struct load *s, const struct item *it, struct chunks_extent x, int64_t n,
                       int thread)
{
    for (int64_t k = 0; n > 0 && k < x.n; k++)
        if (s->marks[thread].left[k] && send_left(s, it, x.row, x.col + k, thread))
            return -1;
    return 0;
}

/* Stored bytes of x, which fit the staging buffer, to a device. Returns how many chunks of them it
 * leaves to the host, or -1 if the job or the band is gone. */
static int64_t send_stored(struct load *s, const struct item *it, struct chunks_extent x,
                           const struct spectrum_staging *staging, int thread)
{
    const struct band *band = it->band;
    const size_t whole = (size_t)store_chunk_bytes(store_info(band->job->store));
    const uint8_t *stored;
    struct err why = {""};
    const int r =
        chunks_load_stored(&band->chunks, &s->scratch[thread], x, staging->memory, &stored, &why);
    add_seconds(band->job, &s->scratch[thread]);
    if (r)
        job_fail(band->job, &why);
    if (r || grow_marks(&s->marks[thread], (size_t)x.n, band->job))
        return -1;
    const int64_t left = s->backend->send_packed(
        s->spectrum, &it->slab, staging, stored, (int64_t)(place_of(it, x) / whole),
        &band->chunks.list[x.row * band->chunks.columns + x.col], x.n, s->marks[thread].left, &why);
    if (left < 0)
        job_device_error(it->band, &why);
    return left;
}

/* The first chunks of x as they are stored, except those that the device does not unpack. Returns
 * how many, or -1 if the job or the band is gone. */
static int64_t send_some_packed(struct load *s, const struct item *it, struct chunks_extent x,
                                int thread)
{
    const struct chunks *c = &it->band->chunks;
    const double begun = cli_now();
    const struct spectrum_staging staging = s->backend->staging(s->spectrum, thread);
    atomic_fetch_add(&it->band->job->wait_us, (long long)((cli_now() - begun) * 1e6));
    x.n = chunks_that_fit(c, x, staging.bytes);
    if (c->list[x.row * c->columns + x.col].bytes > staging.bytes) /* then it is the only one */
        return send_left(s, it, x.row, x.col, thread) ? -1 : 1;
    const int64_t left = send_stored(s, it, x, &staging, thread);
    return left < 0 || send_marked(s, it, x, left, thread) ? -1 : x.n;
}

/* Has the device read the first chunks of x itself. Returns how many, 0 if not even the first, or
 * -1 if the job or the band is gone. */
static int64_t read_chunks(struct load *s, const struct item *it, struct chunks_extent x,
                           struct spectrum_read *r, int thread)
{
    struct job *j = it->band->job;
    const double begun = cli_now();
    struct err why = {""};
    const int64_t n = s->backend->read(s->spectrum, &it->slab, r, thread, &why);
    atomic_fetch_add(&j->read_us, (long long)((cli_now() - begun) * 1e6));
    if (n < 0)
        job_device_error(it->band, &why);
    if (n <= 0 || r->damaged < 0)
        return n;
    chunks_mismatch(&it->band->chunks, x.row, x.col + r->damaged, &why);
    job_fail(j, &why);
    return -1;
}

/* As send_some_packed, and for pixels, too: the device reads them itself. */
static int64_t read_some(struct load *s, const struct item *it, struct chunks_extent x, int thread)
{
    struct job *j = it->band->job;
    const struct chunks *c = &it->band->chunks;
    const size_t whole = (size_t)store_chunk_bytes(store_info(j->store));
    if (grow_marks(&s->marks[thread], (size_t)x.n, j))
        return -1;
    struct spectrum_read r = {.file = j->file,
                              .chunks = &c->list[x.row * c->columns + x.col],
                              .n = x.n,
                              .first = (int64_t)(place_of(it, x) / whole),
                              .left = s->marks[thread].left};
    const int64_t n = read_chunks(s, it, x, &r, thread);
    if (n == 0)
        return send_left(s, it, x.row, x.col, thread) ? -1 : 1;
    x.n = n;
    return n < 0 || send_marked(s, it, x, r.n_left, thread) ? -1 : n;
}

/* An extent into a buffer of SPECTRUM_CHUNKS. */
static void send_extent(struct load *s, const struct item *it, int thread)
{
    const struct chunks *c = &it->band->chunks;
    struct chunks_extent x = it->extent;
    if (c->list[x.row * c->columns + x.col].bytes == 0) {
        send_blank(s, it, thread);
        return;
    }
    if (!it->band->job->file && !it->band->geometry.packed_bytes) {
        send_pixels(s, it, x, thread);
        return;
    }
    while (x.n > 0) {
        const int64_t n = it->band->job->file ? read_some(s, it, x, thread)
                                              : send_some_packed(s, it, x, thread);
        if (n < 0)
            return;
        x.col += n;
        x.n -= n;
    }
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

void load_item(struct load *s, const struct item *it, int thread)
{
    prefetch_with(it);
    if (s->backend->layout == SPECTRUM_ROWS)
        lay_extent(s, it, thread);
    else
        send_extent(s, it, thread);
}

int load_complete(struct load *s, const struct item *it, int thread)
{
    const struct spectrum_band *d = &it->band->geometry;
    const int64_t columns = it->band->chunks.columns,
                  first = (it->slab.row - d->first_row) / d->chunk_rows;
    int64_t place;
    struct err why = {""};
    int r;
    while ((r = s->backend->next_left(s->spectrum, &it->slab, &place, &why)) > 0)
        if (send_left(s, it, first + place / columns, place % columns, thread))
            return -1;
    if (r < 0)
        job_device_error(it->band, &why);
    return r;
}

int load_create(struct load *s, const struct spectrum_backend *b, struct spectrum *spectrum,
                int threads, struct err *e)
{
    *s = (struct load){.backend = b, .spectrum = spectrum, .threads = threads};
    s->scratch = calloc((size_t)threads, sizeof *s->scratch);
    s->marks = calloc((size_t)threads, sizeof *s->marks);
    return s->scratch && s->marks ? 0 : err_set(e, "out of memory");
}

void load_free(struct load *s)
{
    for (int t = 0; s->scratch && t < s->threads; t++)
        chunks_scratch_free(&s->scratch[t]);
    for (int t = 0; s->marks && t < s->threads; t++)
        free(s->marks[t].left);
    free(s->scratch);
    free(s->marks);
}
