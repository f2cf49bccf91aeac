/*
 * loop.h - the engine's loop: items of several devices, each of which waits for what it needs.
 *
 *               source                work                    sink
 *   schedule ----------> slots ---------------> done ----------------> counts of the job
 *               |          device 0, its queue of loads: LOAD LOAD LOAD ...
 *               |                    its queue of work:  COMPUTE COMPUTE ... FINISH, aside
 *               |          device 1, ...
 *               |          queue of the stores: OPEN OPEN ...
 *               v
 *             END, DRAIN: when nothing is inside, WAIT: after the next event
 *
 *   source  produces the next item, in item order.
 *   work    processes an item. Runs on several threads at once, in any order.
 *   sink    consumes a finished item, in the order of the item's queue.
 *   idle    other duties of the calling thread, in short steps: reports, progress.
 *
 * Source and sink take almost no time. Both are called with the loop's lock held, so by one thread
 * at a time, and on any thread: waking another one would cost more than the call. Source may take
 * long directly after a drain, when no other thread has work.
 *
 * Memory is bounded: at most `depth` items exist between source and sink. The caller allocates one
 * slot of `item_bytes` per item in flight. Slots are reused, so buffers attached to them live for
 * the whole run, and nothing is allocated per item.
 *
 * An item can wait for earlier ones of its queue and of another one: work on it starts only when
 * they have passed the sink. This is how computing waits for loading, and loading for free space in
 * a ring, without a lock in any other module. An item that waits occupies a slot but no thread:
 * threads begin with the item that was produced first among those that may start, and produce
 * another one if there is none.
 */
#ifndef WSI_LOOP_H
#define WSI_LOOP_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The place of an item among the others; source fills it in. All zero: an item of queue 0 that
 * waits for nothing. Items that it waits for were produced before it. */
struct loop_order {
    int queue;     /* 0 .. ops->queues - 1 */
    int64_t after; /* this number of items of the queue must have passed the sink, or be aside */
    int other;     /* the same of another queue */
    int64_t after_other;
    /* No item waits for this one: it passes the sink when it has been worked on, out of order. */
    bool aside;
};

/* Return values of source, besides -1 for an error. */
enum loop_next {
    LOOP_END = 0,  /* there are no more items */
    LOOP_ITEM = 1, /* the slot holds the next item */
    LOOP_DRAIN =
        2, /* call source again when every earlier item, aside or not, has passed the sink */
    /* Call source again after the next event: an item worked on or a step of idle. At least one of
     * these must be outstanding. */
    LOOP_WAIT = 3,
};

struct loop_ops {
    /* Fills *item; `number` is its number, from 0, over all queues. Returns an enum loop_next, or
     * -1 and sets e. */
    int (*source)(void *ctx, void *item, int64_t number, struct loop_order *order, struct err *e);
    /* Returns 0, or -1 and sets e. `thread` is 0 .. threads - 1: which scratch to use. */
    int (*work)(void *ctx, void *item, int thread, struct err *e);
    /* Returns 0, or -1 and sets e. */
    int (*sink)(void *ctx, void *item, struct err *e);
    int queues; /* at least 1 */
    /* Does idle have something to do? Called with the lock held, on any thread, after every event.
     * NULL: there is no idle. */
    bool (*due)(void *ctx);
    /* One step of the calling thread's other duties. Returns 0, or -1 and sets e. */
    int (*idle)(void *ctx, struct err *e);
    /* How many threads may be in work now, asked at every event. NULL: all. Any thread. */
    int (*most)(void *ctx);
};

/*
 * Runs until source returns LOOP_END and all items have passed, or until a callback fails. `items`
 * points to `depth` slots of `item_bytes` bytes each; any free one is used next. depth >= 1,
 * threads >= 1. The calling thread runs idle. If the system refuses some of the threads, the run
 * uses those that started; if it refuses all, the calling thread does the work.
 *
 * Returns 0, or -1 with the first error. On return all callbacks have returned; after an error,
 * items in flight are dropped.
 */
int loop_run(const struct loop_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e);

#endif
