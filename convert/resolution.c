/* resolution.c - see resolution.h. */
#include "convert/resolution.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Relative distance of the worse direction from the wanted resolution. */
static double distance(const struct slide_info *i, double downsample, double wanted)
{
    const double x = fabs(i->mpp_x * downsample - wanted), y = fabs(i->mpp_y * downsample - wanted);
    return (x > y ? x : y) / wanted;
}

/* "level 0 has 0.25, level 1 has 1" */
static void list_levels(const struct slide_info *i, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int64_t k = 0; k < i->levels && n + 48 < size; k++)
        n += (size_t)snprintf(out + n, size - n, "%slevel %" PRId64 " has %.4g", k ? ", " : "", k,
                              sqrt(i->mpp_x * i->mpp_y) * i->downsamples[k]);
}

static int find_level(const char *path, const struct slide_info *i, const struct convert_options *o,
                      int64_t *level, struct err *e)
{
    char has[400];
    if (!(i->mpp_x > 0 && i->mpp_y > 0))
        return err_set(e,
                       "%s: the slide does not state its resolution; --mpp-override X gives it, in "
                       "um per pixel of level 0",
                       path);
    *level = 0;
    for (int64_t k = 1; k < i->levels; k++)
        if (distance(i, i->downsamples[k], o->mpp) < distance(i, i->downsamples[*level], o->mpp))
            *level = k;
    if (distance(i, i->downsamples[*level], o->mpp) <= o->mpp_tolerance + 1e-9)
        return 0;
    list_levels(i, has, sizeof has);
    return err_set(e,
                   "%s: no level has %g um/px within %g %%: %s; choose another --mpp, a larger "
                   "--mpp-tolerance or a --level",
                   path, o->mpp, o->mpp_tolerance * 100, has);
}

static struct slide *open_level(const struct slide_file *file, int64_t level,
                                const struct convert_options *o, struct slide_info *info,
                                struct err *e)
{
    struct slide *s = slide_open(file, level, o->threads, info, e);
    if (s && o->mpp_override > 0)
        info->mpp_x = info->mpp_y = o->mpp_override;
    else if (s)
        slide_check_mpp(info);
    return s;
}

struct slide *resolution_open(const struct slide_file *file, const struct convert_options *o,
                              struct slide_info *info, struct err *e)
{
    int64_t level = 0;
    if (!(o->mpp > 0))
        return open_level(file, o->level, o, info, e);
    struct slide *s = open_level(file, 0, o, info, e);
    if (!s)
        return NULL;
    const int r = find_level(file->path, info, o, &level, e);
    if (!r && level == 0)
        return s;
    slide_close(s);
    errno = 0;
    return r ? NULL : open_level(file, level, o, info, e);
}
