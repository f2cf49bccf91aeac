/* copies.cu - see copies.h. */
#include "cuda/copies.h"

#include <mutex>
#include <new>
#include <stdlib.h>

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

static int create_all(struct copies *c, struct err *e)
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
    if (c) {
        c->device = d;
        c->n = n;
        c->copy = (struct copy *)calloc((size_t)n, sizeof *c->copy);
    }
    if (!c || !c->copy)
        err_set(e, "out of memory");
    else if (!create_all(c, e))
        return c;
    copies_free(c);
    return NULL;
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
