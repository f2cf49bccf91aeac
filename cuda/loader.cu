/* loader.cu - see loader.h. */
#include "cuda/loader.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/store/chunks.h"
#include "common/store/store_read.h"
#include "cuda/gds.h"

#include <algorithm>
#include <stdlib.h>

/* --- memory --- */

static size_t locked_bytes(void)
{
    return READS_CHUNKS * (sizeof(struct crc_chunk) + sizeof(uint32_t) + CRC_HEAD);
}

static int open_threads(struct reads *r, struct err *e)
{
    if (CU(r->device, cudaMallocHost((void **)&r->locked, (size_t)r->n * locked_bytes()), e))
        return -1;
    for (int k = 0; k < r->n; k++) {
        struct reads_thread *t = &r->threads[k];
        t->chunks = (struct crc_chunk *)(r->locked + (size_t)k * locked_bytes());
        t->crc32 = (uint32_t *)(t->chunks + READS_CHUNKS);
        t->heads = (uint8_t *)(t->crc32 + READS_CHUNKS);
        if (CU(r->device, cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking), e) ||
            CU(r->device,
               cudaEventCreateWithFlags(&t->checked,
                                        cudaEventBlockingSync | cudaEventDisableTiming),
               e))
            return -1;
    }
    return 0;
}

struct reads *reads_create(struct check_device *d, int n, struct err *e)
{
    struct reads *r = (struct reads *)memory_need(1, sizeof *r);
    r->device = d;
    r->n = n;
    r->threads = (struct reads_thread *)memory_need((size_t)n, sizeof *r->threads);
    if (open_threads(r, e)) {
        reads_free(r);
        return NULL;
    }
    return r;
}

/* No copy from it is in progress. */
static void release(struct reads *r)
{
    if (r->bytes)
        gds_forget(r->d_memory);
    cudaFree(r->d_memory);
    r->d_memory = NULL;
    r->bytes = 0;
}

void reads_free(struct reads *r)
{
    if (!r)
        return;
    for (int k = 0; r->threads && k < r->n; k++) {
        if (r->threads[k].stream) {
            cudaStreamSynchronize(r->threads[k].stream);
            cudaStreamDestroy(r->threads[k].stream);
        }
        if (r->threads[k].checked)
            cudaEventDestroy(r->threads[k].checked);
    }
    release(r);
    if (r->locked)
        cudaFreeHost(r->locked);
    free(r->threads);
    free(r);
}

bool reads_fit(const struct reads *r, size_t bytes)
{
    return bytes <= r->bytes;
}

int reads_reserve(struct reads *r, size_t bytes, struct err *e)
{
    if (reads_fit(r, bytes))
        return 0;
    release(r);
    r->apart = (bytes + GDS_PAGE - 1) / GDS_PAGE * GDS_PAGE + 2 * GDS_PAGE;
    const size_t all = (size_t)r->n * r->apart;
    if (CU(r->device, cudaMalloc((void **)&r->d_memory, all), e) ||
        gds_register(r->d_memory, all, e))
        return -1;
    r->bytes = bytes;
    return 0;
}

/* --- chunks --- */

/* How many of the chunks have at most `most` bytes, which go to *bytes. */
static int64_t that_fit(const struct store_chunk *chunks, int64_t n, size_t most, size_t *bytes)
{
    int64_t k = 0;
    *bytes = 0;
    while (k < n && k < READS_CHUNKS && *bytes + chunks[k].bytes <= most)
        *bytes += chunks[k++].bytes;
    return k;
}

/* Whole pages of the file that hold the bytes. */
static int read_pages(struct reads *r, int thread, struct spectrum_file *f, uint64_t offset,
                      size_t bytes, struct err *e)
{
    const size_t skip = offset % GDS_PAGE,
                 pages = (skip + bytes + GDS_PAGE - 1) / GDS_PAGE * GDS_PAGE;
    const int64_t got =
        gds_read(f, r->d_memory, (size_t)thread * r->apart, offset - skip, pages, e);
    if (got < 0)
        return (int)got;
    if ((size_t)got < skip + bytes)
        return err_set(e, "the file ends too early; it has been truncated");
    return 0;
}

static int check_chunks(struct reads *r, int thread, const uint8_t *d_stored,
                        const struct store_chunk *chunks, int64_t n, bool heads, struct err *e)
{
    struct reads_thread *t = &r->threads[thread];
    struct crc_batch b = {};
    uint64_t at = 0;
    for (int64_t k = 0; k < n; at += chunks[k++].bytes)
        t->chunks[k] = {at, chunks[k].bytes};
    b.d_stored = d_stored;
    b.chunks = t->chunks;
    b.n = (int32_t)n;
    b.crc32 = t->crc32;
    b.heads = heads ? t->heads : NULL;
    crc_chunks(&b, t->stream);
    if (CU(r->device, cudaGetLastError(), e) ||
        CU(r->device, cudaEventRecord(t->checked, t->stream), e) ||
        CU(r->device, cudaEventSynchronize(t->checked), e))
        return GDS_DEVICE_FAILED;
    return 0;
}

int64_t reads_chunks(struct reads *r, int thread, struct spectrum_file *f,
                     const struct store_chunk *chunks, int64_t n, bool heads, uint8_t **from,
                     int64_t *damaged, struct err *e)
{
    size_t bytes;
    n = that_fit(chunks, n, r->bytes, &bytes);
    *damaged = -1;
    *from = r->d_memory + (size_t)thread * r->apart + chunks[0].offset % GDS_PAGE;
    if (n == 0)
        return 0;
    int bad = read_pages(r, thread, f, chunks[0].offset, bytes, e);
    bad = bad ? bad : check_chunks(r, thread, *from, chunks, n, heads, e);
    for (int64_t k = 0; !bad && k < n && *damaged < 0; k++)
        if (r->threads[thread].crc32[k] != chunks[k].crc32)
            *damaged = k;
    return bad ? bad : n;
}

const uint8_t *reads_heads(const struct reads *r, int thread)
{
    return r->threads[thread].heads;
}

/* --- opening and memory --- */

int loader_open(struct loader *l, struct check_device *d, struct staging *staging,
                const struct spectrum_setup *s, size_t shared_bytes, struct err *e)
{
    l->device = d;
    l->staging = staging;
    l->threads = s->threads;
    l->marks = (struct loader_marks *)memory_need((size_t)s->threads, sizeof *l->marks);
    l->copies = copies_create(d, staging_count(staging) + (s->gds ? s->threads : 0), e);
    if (!l->copies)
        return -1;
    staging_join(staging, l->copies);
    if (s->gds && !(l->reads = reads_create(d, s->threads, e)))
        return -1;
    for (struct unpack &u : l->unpacks)
        if (unpack_open(&u, d, shared_bytes, e))
            return -1;
    return 0;
}

void loader_close(struct loader *l)
{
    for (struct unpack &u : l->unpacks)
        unpack_close(&u);
    reads_free(l->reads);
    if (l->copies)
        staging_leave(l->staging, l->copies);
    copies_free(l->copies);
    for (int k = 0; l->marks && k < l->threads; k++)
        free(l->marks[k].left);
    free(l->marks);
}

static size_t chunk_bytes(const struct spectrum_band *b)
{
    return (size_t)(b->chunk_rows * b->chunk_cols * b->channels);
}

bool loader_fits(const struct loader *l, const struct spectrum_band *b, int halved)
{
    for (int k = 0; k < b->buffers; k++)
        if (!unpack_fits(&l->unpacks[k], b, halved))
            return false;
    return staging_fit(l->staging, chunk_bytes(b)) &&
           (!l->reads || reads_fit(l->reads, staging_bytes(l->staging)));
}

int loader_reserve_staging(struct loader *l, const struct spectrum_band *b, struct err *e)
{
    if (staging_reserve(l->staging, chunk_bytes(b), l->copies, e))
        return -1;
    const size_t bytes = staging_bytes(l->staging);
    if (!l->reads || reads_fit(l->reads, bytes))
        return 0;
    if (check_enter(l->device, e))
        return -1;
    return reads_reserve(l->reads, bytes, e) ? check_give_up(l->device, e) : 0;
}

int loader_reserve_unpacks(struct loader *l, const struct spectrum_band *b, int halved,
                           struct err *e)
{
    for (int k = 0; k < b->buffers; k++)
        if (unpack_reserve(&l->unpacks[k], b, halved, e))
            return -1;
    return 0;
}

void loader_release_unpacks(struct loader *l)
{
    for (struct unpack &u : l->unpacks)
        unpack_release(&u);
}

/* --- what every way of a chunk needs --- */

struct way {
    struct loader *loader;
    struct buffer *to;
    const struct spectrum_slab *slab;
    struct spectrum_thread *thread;
};

static const struct chunks *band_chunks(const struct way *w)
{
    return w->slab->band->chunks;
}

/* The stored chunks of an extent. */
static const struct store_chunk *stored_of(const struct way *w, struct chunks_extent x)
{
    return band_chunks(w)->list + x.row * band_chunks(w)->columns + x.col;
}

/* The place of an extent's first chunk in the slab, in row-major order. */
static int64_t place_of(const struct way *w, struct chunks_extent x)
{
    const struct spectrum_band *b = w->slab->band;
    const struct layout l = spectrum_band_layout(b);
    const int64_t row = x.row - (w->slab->row - b->first_row) / b->chunk_rows;
    return (int64_t)layout_chunk(&l, row, x.col) / (int64_t)chunk_bytes(b);
}

static uint8_t *pixels_of(const struct way *w, struct chunks_extent x)
{
    return w->to->d_pixels + (size_t)place_of(w, x) * chunk_bytes(w->slab->band);
}

static struct loader_times *times_of(struct loader *l, const struct spectrum_band *b)
{
    return &l->times[b->assigned.number % SPECTRUM_SUMS];
}

/* Queues a copy of `bytes` from a staging buffer to what `guard` guards. */
static int copy(const struct way *w, int number, const uint8_t *from, uint8_t *to, size_t bytes,
                struct copies_guard *guard, struct err *e)
{
    const struct spectrum_band *b = w->slab->band;
    return copies_send(w->loader->copies, number, from, to, bytes, guard,
                       &times_of(w->loader, b)->copied, b->assigned.number, e);
}

/* So many chunks of the slab are on their way. */
static int arrived(const struct way *w, int64_t chunks, struct err *e)
{
    struct loader *l = w->loader;
    return w->slab->band->packed_bytes
               ? unpack_arrived(&l->unpacks[w->slab->buffer], w->slab, l->copies, w->to, chunks, e)
               : 0;
}

/* A staging buffer that the thread may fill. */
static struct staging_buffer take_buffer(const struct way *w)
{
    const double begun = clock_now();
    const struct staging_buffer b = staging_take(w->loader->staging, w->thread->number);
    w->thread->wait_seconds += clock_now() - begun;
    return b;
}

/* --- pixels --- */

/* The first chunks of x through a staging buffer. Returns how many. */
static int64_t send_some(const struct way *w, struct chunks_extent x, struct err *e)
{
    struct loader *l = w->loader;
    const size_t each = chunk_bytes(w->slab->band);
    const struct staging_buffer b = take_buffer(w);
    const uint8_t *pixels;
    x.n = std::min(x.n, (int64_t)(b.bytes / each));
    if (chunks_load(band_chunks(w), &w->thread->scratch, x, b.memory, &pixels, e))
        return SPECTRUM_BAD_STORE;
    if (check_enter(l->device, e))
        return -1;
    staging_sent(l->staging, b.number, l->copies);
    return copy(w, b.number, pixels, pixels_of(w, x), (size_t)x.n * each, &w->to->guard, e) ||
                   arrived(w, x.n, e)
               ? check_give_up(l->device, e)
               : x.n;
}

static int send_pixels(const struct way *w, struct chunks_extent x, struct err *e)
{
    while (x.n > 0) {
        const int64_t n = send_some(w, x, e);
        if (n < 0)
            return (int)n;
        x.col += n;
        x.n -= n;
    }
    return 0;
}

/* Chunks that were left out. */
static int blank(const struct way *w, struct chunks_extent x, struct err *e)
{
    struct loader *l = w->loader;
    const size_t bytes = (size_t)x.n * chunk_bytes(w->slab->band);
    if (check_enter(l->device, e))
        return -1;
    return copies_blank(l->copies, pixels_of(w, x), bytes, &w->to->guard, e) || arrived(w, x.n, e)
               ? check_give_up(l->device, e)
               : 0;
}

/* --- chunks as they are stored --- */

/* A chunk that is left to the host. */
static int send_left(const struct way *w, int64_t row, int64_t col, int reason, struct err *e)
{
    w->thread->host_decoded[reason]++;
    return send_pixels(w, {row, col, 1}, e);
}

/* The n chunks of x that are marked as left. */
static int send_marked(const struct way *w, struct chunks_extent x, int64_t n, struct err *e)
{
    const uint8_t *left = w->loader->marks[w->thread->number].left;
    int r = 0;
    for (int64_t k = 0; n > 0 && k < x.n && r == 0; k++)
        if (left[k])
            r = send_left(w, x.row, x.col + k, left[k] - 1, e);
    return r;
}

/* Makes room for marks of n chunks. */
static void make_marks(const struct way *w, int64_t n)
{
    struct loader_marks *t = &w->loader->marks[w->thread->number];
    if ((size_t)n > t->room) {
        free(t->left);
        t->left = (uint8_t *)memory_need((size_t)n, 1);
        t->room = (size_t)n;
    }
}

/* Where stored chunks go: to their places if they are pixels, else to the kernels that unpack
 * them. */
struct target {
    uint8_t *to;
    struct copies_guard *guard;
    int64_t left; /* chunks that the kernels do not handle; -1: an error */
};

static struct target target_of(const struct way *w, struct chunks_extent x,
                               struct unpack_heads heads, uint8_t *left, struct err *e)
{
    struct unpack *u = &w->loader->unpacks[w->slab->buffer];
    struct target t = {NULL, &u->guard, 0};
    if (w->slab->band->packed_bytes == 0)
        return {pixels_of(w, x), &w->to->guard, 0};
    t.left = unpack_add(u, w->slab, heads, stored_of(w, x), x.n, place_of(w, x), left, &t.to, e);
    return t;
}

/* Sends the stored bytes of x, which lie at `from` in a buffer, and the pixels of what is left. */
static int send_stored(const struct way *w, struct chunks_extent x, int number, const uint8_t *from,
                       struct unpack_heads heads, struct err *e)
{
    struct loader *l = w->loader;
    const size_t bytes = chunks_stored_bytes(band_chunks(w), x);
    uint8_t *left = l->marks[w->thread->number].left;
    const struct target t = target_of(w, x, heads, left, e);
    if (t.left < 0 || copy(w, number, from, t.to, bytes, t.guard, e) || arrived(w, x.n - t.left, e))
        return check_give_up(l->device, e);
    return send_marked(w, x, t.left, e);
}

/* The first chunks of x through a staging buffer. Returns how many. */
static int64_t send_some_packed(const struct way *w, struct chunks_extent x, struct err *e)
{
    struct loader *l = w->loader;
    const struct staging_buffer b = take_buffer(w);
    const uint8_t *stored;
    x.n = chunks_that_fit(band_chunks(w), x, b.bytes);
    if (stored_of(w, x)->bytes > b.bytes) { /* then it is the only one */
        const int r = send_left(w, x.row, x.col, HOST_DECODED_ROOM, e);
        return r ? r : 1;
    }
    if (chunks_load_stored(band_chunks(w), &w->thread->scratch, x, b.memory, &stored, e))
        return SPECTRUM_BAD_STORE;
    make_marks(w, x.n);
    if (check_enter(l->device, e))
        return -1;
    staging_sent(l->staging, b.number, l->copies);
    const int r = send_stored(w, x, b.number, stored, {stored, 0}, e);
    return r ? r : x.n;
}

/* --- chunks that the device reads itself --- */

/* Reads and checks the first chunks of x; *from is where they lie on the device. Returns how many,
 * 0 if not even the first. */
static int64_t read_chunks(const struct way *w, struct chunks_extent x, uint8_t **from,
                           struct err *e)
{
    struct loader *l = w->loader;
    const struct spectrum_band *b = w->slab->band;
    const int thread = w->thread->number;
    int64_t damaged;
    if (check_enter(l->device, e))
        return -1;
    if (copies_wait(l->copies, staging_count(l->staging) + thread, e))
        return check_give_up(l->device, e);
    const int64_t n = reads_chunks(l->reads, thread, b->file, stored_of(w, x), x.n,
                                   b->packed_bytes > 0, from, &damaged, e);
    if (n == GDS_DEVICE_FAILED)
        return check_give_up(l->device, e);
    if (n <= 0 || damaged < 0)
        return n;
    chunks_mismatch(band_chunks(w), x.row, x.col + damaged, e);
    return SPECTRUM_BAD_STORE;
}

/* The first chunks of x. Returns how many. */
static int64_t read_some(const struct way *w, struct chunks_extent x, struct err *e)
{
    const int thread = w->thread->number;
    const double begun = clock_now();
    uint8_t *from;
    make_marks(w, x.n);
    x.n = read_chunks(w, x, &from, e);
    w->thread->scratch.read_seconds += clock_now() - begun;
    if (x.n < 0)
        return x.n;
    const int r = x.n == 0 ? send_left(w, x.row, x.col, HOST_DECODED_ROOM, e)
                           : send_stored(w, x, staging_count(w->loader->staging) + thread, from,
                                         {reads_heads(w->loader->reads, thread), CRC_HEAD}, e);
    return r ? r : std::max<int64_t>(x.n, 1);
}

/* --- a LOAD and the end of a slab --- */

int loader_load(struct loader *l, struct buffer *to, const struct spectrum_slab *s,
                struct chunks_extent x, struct spectrum_thread *t, struct err *e)
{
    const struct way w = {l, to, s, t};
    if (stored_of(&w, x)->bytes == 0)
        return blank(&w, x, e);
    if (!s->band->file && !s->band->packed_bytes)
        return send_pixels(&w, x, e);
    while (x.n > 0) {
        const int64_t n = s->band->file ? read_some(&w, x, e) : send_some_packed(&w, x, e);
        if (n < 0)
            return (int)n;
        x.col += n;
        x.n -= n;
    }
    return 0;
}

/* The place of the next chunk that could not be unpacked. 1, 0 if there is no other one, or -1. */
static int next_left(const struct way *w, int64_t *place, struct err *e)
{
    const struct spectrum_band *b = w->slab->band;
    struct loader_times *times = times_of(w->loader, b);
    int64_t us;
    if (check_enter(w->loader->device, e))
        return -1;
    const int r = unpack_next(&w->loader->unpacks[w->slab->buffer], place, &us, e);
    if (us > 0) /* the first slab forgets what a band that failed has left there */
        times->unpack_us = us + (w->slab->row == b->first_row ? 0 : times->unpack_us);
    return r < 0 ? check_give_up(w->loader->device, e) : r;
}

int loader_complete(struct loader *l, struct buffer *to, const struct spectrum_slab *s,
                    struct spectrum_thread *t, struct err *e)
{
    const struct way w = {l, to, s, t};
    const int64_t columns = s->band->chunks->columns,
                  first = (s->row - s->band->first_row) / s->band->chunk_rows;
    int64_t place;
    int r;
    if (s->band->packed_bytes == 0)
        return 0;
    while ((r = next_left(&w, &place, e)) > 0)
        if ((r = send_left(&w, first + place / columns, place % columns, HOST_DECODED_DATA, e)))
            return r;
    return r;
}

int loader_report(struct loader *l, const struct spectrum_band *b, struct spectrum_times *times,
                  struct err *e)
{
    struct loader_times *t = times_of(l, b);
    double copy = 0;
    if (copies_report(l->copies, &t->copied, b->assigned.number, &copy, e))
        return -1;
    times->copy += copy;
    times->unpack += b->packed_bytes ? (double)t->unpack_us * 1e-6 : 0;
    return 0;
}
