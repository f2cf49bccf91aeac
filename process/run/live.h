/*
 * live.h - `h5spec run --live DIR`: a page that shows a run while it continues, without a server.
 *
 *   DIR/index.html   the page; written once
 *   DIR/state.js     how far the run is; the page loads it again and again
 *   DIR/N.js, N.png  slide N of the run, from 1: its numbers, and its map so far
 *
 * Each file is replaced as a whole, so a browser never reads half of one, and the page opens after
 * the run is killed at any moment. Names of slides are not used as names of files. Pictures grow
 * from top to bottom; a row that has been shown does not change.
 *
 * The module bounds its own cost: when it has taken more than its share of the run's processor
 * time, pictures are left out until the share fits; those of a slide in progress also when they
 * wait long for a disk. If DIR cannot be written, one message says so and the run goes on. One
 * thread.
 */
#ifndef WSI_LIVE_H
#define WSI_LIVE_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdbool.h>
#include <stdint.h>

struct live;

enum live_end { LIVE_COMPLETE, LIVE_STOPPED, LIVE_BROKEN };

/* Makes the folder unless it exists, and the page. `before`: stores that need not be computed or
 * have failed already. NULL on failure. */
struct live *live_open(const char *dir, int64_t stores, int64_t before,
                       const struct result_params *p, struct err *e);
/* Store k of the run, from 0, has values in window rows 0 to rows - 1; `done`: share of the whole
 * run that is computed, 0 to 1. Returns at once if the last update was less than 0.1 to 2 s ago.
 * Unless all rows have values, the counts of s are not read: other threads may write them. */
void live_progress(struct live *l, int64_t k, const struct result_slide *s, int64_t rows,
                   double done);
/* Store k is done, or has no result (then s is NULL): it failed with a reason, or is a copy, "". */
void live_slide(struct live *l, int64_t k, const char *path, const struct result_slide *s,
                const char *why, double done);
/* From now on the calling process, a copy of the one that has opened l, writes N.js and N.png of
 * its own slides alone; the other one calls live_working() for these, and live_slide() with slides
 * that have no maps. */
void live_leave_state(struct live *l);
/* As live_progress(), of a store that another process works on: `windows` of it are computed. */
void live_working(struct live *l, int64_t k, int64_t windows, double done);
/* Writes the last state; frees l. NULL is fine. */
void live_close(struct live *l, enum live_end how);

#endif
