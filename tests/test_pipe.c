/* test_pipe - the parallel loop: order, bound, waits, failures, and a system short of threads. */
#include "common/pipe.h"
#include "tests/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct numbers {
    int64_t n, limit;                          /* items */
    atomic_llong sunk;                         /* the number that sink must get next */
    int64_t fail_source, fail_work, fail_sink; /* number at which to fail, or -1 */
    int64_t drain;       /* number before which source asks for a drain, or -1 */
    int64_t after;       /* > 0: every item waits for the one `after` before it */
    atomic_llong worked; /* items worked on */
    atomic_int inside;   /* items between source and sink */
    int most_inside;
    int threads; /* 0: any */
    bool wrong_order, drained_early, too_early, drain_seen;
    atomic_bool wrong_thread;
    /* of idle */
    bool opens;
    atomic_llong opened; /* items that source may make */
    pthread_t caller;
    bool wrong_caller;
    int64_t fail_idle;
};

struct number_item {
    int64_t number, after;
};

static int number_source(void *ctx, void *slot, int64_t number, struct pipe_order *order, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (number == c->drain && !c->drain_seen) {
        c->drain_seen = true;
        return PIPE_DRAIN;
    }
    if (number == c->drain && c->sunk != number)
        c->drained_early = true;
    if (number == c->n)
        return PIPE_END;
    if (c->opens && number >= c->opened)
        return PIPE_WAIT;
    if (number == c->fail_source)
        return err_set(e, "source failed");
    *it = (struct number_item){number, c->after && number >= c->after ? number - c->after + 1 : 0};
    order->after = it->after;
    int now = ++c->inside;
    if (now > c->most_inside)
        c->most_inside = now;
    return PIPE_ITEM;
}

static int number_work(void *ctx, void *slot, int thread, struct err *e)
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

static int number_sink(void *ctx, void *slot, struct err *e)
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

/* Opens a few items ahead. */
static bool number_due(void *ctx)
{
    const struct numbers *c = ctx;
    return c->opens && c->opened < c->n && c->opened - c->sunk <= 5;
}

static int number_idle(void *ctx, struct err *e)
{
    struct numbers *c = ctx;
    if (!pthread_equal(pthread_self(), c->caller) || !number_due(c))
        c->wrong_caller = true;
    if (c->opened >= c->fail_idle)
        return err_set(e, "idle failed");
    c->opened += 2;
    return 0;
}

static const struct pipe_ops number_ops[] = {
    {.source = number_source, .work = number_work, .sink = number_sink},
    {.source = number_source, .work = number_work, .sink = number_sink, .light = true},
    {.source = number_source,
     .work = number_work,
     .sink = number_sink,
     .due = number_due,
     .idle = number_idle},
    {.source = number_source,
     .work = number_work,
     .sink = number_sink,
     .due = number_due,
     .idle = number_idle,
     .light = true},
};
enum { KINDS = sizeof number_ops / sizeof *number_ops };

typedef int run_fn(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
                   int threads, struct err *e);
static run_fn *const runs[] = {pipe_run, pipe_run_shared};
enum { RUNS = sizeof runs / sizeof *runs };

static struct numbers new_numbers(int64_t n)
{
    return (struct numbers){.n = n,
                            .fail_source = -1,
                            .fail_work = -1,
                            .fail_sink = -1,
                            .drain = -1,
                            .fail_idle = INT64_MAX,
                            .caller = pthread_self()};
}

static void check_order_and_bound(run_fn *run, const struct pipe_ops *ops)
{
    for (int threads = 1; threads <= 9; threads += 4)
        for (int depth = 1; depth <= 11; depth += 5) {
            struct number_item items[11];
            struct numbers c = new_numbers(500);
            struct err e = {""};
            c.threads = threads;
            c.opens = ops->idle;
            EXPECT(!run(ops, &c, items, sizeof *items, depth, threads, &e));
            EXPECT(c.sunk == 500 && c.worked == 500 && !c.wrong_order);
            EXPECT(!c.wrong_thread && !c.wrong_caller && c.most_inside <= depth);
        }
    struct number_item item;
    struct numbers none = new_numbers(0);
    EXPECT(!run(ops, &none, &item, sizeof item, 1, 3, NULL) && none.sunk == 0);
}

static void test_keeps_order_and_bound(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        check_order_and_bound(runs[k % RUNS], &number_ops[k / RUNS]);
}

static void check_dependencies_and_drain(run_fn *run, const struct pipe_ops *ops, int threads)
{
    struct number_item items[8];
    struct numbers c = new_numbers(400);
    c.after = 3;
    c.opens = ops->idle;
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && !c.too_early);
    c = new_numbers(400);
    c.drain = 100;
    c.opens = ops->idle;
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && c.drain_seen && !c.drained_early);
    c = new_numbers(50);
    c.drain = 0; /* nothing to wait for */
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL) && c.sunk == 50);
}

static void test_dependencies_and_drain(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        for (int threads = 1; threads <= 4; threads++)
            check_dependencies_and_drain(runs[k % RUNS], &number_ops[k / RUNS], threads);
}

static void check_failures(run_fn *run, const struct pipe_ops *ops, int what, int64_t at,
                           int threads)
{
    static const char *const words[] = {"source failed", "work failed", "sink failed",
                                        "idle failed"};
    struct number_item items[6];
    struct numbers c = new_numbers(60);
    struct err e = {""};
    int64_t *const where[] = {&c.fail_source, &c.fail_work, &c.fail_sink, &c.fail_idle};
    *where[what] = at;
    c.opens = ops->idle;
    EXPECT(run(ops, &c, items, sizeof *items, 6, threads, &e) == -1);
    EXPECT(!strcmp(e.msg, words[what]));
    EXPECT(c.sunk <= at + (what == 3) && !c.wrong_order); /* idle opens two */
}

static void test_failures(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        for (int what = 0; what < (number_ops[k / RUNS].idle ? 4 : 3); what++)
            for (int64_t at = 0; at < 60; at += 29)
                for (int threads = 1; threads <= 5; threads += 2)
                    check_failures(runs[k % RUNS], &number_ops[k / RUNS], what, at, threads);
}

static int late_source(void *ctx, void *slot, int64_t number, struct pipe_order *order, struct err *e)
{
    (void)ctx, (void)order, (void)e;
    *(int64_t *)slot = number;
    return number < 2 ? PIPE_ITEM : PIPE_END;
}

static int late_sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

static int here_work(void *ctx, void *slot, int thread, struct err *e)
{
    (void)slot, (void)e;
    const bool here = pthread_equal(pthread_self(), *(pthread_t *)ctx) && thread == 0;
    return here ? 0 : err_set(e, "elsewhere");
}

/* The calling thread is the last of the threads; with one thread it is the only one. */
static void test_run_shared_works_on_the_calling_thread(void)
{
    static const struct pipe_ops ops = {
        .source = late_source, .work = here_work, .sink = late_sink};
    pthread_t self = pthread_self();
    int64_t items[4];
    struct err e = {""};
    EXPECT(!pipe_run_shared(&ops, &self, items, sizeof *items, 4, 1, &e));
    EXPECT(pipe_run(&ops, &self, items, sizeof *items, 4, 1, &e) == -1);
    EXPECT(!strcmp(e.msg, "elsewhere"));
}

static int late_work(void *ctx, void *slot, int thread, struct err *e)
{
    const int64_t number = *(int64_t *)slot;
    (void)ctx, (void)thread;
    nanosleep(&(struct timespec){.tv_nsec = number ? 20000000 : 200000000}, NULL);
    return err_set(e, number ? "first" : "second");
}

/* Of two failures, the one that happens first is reported. */
static void test_first_failure(void)
{
    static const struct pipe_ops ops = {
        .source = late_source, .work = late_work, .sink = late_sink};
    int64_t items[4];
    struct err e = {""};
    EXPECT(pipe_run(&ops, NULL, items, sizeof *items, 4, 2, &e) == -1 && !strcmp(e.msg, "first"));
}

/* --- a system that refuses threads --- */

static int threads_allowed = INT_MAX;

/* Replaces the C library's: refuses threads once `threads_allowed` have started. */
int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return threads_allowed-- > 0 ? next(id, attr, start, arg) : EAGAIN;
}

static void test_runs_with_fewer_threads(void)
{
    for (int k = 0; k < RUNS * KINDS; k++) {
        struct number_item items[8];
        struct numbers c = new_numbers(100);
        struct err e = {""};
        c.opens = number_ops[k / RUNS].idle;
        threads_allowed = 2;
        EXPECT(!runs[k % RUNS](&number_ops[k / RUNS], &c, items, sizeof *items, 8, 5, &e));
        EXPECT(c.sunk == 100 && !c.wrong_order);
        threads_allowed = INT_MAX;
    }
}

static void test_runs_without_threads(void)
{
    for (int k = 0; k < RUNS * KINDS; k++) {
        struct number_item items[8];
        struct numbers c = new_numbers(100);
        struct err e = {""};
        c.opens = number_ops[k / RUNS].idle;
        threads_allowed = 0;
        EXPECT(!runs[k % RUNS](&number_ops[k / RUNS], &c, items, sizeof *items, 8, 5, &e));
        EXPECT(c.sunk == 100 && !c.wrong_order);
        threads_allowed = INT_MAX;
    }
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"keeps_order_and_bound", test_keeps_order_and_bound},
        {"dependencies_and_drain", test_dependencies_and_drain},
        {"failures", test_failures},
        {"first_failure", test_first_failure},
        {"run_shared_works_on_the_calling_thread", test_run_shared_works_on_the_calling_thread},
        {"runs_with_fewer_threads", test_runs_with_fewer_threads},
        {"runs_without_threads", test_runs_without_threads},
    };
    return unit_run("pipe", tests, sizeof tests / sizeof *tests);
}
