/*
 * crew_line.h - the items of a crew (crew.h), in order.
 *
 *   items    0, 1, 2, ... begin in this order, each when a member is free
 *   decide   some are done without a member
 *   allow    a member may ask whether it shall go on: answered in order
 *   arrive   an answer has come, or the member has died: in any order
 *   report   in order, as if one item had been worked on after the other
 *
 * The parent waits in crew_line_run(), or does other work and calls crew_line_step() between.
 *
 * All functions but the crew's own run in the parent, on the calling thread.
 */
#ifndef WSI_CREW_LINE_H
#define WSI_CREW_LINE_H

#include "common/base/crew.h"

enum crew_line_word { CREW_LINE_NO, CREW_LINE_YES, CREW_LINE_LATER };

struct crew_line;

struct crew_line_setup {
    struct crew_setup crew; /* its ctx is that of the functions below; members >= 1 */
    int64_t items;
    /* May the item be begun? NO: it is done, the answer (all zero before) is filled in. LATER: not
     * before another item is done. NULL: all may. */
    enum crew_line_word (*decide)(void *ctx, const struct crew_line *l, int64_t item, void *answer);
    /* The member of the item waits in crew_ask() with this answer. NO: it gives the item up, whose
     * answer is filled in here instead. LATER: as above. NULL: nobody asks. */
    enum crew_line_word (*allow)(void *ctx, const struct crew_line *l, int64_t item, void *answer);
    /* The member has ended without an answer, with this status of waitpid(). The answer is what it
     * has asked with, or all zero; to be filled in. */
    void (*died)(void *ctx, int64_t item, int status, void *answer);
    /* The item's answer has arrived. NULL: nobody needs to know before its turn. */
    void (*arrive)(void *ctx, int64_t item, const void *answer);
    /* It is the item's turn. NULL: it was stopped. 1: it is not done, because of a signal. -1 ends
     * the run: members stop, and what is done by then is reported. */
    int (*report)(void *ctx, int64_t item, void *answer, struct err *e);
    /* Called at intervals, to show progress. NULL: nothing is shown. */
    void (*show)(void *ctx, const struct crew_line *l);
};

/* How a run has ended. */
struct crew_line_end {
    int64_t begun;       /* items before this one have been reported, all others not begun */
    bool refused;        /* the system has refused a process for item `begun` */
    int64_t peak_memory; /* bytes: the sum of the members' */
};

/* Runs all items. -1: not all are done, because of a signal, a report or a lack of processes. A
 * signal that comes after the last answer changes nothing. */
int crew_line_run(const struct crew_line_setup *s, struct crew_line_end *end, struct err *e);

/* The same in pieces. All members are forked at once, and none later (crew_fill()). *s must outlive
 * the line. NULL: they cannot be forked. */
struct crew_line *crew_line_open(const struct crew_line_setup *s, struct err *e);
/* Takes what has come within `ms` milliseconds, reports and begins items. -1: a report, or no
 * member is left; what is done by then is reported, and the line can only be closed. */
int crew_line_step(struct crew_line *l, int ms, struct err *e);
/* As crew_line_run(), of the items that are left. */
int crew_line_finish(struct crew_line *l, struct err *e);
/* NULL is allowed. */
void crew_line_close(struct crew_line *l, struct crew_line_end *end);

/* Items first .. end - 1 have begun and are not reported. */
int64_t crew_line_first(const struct crew_line *l);
int64_t crew_line_end(const struct crew_line *l);
/* Of these: does it still need a member? */
bool crew_line_at_work(const struct crew_line *l, int64_t item);
/* The item's answer, or what it has asked with; NULL: neither has come. */
const void *crew_line_answer(const struct crew_line *l, int64_t item);
/* The seat of the member that works on the item; NULL: none does. */
const struct crew_seat *crew_line_seat(const struct crew_line *l, int64_t item);

#endif
