/*
 * job.h - a store being processed: opening it, its bands, and what the result says about it.
 *
 * The jobs of a run form a queue, in the order of their stores. Each job passes through the states
 * below, in this order; a job that has failed does, too, and its items do nothing.
 *
 *   JOB_WAITING   it does not exist yet.
 *   JOB_OPENING   a thread opens the store, lists its chunks and chooses its windows.
 *   JOB_OPEN      its bands wait for devices.
 *   JOB_ASSIGNED  the first of its bands has been assigned to a device.
 *   JOB_DONE      its bands are finished; the result is complete.
 *   JOB_REPORTED  the caller has the result; the job is freed.
 *
 * Threads: several jobs are opened at the same time, each by the thread that has its item.
 * Reporting belongs to the calling thread, everything else to source and sink, which the loop calls
 * one at a time. Where a function may be called by any thread, it says so.
 */
#ifndef WSI_JOB_H
#define WSI_JOB_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "common/store/chunks.h"
#include "process/engine/stream_setup.h"
#include "process/spectrum/spectrum.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The data that all jobs of a run share. */
struct job_terms {
    const struct stream_setup *setup;
    int64_t memory, packed_memory; /* bytes of buffers per device, for pixels and where the backend
                                      unpacks chunks */
};

/* Number of devices that can still compute. Any thread. */
int job_devices_alive(const struct job_terms *t);

/* A run of window rows of a job, computed on one device. */
struct band {
    struct job *job;
    struct spectrum_band geometry; /* end_row 0: nothing to compute */
    struct chunks chunks;          /* of the rows that are streamed */
    int64_t rows_done;
    atomic_llong host_decoded[HOST_DECODED_REASONS]; /* chunks, by reason */

    atomic_llong rows_final; /* rows of windows before this one have their values; 0: none */

    atomic_bool lost;  /* its device has failed or lacks memory: its remaining items do nothing */
    struct err why;    /* the device's error; written by the thread that sets `lost` */
    bool no_room;      /* it lacks memory */
    int losses;        /* devices that have failed with it */
    uint64_t lost_to;  /* bits of these, and of devices that lacked memory */
    struct band *next; /* in the schedule's list of lost bands */

    atomic_bool noted; /* `note` is to be reported, and stays as it is until then */
    struct err note;
};

struct job {
    const struct job_terms *terms;
    int64_t number; /* in the queue */
    const char *path;
    struct store *store;
    struct spectrum_file *file; /* --io gds: the store as the devices read it; else NULL */
    struct result_slide result;
    /* [ny][nx] of the slide (job_windows.h) */
    uint8_t *wanted;  /* windows that count; NULL without result_selects() */
    uint8_t *tissue;  /* windows with enough tissue; NULL: all */
    uint8_t *percent; /* of each window that is tissue; with `tissue` */
    uint8_t *inside;  /* windows inside the regions; NULL: all */
    uint8_t *sample;  /* as of spectrum_features.sample */
    struct spectrum_features features;

    struct store_chunk *list;       /* [rows][columns] of the groups that are needed */
    int64_t first_group, end_group; /* those groups */
    int64_t listed_rows;            /* rows of chunks in the list */

    struct band *bands;
    int64_t n_bands, next_band; /* next_band: the first that no device has */
    struct band nothing;        /* the only band of a job without windows, or that has failed */

    atomic_bool failed; /* its remaining items do nothing */
    struct err err;     /* why; names the file; written by the thread that sets `failed` */

    double opening; /* seconds spent on opening it */
    double begun;   /* when it would have begun if opening had not been ahead of computing */
    atomic_llong read_us, unpack_us, wait_us;
    int64_t rows, rows_done; /* of pixels, over all bands */
    int64_t bands_done;
    uint64_t devices; /* bits of those that have computed its bands */
};

/* The job has failed: its remaining items do nothing. The first error counts. e names the file. Any
 * thread. */
void job_fail(struct job *j, const struct err *e);

/* Memory that grows with the job's slide: n zeroed elements. NULL with a message that names it. */
void *job_memory(const struct job *j, size_t n, size_t each, struct err *e);

/* The device that has the band. */
static inline struct spectrum *job_device(const struct band *band)
{
    return band->job->terms->setup->use->devices[band->geometry.assigned.device];
}

/* A device could not do its part for a band: if the device itself has failed, the band is lost to
 * it and may be computed elsewhere, else the job has failed. e does not name the file. Any thread.
 */
void job_device_error(struct band *band, const struct err *e);

/* The device has no room for the band, but maybe another one has. Only before the band begins. */
void job_no_room(struct band *band, const struct err *e);

/* Is there nothing more to do for the band? Any thread. */
bool job_is_gone(const struct band *band);

/* Makes the slabs of a band that has not begun about half as high. False: they are as low as they
 * can be. */
bool job_lower_slabs(struct band *band);

/* Bytes of one row of pixels in a device's buffer. */
int64_t job_row_bytes(const struct job_terms *t, const struct spectrum_band *d);

/* --- the queue --- */

enum job_state { JOB_WAITING, JOB_OPENING, JOB_OPEN, JOB_ASSIGNED, JOB_DONE, JOB_REPORTED };

struct job_queue {
    const struct job_terms *terms;
    int64_t n;
    struct job **jobs;  /* [n]; NULL before JOB_OPENING and after JOB_REPORTED */
    atomic_int *states; /* [n] enum job_state */
    atomic_llong created, assigned,
        reported; /* jobs that have reached OPENING, ASSIGNED, REPORTED */
};

void job_queue_create(struct job_queue *q, const struct job_terms *t);
void job_queue_free(struct job_queue *q); /* with its jobs */

/* Should another job be opened now? Not if there are enough for the devices, or many wait for their
 * report. */
bool job_queue_may_open(const struct job_queue *q);
/* The next job, to be opened. */
struct job *job_queue_add(struct job_queue *q);
/* Opens it. If the store cannot be opened, the job fails. Any thread. */
void job_open(struct job *j);
/* It has been opened. */
void job_queue_opened(struct job_queue *q, const struct job *j);

/* Is a job ready to be assigned? Any thread. */
bool job_queue_ready(const struct job_queue *q);
/* Assigns it. */
struct job *job_queue_assign(struct job_queue *q);

/* A job's bands are finished. */
void job_queue_done(struct job_queue *q, struct job *j);
/* Is the next job to be reported done? Any thread. */
bool job_queue_may_report(const struct job_queue *q);
/* Hands it to the caller's report and frees it. */
int job_queue_report(struct job_queue *q, struct err *e);

#endif
