/* unpack.cu - see unpack.h. */
#include "cuda/unpack.h"

#include "common/base/memory.h"
#include "common/store/store_read.h"

#include <algorithm>
#include <assert.h>
#include <new>
#include <stdlib.h>
#include <string.h>

enum {
    /* Entries of the tiles that are decoded together, 4 bytes each. */
    MOST_ENTRIES = 80 << 20,
    MOST_RESTARTS = 4 << 20,
    MOST_OWN = 4096,         /* tiles with tables of their own that are decoded together */
    MOST_PLANES = 192 << 20, /* bytes of samples */
    WIDE_TILE = 512,         /* px from which on tiles may need planes */
    LEAST_SHARED = 64,       /* tiles for which look-up tables of their header pay */
    LONG_TILE = 128 << 10,   /* bytes from which on the host is faster, */
    FEW_TILES = 16,          /* unless a slab has so many of them: then they take turns */
    ALIGNED = 256,
};

/* --- opening and memory --- */

int unpack_open(struct unpack *u, struct check_device *d, size_t shared_bytes, struct err *e)
{
    int least = 0, greatest = 0;
    u->device = d;
    u->shared_bytes = shared_bytes;
    u->band = -1;
    if (!(u->lock = new (std::nothrow) std::mutex))
        memory_end();
    /* The kernels that compute windows fill the device: decoding goes first, or it would wait until
     * they end. */
    if (CU(d, cudaDeviceGetStreamPriorityRange(&least, &greatest), e) ||
        CU(d, cudaStreamCreateWithPriority(&u->stream, cudaStreamNonBlocking, greatest), e) ||
        CU(d, cudaEventCreateWithFlags(&u->copied, cudaEventDisableTiming), e) ||
        CU(d, cudaEventCreateWithFlags(&u->guard.free, cudaEventDisableTiming), e) ||
        CU(d, cudaEventCreateWithFlags(&u->begins, cudaEventBlockingSync), e))
        return -1;
    return CU(d, cudaEventCreateWithFlags(&u->ends, cudaEventBlockingSync), e);
}

static void forget_headers(struct unpack *u)
{
    for (int k = 0; k < u->n_headers; k++) {
        free(u->headers[k].bytes);
        free(u->headers[k].parsed);
    }
    u->n_headers = u->last_header = 0;
}

void unpack_release(struct unpack *u)
{
    if (u->stream)
        cudaStreamSynchronize(u->stream);
    cudaFree(u->d_memory);
    if (u->locked)
        cudaFreeHost(u->locked);
    free(u->list);
    u->d_memory = u->locked = NULL;
    u->list = NULL;
    u->room = {};
    u->band = -1;
    u->queued = false;
}

void unpack_close(struct unpack *u)
{
    const cudaEvent_t events[] = {u->copied, u->guard.free, u->begins, u->ends};
    if (!u->device)
        return;
    unpack_release(u);
    forget_headers(u);
    for (cudaEvent_t event : events)
        if (event)
            cudaEventDestroy(event);
    if (u->stream)
        cudaStreamDestroy(u->stream);
    delete u->lock;
}

static int64_t columns_of(const struct spectrum_band *b)
{
    return (b->width + b->chunk_cols - 1) / b->chunk_cols;
}

static int64_t chunk_rows_of(const struct spectrum_band *b, int64_t rows)
{
    return (rows + b->chunk_rows - 1) / b->chunk_rows;
}

/* The memory that the band needs. Entries, restart markers and tables get less each time that it is
 * halved; the host decodes tiles that do not fit: fits_one(). */
static struct unpack_room room_for(const struct spectrum_band *b, int halved)
{
    struct unpack_room r = {};
    const size_t px = (size_t)((b->chunk_rows + 15) * (b->chunk_cols + 15));
    r.tiles = chunk_rows_of(b, b->slab_rows) * columns_of(b);
    r.rows = r.tiles * (jpeg_most_rows(b->chunk_cols, b->chunk_rows) + 1);
    r.own = std::min(r.tiles, std::max((int64_t)MOST_OWN >> 2 * halved, (int64_t)1));
    if (b->chunk_cols > WIDE_TILE) {
        r.rows = std::max(r.rows, (int64_t)(px / 64) + 2);
        r.planes =
            std::max(px * 3, std::min((size_t)r.tiles * px * 3, (size_t)MOST_PLANES >> 2 * halved));
    }
    r.stored = (size_t)b->packed_bytes;
    /* as jpeg_most_entries() */
    r.entries = 2 * r.stored + (size_t)r.tiles * (4096 + px * 3 / 64 / 4 + JPEG_MARGIN + 8);
    r.entries = std::min(r.entries, (size_t)MOST_ENTRIES >> 2 * halved);
    r.restarts = std::min((size_t)r.tiles * (px / 64), (size_t)MOST_RESTARTS >> 2 * halved);
    return r;
}

bool unpack_fits(const struct unpack *u, const struct spectrum_band *b, int halved)
{
    const struct unpack_room want = room_for(b, halved);
    return b->packed_bytes == 0 ||
           (u->d_memory && want.tiles <= u->room.tiles && want.rows <= u->room.rows &&
            want.stored <= u->room.stored && want.entries <= u->room.entries &&
            want.restarts <= u->room.restarts && want.own <= u->room.own &&
            want.planes <= u->room.planes);
}

/* The next part of a block of memory, or, without a block, its size. */
template <class T> static void part(uint8_t *block, size_t *used, T **p, size_t n)
{
    *p = block ? (T *)(block + *used) : NULL;
    *used += (n * sizeof(T) + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static size_t lay_out_device(struct unpack *u, uint8_t *block)
{
    const struct unpack_room *r = &u->room;
    const size_t n = (size_t)r->tiles;
    size_t used = 0;
    part(block, &used, &u->d_stored, r->stored);
    part(block, &used, &u->d_stripped, r->stored + 16 * n + JPEG_SLACK);
    part(block, &used, &u->d_entries, r->entries);
    part(block, &used, &u->d_restarts, r->restarts);
    part(block, &used, &u->d_rows, (size_t)r->rows);
    part(block, &used, &u->d_bytes, n);
    part(block, &used, &u->d_status, n);
    part(block, &used, &u->d_tiles, n);
    part(block, &used, &u->d_sets, UNPACK_SETS);
    part(block, &used, &u->d_own, (size_t)r->own);
    part(block, &used, &u->d_planes, r->planes);
    return used;
}

static size_t lay_out_host(struct unpack *u, uint8_t *block)
{
    const size_t n = (size_t)u->room.tiles;
    size_t used = 0;
    part(block, &used, &u->tiles, n);
    part(block, &used, &u->sets, UNPACK_SETS);
    part(block, &used, &u->status, n);
    return used;
}

int unpack_reserve(struct unpack *u, const struct spectrum_band *b, int halved, struct err *e)
{
    if (unpack_fits(u, b, halved))
        return 0;
    const struct unpack_room had = u->room, want = room_for(b, halved);
    unpack_release(u);
    /* Some more than the band needs, so that the next store's tiles may be a little larger. */
    u->room.stored = std::max(had.stored, want.stored + want.stored / 4);
    u->room.tiles = std::max(had.tiles, want.tiles);
    u->room.rows = std::max(had.rows, want.rows);
    u->room.entries = std::max(had.entries, want.entries);
    u->room.restarts = std::max(had.restarts, want.restarts);
    u->room.own = std::max(had.own, want.own);
    u->room.planes = std::max(had.planes, want.planes);
    u->list = (struct unpack_tile *)memory_need((size_t)u->room.tiles, sizeof *u->list);
    if (CU(u->device, jpeg_prepare(u->shared_bytes), e) ||
        CU(u->device, cudaMallocHost((void **)&u->locked, lay_out_host(u, NULL)), e) ||
        CU(u->device, cudaMalloc((void **)&u->d_memory, lay_out_device(u, NULL)), e))
        return -1;
    lay_out_host(u, u->locked);
    /* The huffman kernel reads some bytes behind the data of a tile; zeros, so that tools that look
     * for memory that was never written report nothing. */
    if (CU(u->device, cudaMemsetAsync(u->d_memory, 0, lay_out_device(u, u->d_memory), u->stream),
           e))
        return -1;
    return CU(u->device, cudaStreamSynchronize(u->stream), e);
}

/* --- chunks arrive --- */

/* Makes the slab the present one. What was queued for an earlier one must have read the tables. */
static int begin_slab(struct unpack *u, const struct spectrum_slab *s, struct err *e)
{
    if (u->band == s->band->assigned.number && u->row == s->row)
        return 0;
    if (u->queued && CU(u->device, cudaEventSynchronize(u->ends), e))
        return -1;
    forget_headers(u);
    u->band = s->band->assigned.number;
    u->row = s->row;
    u->chunks = u->n = u->next = 0;
    u->used = 0;
    u->queued = u->waited = false;
    return 0;
}

/* Do the kernels handle streams with this header, and do they make the pixels of a chunk of the
 * band? libjpeg-turbo decides about all others, and about the colours of streams that do not say
 * what they are. Fills in *g and what *set says beside codes. */
static bool handles(const struct unpack *u, const struct jpeg_header *h,
                    const struct spectrum_band *b, struct jpeg_geometry *g, struct jpeg_set *set)
{
    if (h->width != b->chunk_cols || h->height != b->chunk_rows || h->components != b->channels)
        return false;
    if (h->components == 3 && (h->adobe_transform < 0 || h->adobe_transform > 1))
        return false;
    if (!jpeg_tables_make(h, h->adobe_transform == 1, g, set))
        return false;
    if (!jpeg_pixels_fit(g, u->shared_bytes))
        jpeg_cut_runs(g);
    return true;
}

/* Where the Huffman tables of a stream lie that begins at `bytes`. */
static void find_tables(const struct jpeg_header *h, const struct jpeg_set *set,
                        const uint8_t *bytes, uint32_t dht[JPEG_PAIRS][2])
{
    for (int p = 0; p < set->pairs; p++) {
        dht[p][0] = (uint32_t)(h->scan_offset - (size_t)(h->dc[set->dc[p]].stored - bytes));
        dht[p][1] = (uint32_t)(h->scan_offset - (size_t)(h->ac[set->ac[p]].stored - bytes));
    }
}

/* The first kept header with this geometry and this use of tables, and, where that matters, these
 * quantisers; `none` if there is no such one. */
static int find_like(const struct unpack *u, const struct jpeg_geometry *g,
                     const struct jpeg_set *set, bool quantisers, int none)
{
    for (int k = 0; k < u->n_headers; k++)
        if (u->headers[k].handled && !memcmp(&u->headers[k].geometry, g, sizeof *g) &&
            jpeg_tables_alike(&u->sets[k], set, quantisers))
            return k;
    return none;
}

/* Keeps the header of a chunk that begins at `bytes`: what u->other says of it. */
static struct unpack_header *keep_header(struct unpack *u, const uint8_t *bytes, bool handled,
                                         const struct jpeg_geometry *g)
{
    struct unpack_header *h = &u->headers[u->n_headers];
    *h = {};
    h->n = u->other.scan_offset;
    h->bytes = (uint8_t *)memory_need(h->n, 1);
    h->parsed = (struct jpeg_header *)memory_need(1, sizeof *h->parsed);
    memcpy(h->bytes, bytes, h->n);
    *h->parsed = u->other;
    h->handled = handled;
    if (handled) {
        h->geometry = *g;
        u->sets[u->n_headers] = u->other_set;
        find_tables(h->parsed, &u->other_set, bytes, h->dht);
        h->like = find_like(u, g, &u->other_set, false, u->n_headers);
        u->headers[h->like].alike++;
    }
    u->last_header = u->n_headers++;
    return h;
}

static bool begins_with(const uint8_t *bytes, size_t n, const struct unpack_header *h)
{
    return n > h->n && !memcmp(bytes, h->bytes, h->n);
}

static struct unpack_header *kept_header(struct unpack *u, const uint8_t *bytes, size_t n)
{
    for (int k = 0; k < u->n_headers; k++) { /* beginning with the one that the last chunk had */
        const int at = (u->last_header + k) % u->n_headers;
        if (begins_with(bytes, n, &u->headers[at])) {
            u->last_header = at;
            return &u->headers[at];
        }
    }
    return NULL;
}

/* These take what the header of a chunk says of its tile; *head becomes the header's length. They
 * return a reason (enum host_decoded) to leave the tile to the host, or -1. */
static int take_kept(const struct unpack *u, struct unpack_header *h, struct unpack_tile *t,
                     size_t *head)
{
    t->set = (int)(h - u->headers);
    h->tiles++;
    memcpy(t->dht, h->dht, sizeof t->dht);
    *head = h->n;
    return h->handled ? -1 : HOST_DECODED_FORM;
}

/* A tile without a kept header. Half of the headers are kept for those with other quantisers or
 * another geometry. */
static int take_other(struct unpack *u, const struct spectrum_band *b, const uint8_t *bytes,
                      size_t n, struct unpack_tile *t, size_t *head)
{
    struct jpeg_geometry g = {};
    struct err no;
    if (jpeg_header_read(&u->other, bytes, n, &no))
        return HOST_DECODED_FORM;
    const bool handled = handles(u, &u->other, b, &g, &u->other_set);
    t->set = handled ? find_like(u, &g, &u->other_set, true, -1) : -1;
    if (u->n_headers < (t->set < 0 ? UNPACK_SETS : UNPACK_SETS / 2))
        return take_kept(u, keep_header(u, bytes, handled, &g), t, head);
    if (t->set < 0)
        return handled ? HOST_DECODED_TABLES : HOST_DECODED_FORM;
    t->own = true;
    u->headers[u->headers[t->set].like].alike++;
    find_tables(&u->other, &u->other_set, bytes, t->dht);
    *head = u->other.scan_offset;
    return -1;
}

static size_t entries_of(const struct unpack_tile *t)
{
    return ((size_t)t->most + JPEG_MARGIN + 3) / 4 * 4;
}

/* Most tiles like t, with or without tables of their own, that are decoded together; 0: not even
 * one fits. Their entries are counted tile by tile: batch_end(). */
static int64_t most_together(const struct unpack *u, const struct unpack_tile *t, bool own)
{
    const struct jpeg_geometry *g = &u->headers[t->set].geometry;
    const size_t restarts = jpeg_restarts(g), planes = jpeg_planes_bytes(g);
    int64_t most = u->room.rows / (g->mcu_rows + 1);
    if (restarts)
        most = std::min(most, (int64_t)(u->room.restarts / restarts));
    if (planes)
        most = std::min(most, (int64_t)(u->room.planes / planes));
    if (own)
        most = std::min(most, u->room.own);
    return entries_of(t) <= u->room.entries ? most : 0;
}

/* Every tile may need tables of its own: choose_tables() decides later. */
static bool fits_one(const struct unpack *u, const struct unpack_tile *t)
{
    return most_together(u, t, true) > 0;
}

/* One thread decodes a tile, so few long tiles keep a device waiting. */
static bool is_long(const struct spectrum_slab *s, const struct unpack_tile *t)
{
    return t->bytes > LONG_TILE &&
           chunk_rows_of(s->band, s->rows) * columns_of(s->band) < FEW_TILES;
}

/* Lists a chunk of n bytes, of which the first `have` are here. Returns as take_kept(). */
static int add_tile(struct unpack *u, const struct spectrum_slab *s, const uint8_t *bytes,
                    size_t have, size_t n, size_t at, int64_t place)
{
    struct unpack_tile t = {};
    size_t head = 0;
    struct unpack_header *h = kept_header(u, bytes, have);
    const int left =
        h ? take_kept(u, h, &t, &head) : take_other(u, s->band, bytes, have, &t, &head);
    if (left >= 0)
        return left;
    const struct jpeg_geometry *g = &u->headers[t.set].geometry;
    t.stored = at + head;
    t.bytes = (uint32_t)(n - head);
    t.place = (uint32_t)place;
    t.most = jpeg_most_entries(g, t.bytes);
    if (is_long(s, &t))
        return HOST_DECODED_LONG;
    if (u->n == u->room.tiles || !fits_one(u, &t))
        return HOST_DECODED_ROOM;
    u->list[u->n++] = t;
    return -1;
}

int64_t unpack_add(struct unpack *u, const struct spectrum_slab *s, struct unpack_heads heads,
                   const struct store_chunk *chunks, int64_t n, int64_t first, uint8_t *left,
                   uint8_t **to, struct err *e)
{
    size_t bytes = 0;
    int64_t n_left = 0;
    for (int64_t k = 0; k < n; k++)
        bytes += chunks[k].bytes;
    const std::lock_guard<std::mutex> locked(*u->lock);
    int bad = begin_slab(u, s, e);
    if (!bad && bytes > u->room.stored - u->used)
        bad = err_set(e, "internal error: a slab has more stored bytes than its band");
    *to = u->d_stored + u->used;
    for (int64_t k = 0; k < n && !bad; k++) {
        const size_t all = chunks[k].bytes, most = heads.apart ? heads.apart : all;
        left[k] =
            (uint8_t)(1 + add_tile(u, s, heads.at, std::min(all, most), all, u->used, first + k));
        u->used += all;
        heads.at += most;
        n_left += left[k] > 0;
    }
    return bad ? -1 : n_left;
}

/* --- the kernels --- */

/* Decides which tiles are decoded with look-up tables of their header, and makes these tables; the
 * others have their own. A header that nothing else is like always has look-up tables. */
static void choose_tables(struct unpack *u)
{
    bool shared[UNPACK_SETS];
    for (int k = 0; k < u->n_headers; k++) {
        const struct unpack_header *h = &u->headers[k];
        shared[k] = h->handled && (h->tiles >= LEAST_SHARED || u->headers[h->like].alike == 1);
        if (shared[k])
            jpeg_tables_codes(h->parsed, &u->sets[k]);
    }
    for (int64_t k = 0; k < u->n; k++) {
        struct unpack_tile *t = &u->list[k];
        t->own |= !shared[t->set];
        t->batch = t->own ? UNPACK_SETS + u->headers[t->set].like : t->set;
    }
}

/* Tiles first .. end - 1 of the list as one batch. */
static struct jpeg_batch batch_of(const struct unpack *u, const struct buffer *pixels,
                                  int64_t first, int64_t end)
{
    const int set = u->list[first].set;
    struct jpeg_batch b = {};
    b.geometry = u->headers[set].geometry;
    b.d_sets = u->d_sets;
    b.shared_bytes = u->shared_bytes;
    b.d_own = u->list[first].own ? u->d_own : NULL;
    b.pairs = u->sets[set].pairs;
    b.n = (int32_t)(end - first);
    b.wide = true;
    b.d_tiles = u->d_tiles + first;
    b.d_stored = u->d_stored;
    b.d_stripped = u->d_stripped;
    b.d_bytes = u->d_bytes;
    b.d_restarts = u->d_restarts;
    b.d_entries = u->d_entries;
    b.d_rows = u->d_rows;
    b.d_status = u->d_status;
    b.d_planes = u->d_planes;
    b.d_pixels = pixels->d_pixels;
    return b;
}

/* The end of the batch that begins with tile `first`: tiles with the same tables, as many as there
 * is room for. */
static int64_t batch_end(const struct unpack *u, int64_t first)
{
    const struct unpack_tile *t = &u->list[first];
    const int64_t most = most_together(u, t, t->own);
    size_t entries = 0;
    int64_t k = first;
    while (k < u->n && k - first < most && u->list[k].batch == t->batch &&
           (entries += entries_of(&u->list[k])) <= u->room.entries)
        k++;
    assert(k > first); /* add_tile() */
    return k;
}

/* Fills in the kernels' tiles of a batch. */
static void fill_tiles(struct unpack *u, int64_t first, int64_t end)
{
    size_t stripped = 0, entries = 0;
    for (int64_t k = first; k < end; k++) {
        const struct unpack_tile *t = &u->list[k];
        u->tiles[k] = {t->stored, t->bytes,    t->place,         stripped, entries,
                       t->most,   (uint32_t)k, (uint32_t)t->set, {}};
        memcpy(u->tiles[k].dht, t->dht, sizeof t->dht);
        stripped += (t->bytes + 15) / 16 * 16;
        entries += entries_of(t);
    }
}

/* No kernel runs without what the one before it makes. */
static int queue_batch(struct unpack *u, const struct jpeg_batch *b, struct err *e)
{
    jpeg_strip(b, u->stream);
    if (CU(u->device, cudaGetLastError(), e))
        return -1;
    jpeg_huffman(b, u->stream);
    if (CU(u->device, cudaGetLastError(), e))
        return -1;
    jpeg_pixels(b, u->stream);
    return CU(u->device, cudaGetLastError(), e);
}

static int queue_batches(struct unpack *u, const struct buffer *pixels, struct err *e)
{
    const size_t n = (size_t)u->n;
    int64_t end;
    for (int64_t first = 0; first < u->n; first = end)
        fill_tiles(u, first, end = batch_end(u, first));
    if (CU(u->device,
           cudaMemcpyAsync(u->d_tiles, u->tiles, n * sizeof *u->tiles, cudaMemcpyHostToDevice,
                           u->stream),
           e) ||
        CU(u->device,
           cudaMemcpyAsync(u->d_sets, u->sets, (size_t)u->n_headers * sizeof *u->sets,
                           cudaMemcpyHostToDevice, u->stream),
           e) ||
        CU(u->device, cudaMemsetAsync(u->d_status, JPEG_FOR_HOST, n, u->stream), e))
        return -1;
    for (int64_t first = 0; first < u->n; first = end) {
        end = batch_end(u, first);
        const struct jpeg_batch b = batch_of(u, pixels, first, end);
        if (queue_batch(u, &b, e))
            return -1;
    }
    return CU(u->device,
              cudaMemcpyAsync(u->status, u->d_status, n, cudaMemcpyDeviceToHost, u->stream), e);
}

/* Tiles with the same tables side by side, the largest first. */
static bool comes_before(const struct unpack_tile &a, const struct unpack_tile &b)
{
    return a.batch != b.batch ? a.batch < b.batch : a.bytes > b.bytes;
}

/* All chunks of the slab are on their way. */
static int queue_all(struct unpack *u, struct copies *c, struct buffer *pixels, struct err *e)
{
    choose_tables(u);
    std::sort(u->list, u->list + u->n, comes_before);
    if (copies_come_first(c, u->copied, u->stream, e) ||
        (pixels->guard.used &&
         CU(u->device, cudaStreamWaitEvent(u->stream, pixels->guard.free, 0), e)) ||
        CU(u->device, cudaEventRecord(u->begins, u->stream), e) ||
        (u->n > 0 && queue_batches(u, pixels, e)) ||
        CU(u->device, cudaEventRecord(u->ends, u->stream), e))
        return -1;
    u->queued = true;
    /* If the store fails, nobody waits for the kernels: what is sent next must. */
    return copies_free_later(c, &u->guard, u->stream, e) ||
                   copies_free_later(c, &pixels->guard, u->stream, e)
               ? -1
               : 0;
}

int unpack_arrived(struct unpack *u, const struct spectrum_slab *s, struct copies *c,
                   struct buffer *pixels, int64_t n, struct err *e)
{
    const int64_t all = chunk_rows_of(s->band, s->rows) * columns_of(s->band);
    const std::lock_guard<std::mutex> locked(*u->lock);
    int bad = begin_slab(u, s, e);
    if (!bad && !u->queued && (u->chunks += n) == all)
        bad = queue_all(u, c, pixels, e);
    return bad;
}

int unpack_next(struct unpack *u, int64_t *place, int64_t *us, struct err *e)
{
    *us = 0;
    if (!u->queued)
        return err_set(e, "internal error: chunks of the slab have not arrived");
    if (!u->waited) {
        float ms = 0;
        if (CU(u->device, cudaEventSynchronize(u->ends), e) ||
            CU(u->device, cudaEventElapsedTime(&ms, u->begins, u->ends), e))
            return -1;
        *us = (int64_t)(ms * 1000);
        u->waited = true;
    }
    for (int64_t k = u->next; k < u->n; k++)
        if (u->status[k] != JPEG_DECODED) {
            *place = u->list[k].place;
            u->next = k + 1;
            return 1;
        }
    u->next = u->n;
    return 0;
}
