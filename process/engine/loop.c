/*
 * loop.c - see loop.h.
 *
 * One mutex guards the slots. A worker produces items (source), works on those that may start and,
 * once they are finished, lets the head of their queue pass (sink). The calling thread runs idle.
 * All threads run the same loop, which does the first thing that is possible, else waits.
 *
 * Items take a good part of a millisecond each, so one lock is no bottleneck. Waking 64 threads for
 * an item that one of them takes would be one. Therefore wake(), called after every event, wakes
 * only as many threads as can proceed.
 */
#include "process/engine/loop.h"

#include "common/base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { NONE = -1 };

/* The state of a slot. */
struct place {
    enum { PLACE_FREE, PLACE_WAITS, PLACE_WORKS, PLACE_DONE } state;
    struct loop_order order;
    int next_of_queue; /* while it has not passed */
    int next;          /* in the list of free or waiting ones */
};

/* Its items that have not passed, in order. */
struct queue {
    int first, last; /* places, or NONE */
    int64_t passed;
};

struct loop {
    const struct loop_ops *ops;
    void *ctx;
    unsigned char *items;
    size_t item_bytes;
    int depth;

    pthread_mutex_t lock;
    pthread_cond_t room;   /* a worker may take or start an item */
    pthread_cond_t caller; /* the calling thread has something to do */
    int workers_wait;      /* for room */
    bool caller_waits;
    bool caller_works; /* the system has refused all threads */

    struct place *places; /* [depth] */
    struct queue *queues; /* [ops->queues] */
    int free;             /* list of free places */
    int waits, last_wait; /* list of items that have not started, in the order of source */
    int before_start;     /* of these, the one before `start`; NONE: it is the first */
    int start;            /* the first of these that may start; NONE: none may */
    int inside;           /* items that are in a place */
    int busy;             /* threads in work */
    int64_t taken;        /* items that source has produced */
    bool drains;          /* source waits until nothing is inside */
    bool held;            /* source waits for an event */
    bool ended;           /* source has returned LOOP_END */
    bool failed;          /* a callback has failed: all threads return */
    struct err *err;      /* of the first failure */
};

struct worker {
    struct loop *l;
    pthread_t id;
    int number;
};

static void *slot(struct loop *l, int place)
{
    return l->items + (size_t)place * l->item_bytes;
}

/* All functions below are called with the lock held. They release it around work and idle. */

/* --- what is possible --- */

static bool may_take(const struct loop *l)
{
    return !l->ended && !l->held && l->free != NONE && !(l->drains && l->inside);
}

static bool may_start(const struct loop *l)
{
    return l->start != NONE && (!l->ops->most || l->busy < 1 || l->busy < l->ops->most(l->ctx));
}

static bool may_idle(const struct loop *l)
{
    return l->ops->due && l->ops->due(l->ctx);
}

/* Have the items passed that it waits for? */
static bool is_due(const struct loop *l, const struct loop_order *o)
{
    return l->queues[o->queue].passed >= o->after && l->queues[o->other].passed >= o->after_other;
}

/* Sets `start`. */
static void find_start(struct loop *l)
{
    l->before_start = NONE;
    for (l->start = l->waits; l->start != NONE; l->start = l->places[l->start].next) {
        if (is_due(l, &l->places[l->start].order))
            return;
        l->before_start = l->start;
    }
}

/* After an event: wakes the calling thread and, if `others`, one of those that wait for room, if
 * they can proceed. A thread that goes on to start an item wakes the next one then, and need not do
 * so before. */
static void wake(struct loop *l, bool others)
{
    find_start(l);
    if (l->failed || l->ended) {
        pthread_cond_broadcast(&l->room);
        pthread_cond_signal(&l->caller);
        return;
    }
    if (l->caller_waits && (l->caller_works || may_idle(l)))
        pthread_cond_signal(&l->caller);
    if (others && l->workers_wait > 0 && (may_start(l) || may_take(l)))
        pthread_cond_signal(&l->room);
}

/* Keeps the first failure. */
static void fail(struct loop *l, const struct err *e)
{
    if (!l->failed && l->err)
        *l->err = *e;
    l->failed = true;
}

/* Waits until a thread may have something to do. */
static void wait_on(struct loop *l, bool is_caller)
{
    if (is_caller) {
        l->caller_waits = true;
        pthread_cond_wait(&l->caller, &l->lock);
        l->caller_waits = false;
        return;
    }
    l->workers_wait++;
    pthread_cond_wait(&l->room, &l->lock);
    l->workers_wait--;
}

/* --- an item's way --- */

/* The item that source has filled in waits at the end of its queue. */
static void enter(struct loop *l, int place, const struct loop_order *order)
{
    struct place *at = &l->places[place];
    struct queue *queue = &l->queues[order->queue];
    assert(order->queue >= 0 && order->queue < l->ops->queues);
    assert(order->other >= 0 && order->other < l->ops->queues);
    l->free = at->next;
    *at = (struct place){PLACE_WAITS, *order, NONE, NONE};
    *(queue->first == NONE ? &queue->first : &l->places[queue->last].next_of_queue) = place;
    queue->last = place;
    *(l->waits == NONE ? &l->waits : &l->places[l->last_wait].next) = place;
    l->last_wait = place;
    l->inside++;
    l->taken++;
}

/* Calls sink. The item leaves its place. */
static void pass(struct loop *l, int place)
{
    struct err e = {0};
    if (l->failed)
        return;
    if (l->ops->sink(l->ctx, slot(l, place), &e) < 0) {
        fail(l, &e);
        return;
    }
    l->places[place].state = PLACE_FREE;
    l->places[place].next = l->free;
    l->free = place;
    l->inside--;
}

/* Lets the items at the head of a queue pass. */
static void advance(struct loop *l, struct queue *queue)
{
    while (!l->failed && queue->first != NONE) {
        const int place = queue->first;
        const struct place *at = &l->places[place];
        const bool aside = at->order.aside;
        if (!aside && at->state != PLACE_DONE)
            return;
        queue->first = at->next_of_queue;
        queue->passed++;
        if (!aside)
            pass(l, place);
    }
}

/* Has source produce the next item. */
static void take(struct loop *l, bool is_caller)
{
    struct err e = {0};
    struct loop_order order = {0};
    const int place = l->free;
    l->drains = false;
    const int r = l->ops->source(l->ctx, slot(l, place), l->taken, &order, &e);
    l->ended = r == LOOP_END;
    l->held = r == LOOP_WAIT;
    l->drains = r == LOOP_DRAIN;
    if (r < 0)
        fail(l, &e);
    if (r == LOOP_ITEM) {
        enter(l, place, &order);
        advance(l, &l->queues[order.queue]);
    }
    wake(l, is_caller);
}

/* Works on the first item that may start. */
static void start(struct loop *l, int thread, bool is_caller)
{
    struct err e = {0};
    const int place = l->start;
    struct place *at = &l->places[place];
    *(l->before_start == NONE ? &l->waits : &l->places[l->before_start].next) = at->next;
    if (l->last_wait == place)
        l->last_wait = l->before_start;
    at->state = PLACE_WORKS;
    l->busy++;
    wake(l, true);
    pthread_mutex_unlock(&l->lock);
    const int r = l->ops->work(l->ctx, slot(l, place), thread, &e);
    pthread_mutex_lock(&l->lock);
    l->busy--;
    l->held = false;
    if (r < 0)
        fail(l, &e);
    else if (at->order.aside)
        pass(l, place);
    else {
        at->state = PLACE_DONE;
        advance(l, &l->queues[at->order.queue]);
    }
    wake(l, is_caller);
}

static void idle_once(struct loop *l)
{
    struct err e = {0};
    pthread_mutex_unlock(&l->lock);
    const int r = l->ops->idle(l->ctx, &e);
    pthread_mutex_lock(&l->lock);
    if (r < 0)
        fail(l, &e);
    l->held = false;
    wake(l, true);
}

/* The loop of every thread, until the last item or a failure. `thread` -1: it does not work. */
static void take_turns(struct loop *l, int thread, bool is_caller)
{
    pthread_mutex_lock(&l->lock);
    while (!l->failed && !(l->ended && (is_caller ? l->inside == 0 : l->waits == NONE))) {
        if (thread >= 0 && may_start(l))
            start(l, thread, is_caller);
        else if (thread >= 0 && may_take(l))
            take(l, is_caller);
        else if (is_caller && may_idle(l))
            idle_once(l);
        else
            wait_on(l, is_caller);
    }
    pthread_mutex_unlock(&l->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    take_turns(w->l, w->number, false);
    return NULL;
}

/* --- begin and end --- */

static void loop_open(struct loop *l)
{
    pthread_mutexattr_t spins; /* waiters spin before they sleep: the lock is held only shortly */
    const int queues = l->ops->queues;
    assert(queues >= 1);
    l->places = memory_need((size_t)l->depth, sizeof *l->places);
    l->queues = memory_need((size_t)queues, sizeof *l->queues);
    for (int k = 0; k < l->depth; k++)
        l->places[k].next = k + 1 < l->depth ? k + 1 : NONE;
    for (int k = 0; k < queues; k++)
        l->queues[k] = (struct queue){.first = NONE, .last = NONE};
    l->waits = l->last_wait = l->start = l->before_start = NONE;
    pthread_mutexattr_init(&spins);
    pthread_mutexattr_settype(&spins, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&l->lock, &spins);
    pthread_mutexattr_destroy(&spins);
    pthread_cond_init(&l->room, NULL);
    pthread_cond_init(&l->caller, NULL);
}

static void loop_close(struct loop *l)
{
    pthread_cond_destroy(&l->room);
    pthread_cond_destroy(&l->caller);
    pthread_mutex_destroy(&l->lock);
    free(l->places);
    free(l->queues);
}

/* Starts up to n workers and returns how many run. */
static int start_workers(struct loop *l, struct worker *w, int n)
{
    for (int k = 0; k < n; k++) {
        w[k] = (struct worker){.l = l, .number = k};
        if (pthread_create(&w[k].id, NULL, worker_main, &w[k]))
            return k;
    }
    return n;
}

int loop_run(const struct loop_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct loop l = {
        .ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes, .depth = depth, .err = e};
    struct worker *w = memory_need((size_t)threads, sizeof *w);
    loop_open(&l);
    const int started = start_workers(&l, w, threads);
    l.caller_works = started == 0;
    take_turns(&l, started == 0 ? 0 : -1, true);
    for (int k = 0; k < started; k++)
        pthread_join(w[k].id, NULL);
    loop_close(&l);
    free(w);
    return l.failed ? -1 : 0;
}
