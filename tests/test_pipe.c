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

static int run(struct numbers *c, struct number_item *items, int depth, int threads, struct err *e)
{
    return pipe_run(&number_ops, c, items, sizeof *items, depth, threads, e);
}

static void test_keeps_order_and_bound(void)
{
    numbers_keep_order_and_bound(run);
}

static void test_failures(void)
{
    numbers_fail_anywhere(run, 3);
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

static void test_runs_with_fewer_threads(void)
{
    numbers_run_with_fewer_threads(run);
}

int main(void)
{
    return UNIT_RUN("pipe", UNIT(keeps_order_and_bound), UNIT(failures), UNIT(first_failure),
                    UNIT(works_on_the_calling_thread), UNIT(runs_with_fewer_threads));
}
