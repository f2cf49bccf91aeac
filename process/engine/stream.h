/*
 * stream.h - from stores to spectra: one continuous stream over many stores.
 *
 *   any thread        OPEN a, OPEN b, LOAD a, LOAD a, COMPUTE a, OPEN c, ... FINISH a, LOAD b, ...
 *   calling thread                                                          report a, ...
 *
 * The chunks of each store are listed once. Extents of chunks are then read, checked, unpacked and
 * put into the backend's buffers by the same threads that run the backend. Rows of pixels are read
 * once, in order, whatever the size of the groups, and the next store begins while the last slab of
 * the previous one is still being computed. Three modules do this: job (a store being processed),
 * schedule (which device gets which rows when) and stream (the threads' work, and the run).
 *
 * A store that fails is reported; the others are processed. If a device fails, the others compute
 * its bands again.
 */
#ifndef WSI_STREAM_H
#define WSI_STREAM_H

#include "process/engine/stream_setup.h"

/* Processes all stores. -1 if the run as a whole failed, or was stopped by a signal. */
int stream_run(const struct stream_setup *setup, struct err *e);

#endif
