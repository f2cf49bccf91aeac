/*
 * load.h - what LOAD items do: chunks of a store into the buffers of a backend, as gray rows, as
 * pixels, or as they are stored where the device unpacks them.
 *
 * Errors end the job or lose the band (job.h), never the run. load_item and load_complete may run
 * on several threads at once; each thread passes its own number.
 */
#ifndef WSI_LOAD_H
#define WSI_LOAD_H

#include "common/store/chunks.h"
#include "process/engine/schedule.h"
#include "process/spectrum/spectrum.h"

/* Starts as {0}. */
struct load {
    const struct spectrum_backend *backend;
    struct spectrum *spectrum; /* the backend's state */
    int threads;
    struct chunks_scratch *scratch; /* [threads] */
    struct marks *marks;            /* [threads] */
};

int load_create(struct load *s, const struct spectrum_backend *b, struct spectrum *spectrum,
                int threads, struct err *e);
void load_free(struct load *s); /* what it owns, not s */

/* Reads the extent of a LOAD and puts it where the backend wants it. */
void load_item(struct load *s, const struct item *it, int thread);
/* Before a COMPUTE of a band whose chunks the device unpacks: waits for them, and sends the pixels
 * of those that it cannot unpack. -1 if the job or the band is gone. */
int load_complete(struct load *s, const struct item *it, int thread);

#endif
