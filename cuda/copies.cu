/* copies.cu - see copies.h. */
#include "cuda/copies.h"

#include "common/pipe.h"

#include <stdlib.h>

enum { TIMED = 8 }; /* of so many copies one */

struct copy {
    cudaEvent_t begins, ends;
    size_t bytes;
    bool sent, timed;
    struct copies_times *times; /* where to its time is to be added, or NULL */
    int64_t number;
};

struct copies {
    struct check_device *device;
    cudaStream_t stream;
    struct pipe_lock *lock; /* between the events around a copy there is no other */
    int n;
    unsigned sent;
    struct copy *copy; /* [n] */
};

static int create_all(struct copies *c, struct err *e)
{
    if (CU(c->device, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), e))
        return -1;
    /* waiting without cudaEventBlockingSync takes a processor, but the interrupts cost a third of the bus */
    for (int k = 0; k < c->n; k++)
        if (CU(c->device, cudaEventCreateWithFlags(&c->copy[k].begins, cudaEventDefault), e) ||
            CU(c->device, cudaEventCreateWithFlags(&c->copy[k].ends, cudaEventDefault), e))
            return -1;
    return 0;
}

struct copies *copies_create(struct check_device *d, int n, struct err *e)
{
    struct copies *c = (struct copies *)calloc(1, sizeof *c);
    if (c) {
        c->device = d;
        c->n = n;
        c->copy = (struct copy *)calloc((size_t)n, sizeof *c->copy);
    }
    if (!c || !c->copy)
        err_set(e, "out of memory");
    else if ((c->lock = pipe_lock_create(e)) && !create_all(c, e))
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
    pipe_lock_free(c->lock);
    free(c->copy);
    free(c);
}

cudaStream_t copies_stream(const struct copies *c)
{
    return c->stream;
}

/* With the lock. */
static int queue(struct copies *c, struct copy *k, const void *from, void *to, struct copies_guard *guard, bool timed,
                 struct err *e)
{
    if (guard->used && !guard->waited && CU(c->device, cudaStreamWaitEvent(c->stream, guard->free, 0), e))
        return -1;
    guard->waited = true;
    return (timed && CU(c->device, cudaEventRecord(k->begins, c->stream), e)) ||
                   CU(c->device, cudaMemcpyAsync(to, from, k->bytes, cudaMemcpyHostToDevice, c->stream), e) ||
                   CU(c->device, cudaEventRecord(k->ends, c->stream), e)
               ? -1
               : 0;
}

int copies_send(struct copies *c, int staging, const void *from, void *to, size_t bytes, struct copies_guard *guard,
                struct copies_times *times, int64_t number, struct err *e)
{
    struct copy *k = &c->copy[staging];
    pipe_lock_take(c->lock);
    if (times->number != number)
        *times = {number, 0, 0, 0};
    const bool timed = times->bytes == 0 || c->sent % TIMED == 0;
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
    pipe_lock_give(c->lock);
    return r;
}

/* With the lock; the copy is over. */
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
    int r = CU(c->device, cudaEventSynchronize(k->ends), e);
    k->sent = false;
    if (r || !k->timed)
        return r;
    pipe_lock_take(c->lock);
    if (k->times) /* else copies_report() was first */
        r = add_time(c, k, e);
    pipe_lock_give(c->lock);
    return r;
}

int copies_free_later(struct copies *c, struct copies_guard *guard, cudaStream_t stream, struct err *e)
{
    pipe_lock_take(c->lock);
    const int r = CU(c->device, cudaEventRecord(guard->free, stream), e);
    guard->waited = false;
    __atomic_store_n(&guard->used, true, __ATOMIC_RELEASE);
    pipe_lock_give(c->lock);
    return r;
}

bool copies_is_free(const struct copies_guard *guard)
{
    return !__atomic_load_n(&guard->used, __ATOMIC_ACQUIRE) || cudaEventQuery(guard->free) != cudaErrorNotReady;
}

int copies_report(struct copies *c, struct copies_times *times, int64_t number, double *seconds, struct err *e)
{
    int r = 0;
    pipe_lock_take(c->lock);
    for (int k = 0; k < c->n && r == 0; k++)
        if (c->copy[k].times == times && c->copy[k].number == number)
            r = add_time(c, &c->copy[k], e);
    *seconds = times->number == number && times->timed_bytes > 0
                   ? (double)times->ns * 1e-9 * (double)times->bytes / (double)times->timed_bytes
                   : 0;
    pipe_lock_give(c->lock);
    return r;
}
