/*
 * pipe.h - an ordered, bounded parallel loop: source -> work -> sink.
 *
 *     source            work, on all threads             sink
 *   item 0, 1, 2 ...    item 1   item 3   item 2    item 0, 1, 2 ...
 *   one at a time       in any order                one at a time, on the calling thread
 *
 *   source  produces the next item. Called by one thread at a time, in item order, on any thread.
 *   work    processes an item. Runs on several threads at once, in any order.
 *   sink    consumes a finished item. Called on the calling thread, in item order.
 *
 * Results therefore do not depend on the number of threads, a file is written in order by one
 * thread, and memory is bounded: at most `depth` items exist between source and sink. The caller
 * allocates one slot of `item_bytes` per item in flight. Slots are reused, the last one that became
 * free first, so buffers attached to them live for the whole run, and no more of them are used than
 * items are in flight.
 */
#ifndef WSI_PIPE_H
#define WSI_PIPE_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return values of source, besides -1 for an error. */
enum pipe_next { PIPE_END = 0, PIPE_ITEM = 1 };

struct pipe_ops {
    /* Fills *item; `number` is its number, from 0. Returns an enum pipe_next, or -1 and sets e. */
    int (*source)(void *ctx, void *item, int64_t number, struct err *e);
    /* Returns 0, or -1 and sets e. `thread` is 0 .. threads - 1: which scratch to use. */
    int (*work)(void *ctx, void *item, int thread, struct err *e);
    /* Returns 0, or -1 and sets e. */
    int (*sink)(void *ctx, void *item, struct err *e);
    /* How many threads may be busy now, asked at every item; with fewer threads, fewer items are in
     * flight, too. NULL: all. Any thread. */
    int (*most)(void *ctx);
};

/*
 * Runs until source returns PIPE_END or a callback fails. `items` points to `depth` slots of
 * `item_bytes` bytes each. depth >= 1, threads >= 1. The calling thread is the last of the threads:
 * it works while sink has nothing to do. So no more than `threads` threads are busy, and a system
 * that refuses all other threads does not stop the run. Threads start when they are needed.
 *
 * Returns 0, or -1 with the first error. On return all callbacks have returned; after an error,
 * items in flight are dropped.
 */
int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e);

/* Number of processors that this process may use: its affinity mask, and the quota of its control
 * group. At least 1. */
int pipe_cpus(void);

#ifdef __cplusplus
}
#endif

#endif
