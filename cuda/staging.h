/*
 * staging.h - page-locked memory of the host through which threads send chunks to devices.
 *
 * Each thread has two buffers, which it uses in turn: it fills one while the other is copied. All
 * devices copy from the same buffers, so that --memory bounds them whatever the number of devices,
 * and a thread that serves several devices keeps its buffers in the caches.
 *
 * Threads: staging_take and staging_sent may be called by any thread for its own buffers. The
 * others are called while nothing is in progress, staging_fit also while other devices are used.
 */
#ifndef WSI_STAGING_H
#define WSI_STAGING_H

#include "common/base/err.h"
#include "cuda/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * --- copies ---
 *
 * Copies from staging buffers to one device, and their times. A staging buffer may be memory of
 * the device, too (loader.h).
 *
 * A staging buffer belongs to one thread at a time. The thread fills it, sends it, and waits for
 * the copy before it fills it again. Only some of the copies are timed: an event before each of
 * them would cost a tenth of the bus.
 *
 * Any thread may call any function. Functions return 0, or -1 with the device, the call and CUDA's
 * own message.
 */

/* Bytes and times of the copies for one band. Zeros at first. */
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

#ifdef __cplusplus
extern "C" {
#endif

struct staging;

/* For so many threads, with `memory` bytes at most. */
struct staging *staging_create(int threads, int64_t memory);
/* Waits for all copies and frees the memory. NULL is allowed, for the next one, too. */
void staging_release(struct staging *s);
void staging_free(struct staging *s);
/* The number of buffers. */
int staging_count(const struct staging *s);

/* A device that copies from the buffers, until it leaves. */
void staging_join(struct staging *s, struct copies *c);
void staging_leave(struct staging *s, struct copies *c);

/* Has every buffer room for a chunk? */
bool staging_fit(const struct staging *s, size_t chunk);
size_t staging_bytes(const struct staging *s);
/* Makes room. If that fails, the existing buffers are kept for other devices. */
int staging_reserve(struct staging *s, size_t chunk, struct copies *c, struct err *e);

/* A buffer. */
struct staging_buffer {
    uint8_t *memory; /* begins a page and has CHUNKS_MARGIN bytes more than `bytes` */
    size_t bytes;    /* at least one chunk */
    int number;
};

/* Waits until the thread may fill its next buffer. */
struct staging_buffer staging_take(struct staging *s, int thread);
/* It is being copied to a device. */
void staging_sent(struct staging *s, int number, struct copies *c);

#ifdef __cplusplus
}
#endif

#endif
