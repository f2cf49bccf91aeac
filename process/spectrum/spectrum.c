/* spectrum.c - what all backends share; see spectrum.h. */
#include "process/spectrum/spectrum.h"

#include "common/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- parameters --- */

struct result_params spectrum_defaults(void)
{
    return (struct result_params){.window = 256,
                                  .stride = 128,
                                  .sigma = 1,
                                  .radius = 3,
                                  .taper = "rectangular",
                                  .offset = 1,
                                  .bins = 1600,
                                  .low_db = 0,
                                  .high_db = 160,
                                  .min_tissue = 0.5,
                                  .min_roi = 0.5};
}

int64_t spectrum_radius(double sigma)
{
    return (int64_t)ceil(3 * sigma);
}

void spectrum_gauss(const struct result_params *p, double *weights)
{
    double sum = 0;
    for (int64_t t = 0; t <= p->radius; t++) {
        weights[t] = t ? exp(-(double)(t * t) / (2 * p->sigma * p->sigma)) : 1;
        sum += t ? 2 * weights[t] : weights[t];
    }
    for (int64_t t = 0; t <= p->radius; t++)
        weights[t] /= sum;
}

void spectrum_taper(const struct result_params *p, float *taper, double dft[2])
{
    const double n = (double)p->window;
    const int hann = !strcmp(p->taper, "hann");
    for (int64_t k = 0; k < p->window; k++)
        taper[k] = hann ? (float)(0.5 - 0.5 * cos(2 * M_PI * (double)k / n)) : 1;
    dft[0] = hann ? n / 2 : n;
    dft[1] = hann ? -n / 4 : 0;
}

/* --- classes --- */

/* The smallest float that is not below x. */
static float float_from_above(double x)
{
    float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Fills start[] for a shift and returns the most edges within one cell. */
static int fill_start(struct spectrum_classes *c, int64_t n_edges)
{
    int64_t k = 0, most = 0;
    for (size_t cell = 0; cell < c->cells; cell++) {
        const float low = float_of_bits((uint32_t)(cell << c->shift));
        const int64_t before = k;
        while (k < n_edges && c->edges[k] <= low)
            k++;
        if (cell > 0 && k - before > most && isfinite(c->edges[k - 1]))
            most = k - before;
        c->start[cell] = (uint32_t)k;
    }
    return (int)most;
}

void spectrum_classes_create(struct spectrum_classes *c, const struct result_params *p)
{
    const int64_t n_edges = p->bins + 1;
    *c = (struct spectrum_classes){0};
    c->n_edges = (uint32_t)n_edges;
    c->edges = memory_need((size_t)(n_edges + SPECTRUM_FEW_STEPS), sizeof *c->edges);
    for (int64_t k = 0; k < n_edges; k++) {
        double db = p->low_db + (p->high_db - p->low_db) * (double)k / (double)p->bins;
        double magnitude = pow(10, db / 20) - p->offset;
        c->edges[k] = magnitude > 0 ? float_from_above(magnitude * magnitude) : 0;
    }
    for (int64_t k = n_edges; k < n_edges + SPECTRUM_FEW_STEPS; k++)
        c->edges[k] = NAN;
    /* With 64 cells per octave each cell has one edge of bins of 0.1 dB. Finer bins take finer
     * cells or more steps. */
    for (c->shift = 17; c->shift >= 13; c->shift--) {
        c->cells = ((size_t)0x7f800000 >> c->shift) + 1; /* up to infinity */
        free(c->start);
        c->start = memory_need(c->cells, sizeof *c->start);
        c->steps = fill_start(c, n_edges);
        if (c->steps <= 1)
            break;
    }
    c->shift = c->shift < 13 ? 13 : c->shift;
}

void spectrum_classes_free(struct spectrum_classes *c)
{
    free(c->edges);
    free(c->start);
    *c = (struct spectrum_classes){0};
}

/* --- maps --- */

void spectrum_window_moments(const struct result_params *p, const struct spectrum_window *w,
                             float *mean_db, float *std_db)
{
    if (w->n == 0) {
        *mean_db = *std_db = NAN;
        return;
    }
    const double n = (double)w->n, width = (p->high_db - p->low_db) / (double)p->bins;
    const double mean = (double)w->sum / n;
    const double variance = (double)w->squares / n - mean * mean;
    *mean_db = (float)(p->low_db + width * (mean + 0.5));
    *std_db = (float)(width * sqrt(variance > 0 ? variance : 0));
}

/* The levels of a window's octaves. Those that no map needs may be wrong. */
static void find_levels(const struct result_params *p, const struct spectrum_features *f,
                        const struct spectrum_window *w, double levels[FEATURES_OCTAVES])
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        levels[o] = features_level(p->low_db, width, w->octaves[o], (uint64_t)f->values[o]);
}

/* A map's value in dB. */
static double value_of(const struct result_map_kind *kind, const double levels[FEATURES_OCTAVES])
{
    if (kind->formula == RESULT_OF_SHARPNESS)
        return features_sharpness(levels);
    const double level = levels[kind->octave];
    return kind->formula == RESULT_OF_OCTAVE ? level : level - levels[kind->less];
}

void spectrum_put_window(const struct result_params *p, const struct spectrum_band *d, int64_t k,
                         const struct spectrum_window *w)
{
    float mean, std;
    double levels[FEATURES_OCTAVES];
    spectrum_window_moments(p, w, &mean, &std);
    find_levels(p, d->features, w, levels);
    for (int m = 0; m < RESULT_MAPS; m++) {
        const struct result_map_kind *kind = result_map_kind(m);
        void *values = d->maps[m].values;
        switch (kind->formula) {
        case RESULT_NO_FORMULA:
        case RESULT_OF_TISSUE: break;
        case RESULT_OF_MEAN: ((float *)values)[k] = mean; break;
        case RESULT_OF_STD: ((float *)values)[k] = std; break;
        case RESULT_OF_OCTAVE:
        case RESULT_OF_OCTAVES:
        case RESULT_OF_SHARPNESS:
            ((int16_t *)values)[k] = features_hundredths(value_of(kind, levels));
            break;
        case RESULT_OF_GRAY: ((uint8_t *)values)[k] = w->gray; break;
        case RESULT_OF_ROW_STEP: ((uint8_t *)values)[k] = w->row_step; break;
        case RESULT_OF_COLUMN_STEP: ((uint8_t *)values)[k] = w->column_step;
        }
    }
}

/* --- the sample --- */

void spectrum_add_sample(const struct result_params *p, const struct spectrum_band *d,
                         enum features_sample kind, const uint32_t *sums, int64_t windows)
{
    struct spectrum_features *s = d->features;
    struct result_spectrum *to = &s->spectra[kind];
    const size_t n = result_spectrum_sums(p);
    while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE))
        ; /* for some microseconds, and rarely */
    to->windows += windows;
    for (size_t k = 0; k < n; k++)
        to->sums[k] += sums[k];
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}
