/*
 * pipe.c - the ordered, bounded, parallel loop; the only thread code of the project.
 *
 * One mutex guards a ring of slots. A worker takes the next number, makes the item (source), waits
 * until the item may start, works on it and marks it done; the calling thread sinks done items in
 * order. Items cost microseconds to milliseconds each, so one lock is no bottleneck and one
 * condition variable for everybody keeps the reasoning short.
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

/* With the lock held: makes the next item. Returns its number, or -1 when there is none for us. */
static int64_t take(struct pipe *p, int64_t *after)
{
    struct err e = {""};
    while (!p->ended && !p->failed) {
        if (p->sourcing || p->taken - p->sunk >= p->depth) {
            pthread_cond_wait(&p->change, &p->lock);
            continue;
        }
        int64_t number = p->taken;
        p->sourcing = true;
        pthread_mutex_unlock(&p->lock);
        *after = 0;
        int r = p->ops->source(p->ctx, slot(p, number), number, after, &e);
        pthread_mutex_lock(&p->lock);
        if (r == PIPE_DRAIN)
            while (p->sunk < number && !p->failed)
                pthread_cond_wait(&p->change, &p->lock);
        p->sourcing = false;
        pthread_cond_broadcast(&p->change);
        if (r == PIPE_ITEM) {
            assert(*after <= number);
            p->done[number % p->depth] = false;
            p->taken++;
            return number;
        }
        if (r == PIPE_END)
            p->ended = true;
        if (r < 0)
            fail(p, &e);
    }
    return -1;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pipe *p = w->p;
    struct err e = {""};
    int64_t number, after;

    pthread_mutex_lock(&p->lock);
    while ((number = take(p, &after)) >= 0) {
        while (p->sunk < after && !p->failed)
            pthread_cond_wait(&p->change, &p->lock);
        if (p->failed)
            break;
        pthread_mutex_unlock(&p->lock);
        int r = p->ops->work(p->ctx, slot(p, number), w->number, &e);
        pthread_mutex_lock(&p->lock);
        if (r < 0) {
            fail(p, &e);
            break;
        }
        p->done[number % p->depth] = true;
        if (number == p->sunk)
            pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* The calling thread: sinks items in order until the last one or a failure. */
static void sink_all(struct pipe *p)
{
    struct err e = {""};
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && p->sunk == p->taken)) {
        if (p->sunk == p->taken || !p->done[p->sunk % p->depth]) {
            pthread_cond_wait(&p->change, &p->lock);
            continue;
        }
        void *item = slot(p, p->sunk);
        pthread_mutex_unlock(&p->lock);
        int r = p->ops->sink(p->ctx, item, &e);
        pthread_mutex_lock(&p->lock);
        if (r < 0)
            fail(p, &e);
        else
            p->sunk++;
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
}

int pipe_run(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
             int threads, struct err *e)
{
    assert(depth >= 1 && threads >= 1);
    struct pipe p = {.ops = ops, .ctx = ctx, .items = items, .item_bytes = item_bytes,
                     .depth = depth, .err = e};
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    p.done = calloc((size_t)depth, sizeof *p.done);
    int started = 0;
    if (!workers || !p.done) {
        free(workers);
        free(p.done);
        return err_set(e, "out of memory");
    }
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.change, NULL);
    for (; started < threads; started++) {
        workers[started].p = &p;
        workers[started].number = started;
        if (pthread_create(&workers[started].id, NULL, worker_main, &workers[started]))
            break;
    }
    if (started == 0) {
        p.failed = true;
        err_set(e, "cannot start a thread");
    }
    sink_all(&p);
    for (int i = 0; i < started; i++)
        pthread_join(workers[i].id, NULL);
    pthread_cond_destroy(&p.change);
    pthread_mutex_destroy(&p.lock);
    free(workers);
    free(p.done);
    return p.failed ? -1 : 0;
}

int pipe_cpus(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return n > 0 ? (int)n : 1;
}
