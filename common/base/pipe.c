/*
 * pipe.c - see pipe.h.
 *
 * Items lie in a ring of slots. A thread takes the next item from source and works on it at once;
 * the calling thread lets finished items at the head of the ring pass first. One mutex guards the
 * ring; it is released around callbacks.
 */
#include "common/base/pipe.h"

#include "common/base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct pipe {
    const struct pipe_ops *ops;
    void *ctx;
    unsigned char *items;
    size_t item_bytes;
    int depth;

    pthread_mutex_t lock;
    pthread_cond_t room;   /* a worker may take an item */
    pthread_cond_t caller; /* the calling thread may sink or take an item */
    int workers_wait;      /* for room */
    int64_t taken, sunk;   /* items that source has produced, that have passed the sink */
    bool *done;            /* [depth]: worked on */
    bool sourcing;         /* a thread is in source */
    bool ended;            /* source has returned PIPE_END */
    bool failed;           /* a callback has failed: all threads return */
    struct err *err;       /* of the first failure */
};

struct worker {
    struct pipe *p;
    pthread_t id;
    int number;
};

static void *slot(const struct pipe *p, int64_t number)
{
    return p->items + (size_t)(number % p->depth) * p->item_bytes;
}

/* All functions below are called with the lock held, but for the threads' own. */

static bool may_take(const struct pipe *p)
{
    return !p->ended && !p->sourcing && p->taken - p->sunk < p->depth;
}

static bool may_sink(const struct pipe *p)
{
    return p->sunk < p->taken && p->done[p->sunk % p->depth];
}

/* After a callback, which has returned r: wakes the threads that can proceed. Keeps the first
 * failure. */
static void event(struct pipe *p, int r, const struct err *e)
{
    if (r < 0 && !p->failed && p->err)
        *p->err = *e;
    p->failed |= r < 0;
    if (p->failed || p->ended)
        pthread_cond_broadcast(&p->room);
    else if (may_take(p) && p->workers_wait > 0)
        pthread_cond_signal(&p->room);
    if (p->failed || p->ended || may_sink(p) || may_take(p))
        pthread_cond_signal(&p->caller);
}

/* Takes the next item from source and works on it. */
static void take(struct pipe *p, int thread)
{
    struct err e = {0};
    const int64_t number = p->taken;
    p->sourcing = true;
    pthread_mutex_unlock(&p->lock);
    int r = p->ops->source(p->ctx, slot(p, number), number, &e);
    pthread_mutex_lock(&p->lock);
    p->sourcing = false;
    p->ended = r == PIPE_END;
    if (r == PIPE_ITEM) {
        p->done[number % p->depth] = false;
        p->taken++;
    }
    event(p, r, &e);
    if (r != PIPE_ITEM || p->failed)
        return;
    pthread_mutex_unlock(&p->lock);
    r = p->ops->work(p->ctx, slot(p, number), thread, &e);
    pthread_mutex_lock(&p->lock);
    p->done[number % p->depth] = r == 0;
    event(p, r, &e);
}

static void sink(struct pipe *p)
{
    struct err e = {0};
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->sink(p->ctx, slot(p, p->sunk), &e);
    pthread_mutex_lock(&p->lock);
    p->sunk++;
    event(p, r, &e);
}

static void *worker_main(void *arg)
{
    const struct worker *w = arg;
    struct pipe *p = w->p;
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !p->ended) {
        if (may_take(p)) {
            take(p, w->number);
            continue;
        }
        p->workers_wait++;
        pthread_cond_wait(&p->room, &p->lock);
        p->workers_wait--;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void caller_main(struct pipe *p, int thread)
{
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && p->sunk == p->taken)) {
        if (may_sink(p))
            sink(p);
        else if (may_take(p))
            take(p, thread);
        else
            pthread_cond_wait(&p->caller, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {
        .ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes, .depth = depth, .err = e};
    struct worker *w = memory_need((size_t)threads, sizeof *w);
    int started = 0;
    p.done = memory_need((size_t)depth, sizeof *p.done);
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.room, NULL);
    pthread_cond_init(&p.caller, NULL);
    for (; started < threads - 1; started++) {
        w[started] = (struct worker){.p = &p, .number = started};
        if (pthread_create(&w[started].id, NULL, worker_main, &w[started]))
            break; /* the run uses the threads that started */
    }
    caller_main(&p, threads - 1);
    for (int k = 0; k < started; k++)
        pthread_join(w[k].id, NULL);
    pthread_cond_destroy(&p.caller);
    pthread_cond_destroy(&p.room);
    pthread_mutex_destroy(&p.lock);
    free(p.done);
    free(w);
    return p.failed ? -1 : 0;
}

int pipe_cpus(void)
{
    cpu_set_t set;
    const bool unknown = sched_getaffinity(0, sizeof set, &set) != 0;
    const long n = unknown ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return n > 0 ? (int)n : 1;
}
