/*
 * pipe.h - an ordered, bounded parallel loop: source -> work -> sink.
 *
 *   source  produces the next item. Called by one thread at a time, in item order, on any thread.
 *   work    processes an item. Runs on several threads at once, in any order.
 *   sink    consumes a finished item. Called by one thread at a time, in the order of the item's
 *           queue, on the calling thread (with `light`: on any thread).
 *   idle    other duties of the calling thread, in short steps.
 *
 * Results therefore do not depend on the number of threads, a file is written in order by one
 * thread, and memory is bounded: at most `depth` items exist between source and sink. The caller
 * allocates one slot of `item_bytes` per item in flight. Slots are reused, so buffers attached to
 * them live for the whole run, and nothing is allocated per item.
 *
 * Items belong to queues; most pipes have one. An item can wait for earlier ones of its queue: work
 * on it starts only when they have passed the sink. This is how computing waits for loading, and
 * loading for free space in a ring, without a lock in any other module. An item that waits occupies
 * a slot but no thread: threads begin with the item that was produced first among those that may
 * start, and produce another one if there is none.
 */
#ifndef WSI_PIPE_H
#define WSI_PIPE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The place of an item among the others; source fills it in. All zero: an item of queue 0 that
 * waits for nothing. */
struct pipe_order {
    int queue;     /* 0 .. ops->queues - 1 */
    int64_t after; /* so many items of the queue must have passed the sink, or be aside */
    /* No item waits for this one: it passes the sink when it has been worked on, out of order. For
     * light pipes only. */
    bool aside;
};

/* What source returns, besides -1 for an error. */
enum pipe_next {
    PIPE_END = 0,  /* there are no more items */
    PIPE_ITEM = 1, /* the slot holds the next item */
    PIPE_DRAIN =
        2, /* call source again when every earlier item, aside or not, has passed the sink */
    PIPE_WAIT = 3, /* call source again after the next event: an item worked on, an item sunk or a
                     * step of idle. At least one of these must be outstanding. */
};

struct pipe_ops {
    /* Fills *item; `number` is its number, from 0, over all queues. Returns an enum pipe_next, or
     * -1 and sets e. */
    int (*source)(void *ctx, void *item, int64_t number, struct pipe_order *order, struct err *e);
    /* Returns 0, or -1 and sets e. `thread` is 0 .. threads - 1: which scratch to use. */
    int (*work)(void *ctx, void *item, int thread, struct err *e);
    /* Returns 0, or -1 and sets e. */
    int (*sink)(void *ctx, void *item, struct err *e);
    /* Source and sink take almost no time, so both are called with the pipe's lock held, and sink
     * on any thread: waking the calling thread would cost more than the call. Source may still take
     * long directly after a drain, when no other thread has work. */
    bool light;
    int queues; /* 0: one; more only if the pipe is light */
    /* Does idle have something to do? Called with the pipe's lock held, on any thread, after every
     * event. NULL: there is no idle. */
    bool (*due)(void *ctx);
    /* One step of the calling thread's other duties. Returns 0, or -1 and sets e. */
    int (*idle)(void *ctx, struct err *e);
};

/*
 * Runs until source returns PIPE_END or a callback fails. `items` points to `depth` slots of
 * `item_bytes` bytes each; any free one is used next. depth >= 1, threads >= 1. If the system
 * refuses some of the threads, the run uses those that started; if it refuses all, the calling
 * thread does the work.
 *
 * Returns 0, or -1 with the first error. On return all callbacks have returned; after an error,
 * items in flight are dropped.
 */
int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e);

/*
 * As pipe_run, but the calling thread is one of the `threads`, the last: it works while sink has
 * nothing to do. Thus no more than `threads` threads are busy, and one thread needs no other. Meant
 * for short items: a finished item waits for sink until the calling thread has finished its own.
 */
int pipe_run_shared(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes,
                    int depth, int threads, struct err *e);

/* Number of processors that this process may use (its affinity mask); at least 1. */
int pipe_cpus(void);

#ifdef __cplusplus
}
#endif

#endif
