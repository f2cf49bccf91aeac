/* crew_line.c - see crew_line.h. */
#include "common/base/crew_line.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/stop.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_AHEAD = 4096, /* how far items may be ahead of the one whose turn it is */
    LOOK_MS = 200,     /* between looks at signals and progress */
    STOP_MS = 1000,    /* for items to end by themselves */
};

struct entry {
    enum { ENTRY_WAITS, ENTRY_BEGUN, ENTRY_ASKS, ENTRY_DONE } state;
    int seat;     /* ENTRY_ASKS */
    void *answer; /* or NULL; owned */
};

struct crew_line {
    const struct crew_line_setup *s;
    struct crew *crew;
    struct entry *entries;      /* [items] */
    int64_t next, allowed, now; /* the first that is not begun, allowed, reported */
    bool refused;
    bool undone; /* an item that was reported, because of a signal */
};

/* --- what others may know --- */

int64_t crew_line_first(const struct crew_line *l)
{
    return l->now;
}

int64_t crew_line_end(const struct crew_line *l)
{
    return l->next;
}

bool crew_line_at_work(const struct crew_line *l, int64_t item)
{
    return l->entries[item].state == ENTRY_BEGUN || l->entries[item].state == ENTRY_ASKS;
}

const void *crew_line_answer(const struct crew_line *l, int64_t item)
{
    return l->entries[item].answer;
}

const struct crew_seat *crew_line_seat(const struct crew_line *l, int64_t item)
{
    return crew_seat_of(l->crew, item);
}

/* --- answers --- */

/* A copy of the answer; NULL: all zero. */
static void *keep_answer(struct crew_line *l, int64_t item, const void *answer)
{
    struct entry *n = &l->entries[item];
    if (!n->answer)
        n->answer = memory_need(1, l->s->crew.answer_bytes);
    if (answer)
        memcpy(n->answer, answer, l->s->crew.answer_bytes);
    return n->answer;
}

static void arrive(struct crew_line *l, int64_t item)
{
    l->entries[item].state = ENTRY_DONE;
    if (l->s->arrive)
        l->s->arrive(l->s->crew.ctx, item, l->entries[item].answer);
}

static void take_event(struct crew_line *l, const struct crew_event *v)
{
    if (v->kind == CREW_NONE || l->entries[v->item].state == ENTRY_DONE) /* it was given up */
        return;
    void *answer = keep_answer(l, v->item, v->kind == CREW_DIED ? NULL : v->answer);
    if (v->kind == CREW_ASKS) {
        l->entries[v->item].state = ENTRY_ASKS;
        l->entries[v->item].seat = v->seat;
        return;
    }
    if (v->kind == CREW_DIED)
        l->s->died(l->s->crew.ctx, v->item, v->status, answer);
    arrive(l, v->item);
}

/* --- items --- */

/* The next item is done without a member, or may not begin yet. */
static enum crew_line_word decide(struct crew_line *l)
{
    void *answer = memory_need(1, l->s->crew.answer_bytes);
    const enum crew_line_word word =
        l->s->decide ? l->s->decide(l->s->crew.ctx, l, l->next, answer) : CREW_LINE_YES;
    if (word == CREW_LINE_NO) {
        keep_answer(l, l->next, answer);
        arrive(l, l->next);
    }
    free(answer);
    return word;
}

/* No process can be started. Is that final, because none works? */
static int refused(struct crew_line *l)
{
    l->refused = crew_busy(l->crew) == 0;
    return l->refused ? -1 : 0;
}

static int wait_for_room(struct crew_line *l, struct err *e)
{
    if (crew_busy(l->crew) == 0)
        err_blame(e, ERR_TROUBLE, "all processes of this run have ended; run again");
    return refused(l);
}

/* -1: no process can be started, and none works. */
static int begin_items(struct crew_line *l, struct err *e)
{
    while (l->next < l->s->items && l->next - l->now < MOST_AHEAD && !stop_signal()) {
        const enum crew_line_word word = decide(l);
        if (word == CREW_LINE_LATER)
            return 0;
        if (word == CREW_LINE_YES) {
            if (!crew_has_room(l->crew))
                return wait_for_room(l, e);
            if (crew_begin(l->crew, l->next, e))
                return refused(l);
            l->entries[l->next].state = ENTRY_BEGUN;
        }
        l->next++;
    }
    return 0;
}

/* Lets the member that asks go on, or not. False: not yet. */
static bool reply(struct crew_line *l, int64_t item)
{
    struct entry *n = &l->entries[item];
    const enum crew_line_word word = l->s->allow(l->s->crew.ctx, l, item, n->answer);
    if (word == CREW_LINE_LATER)
        return false;
    crew_reply(l->crew, n->seat, word == CREW_LINE_YES);
    n->state = ENTRY_BEGUN;
    if (word == CREW_LINE_NO)
        arrive(l, item);
    return true;
}

static void reply_in_order(struct crew_line *l)
{
    for (; l->s->allow && l->allowed < l->next; l->allowed++) {
        const struct entry *n = &l->entries[l->allowed];
        if (n->state == ENTRY_BEGUN || (n->state == ENTRY_ASKS && !reply(l, l->allowed)))
            return;
    }
}

/* Reports the items whose turn it is; `all`: also those behind one that is not done. */
static int report_items(struct crew_line *l, bool all, struct err *e)
{
    int bad = 0;
    for (; l->now < l->next && (!bad || all); l->now++) {
        struct entry *n = &l->entries[l->now];
        if (n->state != ENTRY_DONE && !all)
            return bad;
        const int r = l->s->report(l->s->crew.ctx, l->now,
                                   n->state == ENTRY_DONE ? n->answer : NULL, bad ? NULL : e);
        bad = r < 0 ? -1 : bad;
        l->undone |= r > 0;
        free(n->answer);
        n->answer = NULL;
    }
    return bad;
}

/* --- the run --- */

/* Members end their items. 0: it came too late, all items are done. */
static int stop_items(struct crew_line *l, struct err *e)
{
    const double begun = clock_now();
    struct crew_event v;
    crew_stop(l->crew);
    for (int64_t k = l->now; k < l->next; k++)
        if (l->entries[k].state == ENTRY_ASKS) {
            crew_reply(l->crew, l->entries[k].seat, false);
            l->entries[k].state = ENTRY_BEGUN;
        }
    while (crew_busy(l->crew) > 0 && 1000 * (clock_now() - begun) < STOP_MS) {
        v = crew_wait(l->crew, LOOK_MS);
        take_event(l, &v);
        if (v.kind == CREW_ASKS)
            crew_reply(l->crew, v.seat, false);
    }
    return report_items(l, true, e) || l->undone || l->next < l->s->items ? -1 : 0;
}

/* All events of `ms` milliseconds at most. */
static void take_events(struct crew_line *l, int ms)
{
    for (; crew_busy(l->crew) > 0; ms = 0) {
        const struct crew_event v = crew_wait(l->crew, ms);
        if (v.kind == CREW_NONE)
            return;
        take_event(l, &v);
    }
}

int crew_line_step(struct crew_line *l, int ms, struct err *e)
{
    struct err later;
    take_events(l, ms);
    reply_in_order(l);
    if (report_items(l, false, e)) {
        stop_items(l, &later);
        return -1;
    }
    if (begin_items(l, e))
        return -1;
    if (l->s->show)
        l->s->show(l->s->crew.ctx, l);
    return 0;
}

int crew_line_finish(struct crew_line *l, struct err *e)
{
    while (l->now < l->s->items) {
        if (stop_check(e))
            return stop_items(l, e);
        if (crew_line_step(l, LOOK_MS, e))
            return -1;
    }
    return l->undone ? stop_check(e) : 0;
}

static struct crew_line *create(const struct crew_line_setup *s)
{
    struct crew_line *l = memory_need(1, sizeof *l);
    *l = (struct crew_line){.s = s};
    l->entries = memory_need((size_t)s->items, sizeof *l->entries);
    l->crew = crew_create(&s->crew);
    return l;
}

struct crew_line *crew_line_open(const struct crew_line_setup *s, struct err *e)
{
    struct crew_line *l = create(s);
    if (!crew_fill(l->crew, e))
        return l;
    crew_line_close(l, NULL);
    return NULL;
}

void crew_line_close(struct crew_line *l, struct crew_line_end *end)
{
    if (!l)
        return;
    if (end)
        *end = (struct crew_line_end){
            .begun = l->next, .refused = l->refused, .peak_memory = crew_peak_memory(l->crew)};
    crew_free(l->crew);
    for (int64_t k = 0; k < l->s->items; k++)
        free(l->entries[k].answer);
    free(l->entries);
    free(l);
}

int crew_line_run(const struct crew_line_setup *s, struct crew_line_end *end, struct err *e)
{
    struct crew_line *l = create(s);
    const int r = crew_line_finish(l, e);
    crew_line_close(l, end);
    return r;
}
