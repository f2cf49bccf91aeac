/* test_pipe - the parallel loop: order, bound, failures, and a system short of threads. */
#include "common/base/pipe.h"
#include "tests/loops.h"
#include "tests/unit.h"

static int number_source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct numbers *c = ctx;
    if (number == c->n)
        return PIPE_END;
    if (number == c->fail_source)
        return err_set(e, "source failed");
    *(struct number_item *)slot = (struct number_item){.number = number};
    number_enters(c);
    return PIPE_ITEM;
}

/* The calling thread's. */
static int here_sink(void *ctx, void *slot, struct err *e)
{
    struct numbers *c = ctx;
    c->wrong_order |= !pthread_equal(pthread_self(), c->caller);
    return number_sink(ctx, slot, e);
}

static const struct pipe_ops number_ops = {
    .source = number_source, .work = number_work, .sink = here_sink};

static void test_keeps_order_and_bound(void)
{
    for (int threads = 1; threads <= 9; threads += 4)
        for (int depth = 1; depth <= 11; depth += 5) {
            struct number_item items[11];
            struct numbers c = new_numbers(500);
            struct err e = {0};
            c.threads = threads;
            EXPECT(!pipe_run(&number_ops, &c, items, sizeof *items, depth, threads, &e));
            EXPECT(c.sunk == 500 && c.worked == 500 && !c.wrong_order);
            EXPECT(!c.wrong_thread && c.most_inside <= depth);
        }
    struct number_item item;
    struct numbers none = new_numbers(0);
    EXPECT(!pipe_run(&number_ops, &none, &item, sizeof item, 1, 3, NULL) && none.sunk == 0);
}

static void check_failures(int what, int64_t at, int threads)
{
    static const char *const words[] = {"source failed", "work failed", "sink failed"};
    struct number_item items[6];
    struct numbers c = new_numbers(60);
    struct err e = {0};
    int64_t *const where[] = {&c.fail_source, &c.fail_work, &c.fail_sink};
    *where[what] = at;
    EXPECT(pipe_run(&number_ops, &c, items, sizeof *items, 6, threads, &e) == -1);
    EXPECT(!strcmp(e.msg, words[what]));
    EXPECT(c.sunk <= at && !c.wrong_order);
}

static void test_failures(void)
{
    for (int what = 0; what < 3; what++)
        for (int64_t at = 0; at < 60; at += 29)
            for (int threads = 1; threads <= 5; threads += 2)
                check_failures(what, at, threads);
}

static int late_source(void *ctx, void *slot, int64_t number, struct err *e)
{
    (void)ctx, (void)e;
    *(int64_t *)slot = number;
    return number < 2 ? PIPE_ITEM : PIPE_END;
}

static int here_work(void *ctx, void *slot, int thread, struct err *e)
{
    (void)slot, (void)e;
    const bool here = pthread_equal(pthread_self(), *(pthread_t *)ctx) && thread == 0;
    return here ? 0 : err_set(e, "elsewhere");
}

/* With one thread the calling thread is the only one. */
static void test_works_on_the_calling_thread(void)
{
    static const struct pipe_ops ops = {
        .source = late_source, .work = here_work, .sink = late_sink};
    pthread_t self = pthread_self();
    int64_t items[4];
    struct err e = {0};
    EXPECT(!pipe_run(&ops, &self, items, sizeof *items, 4, 1, &e));
}

/* Of two failures, the one that happens first is reported. */
static void test_first_failure(void)
{
    static const struct pipe_ops ops = {
        .source = late_source, .work = late_work, .sink = late_sink};
    int64_t items[4];
    struct err e = {0};
    EXPECT(pipe_run(&ops, NULL, items, sizeof *items, 4, 2, &e) == -1 && !strcmp(e.msg, "first"));
}

/* --- a system that refuses threads --- */

static void test_runs_with_fewer_threads(void)
{
    for (int allowed = 0; allowed < 3; allowed++) {
        struct number_item items[8];
        struct numbers c = new_numbers(100);
        struct err e = {0};
        threads_allowed = allowed;
        EXPECT(!pipe_run(&number_ops, &c, items, sizeof *items, 8, 5, &e));
        EXPECT(c.sunk == 100 && !c.wrong_order);
        threads_allowed = INT_MAX;
    }
}

int main(void)
{
    return UNIT_RUN("pipe", UNIT(keeps_order_and_bound), UNIT(failures), UNIT(first_failure),
                    UNIT(works_on_the_calling_thread), UNIT(runs_with_fewer_threads));
}
