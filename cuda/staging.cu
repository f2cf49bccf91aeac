/* staging.cu - see staging.h. */
#include "cuda/staging.h"

#include "common/base/memory.h"
#include "common/store/chunks.h"
#include "process/spectrum/spectrum.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <stdlib.h>
#include <sys/mman.h>

/* --- copies --- */

enum { TIMED_EVERY = 8 };

struct copy {
    cudaEvent_t begins, ends;
    size_t bytes;
    bool sent, timed;
    struct copies_times *times; /* its time is still to be added to these; NULL: to none */
    int64_t number;
};

struct copies {
    struct check_device *device;
    cudaStream_t stream;
    std::mutex lock; /* keeps other copies from between the events around a copy */
    int n;
    unsigned sent;
    struct copy *copy; /* [n] */
};

static int create_events(struct copies *c, struct err *e)
{
    if (CU(c->device, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), e))
        return -1;
    /* Without cudaEventBlockingSync a waiting thread keeps its processor busy, but the interrupts
     * would cost a third of the bus. */
    for (int k = 0; k < c->n; k++)
        if (CU(c->device, cudaEventCreateWithFlags(&c->copy[k].begins, cudaEventDefault), e) ||
            CU(c->device, cudaEventCreateWithFlags(&c->copy[k].ends, cudaEventDefault), e))
            return -1;
    return 0;
}

struct copies *copies_create(struct check_device *d, int n, struct err *e)
{
    struct copies *c = new (std::nothrow) copies();
    if (!c)
        memory_end();
    c->device = d;
    c->n = n;
    c->copy = (struct copy *)memory_need((size_t)n, sizeof *c->copy);
    if (create_events(c, e)) {
        copies_free(c);
        return NULL;
    }
    return c;
}

void copies_free(struct copies *c)
{
    if (!c)
        return;
    for (int k = 0; c->copy && k < c->n; k++) {
        if (c->copy[k].begins)
            cudaEventDestroy(c->copy[k].begins);
        if (c->copy[k].ends)
            cudaEventDestroy(c->copy[k].ends);
    }
    if (c->stream)
        cudaStreamDestroy(c->stream);
    free(c->copy);
    delete c;
}

struct check_device *copies_device(const struct copies *c)
{
    return c->device;
}

void copies_end(struct copies *c)
{
    cudaSetDevice(c->device->number);
    cudaStreamSynchronize(c->stream);
}

/* With the lock held: what is queued next waits until the buffer is free. */
static int wait_for(struct copies *c, struct copies_guard *guard, struct err *e)
{
    if (guard->used && !guard->waited &&
        CU(c->device, cudaStreamWaitEvent(c->stream, guard->free, 0), e))
        return -1;
    guard->waited = true;
    return 0;
}

int copies_come_first(struct copies *c, cudaEvent_t mark, cudaStream_t stream, struct err *e)
{
    return CU(c->device, cudaEventRecord(mark, c->stream), e) ||
                   CU(c->device, cudaStreamWaitEvent(stream, mark, 0), e)
               ? -1
               : 0;
}

int copies_blank(struct copies *c, void *to, size_t bytes, struct copies_guard *guard,
                 struct err *e)
{
    const std::lock_guard<std::mutex> locked(c->lock);
    return wait_for(c, guard, e) || CU(c->device, cudaMemsetAsync(to, 255, bytes, c->stream), e)
               ? -1
               : 0;
}

/* With the lock held. */
static int queue(struct copies *c, struct copy *k, const void *from, void *to,
                 struct copies_guard *guard, bool timed, struct err *e)
{
    if (wait_for(c, guard, e))
        return -1;
    if (timed && CU(c->device, cudaEventRecord(k->begins, c->stream), e))
        return -1;
    if (CU(c->device, cudaMemcpyAsync(to, from, k->bytes, cudaMemcpyDefault, c->stream), e))
        return -1;
    return CU(c->device, cudaEventRecord(k->ends, c->stream), e);
}

int copies_send(struct copies *c, int staging, const void *from, void *to, size_t bytes,
                struct copies_guard *guard, struct copies_times *times, int64_t number,
                struct err *e)
{
    struct copy *k = &c->copy[staging];
    const std::lock_guard<std::mutex> locked(c->lock);
    if (times->number != number)
        *times = {number, 0, 0, 0};
    const bool timed = times->bytes == 0 || c->sent % TIMED_EVERY == 0;
    k->bytes = bytes;
    const int r = queue(c, k, from, to, guard, timed, e);
    c->sent++;
    k->sent = r == 0;
    k->timed = k->sent && timed;
    if (k->timed) {
        k->times = times;
        k->number = number;
    }
    times->bytes += (int64_t)bytes;
    return r;
}

/* With the lock held. The copy is complete. */
static int add_time(struct copies *c, struct copy *k, struct err *e)
{
    float ms = 0;
    struct copies_times *times = k->times;
    k->times = NULL;
    if (CU(c->device, cudaEventElapsedTime(&ms, k->begins, k->ends), e))
        return -1;
    if (times->number == k->number) {
        times->ns += (int64_t)(ms * 1e6f);
        times->timed_bytes += (int64_t)k->bytes;
    }
    return 0;
}

int copies_wait(struct copies *c, int staging, struct err *e)
{
    struct copy *k = &c->copy[staging];
    if (!k->sent)
        return 0;
    const int r = CU(c->device, cudaEventSynchronize(k->ends), e);
    k->sent = false;
    if (r || !k->timed)
        return r;
    const std::lock_guard<std::mutex> locked(c->lock);
    return k->times ? add_time(c, k, e) : 0; /* NULL: copies_report() came first */
}

int copies_free_later(struct copies *c, struct copies_guard *guard, cudaStream_t stream,
                      struct err *e)
{
    const std::lock_guard<std::mutex> locked(c->lock);
    const int r = CU(c->device, cudaEventRecord(guard->free, stream), e);
    guard->waited = false;
    __atomic_store_n(&guard->used, true, __ATOMIC_RELEASE);
    return r;
}

bool copies_is_free(const struct copies_guard *guard)
{
    return !__atomic_load_n(&guard->used, __ATOMIC_ACQUIRE) ||
           cudaEventQuery(guard->free) != cudaErrorNotReady;
}

int copies_report(struct copies *c, struct copies_times *times, int64_t number, double *seconds,
                  struct err *e)
{
    const std::lock_guard<std::mutex> locked(c->lock);
    int r = 0;
    for (int k = 0; k < c->n && r == 0; k++)
        if (c->copy[k].times == times && c->copy[k].number == number)
            r = add_time(c, &c->copy[k], e);
    *seconds = 0;
    if (times->number == number && times->timed_bytes > 0)
        *seconds = (double)times->ns * 1e-9 * (double)times->bytes / (double)times->timed_bytes;
    return r;
}

enum {
    EACH = 2,              /* buffers of a thread */
    MOST_PIXELS = 2 << 20, /* bytes of a buffer; smaller ones are copied more slowly */
    MOST_ALL = 1 << 30,    /* bytes of all buffers, if a chunk is larger than that */
    /* With more devices than FEW the buffers must stay in the processors' caches: the memory of the
     * host is too slow for writing and reading all bytes once more. */
    FEW = 2,
    MOST_PIXELS_OF_MANY = 1 << 20,
};

struct staging {
    int threads;
    int64_t memory;         /* bytes at most */
    uint8_t *pages;         /* page-locked, of all buffers; NULL: there are none */
    size_t bytes;           /* of a buffer, for chunks */
    struct copies **copied; /* [threads][EACH]: who copies the buffer; NULL: nobody */
    int *turns;             /* [threads]: the buffer that the thread used last */
    struct copies *devices[SPECTRUM_MOST_DEVICES];
    int n_devices;
};

/* --- opening and closing --- */

struct staging *staging_create(int threads, int64_t memory)
{
    struct staging *s = (struct staging *)memory_need(1, sizeof *s);
    s->threads = threads;
    s->memory = memory;
    s->copied = (struct copies **)memory_need((size_t)threads * EACH, sizeof *s->copied);
    s->turns = (int *)memory_need((size_t)threads, sizeof *s->turns);
    return s;
}

int staging_count(const struct staging *s)
{
    return s->threads * EACH;
}

void staging_join(struct staging *s, struct copies *c)
{
    s->devices[s->n_devices++] = c;
}

void staging_leave(struct staging *s, struct copies *c)
{
    s->n_devices = (int)(std::remove(s->devices, s->devices + s->n_devices, c) - s->devices);
}

/* --- memory --- */

static size_t bytes_apart(size_t bytes)
{
    return (bytes + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE + CHUNKS_MARGIN;
}

/* Waits for the buffer's copy. If that fails, the next function that uses the device reports it. */
static void wait_for(struct staging *s, int number)
{
    struct copies *c = s->copied[number];
    struct err e;
    if (c && check_enter(copies_device(c), &e) == 0 && copies_wait(c, number, &e))
        check_give_up(copies_device(c), &e);
    s->copied[number] = NULL;
}

/* No thread fills a buffer any more. */
void staging_release(struct staging *s)
{
    if (!s || !s->pages)
        return;
    struct copies *alive = s->devices[0];
    for (int k = 0; k < staging_count(s); k++)
        wait_for(s, k);
    for (int k = 0; k < s->n_devices; k++) {
        copies_end(s->devices[k]);
        alive = check_alive(copies_device(s->devices[k])) ? s->devices[k] : alive;
    }
    cudaSetDevice(copies_device(alive)->number);
    if (cudaHostUnregister(s->pages) == cudaSuccess)
        free(s->pages); /* if not, a device may still read it */
    s->pages = NULL;
    s->bytes = 0;
}

void staging_free(struct staging *s)
{
    if (!s)
        return;
    staging_release(s);
    free(s->copied);
    free(s->turns);
    free(s);
}

bool staging_fit(const struct staging *s, size_t chunk)
{
    return chunk <= s->bytes;
}

size_t staging_bytes(const struct staging *s)
{
    return s->bytes;
}

/* Page-locks memory from which all devices can copy. */
static uint8_t *lock_pages(struct check_device *d, size_t bytes, struct err *e)
{
    const size_t page = 2 << 20; /* locking takes time per page; large pages where they exist */
    bytes = (bytes + page - 1) / page * page;
    uint8_t *p = (uint8_t *)aligned_alloc(page, bytes);
    if (!p) {
        err_blame(e, ERR_MEMORY,
                  "out of memory: cannot allocate %zu MiB; use fewer threads (-j) or more "
                  "memory",
                  bytes >> 20);
        return NULL;
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    if (check_enter(d, e) == 0 && !CU(d, cudaHostRegister(p, bytes, cudaHostRegisterPortable), e))
        return p;
    check_give_up(d, e);
    free(p);
    return NULL;
}

int staging_reserve(struct staging *s, size_t chunk, struct copies *c, struct err *e)
{
    const int64_t n = staging_count(s), one = (int64_t)chunk;
    const int64_t most = s->n_devices > FEW ? MOST_PIXELS_OF_MANY : MOST_PIXELS;
    const int64_t share = std::min(s->memory / n - CHUNKS_MARGIN, most) / STORE_PAGE * STORE_PAGE;
    const size_t bytes = (size_t)std::max(share, one);
    if (staging_fit(s, chunk))
        return 0;
    if (one > MOST_PIXELS && (one > MOST_ALL / n || one > s->memory / n))
        return err_set(e,
                       "its chunks of %lld MiB are too large for the threads within --memory; "
                       "choose fewer (--threads)",
                       (long long)(chunk >> 20));
    uint8_t *pages = lock_pages(copies_device(c), (size_t)n * bytes_apart(bytes), e);
    if (!pages)
        return -1;
    staging_release(s);
    s->pages = pages;
    s->bytes = bytes;
    return 0;
}

/* --- use --- */

struct staging_buffer staging_take(struct staging *s, int thread)
{
    const int turn = s->turns[thread] = (s->turns[thread] + 1) % EACH;
    const int number = thread * EACH + turn;
    wait_for(s, number);
    return {s->pages + (size_t)number * bytes_apart(s->bytes), s->bytes, number};
}

void staging_sent(struct staging *s, int number, struct copies *c)
{
    s->copied[number] = c;
}
