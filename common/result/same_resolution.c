/* same_resolution.c - see same_resolution.h. */
#include "common/result/same_resolution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 0.1;

/* um per stored pixel, or NaN. */
static double resolution(const struct result_origin *o)
{
    const double r = sqrt(o->mpp_x * o->mpp_y) * o->downsample;
    return r > 0 && isfinite(r) ? r : NAN;
}

static bool differ(double a, double b)
{
    return fabs(a - b) > tolerance * fmin(a, b);
}

int same_resolution_check(struct same_resolution *r, const char *path,
                          const struct result_origin *o, struct err *e)
{
    if (!r->path) {
        r->first = *o;
        r->path = strdup(path);
        return r->path ? 0 : err_set(e, "%s: out of memory", path);
    }
    const double a = resolution(&r->first), b = resolution(o);
    static const char remedy[] = "use another result for it, or --mix-mpp";
    if (!isnan(a) && !isnan(b) ? !differ(a, b) : !differ(r->first.downsample, o->downsample))
        return 0;
    if (!isnan(a) && !isnan(b))
        return err_set(e, "%s: rejected: it has %.4g um/px, but %s has %.4g; %s", path, b, r->path,
                       a, remedy);
    return err_set(e, "%s: rejected: its level is downsampled by %.4g, that of %s by %.4g; %s",
                   path, o->downsample, r->path, r->first.downsample, remedy);
}

void same_resolution_free(struct same_resolution *r)
{
    free(r->path);
    *r = (struct same_resolution){.path = NULL};
}

void resolution_range_add(struct resolution_range *r, const struct result_origin *o)
{
    const double mpp = resolution(o);
    if (isnan(mpp))
        return;
    r->low = r->low > 0 ? fmin(r->low, mpp) : mpp;
    r->high = fmax(r->high, mpp);
}

bool resolution_range_mixes(const struct resolution_range *r)
{
    return r->low > 0 && differ(r->low, r->high);
}
