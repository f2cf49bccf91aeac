/*
 * mkresult - makes a result of any number of slides, without computing anything: for tests and
 * benchmarks of what reads results.
 *
 *   mkresult [options] OUT.h5
 *     --slides N        slides (10), called made-00001 and so on
 *     --windows NXxNY   windows of each (20x15)
 *     --seed S          of the random numbers (1)
 *     --blurred K       the first K slides are blurred: less level, less focus
 *     --names FILE      names of the slides, one per line; N is their number
 *     --window N        px (256)
 *     --stride S        px (128)
 *     --mpp M           um per px (0.25)
 *     --vendor V        (aperio)
 *     --bounds PX       what was scanned begins at (PX, 2 PX) of level 0 (0: not stated)
 *     --constant        all slides have the same numbers
 *     --no-tissue       no tissue, no counted window
 *     --noise           spectra are noisy sums of 256 windows, as real ones (needs as many windows)
 *     --each            one result per slide: OUT.h5 is a folder
 *     --first K         the number of the first slide, and of the first random numbers (1)
 */
#include "common/result/features.h"
#include "common/result/result.h"
#include "common/result/result_write.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wish {
    int64_t slides, first, nx, ny, blurred, window, stride, bounds;
    uint64_t seed;
    double mpp;
    const char *names, *vendor;
    bool constant, no_tissue, each, noise;
};

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* A bell around `mean` that adds up to exactly `all`. */
static void fill_histogram(const struct result_params *p, double mean, double std, uint64_t all,
                           uint64_t *histogram)
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    double sum = 0;
    uint64_t left = all;
    for (int64_t k = 0; k < p->bins; k++) {
        const double t = (p->low_db + width * ((double)k + 0.5) - mean) / std;
        sum += exp(-t * t / 2);
    }
    for (int64_t k = 0; k < p->bins; k++) {
        const double t = (p->low_db + width * ((double)k + 0.5) - mean) / std;
        const uint64_t n = (uint64_t)((double)all * exp(-t * t / 2) / sum);
        histogram[k] = n < left ? n : left;
        left -= histogram[k];
    }
    histogram[(int64_t)((mean - p->low_db) / width)] += left;
}

/* 0 to 31, so that neighbours do not agree. */
static uint8_t scattered(int64_t k)
{
    return (uint8_t)((uint32_t)k * 2654435761u >> 27);
}

/* Value k of a map, by its formula. */
static void put_value(const struct result_map *m, int64_t k, double mean, double focus)
{
    switch (m->kind->formula) {
    case RESULT_NO_FORMULA: break;
    case RESULT_OF_TISSUE: ((uint8_t *)m->values)[k] = 80; break;
    case RESULT_OF_GRAY: ((uint8_t *)m->values)[k] = features_gray((float)mean + 160); break;
    case RESULT_OF_ROW_STEP:
    case RESULT_OF_COLUMN_STEP: ((uint8_t *)m->values)[k] = scattered(k); break;
    case RESULT_OF_MEAN: ((float *)m->values)[k] = (float)mean; break;
    case RESULT_OF_STD: ((float *)m->values)[k] = 18; break;
    case RESULT_OF_OCTAVE: ((int16_t *)m->values)[k] = features_hundredths(mean + 6); break;
    case RESULT_OF_OCTAVES:
    case RESULT_OF_SHARPNESS: ((int16_t *)m->values)[k] = features_hundredths(focus); break;
    }
}

static void fill_maps(struct result_slide *s, double mean, double focus)
{
    uint8_t *flags = s->maps[RESULT_FLAGS].values;
    uint8_t *const step[] = {s->maps[RESULT_ROW_STEP].values, s->maps[RESULT_COLUMN_STEP].values};
    for (int64_t y = 0; y < s->ny; y++)
        for (int64_t x = 0; x < s->nx; x++) {
            const int64_t k = y * s->nx + x;
            const double wave = 4 * sin((double)x / 9) * cos((double)y / 7) + uniform();
            for (const struct result_map *m = s->maps; m < s->maps + RESULT_MAPS; m++)
                put_value(m, k, mean + wave, focus + wave);
            flags[k] = RESULT_FLAG_COUNTED;
        }
    uint8_t *sample = calloc((size_t)(s->nx * s->ny) + 1, 1);
    features_choose_steps(s->maps[RESULT_TISSUE].values, NULL, s->nx, s->ny, sample);
    for (int64_t k = 0; k < s->nx * s->ny; k++)
        if (!(sample[k] & FEATURES_STEPPED))
            step[0][k] = step[1][k] = FEATURES_NO_STEP;
    free(sample);
}

/* The levels of one window have a standard deviation of about 5.6 dB at each frequency. */
static void fill_spectra(const struct wish *wish, const struct result_params *p,
                         struct result_slide *s)
{
    const int64_t half = p->window / 2 + 1, windows = wish->noise ? 256 : 1;
    for (int kind = 0; kind < FEATURES_SAMPLES; kind++) {
        s->spectra[kind].windows = windows;
        for (int64_t v = 0; v < p->window; v++)
            for (int64_t u = 0; u < half; u++) {
                const int64_t w = v < half ? v : p->window - v;
                const double noise = wish->noise ? 56 * 16 * normal() : 0;
                const int64_t sum = windows * (900 - 2 * (u + w) - 200 * kind) + (int64_t)noise;
                s->spectra[kind].sums[v * half + u] = (uint64_t)(sum < 0 ? 0 : sum);
            }
    }
}

static int fill_thumbnail(struct result_slide *s, struct err *e)
{
    struct result_picture *t = &s->thumbnail;
    t->width = 160;
    t->height = 120;
    t->rgb = malloc((size_t)(t->width * t->height) * 3);
    if (!t->rgb)
        return err_set(e, "out of memory");
    for (int64_t k = 0; k < t->width * t->height; k++) {
        const double x = (double)(k % t->width), y = (double)k / (double)t->width;
        const bool tissue = sin(x / 17) + cos(y / 13) > 0.2 + 0.2 * uniform();
        t->rgb[3 * k] = tissue ? (uint8_t)(190 + 30 * uniform()) : 243;
        t->rgb[3 * k + 1] = tissue ? (uint8_t)(110 + 60 * uniform()) : 242;
        t->rgb[3 * k + 2] = tissue ? (uint8_t)(170 + 30 * uniform()) : 244;
    }
    return 0;
}

static void fill(const struct wish *w, const struct result_params *p, int64_t k,
                 struct result_slide *s)
{
    const bool blurred = k < w->blurred;
    const double by = w->constant ? 0 : 1;
    const double mean = 42 + by * normal() - (blurred ? 9 : 0), std = 18 + 0.3 * by * normal();
    const double focus = -30 + by * normal() - (blurred ? 9 : 0);
    s->counts.windows = w->no_tissue ? 0 : s->nx * s->ny;
    if (s->counts.windows > 0)
        fill_histogram(p, mean, std, result_samples(p, &s->counts), s->counts.histogram);
    memset(s->groups, 1, (size_t)s->group_count);
    s->origin.mpp_x = s->origin.mpp_y = w->mpp > 0 ? w->mpp : NAN; /* 0: not known */
    s->origin.downsample = 1;
    s->origin.jpeg_twice = NAN;
    s->origin.objective_power = 40;
    s->origin.tissue_fraction = w->no_tissue ? 0 : 0.4 + 0.05 * by * normal();
    snprintf(s->origin.vendor, sizeof s->origin.vendor, "%s", w->vendor);
    s->origin.bounds_x = w->bounds;
    s->origin.bounds_y = 2 * w->bounds;
    if (s->counts.windows == 0)
        return;
    int64_t values[FEATURES_OCTAVES];
    features_values(p->window, values);
    for (int o = 0; o < FEATURES_OCTAVES; o++) {
        const double noise = o < FEATURES_OCTAVES - 1 ? by * normal() : 0;
        const double level = 75 - 8 * o + noise - (blurred ? 2 * o : 0);
        s->counts.octaves[o] = (uint64_t)((double)(values[o] * s->counts.windows) * level * 10);
    }
    fill_maps(s, mean, focus);
    fill_spectra(w, p, s);
}

static int put_slide(const struct wish *w, const struct result_params *p, struct result_writer *out,
                     int64_t k, const char *name, struct err *e)
{
    struct result_slide s = {.nx = w->nx,
                             .ny = w->ny,
                             .group_rows = 1024,
                             .group_count = 2,
                             .width = (w->nx - 1) * p->stride + p->window,
                             .height = (w->ny - 1) * p->stride + p->window};
    snprintf(s.name, sizeof s.name, "%.255s", name);
    snprintf(s.source_name, sizeof s.source_name, "CANARY-source-%lld.svs", (long long)k);
    snprintf(s.quickhash, sizeof s.quickhash, "CANARY%058lld", (long long)k);
    strcpy(s.backend, "cpu");
    strcpy(s.device, "CANARY device");
    if (result_slide_alloc(&s, p, e))
        return -1;
    fill(w, p, k, &s);
    const int bad = fill_thumbnail(&s, e) || result_put_slide(out, &s, e);
    result_slide_free(&s);
    return bad;
}

static struct result_params params_of(const struct wish *w)
{
    struct result_params p = {.window = w->window,
                              .stride = w->stride,
                              .sigma = 1,
                              .radius = 3,
                              .taper = "rectangular",
                              .offset = 1,
                              .bins = 1600,
                              .high_db = 160};
    return p;
}

/* A result of slide k alone, in the folder. */
static int make_one(const struct wish *w, const struct result_params *p, const char *folder,
                    int64_t k, const char *name, struct err *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.h5", folder, name);
    struct result_writer *out = result_create(path, p, e);
    if (out && !put_slide(w, p, out, k, name, e))
        return result_commit(out, e);
    result_abort(out);
    return -1;
}

static int make(const struct wish *w, const char *path, struct err *e)
{
    const struct result_params p = params_of(w);
    FILE *names = w->names ? fopen(w->names, "r") : NULL;
    struct result_writer *out = w->each ? NULL : result_create(path, &p, e);
    int bad = !out && !w->each;
    for (int64_t k = w->first - 1; !bad; k++) {
        char name[300];
        snprintf(name, sizeof name, "made-%05lld", (long long)k + 1);
        if (names && !fgets(name, sizeof name, names))
            break;
        if (!names && k == w->first - 1 + w->slides)
            break;
        name[strcspn(name, "\n")] = 0;
        bad = w->each ? make_one(w, &p, path, k, name, e) : put_slide(w, &p, out, k, name, e);
    }
    if (names)
        fclose(names);
    if (!bad)
        return out ? result_commit(out, e) : 0;
    result_abort(out);
    return -1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"slides", 1, 0, 'n'},   {"windows", 1, 0, 'w'},
                                            {"seed", 1, 0, 's'},     {"blurred", 1, 0, 'b'},
                                            {"names", 1, 0, 'N'},    {"window", 1, 0, 'W'},
                                            {"stride", 1, 0, 'S'},   {"mpp", 1, 0, 'm'},
                                            {"vendor", 1, 0, 'v'},   {"bounds", 1, 0, 'o'},
                                            {"constant", 0, 0, 'c'}, {"no-tissue", 0, 0, 't'},
                                            {"each", 0, 0, 'e'},     {"first", 1, 0, 'f'},
                                            {"noise", 0, 0, 'z'},    {0, 0, 0, 0}};
    struct wish w = {.slides = 10,
                     .first = 1,
                     .nx = 20,
                     .ny = 15,
                     .window = 256,
                     .stride = 128,
                     .seed = 1,
                     .mpp = 0.25,
                     .vendor = "aperio"};
    struct err e = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'n': w.slides = atoll(optarg); break;
        case 'w':
            w.nx = atoll(optarg);
            w.ny = atoll(optarg + strcspn(optarg, "x") + 1);
            break;
        case 's': w.seed = (uint64_t)atoll(optarg); break;
        case 'b': w.blurred = atoll(optarg); break;
        case 'N': w.names = optarg; break;
        case 'W': w.window = atoll(optarg); break;
        case 'S': w.stride = atoll(optarg); break;
        case 'm': w.mpp = atof(optarg); break;
        case 'v': w.vendor = optarg; break;
        case 'o': w.bounds = atoll(optarg); break;
        case 'c': w.constant = true; break;
        case 't': w.no_tissue = true; break;
        case 'e': w.each = true; break;
        case 'f': w.first = atoll(optarg); break;
        case 'z': w.noise = true; break;
        default: return 2;
        }
    state = w.seed + (uint64_t)w.first - 1;
    if (optind + 1 != argc || make(&w, argv[optind], &e)) {
        fprintf(stderr, "mkresult: %s\n", *e.msg ? e.msg : "one OUT.h5 is needed");
        return 1;
    }
    return 0;
}
