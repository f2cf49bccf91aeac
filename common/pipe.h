/*
 * pipe.h - the project's one parallel loop: ordered, bounded, source -> work -> sink.
 *
 *   source   makes the next item. One call at a time, in item order, on any thread.
 *   work     does the heavy part. Any thread, many at a time, any order.
 *   sink     takes the finished item. One call at a time, in item order, on the calling thread (light: on any).
 *   idle     what else the calling thread has to do, a short step at a time.
 *
 * So results never depend on the number of threads, a file is written in order by one thread, and
 * memory is bounded: at most `depth` items are between source and sink. An item lives in a slot of
 * `item_bytes` bytes that the caller allocated; slots are reused, so buffers hang on them for the
 * whole run and nothing is allocated per item.
 *
 * An item may wait for earlier ones: source sets *after = k, and work on it starts only when all
 * items before number k (counted from 0 in the order of source) have passed the sink. That is how
 * computing waits for reading, and reading for room in a ring, without a lock in any other module.
 */
#ifndef WSI_PIPE_H
#define WSI_PIPE_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pipe_next {
    PIPE_END = 0,   /* no more items */
    PIPE_ITEM = 1,  /* the slot holds the next item */
    PIPE_DRAIN = 2, /* call source again once every earlier item has passed the sink */
    PIPE_WAIT = 3,  /* call source again once an item has been worked on or sunk, or idle has done something; one of
                     * these must be to come */
};

struct pipe_ops {
    /* Fills *item; `number` is its number. Returns an enum pipe_next, or -1 with the error set. */
    int (*source)(void *ctx, void *item, int64_t number, int64_t *after, struct err *e);
    /* `thread` is 0 .. threads-1, for work areas of a thread. */
    int (*work)(void *ctx, void *item, int thread, struct err *e);
    int (*sink)(void *ctx, void *item, struct err *e);
    /* Source, but for when all is drained, and sink do next to nothing. Then both are called with the pipe's own lock
     * held, sink on any thread, too: to wake another one costs more than such calls. */
    bool light;
    /* Is there something to do for idle? Called with the pipe's own lock held, on any thread, after every change.
     * NULL: there is no idle. */
    bool (*due)(void *ctx);
    int (*idle)(void *ctx, struct err *e);
};

/*
 * Runs until source ends or something fails. `items` points to `depth` slots of `item_bytes` each.
 * Returns 0, or -1 with the first error; then items under way have been finished or dropped, and no
 * callback is running any more. depth >= 1, threads >= 1.
 */
int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e);

/*
 * The same, but the calling thread is one of the `threads`, the last: it works, too, while the sink has
 * nothing to do. So no more threads are busy than were asked for, and with one nobody is woken at all.
 * For short items: what is done waits until the calling thread is through with its own.
 */
int pipe_run_shared(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
                    int threads, struct err *e);

/* For what few threads do at a time and soon. */
struct pipe_lock;
struct pipe_lock *pipe_lock_create(struct err *e);
void pipe_lock_free(struct pipe_lock *l);
void pipe_lock_take(struct pipe_lock *l);
void pipe_lock_give(struct pipe_lock *l);

/* Number of processors that this process may run on (its affinity mask; at least 1). */
int pipe_cpus(void);

#ifdef __cplusplus
}
#endif

#endif
