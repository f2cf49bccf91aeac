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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct copies; /* copies.h: of one device */
struct staging;

/* For so many threads, with `memory` bytes at most. NULL with the error set. */
struct staging *staging_create(int threads, int64_t memory, struct err *e);
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
