/* result.c - parameters, counts, maps and slides of results; see result.h. */
#include "common/result/result.h"

#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/codec/codec.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WINDOWS = 1 << 28, MOST_OFFSET = 1000000 };

/* --- parameters --- */

int result_check_params(const struct result_params *p, struct err *e)
{
    if (p->window < 64 || p->window > 1024 || (p->window & (p->window - 1)))
        return err_set(e,
                       "invalid window of %" PRId64 " px: must be a power of two from 64 to 1024",
                       p->window);
    if (p->stride < 1 || p->stride > p->window)
        return err_set(e,
                       "invalid stride of %" PRId64 " px: must be from 1 to the window's %" PRId64,
                       p->stride, p->window);
    if (!(p->sigma >= 0 && p->sigma <= 10) || p->radius < 0 || p->radius > 30)
        return err_set(e, "invalid sigma of %g px: must be from 0 to 10", p->sigma);
    if (strcmp(p->taper, "rectangular") && strcmp(p->taper, "hann"))
        return err_set(e, "invalid taper %s: must be rectangular or hann", p->taper);
    if (p->bins < 1 || p->bins > 65536)
        return err_set(e, "invalid number of bins, %" PRId64 ": must be from 1 to 65536", p->bins);
    if (!isfinite(p->low_db) || !isfinite(p->high_db) || p->low_db >= p->high_db ||
        p->low_db < -1000 || p->high_db > 1000)
        return err_set(e, "invalid range %g:%g dB: must be LOW:HIGH with LOW < HIGH", p->low_db,
                       p->high_db);
    if (!(p->offset > 0 && p->offset <= MOST_OFFSET) || !(p->min_tissue >= 0 && p->min_tissue <= 1))
        return err_set(e, "offset or min_tissue is out of range");
    if (!(p->min_roi >= 0 && p->min_roi <= 1))
        return err_set(e, "min_roi is out of range");
    return 0;
}

int result_same_params(const struct result_params *a, const struct result_params *b, struct err *e)
{
    const unsigned regions = RESULT_REGIONS;
    return fields_same(result_params_fields, ~regions, a, b, e) ||
                   (a->roi && fields_same(result_params_fields, regions, a, b, e))
               ? -1
               : 0;
}

bool result_selects(const struct result_params *p)
{
    return p->tissue_only || p->skip_damaged || p->roi;
}

/* --- counts --- */

void result_add_counts(struct result_counts *a, const struct result_counts *b, int64_t bins)
{
    a->windows += b->windows;
    a->underflow += b->underflow;
    a->overflow += b->overflow;
    a->outside += b->outside;
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        a->touching[k] += b->touching[k];
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        a->octaves[o] += b->octaves[o];
    for (int64_t k = 0; k < bins; k++)
        a->histogram[k] += b->histogram[k];
}

const char *result_stage_name(int stage)
{
    static const char *const names[RESULT_STAGES] = {"read", "unpack", "copy", "kernels", "wait"};
    return names[stage];
}

static const struct {
    const char *name, *words;
} host_decoded[HOST_DECODED_REASONS] = {
    [HOST_DECODED_FORM] = {"form", "the kernels do not decode this form of JPEG"},
    [HOST_DECODED_TABLES] = {"tables", "too many different tables"},
    [HOST_DECODED_ROOM] = {"room", "too little memory on the device"},
    [HOST_DECODED_LONG] = {"long", "few large tiles, faster on the host"},
    [HOST_DECODED_DATA] = {"data", "unusual data"},
};

const char *host_decoded_words(int reason)
{
    return host_decoded[reason].words;
}

const char *host_decoded_name(int reason)
{
    return host_decoded[reason].name;
}

double result_seconds(double a, double b)
{
    const double sum = (double)(llround(a * 1e6) + llround(b * 1e6)) / 1e6;
    return sum < RESULT_MOST_SECONDS ? sum : RESULT_MOST_SECONDS;
}

void result_moments(const struct result_params *p, const uint64_t *histogram, double *mean,
                    double *std)
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    long double n = 0, sum = 0, squares = 0;
    for (int64_t k = 0; k < p->bins; k++) {
        n += (long double)histogram[k];
        sum += (long double)histogram[k] * (long double)k;
    }
    const long double middle = n > 0 ? sum / n : 0;
    for (int64_t k = 0; k < p->bins; k++)
        squares +=
            (long double)histogram[k] * ((long double)k - middle) * ((long double)k - middle);
    *mean = n > 0 ? p->low_db + width * ((double)middle + 0.5) : NAN;
    *std = n > 0 ? width * sqrt((double)(squares / n)) : NAN;
}

int64_t result_windows_along(int64_t size, const struct result_params *p)
{
    return size < p->window ? 0 : (size - p->window) / p->stride + 1;
}

uint64_t result_samples(const struct result_params *p, const struct result_counts *c)
{
    return (uint64_t)c->windows * (uint64_t)p->window * (uint64_t)p->window;
}

int result_check_sum(const struct result_params *p, const struct result_counts *c, struct err *e)
{
    uint64_t sum = c->underflow + c->overflow;
    for (int64_t k = 0; k < p->bins; k++)
        sum += c->histogram[k];
    return sum == result_samples(p, c)
               ? 0
               : err_set(e, "the histogram is damaged: it does not add up; " ERR_MAKE_AGAIN);
}

/* --- maps --- */

#define KIND(number, ...) [RESULT_##number] = {__VA_ARGS__},
static const struct result_map_kind kinds[RESULT_MAPS] = {RESULT_MAP_ROWS(KIND)};
_Static_assert(RESULT_MAPS < 29, "no bits left for maps");

const struct result_map_kind *result_map_kind(int map)
{
    return &kinds[map];
}

size_t result_type_bytes(enum result_type type)
{
    return type == RESULT_FLOAT32 ? sizeof(float) : type == RESULT_INT16 ? sizeof(int16_t) : 1;
}

/* The fill value as it lies in memory. */
static void fill_of(const struct result_map_kind *kind, unsigned char out[8])
{
    const float real = (float)kind->fill;
    const int16_t whole = kind->type == RESULT_INT16 ? (int16_t)kind->fill : 0;
    const uint8_t byte = kind->type == RESULT_UINT8 ? (uint8_t)kind->fill : 0;
    const void *from = kind->type == RESULT_FLOAT32 ? (const void *)&real
                       : kind->type == RESULT_INT16 ? (const void *)&whole
                                                    : &byte;
    memcpy(out, from, result_type_bytes(kind->type));
}

void result_map_clear(struct result_map *m, int64_t first, int64_t n)
{
    const size_t bytes = result_type_bytes(m->kind->type);
    unsigned char fill[8], *to = (unsigned char *)m->values + (size_t)first * bytes;
    if (n <= 0)
        return;
    fill_of(m->kind, fill);
    memcpy(to, fill, bytes);
    for (int64_t done = 1; done < n; done *= 2) /* what is filled is copied behind itself */
        memcpy(to + (size_t)done * bytes, to, (size_t)(done < n - done ? done : n - done) * bytes);
}

bool result_is_sharpness(int map)
{
    const enum result_formula formula = result_map_kind(map)->formula;
    return formula == RESULT_OF_OCTAVES || formula == RESULT_OF_SHARPNESS;
}

double result_map_value(const struct result_map *m, int64_t k)
{
    assert(m->values);
    const enum result_type type = m->kind->type;
    if (type == RESULT_FLOAT32)
        return (double)((const float *)m->values)[k];
    const int stored =
        type == RESULT_INT16 ? ((const int16_t *)m->values)[k] : ((const uint8_t *)m->values)[k];
    return stored == (int)m->kind->fill ? NAN : m->kind->scale * stored;
}

/* A NaN of any bits is "no value". */
static bool is_fill(const struct result_map *m, const unsigned char *fill, int64_t k)
{
    const size_t bytes = result_type_bytes(m->kind->type);
    if (m->kind->type == RESULT_FLOAT32 && isnan(m->kind->fill))
        return isnan(((const float *)m->values)[k]);
    return !memcmp((const unsigned char *)m->values + (size_t)k * bytes, fill, bytes);
}

void result_map_add(struct result_map *a, const struct result_map *b, int64_t n)
{
    const size_t bytes = result_type_bytes(a->kind->type);
    unsigned char fill[8];
    fill_of(b->kind, fill);
    a->absent = a->absent || b->absent;
    for (int64_t k = 0; k < n; k++)
        if (!is_fill(b, fill, k))
            memcpy((unsigned char *)a->values + (size_t)k * bytes,
                   (const unsigned char *)b->values + (size_t)k * bytes, bytes);
}

/* The values of a map lie from *low to *high. False: all that the type can hold are valid. */
static bool find_range(const struct result_params *p, enum result_formula formula, double *low,
                       double *high)
{
    const double span = p->high_db - p->low_db, slack = 0.01; /* dB, for rounding */
    switch (formula) {
    case RESULT_OF_MEAN:
    case RESULT_OF_OCTAVE:
        *low = p->low_db - slack;
        *high = p->high_db + slack;
        return true;
    case RESULT_OF_STD:
        *low = 0;
        *high = span / 2 + slack;
        return true;
    case RESULT_OF_OCTAVES:
    case RESULT_OF_SHARPNESS:
        *low = -span - slack;
        *high = span + slack;
        return true;
    case RESULT_OF_TISSUE:
        *low = 0;
        *high = 100;
        return true;
    case RESULT_OF_GRAY:
        *low = 0;
        *high = FEATURES_MOST_GRAY;
        return true;
    case RESULT_OF_ROW_STEP:
    case RESULT_OF_COLUMN_STEP:
        *low = 0;
        *high = (double)features_steps(p->window, p->stride) - 1;
        return true;
    case RESULT_NO_FORMULA: break;
    }
    return false;
}

int result_check_values(const struct result_params *p, const struct result_map *m, int64_t n,
                        struct err *e)
{
    double low, high;
    if (!find_range(p, m->kind->formula, &low, &high))
        return 0;
    for (int64_t k = 0; k < n; k++) {
        const double x = result_map_value(m, k);
        if (!isnan(x) && !(x >= low && x <= high))
            return err_set(e, "%s has %g %s, which is out of range; " ERR_MAKE_AGAIN, m->kind->name,
                           x, m->kind->unit);
    }
    return 0;
}

/* --- features --- */

void result_profile(const struct result_params *p, const struct result_counts *c,
                    double profile[FEATURES_OCTAVES])
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    int64_t values[FEATURES_OCTAVES];
    features_values(p->window, values);
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        profile[o] = features_level(p->low_db, width, c->octaves[o],
                                    (uint64_t)values[o] * (uint64_t)c->windows);
}

const char *result_quantile_name(char *name, size_t size, int map, int quantile)
{
    snprintf(name, size, "%s_p%02.0f", result_map_kind(map)->quantiles,
             100 * features_shares[quantile]);
    return name;
}

bool result_has_quantiles(int map)
{
    return kinds[map].quantiles;
}

void result_find_quantiles(const struct result_slide *s, int map,
                           double quantiles[FEATURES_QUANTILES])
{
    const struct result_map *m = &s->maps[map];
    const struct features_values v = {.values = m->values,
                                      .n = s->nx * s->ny,
                                      .none = (int16_t)m->kind->fill,
                                      .tissue = s->maps[RESULT_TISSUE].values};
    features_quantiles(&v, features_shares, FEATURES_QUANTILES, quantiles);
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        quantiles[q] /= 1 / m->kind->scale;
}

void result_find_slide_numbers(const struct result_params *p, const struct result_slide *s,
                               struct slide_numbers *n)
{
    const struct spectrum_sums tissue = {s->spectra[FEATURES_TISSUE].sums,
                                         s->spectra[FEATURES_TISSUE].windows},
                               glass = {s->spectra[FEATURES_GLASS].sums,
                                        s->spectra[FEATURES_GLASS].windows};
    const bool bordered = codec_leaves_borders(s->origin.tile_compression);
    const struct spectrum_maps maps = {.gray = s->maps[RESULT_GRAY].values,
                                       .tissue = s->maps[RESULT_TISSUE].values,
                                       .flags = s->maps[RESULT_FLAGS].values,
                                       .filled = RESULT_FLAGS_FILLED,
                                       .row_step = s->maps[RESULT_ROW_STEP].values,
                                       .column_step = s->maps[RESULT_COLUMN_STEP].values,
                                       .tile_rows = bordered ? s->origin.chunk_rows : 0,
                                       .tile_cols = bordered ? s->origin.chunk_cols : 0,
                                       .nx = s->nx,
                                       .ny = s->ny,
                                       .window = p->window,
                                       .stride = p->stride};
    slide_numbers_gray(&maps, n);
    slide_numbers_seams(&maps, n);
    slide_numbers_places(s->thumbnail.rgb, s->thumbnail.width * s->thumbnail.height, n);
    slide_numbers_lines(&tissue, &glass, p->window, (p->high_db - p->low_db) / (double)p->bins, n);
}

size_t result_spectrum_sums(const struct result_params *p)
{
    return (size_t)p->window * (size_t)(p->window / 2 + 1);
}

/* --- slides --- */

/* A map may have gigabytes. */
static int alloc_map(struct result_map *m, int64_t windows, struct err *e)
{
    enum { STEP = 1 << 24 };
    m->values = memory_try((size_t)windows + 1, result_type_bytes(m->kind->type), e);
    if (!m->values)
        return -1;
    for (int64_t k = 0; k < windows; k += STEP) {
        if (stop_check(e))
            return -1;
        result_map_clear(m, k, windows - k < STEP ? windows - k : STEP);
    }
    return 0;
}

static int alloc_maps(struct result_slide *s, unsigned parts, struct err *e)
{
    int bad = 0;
    for (int m = 0; m < RESULT_MAPS; m++) {
        s->maps[m] = (struct result_map){.kind = &kinds[m]};
        if (parts & RESULT_WITH_MAP(m) && !bad)
            bad = alloc_map(&s->maps[m], s->nx * s->ny, e);
    }
    return bad;
}

static int alloc_spectra(struct result_slide *s, const struct result_params *p, unsigned parts,
                         struct err *e)
{
    for (int k = 0; k < FEATURES_SAMPLES; k++) {
        if (!(parts &
              (k == FEATURES_TISSUE ? RESULT_WITH_TISSUE_SPECTRUM : RESULT_WITH_GLASS_SPECTRUM)))
            continue;
        s->spectra[k].sums = memory_try_zero(result_spectrum_sums(p), sizeof(uint64_t), e);
        if (!s->spectra[k].sums)
            return -1;
    }
    return 0;
}

int result_slide_alloc_parts(struct result_slide *s, const struct result_params *p, unsigned parts,
                             struct err *e)
{
    if (s->ny > 0 && s->nx > MOST_WINDOWS / s->ny)
        return err_set(e, "too many windows; use a larger stride");
    s->counts = (struct result_counts){.histogram = memory_need((size_t)p->bins, sizeof(uint64_t))};
    s->groups = memory_need((size_t)s->group_count, 1);
    s->thumbnail = (struct result_picture){0};
    memset(s->spectra, 0, sizeof s->spectra);
    if (!alloc_maps(s, parts, e) && !alloc_spectra(s, p, parts, e))
        return 0;
    result_slide_free(s);
    return -1;
}

int result_slide_alloc(struct result_slide *s, const struct result_params *p, struct err *e)
{
    return result_slide_alloc_parts(s, p, RESULT_ALL_PARTS, e);
}

void result_slide_free(struct result_slide *s)
{
    free(s->counts.histogram);
    free(s->groups);
    for (int m = 0; m < RESULT_MAPS; m++) {
        free(s->maps[m].values);
        s->maps[m].values = NULL;
    }
    for (int k = 0; k < FEATURES_SAMPLES; k++) {
        free(s->spectra[k].sums);
        s->spectra[k].sums = NULL;
    }
    free(s->thumbnail.rgb);
    s->thumbnail.rgb = NULL;
    s->counts.histogram = NULL;
    s->groups = NULL;
}

void result_missing_text(const uint8_t *groups, int64_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int64_t a = 0; a < n; a++) {
        int64_t b = a;
        if (groups[a])
            continue;
        while (b + 1 < n && !groups[b + 1])
            b++;
        if (size - used < 48) {
            snprintf(out + used, size - used, ",...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used,
                                 a == b ? "%s%" PRId64 : "%s%" PRId64 "-%" PRId64, used ? "," : "",
                                 a + 1, b + 1);
        a = b;
    }
}

uint32_t result_data_crc(const struct result_params *p, const struct result_slide *s)
{
    const size_t windows = (size_t)s->nx * (size_t)s->ny;
    uint32_t parts[RESULT_MAPS + FEATURES_SAMPLES + 3], n = 0;
    parts[n++] = codec_crc32(s->counts.histogram, (size_t)p->bins * sizeof(uint64_t));
    for (int m = 0; m < RESULT_MAPS; m++)
        if (!s->maps[m].absent)
            parts[n++] = codec_crc32(s->maps[m].values, windows * result_type_bytes(kinds[m].type));
    parts[n++] = codec_crc32(s->groups, (size_t)s->group_count);
    parts[n++] = codec_crc32(s->counts.octaves, sizeof s->counts.octaves);
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        parts[n++] = codec_crc32(s->spectra[k].sums, result_spectrum_sums(p) * sizeof(uint64_t));
    return codec_crc32(parts, n * sizeof *parts);
}

/* --- attributes --- */

#define MOST_INT ((double)INT64_MAX)
#define MOST_WINDOWS ((double)(INT64_MAX >> 20))
#define MOST_GROUPS (1 << 24)
#define MOST_TILES ((double)(INT64_MAX >> 8))
#define MOST_CHUNK (1 << 14)
#define ANY .low = -INFINITY, .high = INFINITY
#define RANGE(low_, high_) .low = (low_), .high = (high_)
#define UNKNOWN(low_, high_) .optional = true, .low = (low_), .high = (high_)

/* clang-format off */
#define PARAMS(kind, member, set, ...)                                                             \
    FIELD_ROW(kind, struct result_params, member, set, __VA_ARGS__)
const struct field result_params_fields[] = {
    PARAMS(FIELD_INT, window, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_INT, stride, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_REAL, sigma, RESULT_HERE, ANY),
    PARAMS(FIELD_INT, radius, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_TEXT, taper, RESULT_HERE),
    PARAMS(FIELD_REAL, offset, RESULT_HERE, ANY),
    PARAMS(FIELD_INT, bins, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_REAL, low_db, RESULT_OF_HISTOGRAM, ANY),
    PARAMS(FIELD_REAL, high_db, RESULT_OF_HISTOGRAM, ANY),
    PARAMS(FIELD_BYTE, tissue_only, RESULT_HERE),
    PARAMS(FIELD_REAL, min_tissue, RESULT_HERE, ANY),
    PARAMS(FIELD_BYTE, skip_damaged, RESULT_HERE),
    PARAMS(FIELD_BYTE, roi, RESULT_HERE, .optional = true),
    PARAMS(FIELD_REAL, min_roi, RESULT_REGIONS, ANY),
    PARAMS(FIELD_TEXT, roi_class, RESULT_REGIONS),
    {0}};

#define COUNT(name, member, set)                                                                   \
    FIELD_NAMED(FIELD_INT, name, struct result_counts, member, set, RANGE(0, MOST_WINDOWS))
#define SAMPLES(member)                                                                            \
    FIELD_ROW(FIELD_INT, struct result_counts, member, RESULT_OF_RANGE, RANGE(0, MOST_INT))
const struct field result_counts_fields[] = {
    COUNT("windows", windows, RESULT_OF_WINDOWS),
    SAMPLES(underflow),
    SAMPLES(overflow),
    COUNT("windows_missing", touching[RESULT_MISSING], RESULT_OF_TOUCHING),
    COUNT("windows_damaged", touching[RESULT_DAMAGED], RESULT_OF_TOUCHING),
    COUNT("windows_left_out", touching[RESULT_LEFT_OUT], RESULT_OF_TOUCHING),
    COUNT("windows_skipped", touching[RESULT_SKIPPED], RESULT_OF_TOUCHING),
    COUNT("windows_outside", outside, RESULT_REGIONS),
    {0}};

#define SLIDE(kind, member, set, ...) FIELD_ROW(kind, struct result_slide, member, set, __VA_ARGS__)
#define ORIGIN(kind, member, ...)                                                                  \
    FIELD_NAMED(kind, #member, struct result_slide, origin.member, RESULT_OF_ORIGIN, __VA_ARGS__)
#define SCALE(member)                                                                              \
    FIELD_NAMED(FIELD_REAL, #member, struct result_slide, origin.member,                           \
                RESULT_OF_ORIGIN | RESULT_OF_SCALE, UNKNOWN(1e-9, 1e9))
#define BOUND(member)                                                                              \
    FIELD_NAMED(FIELD_INT, #member, struct result_slide, origin.member,                            \
                RESULT_OF_ORIGIN | RESULT_LATER, UNKNOWN(1, 1000000000))
#define GLASS(which, name, high_)                                                                  \
    FIELD_NAMED(FIELD_REAL, name, struct result_slide, origin.glass[which],                         \
                RESULT_OF_ORIGIN | ((which) == GLASS_GRID ? RESULT_LATER : 0), UNKNOWN(0, high_)),
#define LATER(member)                                                                              \
    FIELD_NAMED(FIELD_TEXT, #member, struct result_slide, origin.member,                           \
                RESULT_OF_ORIGIN | RESULT_LATER, .optional = true)
#define SECONDS(name, member)                                                                      \
    FIELD_NAMED(FIELD_REAL, name, struct result_slide, member, RESULT_OF_MACHINE,                  \
                RANGE(0, RESULT_MOST_SECONDS))
const struct field result_slide_fields[] = {
    SLIDE(FIELD_TEXT, source_name, RESULT_OF_SOURCE),
    SLIDE(FIELD_INT, source_bytes, RESULT_OF_SOURCE, RANGE(0, MOST_INT)),
    SLIDE(FIELD_BYTE, source_gray, RESULT_OF_SOURCE),
    SLIDE(FIELD_TEXT, quickhash, RESULT_OF_SOURCE),
    SLIDE(FIELD_INT, content_crc32, RESULT_OF_SOURCE, RANGE(0, UINT32_MAX)),
    SLIDE(FIELD_INT, level, RESULT_OF_SOURCE, RANGE(0, INT32_MAX)),
    SLIDE(FIELD_INT, width, RESULT_OF_SOURCE, RANGE(1, INT32_MAX)),
    SLIDE(FIELD_INT, height, RESULT_OF_SOURCE, RANGE(1, INT32_MAX)),
    SLIDE(FIELD_INT, group_rows, RESULT_OF_GROUPS, RANGE(1, MOST_INT)),
    SLIDE(FIELD_INT, group_count, RESULT_OF_GROUPS, RANGE(1, MOST_GROUPS)),
    SCALE(mpp_x),
    SCALE(mpp_y),
    SCALE(downsample),
    ORIGIN(FIELD_REAL, objective_power, UNKNOWN(1e-9, 1e9)),
    BOUND(bounds_x),
    BOUND(bounds_y),
    ORIGIN(FIELD_TEXT, vendor),
    ORIGIN(FIELD_REAL, tissue_fraction, UNKNOWN(0, 1)),
    ORIGIN(FIELD_INT, tiles, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_missing, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_damaged, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_left_out, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, chunk_rows, UNKNOWN(1, MOST_CHUNK)),
    ORIGIN(FIELD_INT, chunk_cols, UNKNOWN(1, MOST_CHUNK)),
    ORIGIN(FIELD_INT, jpeg_quality, UNKNOWN(1, 100)),
    ORIGIN(FIELD_TEXT, jpeg_subsampling, .optional = true),
    ORIGIN(FIELD_REAL, jpeg_twice, UNKNOWN(0, 1)),
    GLASS_NUMBER_ROWS(GLASS)
    LATER(background),
    LATER(tile_compression),
    SLIDE(FIELD_INT, roi_crc32, RESULT_REGIONS, RANGE(0, UINT32_MAX)),
    SLIDE(FIELD_TEXT, backend, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, device, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, kernel, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, io, RESULT_OF_MACHINE),
    SLIDE(FIELD_INT, tiles_on_host, RESULT_OF_MACHINE, RANGE(0, INT32_MAX)),
    SECONDS("seconds", seconds),
    SECONDS("read_seconds", stages[RESULT_READ]),
    SECONDS("unpack_seconds", stages[RESULT_UNPACK]),
    SECONDS("copy_seconds", stages[RESULT_COPY]),
    SECONDS("kernels_seconds", stages[RESULT_KERNELS]),
    SECONDS("wait_seconds", stages[RESULT_WAIT]),
    SLIDE(FIELD_INT, data_crc32, RESULT_OF_CHECKSUM, RANGE(0, UINT32_MAX)),
    {0}};
/* clang-format on */
