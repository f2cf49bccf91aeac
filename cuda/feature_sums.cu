/* feature_sums.cu - see feature_sums.h. */
#include "cuda/feature_sums.h"

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
        CU(d, cudaMallocHost((void **)&s->rings, rings_bytes(s, windows)), e))
        return -1;
    return CU(d, cudaMalloc((void **)&s->d_sample, (size_t)windows), e);
}

void feature_sums_release(struct feature_sums *s)
{
    cudaFree(s->d_rings);
    cudaFree(s->d_sample);
    cudaFreeHost(s->rings);
    s->d_rings = s->rings = NULL;
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
        n += b->features->sample[k] == 1 + kind;
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

void feature_sums_window(const struct feature_sums *s, int64_t k,
                         uint64_t octaves[FEATURES_OCTAVES])
{
    struct counts_features f = s->layout;
    f.d_rings = s->rings;
    for (int o = 0; o < FEATURES_OCTAVES; o++) {
        const unsigned *ring = counts_ring(&f, k, o);
        octaves[o] = ring ? ring[0] + (f.words == 2 ? (uint64_t)ring[1] << 32 : 0) : 0;
    }
}

int feature_sums_take(const struct feature_sums *s, const struct result_params *p,
                      const struct spectrum_band *b, struct result_counts *counts, struct err *e)
{
    const size_t n = result_spectrum_sums(p);
    uint32_t *turned = (uint32_t *)malloc(n * sizeof *turned);
    if (!turned)
        return err_set(e, "out of memory");
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        counts->octaves[o] += s->octaves[o];
    for (int kind = 0; kind < FEATURES_SAMPLES; kind++) {
        turn(s->spectra + (size_t)kind * n, p->window, turned);
        spectrum_add_sample(p, b, (enum features_sample)kind, turned, sampled(b, kind));
    }
    free(turned);
    return 0;
}
