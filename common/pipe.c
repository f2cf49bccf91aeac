/*
 * pipe.c - the ordered, bounded parallel loop; see pipe.h. All thread code of the project is here.
 *
 * One mutex guards a ring of slots. A worker takes the next number, produces the item (source),
 * waits until the item may start, works on it and marks it as done. The calling thread sinks done
 * items in order (light ones: whoever finishes them) and runs idle. All threads run the same loop,
 * which does the first thing that is possible, else waits.
 *
 * Items take a good part of a millisecond each, so one lock is no bottleneck. Waking 64 threads for
 * an item that one of them takes would be one. Therefore each thing to wait for has its own
 * condition, and wake(), called after every event, wakes only threads that can proceed.
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
    pthread_cond_t room;     /* may_take() */
    pthread_cond_t started;  /* an item that a thread holds may start */
    pthread_cond_t sinker;   /* the calling thread has something to do */
    int for_room, for_start; /* threads that wait for them */
    bool sinker_waits;
    bool shared;         /* the calling thread works, too */
    int64_t least_after; /* the smallest `after` of the items that wait to start */

    bool *done;      /* [depth]: the item in this slot has been worked on */
    int64_t taken;   /* items that source has produced */
    int64_t ready;   /* all items before this one have been worked on */
    int64_t sunk;    /* items that have passed the sink */
    int64_t idled;   /* steps of idle */
    int64_t worked;  /* items worked on */
    int64_t drain;   /* source waits until this many items have passed the sink */
    bool held;       /* source waits until sunk, idled or worked grows */
    bool sourcing;   /* a thread is in source */
    bool ended;      /* source has returned PIPE_END */
    bool failed;     /* a callback has failed: all threads return */
    struct err *err; /* of the first failure */
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

/* All functions below are called with the lock held. They release it around callbacks, except
 * around due and a light source or sink. */

static bool may_take(const struct pipe *p)
{
    return !p->ended && !p->sourcing && !p->held && p->taken - p->sunk < p->depth &&
           p->sunk >= p->drain;
}

static bool may_sink(const struct pipe *p)
{
    return p->sunk < p->ready;
}

static bool may_idle(const struct pipe *p)
{
    return p->ops->due && p->ops->due(p->ctx);
}

static void wake_all(struct pipe *p)
{
    pthread_cond_broadcast(&p->room);
    pthread_cond_broadcast(&p->started);
    pthread_cond_signal(&p->sinker);
}

/* After an event: wakes the threads that can proceed. One thread that waits for room is woken and
 * wakes the next one; with a light source two are, as they do not wait for each other. */
static void wake(struct pipe *p)
{
    if (p->failed || p->ended) {
        wake_all(p);
        return;
    }
    if (p->sinker_waits && (p->shared || may_sink(p) || may_idle(p)))
        pthread_cond_signal(&p->sinker);
    if (p->for_room > 0 && may_take(p)) {
        pthread_cond_signal(&p->room);
        if (p->ops->light && p->for_room > 1)
            pthread_cond_signal(&p->room);
    }
    if (p->for_start > 0 && p->sunk >= p->least_after) {
        p->least_after = INT64_MAX; /* threads that keep waiting set it again */
        pthread_cond_broadcast(&p->started);
    }
}

/* Keeps the first failure. */
static void fail(struct pipe *p, const struct err *e)
{
    if (!p->failed && p->err)
        *p->err = *e;
    p->failed = true;
}

static void wait_for(struct pipe *p, pthread_cond_t *condition, int *waiting)
{
    ++*waiting;
    pthread_cond_wait(condition, &p->lock);
    --*waiting;
}

/* Waits until a thread may have something to do. number >= 0: it holds that item, which waits for
 * `after`. `sinks`: it is the calling thread. */
static void wait_on(struct pipe *p, int64_t number, int64_t after, bool sinks)
{
    if (sinks) {
        p->sinker_waits = true;
        pthread_cond_wait(&p->sinker, &p->lock);
        p->sinker_waits = false;
    } else if (number >= 0) {
        p->least_after = after < p->least_after ? after : p->least_after;
        wait_for(p, &p->started, &p->for_start);
    } else
        wait_for(p, &p->room, &p->for_room);
}

/* Has source produce the next item. Returns its number, or -1 if there is none now. */
static int64_t take(struct pipe *p, int64_t *after)
{
    struct err e = {""};
    struct pipe_order order = {0};
    const int64_t number = p->taken, progress = p->sunk + p->idled + p->worked;
    p->sourcing = true;
    if (!p->ops->light)
        pthread_mutex_unlock(&p->lock);
    const int r = p->ops->source(p->ctx, slot(p, number), number, &order, &e);
    *after = order.after;
    if (!p->ops->light)
        pthread_mutex_lock(&p->lock);
    p->sourcing = false;
    p->ended = r == PIPE_END;
    p->held = r == PIPE_WAIT && progress == p->sunk + p->idled + p->worked;
    if (r == PIPE_DRAIN)
        p->drain = number;
    if (r < 0)
        fail(p, &e);
    if (r == PIPE_ITEM) {
        assert(*after <= number);
        p->done[number % p->depth] = false;
        p->taken++;
    }
    wake(p);
    return r == PIPE_ITEM ? number : -1;
}

/* Moves `ready` past the items that are done. A light sink consumes them at once. */
static void advance(struct pipe *p)
{
    struct err e = {""};
    for (; !p->failed && p->ready < p->taken && p->done[p->ready % p->depth]; p->ready++) {
        if (!p->ops->light)
            continue;
        if (p->ops->sink(p->ctx, slot(p, p->ready), &e) < 0) {
            fail(p, &e);
            return;
        }
        p->sunk++;
    }
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
    p->worked++;
    p->held = false;
    advance(p);
    wake(p);
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
    p->held = false;
    wake(p);
}

static void idle_once(struct pipe *p)
{
    struct err e = {""};
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->idle(p->ctx, &e);
    pthread_mutex_lock(&p->lock);
    if (r < 0)
        fail(p, &e);
    p->idled++;
    p->held = false;
    wake(p);
}

/* The loop of every thread, until the last item or a failure. `thread` -1: it does not work. */
static void take_turns(struct pipe *p, int thread, bool sinks)
{
    int64_t number = -1, after = 0; /* the item that this thread holds; -1: none */
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && number < 0 && (!sinks || p->sunk == p->taken))) {
        if (sinks && may_sink(p))
            sink_one(p);
        else if (number >= 0 && p->sunk >= after) {
            work_on(p, number, thread);
            number = -1;
        } else if (number < 0 && thread >= 0 && may_take(p))
            number = take(p, &after);
        else if (sinks && may_idle(p))
            idle_once(p);
        else
            wait_on(p, number, after, sinks);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    take_turns(w->p, w->number, false);
    return NULL;
}

static int open_pipe(struct pipe *p)
{
    pthread_mutexattr_t spins; /* waiters spin before they sleep: the lock is held only shortly */
    if (!(p->done = calloc((size_t)p->depth, sizeof *p->done)))
        return err_set(p->err, "out of memory");
    pthread_mutexattr_init(&spins);
    pthread_mutexattr_settype(&spins, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&p->lock, &spins);
    pthread_mutexattr_destroy(&spins);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->started, NULL);
    pthread_cond_init(&p->sinker, NULL);
    p->least_after = INT64_MAX;
    return 0;
}

static void close_pipe(struct pipe *p)
{
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->started);
    pthread_cond_destroy(&p->sinker);
    pthread_mutex_destroy(&p->lock);
    free(p->done);
}

/* Starts up to n workers and returns how many run. */
static int start_workers(struct pipe *p, struct worker *w, int n)
{
    for (int k = 0; k < n; k++) {
        w[k] = (struct worker){.p = p, .number = k};
        if (pthread_create(&w[k].id, NULL, worker_main, &w[k]))
            return k;
    }
    return n;
}

/* Starts `workers` threads. The calling thread sinks; it also works, as `own`, unless that is -1
 * and some worker has started. */
static int run(struct pipe *p, int workers, int own)
{
    struct worker *w = calloc((size_t)workers + 1, sizeof *w);
    if (!w || open_pipe(p)) {
        free(w);
        return err_set(p->err, "out of memory");
    }
    p->shared = own >= 0;
    const int started = start_workers(p, w, workers);
    if (started == 0 && own < 0) {
        p->shared = true;
        own = 0;
    }
    take_turns(p, own, true);
    for (int k = 0; k < started; k++)
        pthread_join(w[k].id, NULL);
    close_pipe(p);
    free(w);
    return p->failed ? -1 : 0;
}

int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {
        .ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes, .depth = depth, .err = e};
    return run(&p, threads, -1);
}

int pipe_run_shared(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes,
                    int depth, int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {
        .ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes, .depth = depth, .err = e};
    return run(&p, threads - 1, threads - 1);
}

int pipe_cpus(void)
{
    cpu_set_t set;
    const bool unknown = sched_getaffinity(0, sizeof set, &set) != 0;
    const long n = unknown ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return n > 0 ? (int)n : 1;
}
