/*
 * crew.h - items that are worked on at once, each by a process of its own.
 *
 *   parent      item 0, 1, 2 ...      crew_begin        events, in any order: done, died, asks
 *   members     seat 0: item 0, 3 ... seat 1: item 1 ...
 *
 * What a library crashes on costs one item, and locks of libraries, such as HDF5's, are each
 * member's own. A member is forked when an item finds no idle one, works on one item at a time, and
 * lives until the crew is freed. Members begin as copies of the parent: what is to be shared must
 * exist before the first item. The parent ignores SIGPIPE, has no threads, and has not used what
 * survives no fork (CUDA). A parent that will use CUDA calls crew_fill() first. Facts travel as
 * bytes of structs, pointers to static data included.
 *
 * Cores: the parent says how many threads each item may use now (struct crew_seat); members look
 * while they work, so the last items get the cores of those that are done.
 *
 * If the parent ends, also without memory, or is asked to stop, so are its members. One that
 * somebody else asks to stop gets no further item.
 */
#ifndef WSI_CREW_H
#define WSI_CREW_H

#include "common/base/err.h"
#include "common/base/publish.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that parent and member share. */
struct crew_seat {
    atomic_int threads;              /* that the member may use now; at least 1 */
    _Atomic double fraction, amount; /* done of its item, and units of it; by the member */
    atomic_llong peak_memory;        /* of the member, bytes; after its first item */
    char unfinished[PUBLISH_PATH];   /* its temporary file, or "": removed if the member dies */
};

struct crew_setup {
    int members;         /* at most; >= 1. The limit of descriptors may allow fewer. */
    int cores;           /* that all members may use together */
    size_t answer_bytes; /* of the struct that work() fills in */
    /* In the member: works on the item and fills in the answer, which is all zero before. */
    void (*work)(void *ctx, int64_t item, struct crew_seat *seat, void *answer);
    void (*leave)(int status); /* ends a member, such as h5_exit; does not return */
    void *ctx;
};

enum crew_event_kind {
    CREW_NONE, /* time is over, or a signal came */
    CREW_DONE, /* *answer is what work() filled in */
    CREW_DIED, /* without an answer; `status` is that of waitpid() */
    CREW_ASKS, /* the member waits in crew_ask() for crew_reply() */
};

struct crew_event {
    enum crew_event_kind kind;
    int seat;
    int64_t item;
    int status;
    const void *answer; /* until the next call */
};

struct crew;
/* Forks nobody yet. There is one crew at a time. */
struct crew *crew_create(const struct crew_setup *s);
/* Ends the members, those that still work by a signal, and waits for them: at most about a second,
 * then they are killed. NULL is allowed. */
void crew_free(struct crew *c);

/* Forks all members now, and none later: the seat of one that ends stays empty. -1: not all can be
 * forked; free the crew. */
int crew_fill(struct crew *c, struct err *e);
/* Is a member idle, or may one be forked? */
bool crew_has_room(const struct crew *c);
/* Members at work. */
int crew_busy(const struct crew *c);
/* The seat of the member that works on the item; NULL: none does. */
const struct crew_seat *crew_seat_of(const struct crew *c, int64_t item);
/* Gives an item to a member; crew_has_room() must hold. -1: the system refuses another process; the
 * item is not begun. With members at work, try again after the next event. */
int crew_begin(struct crew *c, int64_t item, struct err *e);
/* The next event, within `ms` milliseconds. */
struct crew_event crew_wait(struct crew *c, int ms);
/* Lets the member go on, or, without `go`, give its item up; its answer comes, too. */
void crew_reply(struct crew *c, int seat, bool go);
/* Asks all members to stop (SIGTERM). */
void crew_stop(struct crew *c);
/* Bytes: the sum of the members' peaks. */
int64_t crew_peak_memory(const struct crew *c);

/* In the member, within work(): sends the answer as it is now and waits. False: give the item
 * up. */
bool crew_ask(struct crew_seat *seat, const void *answer);

#endif
