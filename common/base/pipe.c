/*
 * pipe.c - the ordered, bounded parallel loop; see pipe.h. All thread code of the project is here.
 *
 * One mutex guards the slots. A worker produces items (source), works on those that may start and
 * marks them as done. The calling thread sinks done items in order (light ones: whoever finishes
 * them) and runs idle. All threads run the same loop, which does the first thing that is possible,
 * else waits.
 *
 * Items take a good part of a millisecond each, so one lock is no bottleneck. Waking 64 threads for
 * an item that one of them takes would be one. Therefore wake(), called after every event, wakes
 * only as many threads as can proceed.
 */
#include "common/base/pipe.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { NONE = -1 };

/* What is in a slot. */
struct place {
    enum { PLACE_FREE, PLACE_WAITS, PLACE_WORKS, PLACE_DONE } state;
    struct pipe_order order;
    int next_of_queue; /* while it has not passed */
    int next;          /* in the list of free or waiting ones */
};

/* Its items that have not passed, in order. */
struct queue {
    int first, last; /* places, or NONE */
    int64_t passed;
};

struct pipe {
    const struct pipe_ops *ops;
    void *ctx;
    unsigned char *items;
    size_t item_bytes;
    int depth;

    pthread_mutex_t lock;
    pthread_cond_t room;   /* may_take() or may_start() */
    pthread_cond_t sinker; /* the calling thread has something to do */
    int for_room;          /* threads that wait for it */
    bool sinker_waits;
    bool shared; /* the calling thread works, too */

    struct place *places; /* [depth] */
    struct queue *queues; /* [ops->queues] */
    int free;             /* list of free places */
    int waits, last_wait; /* list of items that have not started, in the order of source */
    int before_start;     /* of these, the one before `start`; NONE: it is the first */
    int start;            /* the first of these that may start; NONE: none may */
    int to_sink;          /* the place that the calling thread sinks next, or NONE */
    int inside;           /* items that are in a place */
    int64_t taken;        /* items that source has produced */
    int64_t events;       /* items worked on, items sunk and steps of idle */
    bool drains;          /* source waits until nothing is inside */
    bool held;            /* source waits for an event */
    bool sourcing;        /* a thread is in source */
    bool ended;           /* source has returned PIPE_END */
    bool failed;          /* a callback has failed: all threads return */
    struct err *err;      /* of the first failure */
};

struct worker {
    struct pipe *p;
    pthread_t id;
    int number;
};

static void *slot(struct pipe *p, int place)
{
    return p->items + (size_t)place * p->item_bytes;
}

/* All functions below are called with the lock held. They release it around callbacks, except
 * around due and a light source or sink. */

/* --- what is possible --- */

static bool may_take(const struct pipe *p)
{
    return !p->ended && !p->sourcing && !p->held && p->free != NONE && !(p->drains && p->inside);
}

static bool may_start(const struct pipe *p)
{
    return p->start != NONE;
}

static bool may_sink(const struct pipe *p)
{
    return p->to_sink != NONE;
}

static bool may_idle(const struct pipe *p)
{
    return p->ops->due && p->ops->due(p->ctx);
}

/* Sets `start`. */
static void find_start(struct pipe *p)
{
    p->before_start = NONE;
    for (p->start = p->waits; p->start != NONE; p->start = p->places[p->start].next) {
        const struct pipe_order *o = &p->places[p->start].order;
        if (p->queues[o->queue].passed >= o->after)
            return;
        p->before_start = p->start;
    }
}

static void wake_all(struct pipe *p)
{
    pthread_cond_broadcast(&p->room);
    pthread_cond_signal(&p->sinker);
}

/* After an event: wakes the calling thread and, if `others`, one of those that wait for room, if it
 * can proceed. A thread that goes on to start an item wakes the next one then, and need not do so
 * before. */
static void wake(struct pipe *p, bool others)
{
    find_start(p);
    if (p->failed || p->ended) {
        wake_all(p);
        return;
    }
    if (p->sinker_waits && (p->shared || may_sink(p) || may_idle(p)))
        pthread_cond_signal(&p->sinker);
    if (others && p->for_room > 0 && (may_start(p) || may_take(p)))
        pthread_cond_signal(&p->room);
}

/* Keeps the first failure. */
static void fail(struct pipe *p, const struct err *e)
{
    if (!p->failed && p->err)
        *p->err = *e;
    p->failed = true;
}

/* Waits until a thread may have something to do. `sinks`: it is the calling thread. */
static void wait_on(struct pipe *p, bool sinks)
{
    if (sinks) {
        p->sinker_waits = true;
        pthread_cond_wait(&p->sinker, &p->lock);
        p->sinker_waits = false;
        return;
    }
    p->for_room++;
    pthread_cond_wait(&p->room, &p->lock);
    p->for_room--;
}

/* --- an item's way --- */

/* The item that source has filled in waits at the end of its queue. */
static void enter(struct pipe *p, int place, const struct pipe_order *order)
{
    struct place *l = &p->places[place];
    struct queue *queue = &p->queues[order->queue];
    assert(order->queue >= 0 && order->queue < (p->ops->queues ? p->ops->queues : 1));
    assert(!order->aside || p->ops->light);
    p->free = l->next;
    *l = (struct place){PLACE_WAITS, *order, NONE, NONE};
    *(queue->first == NONE ? &queue->first : &p->places[queue->last].next_of_queue) = place;
    queue->last = place;
    *(p->waits == NONE ? &p->waits : &p->places[p->last_wait].next) = place;
    p->last_wait = place;
    p->inside++;
    p->taken++;
}

static void leave(struct pipe *p, int place)
{
    p->places[place].state = PLACE_FREE;
    p->places[place].next = p->free;
    p->free = place;
    p->inside--;
}

/* Calls a light sink; an item that has passed leaves its place. */
static void sink_lightly(struct pipe *p, int place)
{
    struct err e = {""};
    if (p->failed)
        return;
    if (p->ops->sink(p->ctx, slot(p, place), &e) < 0)
        fail(p, &e);
    else
        leave(p, place);
}

/* Lets the items at the head of a queue pass. Others than light ones pass in sink_one(). */
static void advance(struct pipe *p, struct queue *queue)
{
    while (!p->failed && queue->first != NONE) {
        const int place = queue->first;
        const struct place *l = &p->places[place];
        if (!l->order.aside && l->state != PLACE_DONE)
            return;
        if (!p->ops->light) {
            p->to_sink = place; /* sink_one() takes it out of the queue */
            return;
        }
        queue->first = l->next_of_queue;
        queue->passed++;
        if (!l->order.aside)
            sink_lightly(p, place);
    }
}

/* Has source produce the next item. */
static void take(struct pipe *p, bool sinks)
{
    struct err e = {""};
    struct pipe_order order = {0};
    const int64_t events = p->events;
    const int place = p->free;
    p->sourcing = true;
    p->drains = false;
    if (!p->ops->light)
        pthread_mutex_unlock(&p->lock);
    const int r = p->ops->source(p->ctx, slot(p, place), p->taken, &order, &e);
    if (!p->ops->light)
        pthread_mutex_lock(&p->lock);
    p->sourcing = false;
    p->ended = r == PIPE_END;
    p->held = r == PIPE_WAIT && events == p->events;
    p->drains = r == PIPE_DRAIN;
    if (r < 0)
        fail(p, &e);
    if (r == PIPE_ITEM) {
        enter(p, place, &order);
        advance(p, &p->queues[order.queue]);
    }
    wake(p, sinks);
}

static void work_on(struct pipe *p, int place, int thread, bool sinks)
{
    struct err e = {""};
    struct place *l = &p->places[place];
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->work(p->ctx, slot(p, place), thread, &e);
    pthread_mutex_lock(&p->lock);
    p->events++;
    p->held = false;
    if (r < 0)
        fail(p, &e);
    else if (l->order.aside)
        sink_lightly(p, place);
    else {
        l->state = PLACE_DONE;
        advance(p, &p->queues[l->order.queue]);
    }
    wake(p, sinks);
}

/* Works on the first item that may start. */
static void start(struct pipe *p, int thread, bool sinks)
{
    const int place = p->start;
    struct place *l = &p->places[place];
    *(p->before_start == NONE ? &p->waits : &p->places[p->before_start].next) = l->next;
    if (p->last_wait == place)
        p->last_wait = p->before_start;
    l->state = PLACE_WORKS;
    wake(p, true);
    work_on(p, place, thread, sinks);
}

static void sink_one(struct pipe *p)
{
    struct err e = {""};
    const int place = p->to_sink;
    struct queue *queue = &p->queues[p->places[place].order.queue];
    p->to_sink = NONE;
    queue->first = p->places[place].next_of_queue;
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->sink(p->ctx, slot(p, place), &e);
    pthread_mutex_lock(&p->lock);
    p->events++;
    p->held = false;
    if (r < 0)
        fail(p, &e);
    queue->passed++;
    leave(p, place);
    advance(p, queue);
    wake(p, true);
}

static void idle_once(struct pipe *p)
{
    struct err e = {""};
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->idle(p->ctx, &e);
    pthread_mutex_lock(&p->lock);
    if (r < 0)
        fail(p, &e);
    p->events++;
    p->held = false;
    wake(p, true);
}

/* The loop of every thread, until the last item or a failure. `thread` -1: it does not work. */
static void take_turns(struct pipe *p, int thread, bool sinks)
{
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && (sinks ? p->inside == 0 : p->waits == NONE))) {
        if (sinks && may_sink(p))
            sink_one(p);
        else if (thread >= 0 && may_start(p))
            start(p, thread, sinks);
        else if (thread >= 0 && may_take(p))
            take(p, sinks);
        else if (sinks && may_idle(p))
            idle_once(p);
        else
            wait_on(p, sinks);
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
    const int queues = p->ops->queues ? p->ops->queues : 1;
    assert(queues == 1 || p->ops->light);
    p->places = calloc((size_t)p->depth, sizeof *p->places);
    p->queues = calloc((size_t)queues, sizeof *p->queues);
    if (!p->places || !p->queues) {
        free(p->places);
        free(p->queues);
        return err_set(p->err, "out of memory");
    }
    for (int k = 0; k < p->depth; k++)
        p->places[k].next = k + 1 < p->depth ? k + 1 : NONE;
    for (int k = 0; k < queues; k++)
        p->queues[k] = (struct queue){.first = NONE, .last = NONE};
    p->waits = p->last_wait = p->start = p->before_start = p->to_sink = NONE;
    pthread_mutexattr_init(&spins);
    pthread_mutexattr_settype(&spins, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&p->lock, &spins);
    pthread_mutexattr_destroy(&spins);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->sinker, NULL);
    return 0;
}

static void close_pipe(struct pipe *p)
{
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->sinker);
    pthread_mutex_destroy(&p->lock);
    free(p->places);
    free(p->queues);
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
