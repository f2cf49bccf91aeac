/*
 * stream_setup.h - the settings of a run over stores: the backend, the parameters, the stores, and
 * whom to report to.
 */
#ifndef WSI_STREAM_SETUP_H
#define WSI_STREAM_SETUP_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "process/engine/regions.h"
#include "process/spectrum/spectrum.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How stores are read: past the page cache if they are not in it, past it, through it, or by the
 * devices themselves. */
enum stream_io { STREAM_AUTO, STREAM_DIRECT, STREAM_BUFFERED, STREAM_GDS };

struct stream_setup {
    const struct spectrum_use *use; /* opened for `params` and `memory` */
    enum stream_io io;
    struct result_params params;
    char *const *paths; /* stores */
    int64_t n_paths;
    const struct regions_choice *regions; /* of stores, with params.roi */
    int64_t memory; /* bytes for pixels in flight; 0: what serves the backend best */
    int64_t first_group, last_group; /* from 1; 0, 0: all */
    bool reject_damaged;             /* a store with damaged tiles fails */
    const atomic_int *threads_now;   /* of the threads of `use`, those that may work now: looked at
                                        while they work. NULL: all */

    void *ctx;
    /* Store k is open: may its slide be computed? -1: no, e names the store. Any thread. NULL: all
     * may. */
    int (*opened)(void *ctx, int64_t k, const char *quickhash, struct err *e);

    /* All callbacks from here on run on the calling thread. */
    /* Store k is done; called in the order of paths. `slide` is its result, or NULL, and then `why`
     * names the store and says why not. Both are valid during the call. -1 ends the run. */
    int (*report)(void *ctx, int64_t k, const struct result_slide *slide, const struct err *why,
                  struct err *e);
    /* An event that does not end store k; the text does not name it. May be NULL. */
    void (*note)(void *ctx, int64_t k, const char *text);
    /* At intervals: the fraction of store k that has been computed, and the number of its windows.
     * May be NULL. */
    void (*progress)(void *ctx, int64_t k, double fraction, int64_t windows);
    /* At intervals: window rows 0 to rows - 1 of all maps of store k are final; the others are
     * being written. May be NULL. */
    void (*live)(void *ctx, int64_t k, const struct result_slide *slide, int64_t rows);
};

#endif
