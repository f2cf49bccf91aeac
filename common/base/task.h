/*
 * task.h - the share of a list that a task of an array job computes.
 */
#ifndef WSI_TASK_H
#define WSI_TASK_H

#include "common/base/err.h"

#include <stdint.h>

/* Reads a share: "I/N", I from 1 to N, or "auto", which takes it from an array job of Slurm
 * (SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT) or Grid Engine (SGE_TASK_ID, _FIRST, _LAST,
 * _STEPSIZE). Share I consists of the elements I, I + N, I + 2 N ... "auto" rejects an array with
 * gaps, such as the failed tasks of an earlier one, because N would not be the same. */
int task_parse(const char *what, const char *text, int64_t *task, int64_t *tasks, struct err *e);

#endif
