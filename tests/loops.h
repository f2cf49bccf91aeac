/*
 * loops.h - what pipe.h and loop.h both state, as tests of items with numbers, which are worked on,
 * pass the sink in order and fail where they should; and a system that refuses threads.
 */
#ifndef TESTS_LOOPS_H
#define TESTS_LOOPS_H

#include "common/base/err.h"
#include "tests/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct numbers {
    int64_t n;                                 /* items */
    atomic_llong sunk;                         /* the number that sink must get next */
    int64_t fail_source, fail_work, fail_sink; /* number at which to fail, or -1 */
    atomic_llong worked;                       /* items worked on */
    atomic_int inside;                         /* items between source and sink */
    int most_inside;
    int threads; /* 0: any */
    pthread_t caller;
    bool wrong_order, too_early;
    atomic_bool wrong_thread;
    /* of loop.h */
    int64_t drain; /* number before which source asks for a drain, or -1 */
    int64_t after; /* > 0: every item waits for the one `after` before it */
    bool drained_early, drain_seen;
    bool opens, wrong_caller; /* of idle */
    atomic_llong opened;      /* items that source may make */
    int64_t fail_idle;
};

struct number_item {
    int64_t number, after;
};

static inline struct numbers new_numbers(int64_t n)
{
    return (struct numbers){.n = n,
                            .fail_source = -1,
                            .fail_work = -1,
                            .fail_sink = -1,
                            .drain = -1,
                            .fail_idle = INT64_MAX,
                            .caller = pthread_self()};
}

/* The end of source: an item is made. */
static inline void number_enters(struct numbers *c)
{
    const int now = ++c->inside;
    if (now > c->most_inside)
        c->most_inside = now;
}

static inline int number_work(void *ctx, void *slot, int thread, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (thread < 0 || (c->threads && thread >= c->threads))
        c->wrong_thread = true;
    if (it->number == c->fail_work)
        return err_set(e, "work failed");
    if (c->worked < it->after)
        c->too_early = true;
    struct timespec t = {.tv_nsec = it->number * 7919 % 50 * 1000};
    nanosleep(&t, NULL);
    c->worked++;
    return 0;
}

static inline int number_sink(void *ctx, void *slot, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (it->number != c->sunk)
        c->wrong_order = true;
    if (it->number == c->fail_sink)
        return err_set(e, "sink failed");
    c->sunk++;
    c->inside--;
    return 0;
}

/* pipe_run() or loop_run() over numbered items. */
typedef int numbers_run(struct numbers *c, struct number_item *items, int depth, int threads,
                        struct err *e);

static inline void numbers_keep_order_and_bound(numbers_run *run)
{
    for (int threads = 1; threads <= 9; threads += 4)
        for (int depth = 1; depth <= 11; depth += 5) {
            struct number_item items[11];
            struct numbers c = new_numbers(500);
            struct err e = {0};
            c.threads = threads;
            EXPECT(!run(&c, items, depth, threads, &e));
            EXPECT(c.sunk == 500 && c.worked == 500 && !c.wrong_order);
            EXPECT(!c.wrong_thread && !c.wrong_caller && c.most_inside <= depth);
        }
    struct number_item item;
    struct numbers none = new_numbers(0);
    EXPECT(!run(&none, &item, 1, 3, NULL) && none.sunk == 0);
}

/* What fails: source, work, sink, or idle of loop.h. */
static inline void numbers_fail(numbers_run *run, int what, int64_t at, int threads)
{
    static const char *const words[] = {"source failed", "work failed", "sink failed",
                                        "idle failed"};
    struct number_item items[6];
    struct numbers c = new_numbers(60);
    struct err e = {0};
    int64_t *const where[] = {&c.fail_source, &c.fail_work, &c.fail_sink, &c.fail_idle};
    *where[what] = at;
    EXPECT(run(&c, items, 6, threads, &e) == -1);
    EXPECT(!strcmp(e.msg, words[what]));
    EXPECT(c.sunk <= at + (what == 3) && !c.wrong_order); /* idle opens two */
}

static inline void numbers_fail_anywhere(numbers_run *run, int kinds)
{
    for (int what = 0; what < kinds; what++)
        for (int64_t at = 0; at < 60; at += 29)
            for (int threads = 1; threads <= 5; threads += 2)
                numbers_fail(run, what, at, threads);
}

/* Two items, int64_t, that both fail in work, the second one earlier. */
static inline int late_work(void *ctx, void *slot, int thread, struct err *e)
{
    const int64_t number = *(int64_t *)slot;
    (void)ctx, (void)thread;
    nanosleep(&(struct timespec){.tv_nsec = number ? 20000000 : 200000000}, NULL);
    return err_set(e, number ? "first" : "second");
}

static inline int late_sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

static int threads_allowed = INT_MAX;

/* Replaces the C library's: refuses threads once `threads_allowed` have started. */
int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return threads_allowed-- > 0 ? next(id, attr, start, arg) : EAGAIN;
}

static inline void numbers_run_with_fewer_threads(numbers_run *run)
{
    for (int allowed = 0; allowed < 3; allowed++) {
        struct number_item items[8];
        struct numbers c = new_numbers(100);
        struct err e = {0};
        threads_allowed = allowed;
        EXPECT(!run(&c, items, 8, 5, &e));
        EXPECT(c.sunk == 100 && !c.wrong_order);
        threads_allowed = INT_MAX;
    }
}

#endif
