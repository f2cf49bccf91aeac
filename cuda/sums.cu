/* sums.cu - see sums.h. */
#include "cuda/sums.h"

#include "common/base/memory.h"

#include <assert.h>
#include <stdlib.h>

static size_t spectra_bytes(const struct result_params *p)
{
    return FEATURES_SAMPLES * result_spectrum_sums(p) * sizeof(unsigned);
}

static int64_t windows_of(const struct spectrum_band *b)
{
    return b->nx * (b->end_wy - b->first_wy);
}

/* Sets the octaves that have rings. Sums of large windows with very many bins take two words. */
static void choose_rings(const struct result_params *p, struct counts_features *f)
{
    bool used[FEATURES_OCTAVES] = {};
    for (int m = 0; m < RESULT_MAPS; m++) {
        const struct result_map_kind *kind = result_map_kind(m);
        if (kind->formula == RESULT_OF_OCTAVE || kind->formula == RESULT_OF_OCTAVES)
            used[kind->octave] = true;
        if (kind->formula == RESULT_OF_OCTAVES)
            used[kind->less] = true;
        for (int o = 0; o < FEATURES_OCTAVES && kind->formula == RESULT_OF_SHARPNESS; o++)
            used[o] = used[o] || features_sharpness_weights[o] != 0;
    }
    assert(!used[FEATURES_OCTAVES - 1]); /* the fused kernel does not know it of each window */
    f->rings = f->slots = 0;
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        f->slots |= (used[o] ? f->rings++ : (unsigned)COUNTS_NO_RING) << 4 * o;
    f->words = p->window * p->window * (p->bins - 1) > (int64_t)UINT32_MAX ? 2 : 1;
}

static size_t rings_bytes(const struct feature_sums *s, int64_t windows)
{
    return (size_t)windows * s->layout.rings * s->layout.words * sizeof(unsigned);
}

static const size_t OCTAVES_BYTES = FEATURES_OCTAVES * sizeof(unsigned long long);

/* --- memory --- */

int feature_sums_open(struct feature_sums *s, struct check_device *d, const struct result_params *p,
                      struct err *e)
{
    choose_rings(p, &s->layout);
    if (CU(d, cudaMalloc((void **)&s->d_octaves, OCTAVES_BYTES), e) ||
        CU(d, cudaMallocHost((void **)&s->octaves, OCTAVES_BYTES), e) ||
        CU(d, cudaMalloc((void **)&s->d_spectra, spectra_bytes(p)), e))
        return -1;
    return CU(d, cudaMallocHost((void **)&s->spectra, spectra_bytes(p)), e);
}

void feature_sums_close(struct feature_sums *s)
{
    cudaFree(s->d_octaves);
    cudaFree(s->d_spectra);
    cudaFreeHost(s->octaves);
    cudaFreeHost(s->spectra);
}

int feature_sums_reserve(struct feature_sums *s, struct check_device *d, int64_t windows,
                         struct err *e)
{
    if (CU(d, cudaMalloc((void **)&s->d_rings, rings_bytes(s, windows)), e) ||
        CU(d, cudaMallocHost((void **)&s->rings, rings_bytes(s, windows)), e) ||
        CU(d, cudaMalloc((void **)&s->d_steps, (size_t)windows * sizeof *s->steps), e) ||
        CU(d, cudaMallocHost((void **)&s->steps, (size_t)windows * sizeof *s->steps), e))
        return -1;
    return CU(d, cudaMalloc((void **)&s->d_sample, (size_t)windows), e);
}

void feature_sums_release(struct feature_sums *s)
{
    cudaFree(s->d_rings);
    cudaFree(s->d_sample);
    cudaFree(s->d_steps);
    cudaFreeHost(s->rings);
    cudaFreeHost(s->steps);
    s->d_rings = s->rings = NULL;
    s->d_steps = s->steps = NULL;
    s->d_sample = NULL;
}

/* --- counting --- */

void feature_sums_counters(const struct feature_sums *s, const struct result_params *p,
                           struct counts_features *f)
{
    *f = s->layout;
    f->d_octaves = s->d_octaves;
    f->d_rings = s->d_rings;
    f->d_spectra = s->d_spectra;
    f->d_sample = s->d_sample;
    f->d_steps = s->d_steps;
    f->spectrum = (unsigned)result_spectrum_sums(p);
}

int feature_sums_begin(struct feature_sums *s, struct check_device *d,
                       const struct result_params *p, const struct spectrum_band *b,
                       cudaStream_t stream, struct err *e)
{
    if (CU(d, cudaMemsetAsync(s->d_octaves, 0, OCTAVES_BYTES, stream), e) ||
        CU(d, cudaMemsetAsync(s->d_rings, 0, rings_bytes(s, windows_of(b)), stream), e) ||
        CU(d, cudaMemsetAsync(s->d_spectra, 0, spectra_bytes(p), stream), e))
        return -1;
    const uint8_t *from = b->features->sample + b->first_wy * b->nx;
    return CU(
        d,
        cudaMemcpyAsync(s->d_sample, from, (size_t)windows_of(b), cudaMemcpyHostToDevice, stream),
        e);
}

int feature_sums_fetch(struct feature_sums *s, struct check_device *d,
                       const struct result_params *p, const struct spectrum_band *b,
                       cudaStream_t stream, struct err *e)
{
    const cudaMemcpyKind back = cudaMemcpyDeviceToHost;
    if (CU(d, cudaMemcpyAsync(s->octaves, s->d_octaves, OCTAVES_BYTES, back, stream), e) ||
        CU(d, cudaMemcpyAsync(s->rings, s->d_rings, rings_bytes(s, windows_of(b)), back, stream),
           e) ||
        CU(d,
           cudaMemcpyAsync(s->steps, s->d_steps, (size_t)windows_of(b) * sizeof *s->steps, back,
                           stream),
           e))
        return -1;
    return CU(d, cudaMemcpyAsync(s->spectra, s->d_spectra, spectra_bytes(p), back, stream), e);
}

/* --- the end of a band --- */

/* Windows of the band that are in the sample of a kind. */
static int64_t sampled(const struct spectrum_band *b, int kind)
{
    int64_t n = 0;
    for (int64_t k = b->first_wy * b->nx; k < b->end_wy * b->nx; k++)
        n += (b->features->sample[k] & FEATURES_KIND) == 1 + kind;
    return n;
}

/* From [u][v] to [v][u]. */
static void turn(const unsigned *from, int64_t window, uint32_t *to)
{
    const int64_t columns = window / 2 + 1;
    for (int64_t v = 0; v < window; v++)
        for (int64_t u = 0; u < columns; u++)
            to[v * columns + u] = from[u * window + v];
}

void feature_sums_window(const struct feature_sums *s, const struct spectrum_band *b, int64_t k,
                         struct spectrum_window *w)
{
    struct counts_features f = s->layout;
    f.d_rings = s->rings;
    for (int o = 0; o < FEATURES_OCTAVES; o++) {
        const unsigned *ring = counts_ring(&f, k - b->first_wy * b->nx, o);
        w->octaves[o] = ring ? ring[0] + (f.words == 2 ? (uint64_t)ring[1] << 32 : 0) : 0;
    }
    w->row_step = w->column_step = FEATURES_NO_STEP;
    if (!(b->features->sample[k] & FEATURES_STEPPED))
        return;
    const uint16_t step = s->steps[k - b->first_wy * b->nx];
    w->row_step = (uint8_t)(step >> COUNTS_STEP_SHIFT);
    w->column_step = (uint8_t)step;
}

void feature_sums_take(const struct feature_sums *s, const struct result_params *p,
                       const struct spectrum_band *b, struct result_counts *counts)
{
    const size_t n = result_spectrum_sums(p);
    uint32_t *turned = (uint32_t *)memory_need(n, sizeof *turned);
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        counts->octaves[o] += s->octaves[o];
    for (int kind = 0; kind < FEATURES_SAMPLES; kind++) {
        turn(s->spectra + (size_t)kind * n, p->window, turned);
        spectrum_add_sample(p, b, (enum features_sample)kind, turned, sampled(b, kind));
    }
    free(turned);
}

/* --- opening and closing --- */

static size_t histogram_bytes(const struct sums_set *s)
{
    return (size_t)(s->params->bins + 2) * sizeof(unsigned long long);
}

int sums_open(struct sums_set *s, struct check_device *d, const struct result_params *p,
              struct err *e)
{
    const unsigned flags = cudaEventBlockingSync | cudaEventDisableTiming;
    s->device = d;
    s->params = p;
    for (struct sums *t = s->sums; t < s->sums + SPECTRUM_SUMS; t++)
        if (CU(d, cudaMalloc((void **)&t->d_histogram, histogram_bytes(s)), e) ||
            CU(d, cudaMallocHost((void **)&t->histogram, histogram_bytes(s)), e) ||
            CU(d, cudaEventCreateWithFlags(&t->done, flags), e) ||
            feature_sums_open(&t->features, d, p, e))
            return -1;
    return 0;
}

void sums_close(struct sums_set *s)
{
    sums_release(s);
    for (struct sums *t = s->sums; t < s->sums + SPECTRUM_SUMS; t++) {
        cudaFree(t->d_histogram);
        cudaFreeHost(t->histogram);
        feature_sums_close(&t->features);
        if (t->done)
            cudaEventDestroy(t->done);
    }
}

/* --- memory --- */

static size_t windows_bytes(const struct spectrum_band *d)
{
    return (size_t)windows_of(d) * 2 * sizeof(unsigned long long);
}

bool sums_fit(const struct sums_set *s, const struct spectrum_band *d)
{
    return windows_bytes(d) <= s->windows_bytes;
}

void sums_release(struct sums_set *s)
{
    for (struct sums *t = s->sums; t < s->sums + SPECTRUM_SUMS; t++) {
        cudaFree(t->d_windows);
        cudaFree(t->d_wanted);
        cudaFreeHost(t->windows);
        feature_sums_release(&t->features);
        t->d_windows = t->windows = NULL;
        t->d_wanted = NULL;
    }
    s->windows_bytes = 0;
}

int sums_reserve(struct sums_set *s, const struct spectrum_band *d, struct err *e)
{
    const size_t bytes = windows_bytes(d);
    if (bytes <= s->windows_bytes)
        return 0;
    sums_release(s);
    for (struct sums *t = s->sums; t < s->sums + SPECTRUM_SUMS; t++)
        if (CU(s->device, cudaMalloc((void **)&t->d_windows, bytes), e) ||
            CU(s->device, cudaMallocHost((void **)&t->windows, bytes), e) ||
            (result_selects(s->params) &&
             CU(s->device, cudaMalloc((void **)&t->d_wanted, bytes / 16), e)) ||
            feature_sums_reserve(&t->features, s->device, windows_of(d), e))
            return -1;
    s->windows_bytes = bytes;
    return 0;
}

/* --- counting --- */

struct counts_windows sums_windows(struct sums_set *s, const struct spectrum_band *d,
                                   int64_t first_wy, int64_t end_wy)
{
    struct counts_windows w = {};
    w.nx = d->nx;
    w.first_wy = first_wy;
    w.end_wy = end_wy;
    w.band_wy = d->first_wy;
    w.d_wanted = d->wanted ? sums_of(s, d)->d_wanted : NULL;
    return w;
}

struct counts_sums sums_counters(struct sums_set *s, const struct spectrum_band *d)
{
    struct counts_sums c = {};
    c.d_histogram = sums_of(s, d)->d_histogram;
    c.d_windows = sums_of(s, d)->d_windows;
    feature_sums_counters(&sums_of(s, d)->features, s->params, &c.features);
    return c;
}

int sums_begin(struct sums_set *s, const struct spectrum_band *d, cudaStream_t stream,
               struct err *e)
{
    struct sums *t = sums_of(s, d);
    t->kernels_us = 0;
    if (CU(s->device, cudaMemsetAsync(t->d_histogram, 0, histogram_bytes(s), stream), e) ||
        CU(s->device, cudaMemsetAsync(t->d_windows, 0, windows_bytes(d), stream), e) ||
        feature_sums_begin(&t->features, s->device, s->params, d, stream, e))
        return -1;
    if (!d->wanted)
        return 0;
    return CU(s->device,
              cudaMemcpyAsync(t->d_wanted, d->wanted + d->first_wy * d->nx, (size_t)windows_of(d),
                              cudaMemcpyHostToDevice, stream),
              e);
}

int sums_fetch(struct sums_set *s, const struct spectrum_band *d, cudaStream_t stream,
               struct err *e)
{
    struct sums *t = sums_of(s, d);
    if (CU(s->device,
           cudaMemcpyAsync(t->histogram, t->d_histogram, histogram_bytes(s), cudaMemcpyDeviceToHost,
                           stream),
           e) ||
        CU(s->device,
           cudaMemcpyAsync(t->windows, t->d_windows, windows_bytes(d), cudaMemcpyDeviceToHost,
                           stream),
           e) ||
        feature_sums_fetch(&t->features, s->device, s->params, d, stream, e))
        return -1;
    return CU(s->device, cudaEventRecord(t->done, stream), e);
}

int sums_wait(struct sums_set *s, const struct spectrum_band *d, struct err *e)
{
    return CU(s->device, cudaEventSynchronize(sums_of(s, d)->done), e);
}

/* --- the end of a band --- */

/* The number of windows that should have been counted. */
static int64_t expected_windows(const struct spectrum_band *d)
{
    int64_t n = 0;
    if (!d->wanted)
        return windows_of(d);
    for (int64_t k = d->first_wy * d->nx; k < d->end_wy * d->nx; k++)
        n += d->wanted[k];
    return n;
}

/* Every value of every window must have been counted, as often in the windows as in the histogram.
 */
static int check_sums(struct sums_set *s, const struct spectrum_band *d, struct err *e)
{
    const struct sums *t = sums_of(s, d);
    const int64_t bins = s->params->bins;
    const unsigned long long want =
        (unsigned long long)(expected_windows(d) * s->params->window * s->params->window);
    unsigned long long all = 0, in_windows = 0;
    for (int64_t k = 0; k < bins + 2; k++)
        all += t->histogram[k];
    for (int64_t k = 0; k < windows_of(d); k++)
        in_windows += t->windows[2 * k] >> COUNTS_SHIFT;
    if (all == want && in_windows == all - t->histogram[0] - t->histogram[bins + 1])
        return 0;
    return err_blame(e, ERR_TROUBLE,
                     "%s (cuda:%d): counted %llu of %llu values; the device computes wrongly",
                     s->device->name, s->device->number, all, want);
}

static void fill_maps(const struct sums_set *s, const struct spectrum_band *d, const struct sums *t)
{
    const unsigned long long *in = t->windows;
    for (int64_t k = d->first_wy * d->nx; k < d->end_wy * d->nx; k++, in += 2) {
        struct spectrum_window w = {};
        w.n = in[0] >> COUNTS_SHIFT;
        w.sum = in[0] & ((1ull << COUNTS_SHIFT) - 1);
        w.squares = in[1] & ((1ull << COUNTS_GRAY_SHIFT) - 1);
        w.gray = (uint8_t)(in[1] >> COUNTS_GRAY_SHIFT);
        feature_sums_window(&t->features, d, k, &w);
        if (!d->wanted || d->wanted[k])
            spectrum_put_window(s->params, d, k, &w);
    }
}

int sums_take(struct sums_set *s, const struct spectrum_band *d, struct result_counts *counts,
              struct err *e)
{
    const struct sums *t = sums_of(s, d);
    const int64_t bins = s->params->bins;
    if (check_sums(s, d, e))
        return -1;
    feature_sums_take(&t->features, s->params, d, counts);
    counts->windows += expected_windows(d);
    counts->underflow += t->histogram[0];
    counts->overflow += t->histogram[bins + 1];
    for (int64_t k = 0; k < bins; k++)
        counts->histogram[k] += t->histogram[k + 1];
    fill_maps(s, d, t);
    return 0;
}
