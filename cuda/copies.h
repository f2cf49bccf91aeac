/*
 * copies.h - copies from staging buffers to one device, and their times. A staging buffer may be
 * memory of the device, too (loader.h).
 *
 * A staging buffer belongs to one thread at a time. The thread fills it, sends it, and waits for
 * the copy before it fills it again. Only some of the copies are timed: an event before each of
 * them would cost a tenth of the bus.
 *
 * Any thread may call any function. Functions return 0, or -1 with the device, the call and CUDA's
 * own message.
 */
#ifndef WSI_COPIES_H
#define WSI_COPIES_H

#include "cuda/check.h"

#include <stdint.h>

/* What was copied for one band. Zeros at first. */
struct copies_times {
    int64_t number;      /* of the band; the times of an earlier one are dropped */
    int64_t bytes;       /* of all copies */
    int64_t timed_bytes; /* of the copies that were timed */
    int64_t ns;          /* that these took */
};

/* Guards a buffer of the device against being filled too early. */
struct copies_guard {
    cudaEvent_t free; /* passed when nobody needs the contents any more */
    bool waited;      /* the copies wait for it already */
    bool used;        /* there is something to wait for; atomic: copies_is_free() takes no lock */
};

struct copies;

/* For n staging buffers and the current device. NULL with the error set. */
struct copies *copies_create(struct check_device *d, int n, struct err *e);
/* NULL is fine. */
void copies_free(struct copies *c);
struct check_device *copies_device(const struct copies *c);
/* Waits until no copy is in progress, whether the device is alive or not. */
void copies_end(struct copies *c);

/* Lets the stream wait for all copies queued so far; `mark` is an event for it alone. */
int copies_come_first(struct copies *c, cudaEvent_t mark, cudaStream_t stream, struct err *e);
/* Queues a copy of `bytes` from staging buffer number `staging` to the buffer that `guard` guards.
 */
int copies_send(struct copies *c, int staging, const void *from, void *to, size_t bytes,
                struct copies_guard *guard, struct copies_times *times, int64_t number,
                struct err *e);
/* Queues bytes 255 for a guarded buffer. */
int copies_blank(struct copies *c, void *to, size_t bytes, struct copies_guard *guard,
                 struct err *e);
/* Waits for the last copy from the staging buffer. */
int copies_wait(struct copies *c, int staging, struct err *e);
/* From now on the guarded buffer is free once the stream has reached its present end. */
int copies_free_later(struct copies *c, struct copies_guard *guard, cudaStream_t stream,
                      struct err *e);
/* Would a copy to the guarded buffer begin at once? */
bool copies_is_free(const struct copies_guard *guard);
/* All copies of the band are complete. *seconds: the time that they took. */
int copies_report(struct copies *c, struct copies_times *times, int64_t number, double *seconds,
                  struct err *e);

#endif
