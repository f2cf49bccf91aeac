/*
 * copies.h - copies of staging buffers to one device, and their times.
 *
 * A staging buffer belongs to one thread at a time: it fills it, sends it, and waits for the copy before it fills it
 * again.
 * Every few copies are timed, as an event before each would cost a tenth of the bus.
 *
 * Any thread. Functions return 0, or -1 with the device, the call and CUDA's own words.
 */
#ifndef WSI_COPIES_H
#define WSI_COPIES_H

#include "cuda/check.h"

#include <stdint.h>

/* What has been copied for one band; zeros at first. */
struct copies_times {
    int64_t number;                 /* of the band: times of one before are dropped when the next one's come */
    int64_t bytes, timed_bytes, ns; /* of all copies; of those that were timed; and what these took */
};

/* The event that guards a buffer of the device. */
struct copies_guard {
    cudaEvent_t free; /* whoever needs what is there is done when it is over */
    bool waited;      /* the copies wait for it already */
    bool used;        /* there is something to wait for; atomic, as copies_is_free() has no lock */
};

struct copies;

/* Copies of n staging buffers to the device that is set. NULL with the error set. */
struct copies *copies_create(struct check_device *d, int n, struct err *e);
/* NULL does nothing. */
void copies_free(struct copies *c);
cudaStream_t copies_stream(const struct copies *c);

/* Queues the copy of `bytes` from a staging buffer to the buffer that `guard` guards. */
int copies_send(struct copies *c, int staging, const void *from, void *to, size_t bytes, struct copies_guard *guard,
                struct copies_times *times, int64_t number, struct err *e);
/* Waits for the last copy of the staging buffer. */
int copies_wait(struct copies *c, int staging, struct err *e);
/* From now on the buffer is free when the stream is where it is now. */
int copies_free_later(struct copies *c, struct copies_guard *guard, cudaStream_t stream, struct err *e);
/* Would a copy to it begin at once? */
bool copies_is_free(const struct copies_guard *guard);
/* All copies of the band are over: *seconds that they took. */
int copies_report(struct copies *c, struct copies_times *times, int64_t number, double *seconds, struct err *e);

#endif
