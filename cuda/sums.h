/*
 * sums.h - the counters of one device. Functions return 0, or -1 with the device, the call and
 * CUDA's own message.
 */
#ifndef WSI_SUMS_H
#define WSI_SUMS_H

#include "cuda/check.h"
#include "cuda/counts.h"
#include "process/spectrum/spectrum.h"

/*
 * --- for features ---
 *
 * Per band in progress sums of bin numbers over octaves, over all windows and, as far as maps need
 * them, per window; and spectra of the sample.
 */

/* Of one band. d_: on the device, the others page-locked on the host. n: of the window. */
struct feature_sums {
    unsigned long long *d_octaves, *octaves; /* [FEATURES_OCTAVES] */
    unsigned *d_rings, *rings;               /* [rows of windows of the band][nx][rings][words] */
    unsigned *d_spectra, *spectra;           /* [FEATURES_SAMPLES][u: n / 2 + 1][v: n] */
    uint8_t *d_sample;                       /* [rows of windows of the band][nx] */
    uint16_t *d_steps, *steps;               /* [rows of windows of the band][nx] */
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
/* The sums are on the host: puts octaves and steps of the slide's window k into *w. Octaves that no
 * map needs are 0. */
void feature_sums_window(const struct feature_sums *s, const struct spectrum_band *b, int64_t k,
                         struct spectrum_window *w);
/* The sums are on the host: adds them to *counts and to the band's spectra. */
void feature_sums_take(const struct feature_sums *s, const struct result_params *p,
                       const struct spectrum_band *b, struct result_counts *counts);

/*
 * --- for each band in progress a histogram and sums per window, on the device and, page-locked, on
 * the host ---
 */

/* Of one band. */
struct sums {
    unsigned long long *d_histogram, *histogram; /* [bins + 2] */
    unsigned long long *d_windows, *windows;     /* [rows of windows of the band][nx][2] */
    uint8_t *d_wanted;                           /* [rows of windows of the band][nx] */
    struct feature_sums features;
    cudaEvent_t done;   /* all of it is on the host */
    int64_t kernels_us; /* atomic */
};

struct sums_set {
    struct check_device *device;
    const struct result_params *params;
    struct sums sums[SPECTRUM_SUMS];
    size_t windows_bytes;
};

int sums_open(struct sums_set *s, struct check_device *d, const struct result_params *p,
              struct err *e);
void sums_close(struct sums_set *s);

/* The sums that a band uses. */
static inline int sums_number(const struct spectrum_band *d)
{
    return (int)(d->assigned.number % SPECTRUM_SUMS);
}

static inline struct sums *sums_of(struct sums_set *s, const struct spectrum_band *d)
{
    return &s->sums[sums_number(d)];
}

bool sums_fit(const struct sums_set *s, const struct spectrum_band *d);
int sums_reserve(struct sums_set *s, const struct spectrum_band *d, struct err *e);
void sums_release(struct sums_set *s);

/* Where the kernels count. */
struct counts_windows sums_windows(struct sums_set *s, const struct spectrum_band *d,
                                   int64_t first_wy, int64_t end_wy);
struct counts_sums sums_counters(struct sums_set *s, const struct spectrum_band *d);

/* Queues on the stream: zeros and the mask of wanted windows onto the device. */
int sums_begin(struct sums_set *s, const struct spectrum_band *d, cudaStream_t stream,
               struct err *e);
/* Queues on the stream: all sums back to the host. */
int sums_fetch(struct sums_set *s, const struct spectrum_band *d, cudaStream_t stream,
               struct err *e);
/* Waits for sums_fetch(). */
int sums_wait(struct sums_set *s, const struct spectrum_band *d, struct err *e);
/* Then checks that every value was counted, adds to *counts and fills in the band's maps. */
int sums_take(struct sums_set *s, const struct spectrum_band *d, struct result_counts *counts,
              struct err *e);

#endif
