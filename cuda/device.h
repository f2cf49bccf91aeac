/*
 * device.h - the CUDA devices of this machine.
 */
#ifndef WSI_DEVICE_H
#define WSI_DEVICE_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many there are; 0 with the reason set, in CUDA's own words, when there is none that can be
 * used. */
int device_count(struct err *e);

#ifdef __cplusplus
}
#endif
#endif
