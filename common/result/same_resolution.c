/* same_resolution.c - see same_resolution.h. */
#include "common/result/same_resolution.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static const double tolerance = 0.1;

double same_resolution_um(const struct result_origin *o)
{
    const double r = sqrt(o->mpp_x * o->mpp_y) * o->downsample;
    return r > 0 && isfinite(r) ? r : NAN;
}

bool same_resolution_differ(double a, double b)
{
    return fabs(a - b) > tolerance * fmin(a, b);
}

/* Where the widest gap is: before value k. */
static int64_t widest_gap(const double *sorted, int64_t n)
{
    int64_t cut = 1;
    for (int64_t k = 2; k < n; k++)
        if (sorted[k] / sorted[k - 1] > sorted[cut] / sorted[cut - 1])
            cut = k;
    return cut;
}

/* Sets exist from below: of what is left, a beginning is cut off until it is one set. */
int64_t same_resolution_sets(const double *sorted, int64_t n, int64_t first, int64_t *set)
{
    for (int64_t from = 0; from < n; first++) {
        int64_t end = n;
        while (same_resolution_differ(sorted[from], sorted[end - 1]))
            end = from + widest_gap(sorted + from, end - from);
        while (from < end)
            set[from++] = first;
    }
    return first;
}

#define REMEDY "; use another result for it, or --mix-mpp"

static int judge(const struct same_resolution *r, double mpp, double downsample, struct err *e)
{
    if (r->with_mpp[0] && !isnan(mpp))
        return !same_resolution_differ(r->mpp, mpp)
                   ? 0
                   : err_set(e, "rejected: it has %.4g um/px, but %s has %.4g" REMEDY, mpp,
                             r->with_mpp, r->mpp);
    return !r->with_downsample[0] || !same_resolution_differ(r->downsample, downsample)
               ? 0
               : err_set(e, "rejected: its level is downsampled by %.4g, that of %s by %.4g" REMEDY,
                         downsample, r->with_downsample, r->downsample);
}

/* Keeps the first value that is known, and whose it is. */
static void keep(char whose[SAME_RESOLUTION_NAME], double *first, const char *name, double value)
{
    if (whose[0] || isnan(value))
        return;
    *first = value;
    snprintf(whose, SAME_RESOLUTION_NAME, "%s", name);
}

int same_resolution_check(struct same_resolution *r, const char *name, double um, double downsample,
                          struct err *e)
{
    if (judge(r, um, downsample, e)) {
        r->others++;
        return -1;
    }
    keep(r->with_mpp, &r->mpp, name, um);
    keep(r->with_downsample, &r->downsample, name, downsample);
    return 0;
}

enum which { ANY, WITH_UM, WITHOUT_UM };

/* Puts the slides of one kind into sets from `sets` on; returns the number of sets then. */
static int divide(const double *um, const double *downsample, int64_t n, enum which which, int sets,
                  int *set)
{
    for (int64_t left = 1; left > 0; sets++) {
        struct same_resolution first = {0};
        int64_t members = 0;
        left = 0;
        for (int64_t k = 0; k < n; k++) {
            if (set[k] >= 0 || (which != ANY && isnan(um[k]) != (which == WITHOUT_UM)))
                continue;
            if (same_resolution_check(&first, "slide", um[k], downsample[k], NULL))
                left++;
            else {
                set[k] = sets;
                members++;
            }
        }
        if (!members)
            return sets;
    }
    return sets;
}

static void clear(int *set, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        set[k] = -1;
}

int same_resolution_divide(const double *um, const double *downsample, int64_t n, int *set)
{
    clear(set, n);
    int sets = divide(um, downsample, n, ANY, 0, set);
    if (sets > 1) {
        clear(set, n);
        sets = divide(um, downsample, n, WITH_UM, 0, set);
        sets = divide(um, downsample, n, WITHOUT_UM, sets, set);
    }
    return sets;
}
