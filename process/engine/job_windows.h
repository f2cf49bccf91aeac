/*
 * job_windows.h - which windows of a job count, their flags, and which are in the sample whose
 * spectra are summed.
 */
#ifndef WSI_JOB_WINDOWS_H
#define WSI_JOB_WINDOWS_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "process/engine/job.h"

#include <stdint.h>

/* --- how much of each window is tissue, by the tissue map of the store --- */

/*
 * wanted [ny][nx] gets 1 for the windows that have at least min_tissue of their area in tissue
 * cells of `cell` px, else 0, and percent [ny][nx] the share of it (features_percent());
 * mask [rows][cols]. Areas are whole numbers of px, so they are exact. -1 without memory or when a
 * stop is requested.
 */
int tissue_windows_find(const struct result_params *p, const uint8_t *mask, int64_t cols,
                        int64_t rows, int64_t cell, int64_t nx, int64_t ny, uint8_t *wanted,
                        uint8_t *percent, struct err *e);

/*
 * --- the windows of a job ---
 *
 * All this is known before the first pixel is read: it follows from the store's tissue map, its
 * tables of tiles, the regions and the parameters. The sample depends on tissue map and regions of
 * the whole slide, so every run over some groups of a slide finds the same sample
 * (common/result/features.h).
 */

/* After the store is opened: the windows that have enough tissue and lie inside the regions. The
 * message names the file. */
int job_choose_places(struct job *j, struct err *e);
/* When the groups are listed: all the rest. The job's bands get to know it. */
int job_choose_windows(struct job *j, struct err *e);
void job_free_windows(struct job *j);

#endif
