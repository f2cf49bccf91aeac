/*
 * device.h - one CUDA device: its buffers, which are allocated once and grow only between slides; a slab
 * of pixels onto it; a band's counts from it.
 *
 * Two streams: pixels go from page-locked staging buffers into the buffers, on the device, on one (copies.h), while the kernels of
 * the slab before run on the other. device_compute() only queues work. The smoothed rows stay in a ring on the device,
 * so windows that begin in one slab and end in the next need nothing twice.
 *
 * Functions return 0, or -1 with the device, the call and CUDA's own words. After a failure the
 * device is not asked again: device_alive() says no, and all else fails with the first message.
 */
#ifndef WSI_DEVICE_H
#define WSI_DEVICE_H

#include "common/err.h"
#include "process/spectrum.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many there are; 0 with the reason set, in CUDA's own words, when there is none that can be
 * used. */
int device_count(struct err *e);

struct device;

/* `staging`: numbers of staging buffers are less. */
int device_open(struct device **d, int number, const struct result_params *p, int staging, struct err *e);
void device_close(struct device *d);
bool device_alive(const struct device *d);
const char *device_name(const struct device *d);
/* "fused" or "cuFFT": how it computes windows. */
const char *device_kernel(const struct device *d);

bool device_fits(const struct device *d, const struct spectrum_band *s, size_t buffer_bytes);
/* Nothing is under way. When memory is short, fewer windows are computed at a time. */
int device_reserve(struct device *d, const struct spectrum_band *s, size_t buffer_bytes, struct err *e);
bool device_buffer_free(const struct device *d, int k);
/* Memory from which all devices copy while the processors go on. */
int device_lock_pages(struct device *d, size_t bytes, uint8_t **out, struct err *e);
void device_unlock_pages(struct device *d, uint8_t *p);
/* Until no copy is under way, whether the device is alive or not. */
void device_end_copies(struct device *d);
/* As spectrum.h has it. */
int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from, size_t offset,
                size_t bytes, struct err *e);
/* Waits until the staging buffer that was sent last may be filled again. */
void device_wait(struct device *d, int staging);
/* Slabs in their order; one call at a time. */
int device_compute(struct device *d, const struct spectrum_slab *s, struct err *e);
/* Waits for all slabs of s. Adds to *counts and *times, fills in the maps. */
int device_finish(struct device *d, const struct spectrum_band *s, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e);

#ifdef __cplusplus
}
#endif
#endif
