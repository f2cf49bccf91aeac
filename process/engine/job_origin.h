/*
 * job_origin.h - what a result says about the store of a job and its slide.
 */
#ifndef WSI_JOB_ORIGIN_H
#define WSI_JOB_ORIGIN_H

#include "process/engine/job.h"

/* After the job's tissue and regions are chosen (job_windows.h): fills j->result.origin,
 * the thresholds of its samples and its thumbnail. The message names the
 * file. */
int job_describe_origin(struct job *j, struct err *e);

#endif
