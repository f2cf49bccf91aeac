/*
 * result.c - the result format; see result.h. Adding files up is in result_merge.c.
 *
 * Every slide carries a CRC-32 over its histogram and its maps (`data_crc32`), and its samples must
 * add up to windows * window^2: a damaged result is refused, not added.
 */
#include "common/result.h"

#include "common/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WINDOWS = 1 << 28 };

/* --- parameters --- */

int result_check_params(const struct result_params *p, struct err *e)
{
    if (p->window < 64 || p->window > 1024 || (p->window & (p->window - 1)))
        return err_set(e, "a window of %" PRId64 " px: must be a power of two from 64 to 1024",
                       p->window);
    if (p->stride < 1 || p->stride > p->window)
        return err_set(e, "a stride of %" PRId64 " px: must be from 1 to the window's %" PRId64,
                       p->stride, p->window);
    if (!(p->sigma >= 0 && p->sigma <= 10) || p->radius < 0 || p->radius > 30)
        return err_set(e, "a sigma of %g px: must be from 0 to 10", p->sigma);
    if (strcmp(p->taper, "rectangular") && strcmp(p->taper, "hann"))
        return err_set(e, "the taper %s: must be rectangular or hann", p->taper);
    if (p->bins < 1 || p->bins > 65536)
        return err_set(e, "%" PRId64 " bins: must be from 1 to 65536", p->bins);
    if (!isfinite(p->low_db) || !isfinite(p->high_db) || p->low_db >= p->high_db ||
        p->low_db < -1000 || p->high_db > 1000)
        return err_set(e, "a range of %g:%g dB: must be LOW:HIGH with LOW < HIGH", p->low_db,
                       p->high_db);
    if (!(p->offset > 0) || !isfinite(p->offset) || !(p->min_tissue >= 0 && p->min_tissue <= 1))
        return err_set(e, "parameters out of range");
    return 0;
}

int result_same_params(const struct result_params *a, const struct result_params *b, struct err *e)
{
    const struct { const char *name; double a, b; } rows[] = {
        {"window", (double)a->window, (double)b->window},
        {"stride", (double)a->stride, (double)b->stride},
        {"sigma", a->sigma, b->sigma},
        {"radius", (double)a->radius, (double)b->radius},
        {"offset", a->offset, b->offset},
        {"bins", (double)a->bins, (double)b->bins},
        {"low_db", a->low_db, b->low_db},
        {"high_db", a->high_db, b->high_db},
        {"tissue_only", a->tissue_only, b->tissue_only},
        {"min_tissue", a->min_tissue, b->min_tissue},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].a != rows[k].b)
            return err_set(e, "%s is %g and %g", rows[k].name, rows[k].a, rows[k].b);
    if (strcmp(a->taper, b->taper))
        return err_set(e, "taper is %s and %s", a->taper, b->taper);
    return 0;
}

/* --- counts --- */

void result_add_counts(struct result_counts *a, const struct result_counts *b, int64_t bins)
{
    a->windows += b->windows;
    a->underflow += b->underflow;
    a->overflow += b->overflow;
    for (int64_t k = 0; k < bins; k++)
        a->histogram[k] += b->histogram[k];
}

const char *result_stage_name(int stage)
{
    static const char *const names[RESULT_STAGES] = {"read", "unpack", "copy", "kernels", "wait"};
    return names[stage];
}

const char *result_stage_attribute(char *name, size_t size, int stage)
{
    snprintf(name, size, "%s_seconds", result_stage_name(stage));
    return name;
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
        squares += (long double)histogram[k] * ((long double)k - middle) * ((long double)k - middle);
    *mean = n > 0 ? p->low_db + width * ((double)middle + 0.5) : NAN;
    *std = n > 0 ? width * sqrt((double)(squares / n)) : NAN;
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
    return sum == result_samples(p, c) ? 0 : err_set(e, "the histogram does not add up: damaged");
}

/* --- slides --- */

int result_slide_alloc(struct result_slide *s, int64_t bins, struct err *e)
{
    if (s->ny > 0 && s->nx > MOST_WINDOWS / s->ny)
        return err_set(e, "more windows than can be; take a larger stride");
    size_t maps = (size_t)s->nx * (size_t)s->ny;
    s->counts = (struct result_counts){.histogram = calloc((size_t)bins, sizeof(uint64_t))};
    s->mean_db = malloc((maps + 1) * sizeof(float));
    s->std_db = malloc((maps + 1) * sizeof(float));
    s->groups = calloc((size_t)s->group_count, 1);
    if (!s->counts.histogram || !s->mean_db || !s->std_db || !s->groups) {
        result_slide_free(s);
        return err_set(e, "out of memory");
    }
    for (size_t k = 0; k < maps; k++)
        s->mean_db[k] = s->std_db[k] = NAN;
    return 0;
}

void result_slide_free(struct result_slide *s)
{
    free(s->counts.histogram);
    free(s->mean_db);
    free(s->std_db);
    free(s->groups);
    s->counts.histogram = NULL;
    s->mean_db = s->std_db = NULL;
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
        used += (size_t)snprintf(out + used, size - used, a == b ? "%s%" PRId64 : "%s%" PRId64 "-%" PRId64,
                                 used ? "," : "", a + 1, b + 1);
        a = b;
    }
}

uint32_t result_data_crc(const struct result_params *p, const struct result_slide *s)
{
    const size_t maps = (size_t)s->nx * (size_t)s->ny * sizeof(float);
    uint32_t part[4] = {codec_crc32(s->counts.histogram, (size_t)p->bins * sizeof(uint64_t)),
                        codec_crc32(s->mean_db, maps), codec_crc32(s->std_db, maps),
                        codec_crc32(s->groups, (size_t)s->group_count)};
    return codec_crc32(part, sizeof part);
}
