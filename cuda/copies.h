/*
 * copies.h - copies of pieces of page-locked memory to one device, and their times.
 *
 * A piece belongs to one thread at a time: it fills it, sends it, and waits for the copy before it fills it again.
 * Every few copies are timed, as an event before each would cost a tenth of the bus.
 *
 * Any thread. Functions return 0, or -1 with the device, the call and CUDA's own words.
 */
#ifndef WSI_COPIES_H
#define WSI_COPIES_H

#include "cuda/check.h"

#include <stdint.h>

/* What has been copied for one slide; zeros at first. */
struct copies_times {
    int64_t number;                 /* of the slide: times of one before are dropped when the next one's come */
    int64_t bytes, timed_bytes, ns; /* of all copies; of those that were timed; and what these took */
};

/* Where a piece goes, guarded by an event. */
struct copies_slot {
    cudaEvent_t free; /* whoever needs what is there is done when it is over */
    bool waited;      /* the copies wait for it already */
    bool used;        /* there is something to wait for; atomic, as copies_slot_is_free() has no lock */
};

struct copies;

/* Copies of n pieces to the device that is set. NULL with the error set. */
struct copies *copies_create(struct check_device *d, int n, struct err *e);
/* NULL does nothing. */
void copies_free(struct copies *c);
cudaStream_t copies_stream(const struct copies *c);

/* Queues the copy of `bytes` from piece number `piece`. */
int copies_send(struct copies *c, int piece, const void *from, void *to, size_t bytes, struct copies_slot *slot,
                struct copies_times *times, int64_t number, struct err *e);
/* Waits for the last copy of the piece. */
int copies_wait(struct copies *c, int piece, struct err *e);
/* From now on the slot is free when the stream is where it is now. */
int copies_free_later(struct copies *c, struct copies_slot *slot, cudaStream_t stream, struct err *e);
/* Would a copy to it begin at once? */
bool copies_slot_is_free(const struct copies_slot *slot);
/* All copies of the slide are over: *seconds that they took. */
int copies_tell(struct copies *c, struct copies_times *times, int64_t number, double *seconds, struct err *e);

#endif
