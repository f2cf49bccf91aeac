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
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pipe {
    const struct pipe_ops *ops;
    void *ctx;
    unsigned char *items;
    size_t item_bytes;
    int depth, threads;
    struct worker *workers; /* [threads - 1] */
    int started;            /* of these */
    bool refused;           /* the system starts no more */

    pthread_mutex_t lock;
    pthread_cond_t room;   /* a worker may take an item */
    pthread_cond_t caller; /* the calling thread may sink or take an item */
    int workers_wait;      /* for room */
    int64_t taken, sunk;   /* items that source has produced, that have passed the sink */
    int *slots;            /* [depth]: item n is in slot slots[n % depth] */
    int *free, n_free;     /* [depth]: a stack of the other slots */
    bool *done;            /* [depth], by n % depth: worked on */
    int busy;              /* threads in a callback */
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

static void *slot(const struct pipe *p, int number)
{
    return p->items + (size_t)number * p->item_bytes;
}

/* All functions below are called with the lock held, but for the threads' own. */

/* Threads that may be busy now. */
static int most_threads(const struct pipe *p)
{
    const int most = p->ops->most ? p->ops->most(p->ctx) : p->threads;
    return most < 1 ? 1 : most < p->threads ? most : p->threads;
}

static bool may_take(const struct pipe *p)
{
    const int most = most_threads(p);
    const int depth = (int)(((int64_t)p->depth * most + p->threads - 1) / p->threads);
    return !p->ended && !p->sourcing && p->busy < most && p->taken - p->sunk < depth;
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
    const int place = p->free[--p->n_free];
    p->sourcing = true;
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    int r = p->ops->source(p->ctx, slot(p, place), number, &e);
    pthread_mutex_lock(&p->lock);
    p->sourcing = false;
    p->ended = r == PIPE_END;
    if (r == PIPE_ITEM) {
        p->slots[number % p->depth] = place;
        p->done[number % p->depth] = false;
        p->taken++;
    } else
        p->free[p->n_free++] = place;
    p->busy -= r != PIPE_ITEM || p->failed;
    event(p, r, &e);
    if (r != PIPE_ITEM || p->failed)
        return;
    pthread_mutex_unlock(&p->lock);
    r = p->ops->work(p->ctx, slot(p, place), thread, &e);
    pthread_mutex_lock(&p->lock);
    p->busy--;
    p->done[number % p->depth] = r == 0;
    event(p, r, &e);
}

static void sink(struct pipe *p)
{
    struct err e = {0};
    const int place = p->slots[p->sunk % p->depth];
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    const int r = p->ops->sink(p->ctx, slot(p, place), &e);
    pthread_mutex_lock(&p->lock);
    p->busy--;
    p->free[p->n_free++] = place;
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

/* Starts the threads that may be busy now. A system that refuses one is not asked again. */
static void start_workers(struct pipe *p)
{
    const int wanted = most_threads(p) - 1;
    while (p->started < wanted && !p->refused && !p->failed && !p->ended) {
        struct worker *w = &p->workers[p->started];
        *w = (struct worker){.p = p, .number = p->started};
        pthread_mutex_unlock(&p->lock);
        p->refused = pthread_create(&w->id, NULL, worker_main, w) != 0;
        pthread_mutex_lock(&p->lock);
        p->started += !p->refused;
    }
}

static void caller_main(struct pipe *p, int thread)
{
    pthread_mutex_lock(&p->lock);
    for (;;) {
        start_workers(p); /* releases the lock */
        if (p->failed || (p->ended && p->sunk == p->taken))
            break;
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
    struct pipe p = {.ops = ops,
                     .ctx = ctx,
                     .items = items,
                     .item_bytes = item_bytes,
                     .depth = depth,
                     .threads = threads,
                     .n_free = depth,
                     .err = e};
    p.workers = memory_need((size_t)threads, sizeof *p.workers);
    p.done = memory_need((size_t)depth, sizeof *p.done);
    p.slots = memory_need((size_t)depth, sizeof *p.slots);
    p.free = memory_need((size_t)depth, sizeof *p.free);
    for (int k = 0; k < depth; k++)
        p.free[k] = depth - 1 - k;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.room, NULL);
    pthread_cond_init(&p.caller, NULL);
    caller_main(&p, threads - 1);
    for (int k = 0; k < p.started; k++)
        pthread_join(p.workers[k].id, NULL);
    pthread_cond_destroy(&p.caller);
    pthread_cond_destroy(&p.room);
    pthread_mutex_destroy(&p.lock);
    free(p.free);
    free(p.slots);
    free(p.done);
    free(p.workers);
    return p.failed ? -1 : 0;
}

/* Processors that a control group (version 2) may use, rounded up; INT_MAX: all. */
static int quota_of(const char *group)
{
    long long quota = 0, period = 0;
    char *path = memory_print("/sys/fs/cgroup%s/cpu.max", group);
    FILE *f = fopen(path, "re");
    const bool limited = f && fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 &&
                         period > 0 && quota / period < INT_MAX;
    if (f)
        fclose(f);
    free(path);
    return limited ? (int)((quota - 1) / period + 1) : INT_MAX;
}

/* The smallest quota of our control group and those that it is in. */
static int quota(void)
{
    char line[PATH_MAX] = "";
    int least = INT_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f) && strncmp(line, "0::", 3) != 0)
        ;
    if (f)
        fclose(f);
    if (strncmp(line, "0::", 3) != 0)
        return least;
    for (char *end = line + strcspn(line, "\n"); end; end = strrchr(line, '/')) {
        *end = 0;
        const int here = quota_of(line + 3);
        least = here < least ? here : least;
    }
    return least;
}

int pipe_cpus(void)
{
    cpu_set_t set;
    const bool unknown = sched_getaffinity(0, sizeof set, &set) != 0;
    const long n = unknown ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set), most = quota();
    return n < 1 ? 1 : n < most ? (int)n : (int)most;
}
