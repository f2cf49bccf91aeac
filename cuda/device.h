/*
 * device.h - one CUDA device: slabs of pixels go onto it, and the counts of a band come back.
 *
 * It has two streams. On one, pixels are copied from page-locked staging buffers into the buffers
 * of slabs (copies.h). On the other, the kernels of the slab before run. device_compute() only
 * queues work. Smoothed rows stay in a ring on the device, so a window that begins in one slab and
 * ends in the next needs nothing twice.
 *
 * Functions return 0, or -1 with the device, the call and CUDA's own message. After a failure the
 * device is not used again: device_alive() is false, and all functions fail with the first message.
 */
#ifndef WSI_DEVICE_H
#define WSI_DEVICE_H

#include "common/base/err.h"
#include "process/spectrum/spectrum.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of devices; 0 with CUDA's own message if CUDA finds none. */
int device_count(struct err *e);

struct device;

/* `staging`: the number of staging buffers; `readers`: of threads that call device_read(), with
 * further staging buffers after these. *d is set on failure, too: close it. A kernel must be
 * chosen before anything else is done. */
int device_open(struct device **d, int number, const struct result_params *p, int staging,
                int readers, struct err *e);
/* Fails if little of the device's memory is free. */
int device_check_memory(struct device *d, struct err *e);
/* Can it compute windows with the fused kernel? Otherwise it needs cuFFT. */
bool device_can_fuse(const struct device *d);
int device_choose_kernel(struct device *d, bool fused, struct err *e);
void device_close(struct device *d);
bool device_alive(const struct device *d);
int device_number(const struct device *d);
const char *device_name(const struct device *d);
/* How it computes windows: "fused" or "cuFFT". */
const char *device_kernel(const struct device *d);

bool device_fits(const struct device *d, const struct spectrum_band *b, size_t buffer_bytes);
/* Nothing is in progress. When memory is short, less is computed at a time. */
int device_reserve(struct device *d, const struct spectrum_band *b, size_t buffer_bytes,
                   struct err *e);
bool device_buffer_free(const struct device *d, int k);
/* Page-locks memory from which all devices copy in the background. */
int device_lock_pages(struct device *d, size_t bytes, uint8_t **out, struct err *e);
void device_unlock_pages(struct device *d, uint8_t *p);
/* Waits until no copy is in progress, whether the device is alive or not. */
void device_end_copies(struct device *d);
/* As in spectrum.h. */
int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from,
                size_t offset, size_t bytes, struct err *e);
int device_blank(struct device *d, const struct spectrum_slab *s, size_t offset, size_t bytes,
                 struct err *e);
int64_t device_send_packed(struct device *d, const struct spectrum_slab *s, int staging,
                           const uint8_t *from, int64_t first, const struct store_chunk *chunks,
                           int64_t n, uint8_t *left, struct err *e);
int device_next_left(struct device *d, const struct spectrum_slab *s, int64_t *place,
                     struct err *e);
/* Room for device_read(): for so many stored bytes at a time. */
bool device_reads_fit(const struct device *d, size_t bytes);
int device_reserve_reads(struct device *d, size_t bytes, struct err *e);
int64_t device_read(struct device *d, const struct spectrum_slab *s, struct spectrum_read *r,
                    int thread, struct err *e);
/* Waits until the staging buffer may be filled again. */
void device_wait(struct device *d, int staging);
/* Slabs in their order, one call at a time. */
int device_compute(struct device *d, const struct spectrum_slab *s, struct err *e);
/* Waits for all slabs of the band. Adds to *counts and *times, and fills in the maps. */
int device_finish(struct device *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e);

#ifdef __cplusplus
}
#endif
#endif
