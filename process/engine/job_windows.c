/* job_windows.c - see job_windows.h. */
#include "process/engine/job_windows.h"

#include "common/store/store.h"
#include "process/engine/filled.h"
#include "process/engine/tissue_windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct result_params *params_of(const struct job *j)
{
    return &j->terms->setup->params;
}

static size_t windows_of(const struct job *j)
{
    return (size_t)(j->result.nx * j->result.ny);
}

static int no_memory(const struct job *j, struct err *e)
{
    return err_set(e, "%s: out of memory", j->path);
}

void job_free_windows(struct job *j)
{
    free(j->wanted);
    free(j->tissue);
    free(j->percent);
    free(j->inside);
    free(j->sample);
}

/* --- tissue --- */

static int find_tissue(struct job *j, const struct store_tissue *t, struct err *e)
{
    const struct result_slide *r = &j->result;
    j->tissue = malloc(windows_of(j) + 1);
    j->percent = malloc(windows_of(j) + 1);
    if (!j->tissue || !j->percent)
        return no_memory(j, e);
    return tissue_windows_find(params_of(j), t->mask, t->cols, t->rows, STORE_CELL, r->nx, r->ny,
                               j->tissue, j->percent, e)
               ? err_add(e, "%s", j->path)
               : 0;
}

static int no_tissue_map(const struct job *j, struct err *e)
{
    const char *why = store_info(j->store)->tissue_missing;
    if (*why)
        return err_set(e, "%s: has no tissue map: %s; convert it with --tissue-mask", j->path, why);
    return err_set(e, "%s: has no tissue map; convert the slide without --no-tissue", j->path);
}

static void keep_wanted(struct job *j, const uint8_t *windows)
{
    for (size_t k = 0; k < windows_of(j); k++)
        j->wanted[k] &= windows[k];
}

static int choose_tissue(struct job *j, struct err *e)
{
    const struct result_params *p = params_of(j);
    struct store_tissue t = {0};
    j->result.origin.tissue_fraction = NAN;
    const int found = store_read_tissue(j->store, &t, e);
    if (found < 0)
        return -1;
    if (found == 0 && p->tissue_only)
        return no_tissue_map(j, e);
    if (found)
        j->result.origin.tissue_fraction = t.fraction;
    const int bad = found ? find_tissue(j, &t, e) : 0;
    free(t.mask);
    if (!bad && p->tissue_only)
        keep_wanted(j, j->tissue);
    return bad;
}

/* --- regions --- */

static int find_inside(struct job *j, const struct polygons *p, struct err *e)
{
    if (!(j->inside = malloc(windows_of(j) + 1)))
        return no_memory(j, e);
    return regions_windows(p, params_of(j), j->result.nx, j->result.ny, j->inside, e)
               ? err_add(e, "%s", j->path)
               : 0;
}

static int choose_regions(struct job *j, struct err *e)
{
    struct polygons p;
    struct regions_version v;
    if (!params_of(j)->roi)
        return 0;
    if (regions_load(j->terms->setup->regions, j->path, store_info(j->store), &p, &v, e))
        return -1;
    j->result.roi_crc32 = v.crc32;
    const int bad = find_inside(j, &p, e);
    polygons_free(&p);
    if (!bad)
        keep_wanted(j, j->inside);
    return bad;
}

int job_choose_places(struct job *j, struct err *e)
{
    if (result_selects(params_of(j))) {
        if (!(j->wanted = malloc(windows_of(j) + 1)))
            return no_memory(j, e);
        memset(j->wanted, 1, windows_of(j));
    }
    return choose_tissue(j, e) || choose_regions(j, e) ? -1 : 0;
}

/* --- flags --- */

static uint8_t *flags_of(const struct job *j)
{
    return j->result.maps[RESULT_FLAGS].values;
}

/* How much of each window is tissue, if it is known. */
static void put_percent(struct job *j, int64_t first_wy, int64_t end_wy)
{
    const int64_t nx = j->result.nx;
    uint8_t *map = j->result.maps[RESULT_TISSUE].values;
    if (j->percent)
        memcpy(map + first_wy * nx, j->percent + first_wy * nx, (size_t)((end_wy - first_wy) * nx));
}

/* What is known before the tables of tiles: the edge, too little tissue, and the regions. */
static void begin_flags(struct job *j, int64_t first_wy, int64_t end_wy)
{
    const int64_t nx = j->result.nx, ny = j->result.ny;
    for (int64_t wy = first_wy; wy < end_wy; wy++)
        for (int64_t wx = 0; wx < nx; wx++) {
            const bool edge = wx == 0 || wy == 0 || wx == nx - 1 || wy == ny - 1;
            const int64_t k = wy * nx + wx;
            const bool no_tissue = params_of(j)->tissue_only && !j->tissue[k];
            const bool outside = j->inside && !j->inside[k];
            flags_of(j)[k] =
                (uint8_t)((edge ? RESULT_FLAG_EDGE : 0) | (no_tissue ? RESULT_FLAG_NO_TISSUE : 0) |
                          (outside ? RESULT_FLAG_OUTSIDE : 0));
            j->result.counts.outside += outside;
        }
}

static void end_flags(struct job *j, int64_t first_wy, int64_t end_wy)
{
    for (int64_t k = first_wy * j->result.nx; k < end_wy * j->result.nx; k++)
        if (!j->wanted || j->wanted[k])
            flags_of(j)[k] |= RESULT_FLAG_COUNTED;
}

static void count_filled(struct job *j, int64_t first_wy, int64_t end_wy)
{
    const struct store_info *i = store_info(j->store);
    const struct filled f = {.params = params_of(j),
                             .info = i,
                             .list = j->list,
                             .first_row = j->first_group * (i->group_rows / i->chunk_rows),
                             .rows = j->listed_rows,
                             .nx = j->result.nx,
                             .ny = j->result.ny,
                             .first_wy = first_wy,
                             .end_wy = end_wy,
                             .flags = flags_of(j)};
    filled_count(&f, j->wanted, &j->result.counts);
}

/* --- the sample --- */

/* Windows that touch filled tiles show no pixels of the slide, so they are not in it. */
static void fill_sample(struct job *j, int64_t first_wy, int64_t end_wy)
{
    const int64_t nx = j->result.nx;
    for (int64_t wy = first_wy; wy < end_wy; wy++)
        for (int64_t wx = 0; wx < nx; wx++) {
            const int64_t k = wy * nx + wx;
            const bool glass = j->tissue && !j->tissue[k];
            const int kind = glass ? FEATURES_GLASS : FEATURES_TISSUE;
            if ((flags_of(j)[k] & (RESULT_FLAGS_FILLED | RESULT_FLAG_COUNTED)) ==
                    RESULT_FLAG_COUNTED &&
                features_hash(wx, wy) < j->result.spectra[kind].threshold)
                j->sample[k] = (uint8_t)(1 + kind);
        }
}

static int choose_sample(struct job *j, int64_t first_wy, int64_t end_wy, struct err *e)
{
    if (!(j->sample = calloc(windows_of(j) + 1, 1)))
        return no_memory(j, e);
    fill_sample(j, first_wy, end_wy);
    features_values(params_of(j)->window, j->features.values);
    j->features.sample = j->sample;
    j->features.spectra = j->result.spectra;
    return 0;
}

int job_choose_windows(struct job *j, struct err *e)
{
    const int64_t first_wy = j->bands[0].geometry.first_wy;
    const int64_t end_wy = j->bands[j->n_bands - 1].geometry.end_wy;
    put_percent(j, first_wy, end_wy);
    begin_flags(j, first_wy, end_wy);
    count_filled(j, first_wy, end_wy);
    end_flags(j, first_wy, end_wy);
    if (choose_sample(j, first_wy, end_wy, e))
        return -1;
    for (int64_t k = 0; k < j->n_bands; k++) {
        j->bands[k].geometry.wanted = j->wanted;
        j->bands[k].geometry.features = &j->features;
    }
    return 0;
}
