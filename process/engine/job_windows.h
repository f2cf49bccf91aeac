/*
 * job_windows.h - which windows of a job count, their flags, and which are in the sample whose
 * spectra are summed.
 *
 * All this is known before the first pixel is read: it follows from the store's tissue map, its
 * tables of tiles, the regions and the parameters. The sample depends on tissue map and regions of
 * the whole slide, so every run over some groups of a slide finds the same sample
 * (common/result/features.h).
 */
#ifndef WSI_JOB_WINDOWS_H
#define WSI_JOB_WINDOWS_H

#include "process/engine/job.h"

/* After the store is opened: the windows that have enough tissue and lie inside the regions. The
 * message names the file. */
int job_choose_places(struct job *j, struct err *e);
/* When the groups are listed: all the rest. The job's bands get to know it. */
int job_choose_windows(struct job *j, struct err *e);
void job_free_windows(struct job *j);

#endif
