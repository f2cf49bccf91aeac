/*
 * tissue_windows.h - how much of each window is tissue, by the tissue map of the store.
 */
#ifndef WSI_TISSUE_WINDOWS_H
#define WSI_TISSUE_WINDOWS_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdint.h>

/*
 * wanted [ny][nx] gets 1 for the windows that have at least min_tissue of their area in tissue
 * cells of `cell` px, else 0, and percent [ny][nx] the share of it (features_percent());
 * mask [rows][cols]. Areas are whole numbers of px, so they are exact. -1 without memory or when a
 * stop is requested.
 */
int tissue_windows_find(const struct result_params *p, const uint8_t *mask, int64_t cols,
                        int64_t rows, int64_t cell, int64_t nx, int64_t ny, uint8_t *wanted,
                        uint8_t *percent, struct err *e);

#endif
