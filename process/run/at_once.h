/*
 * at_once.h - a run whose results go into a folder, in several processes.
 *
 *                 parent                                 members
 *   on a CPU      which stores are the same slide        open a store, ask, compute its slide
 *                                                        (stream.h), write its result
 *   on GPUs       opens and computes all (stream.h)      write results
 *   both          reports in order, shows progress
 *
 * HDF5 lets one thread of a process in, and takes longer for a slide than four GPUs. On a CPU,
 * moreover, one process with many threads on one slide at a time leaves cores idle while a small
 * slide begins and ends: as many slides are at work as there are threads, and the last ones get the
 * threads of those that are done (crew.h). On GPUs one process feeds all devices: two processes
 * share a GPU by turns, and each needs a third of a second to open it.
 */
#ifndef WSI_AT_ONCE_H
#define WSI_AT_ONCE_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "process/options/options.h"
#include "process/run/live.h"
#include "process/run/run_output.h"

#include <stdbool.h>
#include <stdint.h>

struct at_once {
    const struct options *o;
    struct run_output *out;
    struct live *live;   /* NULL without --live */
    const double *bytes; /* [n + 1]: of the stores before store k; NULL: nothing shows progress */

    /* All in the parent. */
    void *ctx;
    /* As of struct stream_setup; the slide has numbers and a histogram only, and its result is
     * written. */
    int (*report)(void *ctx, int64_t k, const struct result_slide *slide, const struct err *why,
                  struct err *e);
    /* Nor can others be written: the run ends. */
    int (*unwritten)(void *ctx, int64_t k, const struct err *why, struct err *e);
    /* The store that was reported with this quickhash, or NULL. */
    const char *(*reported)(void *ctx, const char *quickhash);
    /* Store k stands for all at work: `done` of the whole run is done without it, `share` is its
     * part of the run, and `windows` are computed but not reported. */
    void (*progress)(void *ctx, int64_t k, double fraction, double done, double share,
                     double windows);
};

/* Is this a run for several processes? *note: why the CPU is used, if it was not asked for, or "".
 */
bool at_once_serves(const struct options *o, struct err *note);
/* Computes all stores. *peak: memory of all members, bytes. -1: the run ended early. */
int at_once_run(const struct at_once *a, int64_t *peak, struct err *e);

/* Members that write what the caller computes. Forks them: no GPU has been opened. NULL: not worth
 * it for this run, or the system refuses. `bytes` and `progress` of *a are not used. */
struct at_once_writers *at_once_open_writers(const struct at_once *a);
/* As `report` of struct stream_setup: takes slide k over, and reports those that are written. */
int at_once_put(struct at_once_writers *w, int64_t k, const struct result_slide *slide,
                const struct err *why, struct err *e);
/* Waits for all that were put, or, if the run has failed, ends them. Returns 0, or -1 if some are
 * not written. NULL is allowed. */
int at_once_close_writers(struct at_once_writers *w, bool failed, int64_t *peak, struct err *e);
/* ERR_COPY: two stores of a run have the same slide, and `first` has a result. */
int at_once_same(const char *path, const char *first, struct err *e);

#endif
