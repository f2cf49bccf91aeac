/*
 * stream.h - from stores to spectra: one continuous stream over many stores.
 *
 * Each store's chunks are listed once; then extents (consecutive chunks) are read with pread, checked
 * against their CRC, inflated and laid as rows of gray into the backend's buffers, by the same threads
 * that run the backend. Pixel rows are read once, in order, whatever the size of the groups; the next
 * store begins while the last slab of the one before is still being computed. A store that fails is
 * reported and the others go on. What a device was computing when it failed is computed again by the others.
 */
#ifndef WSI_STREAM_H
#define WSI_STREAM_H

#include "common/err.h"
#include "common/result.h"
#include "process/spectrum.h"

#include <stdint.h>

/* How stores are read: past the page cache, through it, or the former when they are not in it. */
enum stream_io { STREAM_AUTO, STREAM_DIRECT, STREAM_BUFFERED };

struct stream_setup {
    const struct spectrum_backend *backend;
    const char *devices; /* for the backend's open; NULL: all */
    enum stream_io io;
    struct result_params params;
    char *const *paths; /* stores */
    int64_t n_paths;
    int threads;
    int64_t memory;     /* bytes for pixels in flight; 0: what serves the backend best */
    int64_t first_group, last_group; /* counted from 1; 0, 0: all */

    void *ctx;
    /* Store number k is done, in the order of paths: its slide, or NULL and why not. On the calling
     * thread, for telling and writing it. -1 ends the run. */
    int (*report)(void *ctx, int64_t k, const struct result_slide *slide, const struct err *why, struct err *e);
    /* Something that does not end a store: store number k, and what; the calling thread. May be NULL. */
    void (*note)(void *ctx, int64_t k, const char *text);
    /* Now and then: fraction of store number k that has been computed; the calling thread. May be
     * NULL. */
    void (*progress)(void *ctx, int64_t k, double fraction);
};

/* Runs all stores. -1 when the run as a whole failed or was stopped by a signal. */
int stream_run(const struct stream_setup *setup, struct err *e);

#endif
