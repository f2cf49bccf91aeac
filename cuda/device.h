/*
 * device.h - one CUDA device: slabs of pixels go onto it, and the counts of a band come back.
 *
 *                loader.h                      device.cu
 *   chunks ---> staging ---> copies ---> buffers ---> smoothing ---> windows ---> sums ---> maps
 *               a thread     stream 1    of slabs     stream 2       stream 2
 *
 * device_compute() only queues work, so the chunks of later slabs are loaded while the kernels of a
 * slab run. Smoothed rows stay in a ring on the device, so a window that begins in one slab and
 * ends in the next needs nothing twice.
 *
 * Functions return 0, or -1 with the device, the call and CUDA's own message. A device that has
 * failed is not used again (check.h).
 */
#ifndef WSI_DEVICE_H
#define WSI_DEVICE_H

#include "common/base/err.h"
#include "process/spectrum/spectrum.h"

#ifdef __cplusplus
extern "C" {
#endif

struct staging;

/* The number of devices; 0 with CUDA's own message if CUDA finds none. */
int device_count(struct err *e);
/* As of struct spectrum_backend, like all further functions without a comment. */
bool device_available(struct err *e);

/* `staging` serves all devices. *d is set on failure, too: close it. A kernel must be chosen before
 * anything else is done. */
int device_open(struct spectrum **d, int number, const struct spectrum_setup *s,
                struct staging *staging, struct err *e);
/* Fails if little of the device's memory is free. */
int device_check_memory(struct spectrum *d, struct err *e);
/* Can it compute windows with the fused kernel? Otherwise it needs cuFFT. */
bool device_can_fuse(const struct spectrum *d);
int device_choose_kernel(struct spectrum *d, bool fused, struct err *e);
/* NULL is allowed. */
void device_close(struct spectrum *d);
struct spectrum_label device_label(const struct spectrum *d);
/* How it computes windows: "fused" or "cuFFT". */
const char *device_kernel(const struct spectrum *d);

bool device_alive(const struct spectrum *d);
/* When memory is short, less is computed at a time. */
int device_reserve(struct spectrum *d, const struct spectrum_band *b, size_t buffer_bytes,
                   bool drained, struct err *e);
bool device_buffer_free(const struct spectrum *d, int k);
int device_load(struct spectrum *d, const struct spectrum_slab *s, struct chunks_extent x,
                struct spectrum_thread *t, struct err *e);
int64_t device_units(const struct spectrum *d, const struct spectrum_slab *s);
/* Slabs in their order, one call at a time. */
int device_compute(struct spectrum *d, const struct spectrum_slab *s, int64_t k,
                   struct spectrum_thread *t, struct result_counts *counts, struct err *e);
/* Fills in the maps, too. */
int device_finish(struct spectrum *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e);

#ifdef __cplusplus
}
#endif
#endif
