/*
 * schedule.h - which device gets which rows when: the source side of the stream.
 *
 * The loop's items, in order: for every slab of a band first its LOADs (one extent of chunks each),
 * then its COMPUTEs (one unit of the slab each); a FINISH after a band's last slab. The items of
 * several devices are mixed; each device has two queues of its own, one of LOADs and one of
 * COMPUTEs and FINISHes.
 *
 * What an item waits for:
 *
 *   COMPUTE  the LOADs of its slab, and the slabs before it. Where a COMPUTE only queues work on a
 *            device, also the COMPUTEs before it; elsewhere it need not, so that no thread stands
 *            idle while others compute the last units of a slab.
 *   LOAD     the COMPUTEs of an earlier slab: two fewer slabs are ahead than the device uses
 *            buffers. A slab is at least half as high as a window and its halo, so no later COMPUTE
 *            needs the rows that the LOAD overwrites.
 *   FINISH   the LOADs and COMPUTEs of its band. Where a COMPUTE only queues work on a device, no
 *            item waits for a FINISH, because it lasts until the device has done that work.
 *
 * A band begins when the band that used its sums before it has finished.
 *
 * Threads: schedule_next and schedule_finished are called by one thread at a time, as the loop
 * calls source and sink. schedule_loaded may be called by any thread.
 */
#ifndef WSI_SCHEDULE_H
#define WSI_SCHEDULE_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "common/store/chunks.h"
#include "process/engine/job.h"
#include "process/engine/loop.h"
#include "process/spectrum/spectrum.h"

#include <stdbool.h>
#include <stdint.h>

enum item_kind { ITEM_LOAD, ITEM_COMPUTE, ITEM_FINISH, ITEM_OPEN };

/* An item of the loop. */
struct step {
    enum item_kind kind;
    struct job *job;   /* OPEN, which is the stream's; the others are the schedule's */
    struct band *band; /* LOAD, COMPUTE, FINISH */
    struct spectrum_slab slab;
    struct chunks_extent extent; /* LOAD: of the band's chunks */
    int64_t unit;                /* COMPUTE: of the slab */
    struct result_counts counts; /* COMPUTE, FINISH: what was counted; owns its histogram */
    struct spectrum_times times; /* FINISH */
};

struct schedule;
/* How many queues of the loop there are for so many devices. */
static inline int schedule_queues(int devices)
{
    return 2 * devices;
}

struct schedule *schedule_create(const struct job_terms *t, struct job_queue *q);
void schedule_free(struct schedule *s); /* NULL is allowed */

/* The next item; counts and times are not set. Returns an enum loop_next; see loop.h for order. */
int schedule_next(struct schedule *s, struct step *it, struct loop_order *order);

/* A LOAD of the band has been worked on. */
void schedule_loaded(struct schedule *s, const struct band *band);

/* The FINISH of a band has passed the sink. Returns false if its device has failed and the band
 * will be computed again on another one; band->note then says so. If that is not possible, the job
 * fails. */
bool schedule_finished(struct schedule *s, struct band *band);

#endif
