/*
 * pipe.c - the ordered, bounded, parallel loop; the only thread code of the project.
 *
 * One mutex guards a ring of slots. A worker takes the next number, makes the item (source), waits
 * until the item may start, works on it and marks it done; the calling thread sinks done items in
 * order. All of them run one loop, which does the first thing that can be done and else waits. Items
 * cost microseconds to milliseconds each, so one lock is no bottleneck and one condition variable for
 * everybody keeps the reasoning short.
 */
#include "common/pipe.h"

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
    pthread_cond_t change;
    bool *done;      /* [depth]: the item in this slot has been worked on */
    int64_t taken;   /* items that source has made */
    int64_t sunk;    /* items that have passed the sink */
    int64_t drain;   /* source is to wait until so many have passed the sink */
    bool sourcing;   /* a thread is in source */
    bool ended;      /* source has no more */
    bool failed;     /* someone failed: everybody goes home */
    struct err *err; /* of the first who failed */
};

struct worker {
    struct pipe *p;
    pthread_t id;
    int number;
};

static void *slot(struct pipe *p, int64_t number)
{
    return p->items + (size_t)(number % p->depth) * p->item_bytes;
}

/* With the lock held: notes the first failure and wakes everybody. */
static void fail(struct pipe *p, const struct err *e)
{
    if (!p->failed && p->err)
        *p->err = *e;
    p->failed = true;
    pthread_cond_broadcast(&p->change);
}

/* All below: with the lock held, and not while a callback runs. */

static bool may_take(const struct pipe *p)
{
    return !p->ended && !p->sourcing && p->taken - p->sunk < p->depth && p->sunk >= p->drain;
}

/* Makes the next item. Returns its number, or -1 when there is none now. */
static int64_t take(struct pipe *p, int64_t *after)
{
    struct err e = {""};
    const int64_t number = p->taken;
    p->sourcing = true;
    pthread_mutex_unlock(&p->lock);
    *after = 0;
    const int r = p->ops->source(p->ctx, slot(p, number), number, after, &e);
    pthread_mutex_lock(&p->lock);
    p->sourcing = false;
    p->ended = r == PIPE_END;
    if (r == PIPE_DRAIN)
        p->drain = number;
    if (r < 0)
        fail(p, &e);
    pthread_cond_broadcast(&p->change);
    if (r != PIPE_ITEM)
        return -1;
    assert(*after <= number);
    p->done[number % p->depth] = false;
    p->taken++;
    return number;
}

static void work_on(struct pipe *p, int64_t number, int thread)
{
    struct err e = {""};
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->work(p->ctx, slot(p, number), thread, &e);
    pthread_mutex_lock(&p->lock);
    if (r < 0)
        fail(p, &e);
    p->done[number % p->depth] = r >= 0;
    if (number == p->sunk)
        pthread_cond_broadcast(&p->change);
}

static bool may_sink(const struct pipe *p)
{
    return p->sunk < p->taken && p->done[p->sunk % p->depth];
}

static void sink_one(struct pipe *p)
{
    struct err e = {""};
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->sink(p->ctx, slot(p, p->sunk), &e);
    pthread_mutex_lock(&p->lock);
    if (r < 0)
        fail(p, &e);
    else
        p->sunk++;
    pthread_cond_broadcast(&p->change);
}

/* A thread's part of the loop, until the last item or a failure. `thread` -1: only sinks. */
static void take_part(struct pipe *p, int thread, bool sinks)
{
    int64_t number = -1, after = 0; /* the item that is ours to work on */
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && number < 0 && (!sinks || p->sunk == p->taken))) {
        if (sinks && may_sink(p))
            sink_one(p);
        else if (number >= 0 && p->sunk >= after) {
            work_on(p, number, thread);
            number = -1;
        } else if (number < 0 && thread >= 0 && may_take(p))
            number = take(p, &after);
        else
            pthread_cond_wait(&p->change, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    take_part(w->p, w->number, false);
    return NULL;
}

/* `workers` threads are started; the calling one sinks, and works as number `own` where that is not -1. */
static int run(struct pipe *p, int workers, int own)
{
    struct worker *w = calloc((size_t)workers + 1, sizeof *w);
    p->done = calloc((size_t)p->depth, sizeof *p->done);
    int started = 0;
    if (!w || !p->done) {
        free(w);
        free(p->done);
        return err_set(p->err, "out of memory");
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    for (; started < workers; started++) {
        w[started] = (struct worker){.p = p, .number = started};
        if (pthread_create(&w[started].id, NULL, worker_main, &w[started]))
            break;
    }
    if (started == 0 && own < 0) {
        p->failed = true;
        err_set(p->err, "cannot start a thread");
    }
    take_part(p, own, true);
    for (int i = 0; i < started; i++)
        pthread_join(w[i].id, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->lock);
    free(w);
    free(p->done);
    return p->failed ? -1 : 0;
}

int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {.ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes,
                     .depth = depth, .err = e};
    return run(&p, threads, -1);
}

int pipe_run_shared(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
                    int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {.ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes,
                     .depth = depth, .err = e};
    return run(&p, threads - 1, threads - 1);
}

int pipe_cpus(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return n > 0 ? (int)n : 1;
}
