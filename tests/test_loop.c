/* test_loop - the engine's loop: order, bound, queues, waits, failures, few threads. */
#include "process/engine/loop.h"
#include "tests/loops.h"
#include "tests/unit.h"

static int number_source(void *ctx, void *slot, int64_t number, struct loop_order *order,
                         struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (number == c->drain && !c->drain_seen) {
        c->drain_seen = true;
        return LOOP_DRAIN;
    }
    if (number == c->drain && c->sunk != number)
        c->drained_early = true;
    if (number == c->n)
        return LOOP_END;
    if (c->opens && number >= c->opened)
        return LOOP_WAIT;
    if (number == c->fail_source)
        return err_set(e, "source failed");
    *it = (struct number_item){number, c->after && number >= c->after ? number - c->after + 1 : 0};
    order->after = it->after;
    number_enters(c);
    return LOOP_ITEM;
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

static int run(struct numbers *c, struct number_item *items, int depth, int threads, struct err *e)
{
    static const struct loop_ops ops = {
        .source = number_source, .work = number_work, .sink = number_sink, .queues = 1};
    return loop_run(&ops, c, items, sizeof *items, depth, threads, e);
}

static int run_with_idle(struct numbers *c, struct number_item *items, int depth, int threads,
                         struct err *e)
{
    static const struct loop_ops ops = {.source = number_source,
                                        .work = number_work,
                                        .sink = number_sink,
                                        .queues = 1,
                                        .due = number_due,
                                        .idle = number_idle};
    c->opens = true;
    return loop_run(&ops, c, items, sizeof *items, depth, threads, e);
}

static void test_keeps_order_and_bound(void)
{
    numbers_keep_order_and_bound(run);
    numbers_keep_order_and_bound(run_with_idle);
}

static void check_dependencies_and_drain(numbers_run *how, int threads)
{
    struct number_item items[8];
    struct numbers c = new_numbers(400);
    c.after = 3;
    EXPECT(!how(&c, items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && !c.too_early);
    c = new_numbers(400);
    c.drain = 100;
    EXPECT(!how(&c, items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && c.drain_seen && !c.drained_early);
    c = new_numbers(50);
    c.drain = 0; /* nothing to wait for */
    EXPECT(!how(&c, items, 8, threads, NULL) && c.sunk == 50);
}

static void test_dependencies_and_drain(void)
{
    for (int threads = 1; threads <= 4; threads++) {
        check_dependencies_and_drain(run, threads);
        check_dependencies_and_drain(run_with_idle, threads);
    }
}

static void test_failures(void)
{
    numbers_fail_anywhere(run, 3);
    numbers_fail_anywhere(run_with_idle, 4);
}

static int late_source(void *ctx, void *slot, int64_t number, struct loop_order *order,
                       struct err *e)
{
    (void)ctx, (void)order, (void)e;
    *(int64_t *)slot = number;
    return number < 2 ? LOOP_ITEM : LOOP_END;
}

/* Of two failures, the one that happens first is reported. */
static void test_first_failure(void)
{
    static const struct loop_ops ops = {
        .source = late_source, .work = late_work, .sink = late_sink, .queues = 1};
    int64_t items[4];
    struct err e = {0};
    EXPECT(loop_run(&ops, NULL, items, sizeof *items, 4, 2, &e) == -1 && !strcmp(e.msg, "first"));
}

/* --- what waits for what --- */

enum { MOST = 40 };

/* Items whose work waits until another item has been worked on. */
struct story {
    int n, drain; /* source asks for a drain before item `drain`; 0: never */
    struct loop_order order[MOST];
    int until[MOST];       /* -1: nothing */
    int sunk_before[MOST]; /* this item must have passed before the work starts; -1: none */
    atomic_bool worked[MOST], sunk[MOST];
    atomic_bool late, mixed_up; /* an item waited in vain, or was not the one it should be */
    bool drained, drained_early;
};

static int story_source(void *ctx, void *slot, int64_t number, struct loop_order *order,
                        struct err *e)
{
    struct story *s = ctx;
    (void)e;
    if (number == s->n)
        return LOOP_END;
    if (s->drain && number == s->drain && !s->drained) {
        s->drained = true;
        return LOOP_DRAIN;
    }
    for (int k = 0; s->drained && k < s->drain; k++)
        s->drained_early |= !s->sunk[k];
    *(int *)slot = (int)number;
    *order = s->order[number];
    return LOOP_ITEM;
}

static int story_work(void *ctx, void *slot, int thread, struct err *e)
{
    struct story *s = ctx;
    const int number = *(int *)slot;
    (void)thread, (void)e;
    if (s->sunk_before[number] >= 0 && !s->sunk[s->sunk_before[number]])
        s->mixed_up = true;
    for (int ms = 0; s->until[number] >= 0 && !s->worked[s->until[number]]; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (ms == 5000) {
            s->late = true;
            break;
        }
    }
    if (*(int *)slot != number)
        s->mixed_up = true;
    s->worked[number] = true;
    return 0;
}

static int story_sink(void *ctx, void *slot, struct err *e)
{
    struct story *s = ctx;
    const int number = *(int *)slot;
    (void)e;
    if (s->sunk[number] || !s->worked[number])
        s->mixed_up = true;
    s->sunk[number] = true;
    return 0;
}

static struct story new_story(int n)
{
    struct story s = {.n = n};
    for (int k = 0; k < MOST; k++)
        s.until[k] = s.sunk_before[k] = -1;
    return s;
}

/* Runs the story, in which no item may wait in vain, on two threads. */
static void tell(struct story *s, int queues, int depth)
{
    const struct loop_ops ops = {
        .source = story_source, .work = story_work, .sink = story_sink, .queues = queues};
    int items[MOST];
    EXPECT(!loop_run(&ops, s, items, sizeof *items, depth, 2, NULL));
    for (int k = 0; k < s->n; k++)
        EXPECT(s->worked[k] && s->sunk[k]);
    EXPECT(!s->late && !s->mixed_up && !s->drained_early && s->drained == (s->drain > 0));
}

/* Items 1 and 2 wait for item 0, which needs item 4: neither of the two threads may be held. Item 4
 * comes after item 3, the last of the list of those that wait, has left it. */
static void test_items_that_wait_hold_no_thread(void)
{
    struct story s = new_story(6);
    s.order[1].after = s.order[2].after = 1;
    s.until[0] = 4;
    tell(&s, 1, 6);
}

/* Item 0 of queue 0 needs item 2 of queue 1, which waits for item 1 of that queue. */
static void test_queues_do_not_wait_for_each_other(void)
{
    struct story s = new_story(5);
    s.order[1].queue = s.order[2].queue = 1;
    s.order[2].after = 1;
    s.order[3] = (struct loop_order){.after = 1};             /* of queue 0 */
    s.order[4] = (struct loop_order){.queue = 1, .after = 2}; /* of queue 1 */
    s.until[0] = 2;
    tell(&s, 2, 5);
}

/* Item 2 of queue 1 waits for item 0 of queue 0, which needs item 3. */
static void test_an_item_may_wait_for_another_queue(void)
{
    struct story s = new_story(4);
    s.order[1].queue = 1;
    s.order[2] = (struct loop_order){.queue = 1, .after_other = 1};
    s.order[3].queue = 2;
    s.until[0] = 3;
    s.sunk_before[2] = 0;
    tell(&s, 3, 4);
}

/* Item 1 is aside and works until item 30 has passed: the others go on in the two other slots, and
 * a drain waits for it. */
static void test_items_that_are_aside(void)
{
    struct story s = new_story(MOST);
    s.order[1] = (struct loop_order){.after = 1, .aside = true};
    for (int i = 2; i < MOST; i++)
        s.order[i].after = i;
    s.until[1] = 30;
    s.drain = 32;
    tell(&s, 1, 3);
    struct story last =
        new_story(2); /* the run ends when the last item, which is aside, has passed */
    last.order[1].aside = true;
    tell(&last, 1, 2);
}

static void test_runs_with_fewer_threads(void)
{
    numbers_run_with_fewer_threads(run);
    numbers_run_with_fewer_threads(run_with_idle);
}

int main(void)
{
    return UNIT_RUN("loop", UNIT(keeps_order_and_bound), UNIT(dependencies_and_drain),
                    UNIT(failures), UNIT(first_failure), UNIT(items_that_wait_hold_no_thread),
                    UNIT(queues_do_not_wait_for_each_other),
                    UNIT(an_item_may_wait_for_another_queue), UNIT(items_that_are_aside),
                    UNIT(runs_with_fewer_threads));
}
