/*
 * feature_sums.h - what one device sums up for features: per band in progress sums of
 * bin numbers over octaves, over all windows and, as far as maps need them, per window; and spectra
 * of the sample.
 *
 * Functions return 0, or -1 with the device, the call and CUDA's own message.
 */
#ifndef WSI_FEATURE_SUMS_H
#define WSI_FEATURE_SUMS_H

#include "cuda/check.h"
#include "cuda/counts.h"
#include "process/spectrum/spectrum.h"

/* Of one band. d_: on the device, the others page-locked on the host. n: of the window. */
struct feature_sums {
    unsigned long long *d_octaves, *octaves; /* [FEATURES_OCTAVES] */
    unsigned *d_rings, *rings;               /* [rows of windows of the band][nx][rings][words] */
    unsigned *d_spectra, *spectra;           /* [FEATURES_SAMPLES][u: n / 2 + 1][v: n] */
    uint8_t *d_sample;                       /* [rows of windows of the band][nx] */
    struct counts_features layout;           /* of the rings; without memory */
};

int feature_sums_open(struct feature_sums *s, struct check_device *d, const struct result_params *p,
                      struct err *e);
void feature_sums_close(struct feature_sums *s);
/* Memory for so many windows of a band. */
int feature_sums_reserve(struct feature_sums *s, struct check_device *d, int64_t windows,
                         struct err *e);
void feature_sums_release(struct feature_sums *s);

/* Where the kernels add. */
void feature_sums_counters(const struct feature_sums *s, const struct result_params *p,
                           struct counts_features *f);
/* Queue on the stream: zeros and the sample onto the device; all sums back to the host. */
int feature_sums_begin(struct feature_sums *s, struct check_device *d,
                       const struct result_params *p, const struct spectrum_band *b,
                       cudaStream_t stream, struct err *e);
int feature_sums_fetch(struct feature_sums *s, struct check_device *d,
                       const struct result_params *p, const struct spectrum_band *b,
                       cudaStream_t stream, struct err *e);
/* The sums are on the host: window k of the band's. Octaves that no map needs are 0. */
void feature_sums_window(const struct feature_sums *s, int64_t k,
                         uint64_t octaves[FEATURES_OCTAVES]);
/* The sums are on the host: adds them to *counts and to the band's spectra. */
int feature_sums_take(const struct feature_sums *s, const struct result_params *p,
                      const struct spectrum_band *b, struct result_counts *counts, struct err *e);

#endif
