/* stub_streams.c - streams, events and what is queued on them; see stub.h. */
#include "tests/stub.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- streams --- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_copy(const struct op *o, int device)
{
    const char *from = o->copy.kept ? o->copy.kept : o->copy.from;
    char *to = o->copy.to;
    for (size_t k = 0; k < o->copy.rows; k++, from += o->copy.pitch, to += o->copy.pitch) {
        stub_check_memory(to, o->copy.bytes, stub_is_locked(to) ? -1 : device, "copy to");
        if (!o->copy.kept)
            stub_check_memory(from, o->copy.bytes, stub_is_locked(from) ? -1 : device, "copy from");
        memcpy(to, from, o->copy.bytes);
    }
    free(o->copy.kept);
}

static void run_op(const struct op *o, int device)
{
    stub.run[o->what]++;
    switch (o->what) {
    case COPY: run_copy(o, device); return;
    case SET:
        stub_check_memory(o->set.to, o->set.bytes, device, "set");
        memset(o->set.to, o->set.value, o->set.bytes);
        return;
    case RECORD:
        o->event.event->at = now();
        if (o->event.event->done < o->event.version)
            o->event.event->done = o->event.version;
        return;
    case WAIT: return;
    case TRANSFORM:
        stub_run_transform(&o->transform.plan, o->transform.in, o->transform.out, device);
        return;
    default: stub_run_kernel(o, device); return;
    }
}

/* Runs the stream's next operation, unless it must wait. */
static bool step(struct CUstream_st *s)
{
    struct op *o = s->head;
    if (!o || (o->what == WAIT && o->event.event->done < o->event.version))
        return false;
    if (stub.lost[s->device] && o->what == COPY)
        free(o->copy.kept);
    if (!stub.lost[s->device])
        run_op(o, s->device);
    if (!(s->head = o->next))
        s->tail = &s->head;
    free(o);
    return true;
}

static void finish_event(const struct CUevent_st *e, long version);

void stub_finish_stream(struct CUstream_st *s)
{
    while (s->head)
        if (!step(s))
            finish_event(s->head->event.event, s->head->event.version);
}

static void finish_event(const struct CUevent_st *e, long version)
{
    struct CUstream_st *s = e->streams[version % MOST_RECORDS];
    while (e->done < version)
        if (!step(s)) {
            stub_check(s->head != NULL, "waits for an event that never comes");
            finish_event(s->head->event.event, s->head->event.version);
        }
}

/* What a GPU does while the host goes on. */
void stub_time_passes(void)
{
    for (struct CUstream_st *s = stub.streams; s && stub.queued; s = s->next)
        while (stub_random() % PROBABLY < s->eagerness && step(s))
            ;
}

struct op *stub_queue(struct CUstream_st *s, enum what what)
{
    struct op *o = calloc(1, sizeof *o);
    stub_check(o != NULL, "no memory for the stub itself");
    stub_check(!s->destroyed, "a stream that is no more");
    o->what = what;
    *s->tail = o;
    s->tail = &o->next;
    return o;
}

cudaError_t stub_queued(struct CUstream_st *s)
{
    if (!stub.queued)
        stub_finish_stream(s);
    return cudaSuccess;
}

/* --- the runtime: streams and events --- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return stub_leave(stub_enter(stub_device));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    stub_check(priority <= 0 && priority >= -5, "a stream's priority");
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaError_t r = stub_enter(stub_device);
    stub_check(flags == cudaStreamNonBlocking, "a stream that waits for others");
    if (r)
        return stub_leave(r);
    struct CUstream_st *s = *out = calloc(1, sizeof *s);
    stub_check(s != NULL, "no memory for the stub itself");
    s->device = stub_device;
    s->eagerness =
        stub.late ? 0 : (const unsigned[]){0, 1, PROBABLY - 1, PROBABLY}[stub_random() % 4];
    s->tail = &s->head;
    s->next = stub.streams;
    stub.streams = s;
    return stub_leave(r);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    if (!r) {
        stub_finish_stream(s);
        s->destroyed = true;
    }
    return stub_leave(r);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    if (!r)
        stub_finish_stream(s);
    return stub_leave(r);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    cudaError_t r = stub_enter(s->device);
    (void)flags;
    if (r)
        return stub_leave(r);
    struct op *o = stub_queue(s, WAIT);
    o->event.event = e;
    o->event.version = e->recorded;
    return stub_leave(stub_queued(s));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t r = stub_enter(stub_device);
    if (r)
        return stub_leave(r);
    struct CUevent_st *e = *out = calloc(1, sizeof *e);
    stub_check(e != NULL, "no memory for the stub itself");
    e->device = stub_device;
    e->timed = !(flags & cudaEventDisableTiming);
    e->next = stub.events;
    stub.events = e;
    return stub_leave(r);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaError_t r = stub_enter(e->device);
    e->destroyed |= !r;
    return stub_leave(r);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    stub_check(e->device == s->device && !e->destroyed, "an event of another device, or none");
    if (r)
        return stub_leave(r);
    struct op *o = stub_queue(s, RECORD);
    o->event.event = e;
    o->event.version = ++e->recorded;
    e->streams[e->recorded % MOST_RECORDS] = s;
    return stub_leave(stub_queued(s));
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    cudaError_t r = stub_enter(e->device);
    if (!r)
        finish_event(e, e->recorded);
    return stub_leave(r);
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    cudaError_t r = stub_enter(e->device);
    if (!r && e->done < e->recorded)
        r = cudaErrorNotReady;
    return stub_leave(r);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    cudaError_t r = stub_enter(a->device);
    if (!r && !(a->timed && b->timed && a->recorded && b->recorded))
        r = cudaErrorInvalidResourceHandle;
    if (!r && (a->done < a->recorded || b->done < b->recorded))
        r = cudaErrorNotReady;
    *ms = r ? 0 : (float)(b->at - a->at);
    return stub_leave(r);
}
