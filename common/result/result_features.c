/* result_features.c - see result_features.h. */
#include "common/result/result_features.h"

#include "common/base/memory.h"
#include "common/result/report_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const spectrum_names[FEATURES_SAMPLES] = {
    [FEATURES_TISSUE] = "spectrum_tissue", [FEATURES_GLASS] = "spectrum_glass"};

const char *result_spectrum_name(int sample)
{
    return spectrum_names[sample];
}

/* --- writing --- */

static int put_slide_numbers(hid_t o, const struct result_params *p, const struct result_slide *s,
                             struct err *e)
{
    struct slide_numbers n;
    result_find_slide_numbers(p, s, &n);
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        if (h5_put_real(o, slide_number_list[k].name, *slide_number_of(&n, k), e))
            return -1;
    return 0;
}

static int put_report_numbers(hid_t o, const struct result_params *p, const struct result_slide *s,
                              struct err *e)
{
    struct report_numbers n;
    report_numbers_find(p, s, &n);
    for (int k = 0; k < REPORT_NUMBER_KINDS; k++)
        if (h5_put_reals(o, report_number_list[k].name, report_number_of(&n, k),
                         report_number_list[k].n, e))
            return -1;
    return 0;
}

static int put_quantiles(hid_t o, const struct result_slide *s, int map, struct err *e)
{
    char name[32];
    double quantiles[FEATURES_QUANTILES];
    result_find_quantiles(s, map, quantiles);
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        if (h5_put_real(o, result_quantile_name(name, sizeof name, map, q), quantiles[q], e))
            return -1;
    return 0;
}

static int put_profile(hid_t o, const struct result_params *p, const struct result_slide *s,
                       struct err *e)
{
    const hsize_t dims[1] = {FEATURES_OCTAVES};
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    if (h5_write_array(o, "profile", H5T_IEEE_F64LE, 1, dims, false, profile, e) ||
        h5_write_array(o, "profile_sums", H5T_STD_U64LE, 1, dims, false, s->counts.octaves, e))
        return -1;
    hid_t ds = h5_open_array(o, "profile", H5T_NATIVE_DOUBLE, 1, dims, e);
    const int r = ds < 0 ? -1 : h5_put_real(ds, "slope", features_slope(profile), e);
    h5_close(ds);
    return r;
}

static void spectrum_shape(const struct result_params *p, hsize_t dims[2])
{
    dims[0] = (hsize_t)p->window;
    dims[1] = (hsize_t)p->window / 2 + 1;
}

static int put_spectrum(hid_t o, const char *name, const struct result_params *p,
                        const struct result_spectrum *s, struct err *e)
{
    hsize_t dims[2];
    spectrum_shape(p, dims);
    if (h5_write_array(o, name, H5T_STD_U64LE, 2, dims, true, s->sums, e))
        return -1;
    hid_t ds = h5_open_array(o, name, H5T_NATIVE_UINT64, 2, dims, e);
    const int r = ds < 0 || h5_put_int(ds, "windows", s->windows, e) ||
                          h5_put_int(ds, "threshold", s->threshold, e)
                      ? -1
                      : 0;
    h5_close(ds);
    return r;
}

static int put_thumbnail(hid_t o, const struct result_picture *t, struct err *e)
{
    const hsize_t dims[3] = {(hsize_t)t->height, (hsize_t)t->width, 3};
    return t->width == 0 ? 0
                         : h5_write_array(o, "thumbnail", H5T_STD_U8LE, 3, dims, true, t->rgb, e);
}

int result_put_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                        struct err *e)
{
    for (int m = 0; m < RESULT_MAPS; m++)
        if (result_has_quantiles(m) && !s->maps[m].absent && put_quantiles(o, s, m, e))
            return -1;
    if (put_profile(o, p, s, e) || put_slide_numbers(o, p, s, e) || put_report_numbers(o, p, s, e))
        return -1;
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        if (put_spectrum(o, spectrum_names[k], p, &s->spectra[k], e))
            return -1;
    return put_thumbnail(o, &s->thumbnail, e);
}

/* --- reading --- */

int result_check_touching(const struct result_counts *c, struct err *e)
{
    for (int k = RESULT_MISSING; k < RESULT_SKIPPED; k++)
        if (c->touching[k] > c->windows)
            return err_set(e, "more of its windows touch tiles than count");
    return 0;
}

int result_check_tiles(const struct result_slide *s, struct err *e)
{
    const struct result_origin *o = &s->origin;
    return o->tiles <= s->width * s->height &&
                   o->tiles_missing + o->tiles_damaged + o->tiles_left_out <= o->tiles
               ? 0
               : err_set(e, "its counts of tiles are out of range");
}

/* Is there no number although windows count, because none of them is tissue? */
static bool is_of_glass(const double f[FEATURES_QUANTILES])
{
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        if (!isnan(f[q]))
            return false;
    return true;
}

/* A slide with windows has these numbers, and they rise. Verifying compares them with the map. */
static int check_quantile_range(const struct result_params *p, int map,
                                const struct result_slide *s, struct err *e)
{
    const double most = p->high_db - p->low_db + 0.01, *f = s->quantiles[map];
    char name[32];
    const bool none = !s->counts.windows || is_of_glass(f);
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        if (none ? !isnan(f[q]) : !(fabs(f[q]) <= most && (q == 0 || f[q] >= f[q - 1])))
            return err_set(e, "its %s is out of range",
                           result_quantile_name(name, sizeof name, map, q));
    return 0;
}

static int get_slide_numbers(hid_t o, struct result_slide *s, struct err *e)
{
    for (int k = 0; k < SLIDE_NUMBERS; k++) {
        const char *name = slide_number_list[k].name;
        double *x = slide_number_of(&s->of_spectra, k);
        const int has = h5_has(o, name, e);
        if (has < 0 || (has && h5_get_real(o, name, x, e)))
            return -1;
        if (!has) {
            *x = NAN;
            s->numbers_missing++;
            s->lacks |= UINT32_C(1) << k;
        }
    }
    return 0;
}

static int get_quantiles(hid_t o, int map, struct result_slide *s, struct err *e)
{
    char name[32];
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        if (h5_get_real(o, result_quantile_name(name, sizeof name, map, q), &s->quantiles[map][q],
                        e))
            return -1;
    return 0;
}

int result_check_moments(const struct result_params *p, const struct result_counts *c, double mean,
                         double std, int64_t samples, struct err *e)
{
    double want_mean, want_std;
    result_moments(p, c->histogram, &want_mean, &want_std);
    const bool same = isnan(want_mean)
                          ? isnan(mean) && isnan(std)
                          : fabs(mean - want_mean) < 1e-6 && fabs(std - want_std) < 1e-6;
    return same && (uint64_t)samples == result_samples(p, c)
               ? 0
               : err_set(e, "mean_db, std_db or samples does not match the histogram");
}

int result_check_numbers(const struct result_params *p, const struct result_slide *s, struct err *e)
{
    const uint64_t most = result_samples(p, &s->counts) * (uint64_t)(p->bins - 1);
    for (int m = 0; m < RESULT_MAPS; m++)
        if (result_has_quantiles(m) && !s->maps[m].absent && check_quantile_range(p, m, s, e))
            return -1;
    struct slide_numbers n = s->of_spectra;
    for (int k = 0; k < SLIDE_NUMBERS; k++) {
        const struct slide_number *x = &slide_number_list[k];
        const double value = *slide_number_of(&n, k);
        if (!isnan(value) && !(value >= x->low && value <= x->high))
            return err_set(e, "its %s is out of range", x->name);
    }
    for (int k = 0; k < FEATURES_OCTAVES; k++)
        if (s->counts.octaves[k] > most)
            return err_set(e, "profile_sums is out of range");
    return 0;
}

static int get_octaves(hid_t o, struct result_counts *c, struct err *e)
{
    const hsize_t dims[1] = {FEATURES_OCTAVES};
    return h5_read_array(o, "profile_sums", H5T_NATIVE_UINT64, 1, dims, c->octaves, e);
}

/* The sums are read only if there is room for them. */
static int get_spectrum(hid_t o, const char *name, const struct result_params *p,
                        int64_t most_windows, struct result_spectrum *s, struct err *e)
{
    hsize_t dims[2];
    spectrum_shape(p, dims);
    hid_t ds = h5_open_array(o, name, H5T_NATIVE_UINT64, 2, dims, e);
    const int r = ds < 0 || h5_get_int(ds, "windows", 0, most_windows, &s->windows, e) ||
                          h5_get_int(ds, "threshold", 0, INT64_MAX, &s->threshold, e)
                      ? -1
                      : 0;
    h5_close(ds);
    if (r)
        return err_add(e, "%s", name);
    if (s->sums && h5_read_array(o, name, H5T_NATIVE_UINT64, 2, dims, s->sums, e))
        return -1;
    for (size_t k = 0; s->sums && k < result_spectrum_sums(p); k++)
        if (s->sums[k] > (uint64_t)s->windows * (uint64_t)(p->bins - 1))
            return err_set(e, "%s is out of range", name);
    return 0;
}

static int get_thumbnail(hid_t o, struct result_picture *t, struct err *e)
{
    hsize_t dims[3];
    const int has = h5_has_link(o, "thumbnail", e);
    if (has <= 0)
        return has;
    if (h5_get_shape(o, "thumbnail", 3, dims, e))
        return -1;
    if (dims[0] < 1 || dims[0] > RESULT_MOST_THUMBNAIL || dims[1] < 1 ||
        dims[1] > RESULT_MOST_THUMBNAIL || dims[2] != 3)
        return err_set(e, "thumbnail has an invalid size");
    t->rgb = memory_need((size_t)(dims[0] * dims[1]), 3);
    t->height = (int64_t)dims[0];
    t->width = (int64_t)dims[1];
    return h5_read_array(o, "thumbnail", H5T_NATIVE_UINT8, 3, dims, t->rgb, e);
}

int result_get_features(hid_t o, const struct result_params *p, unsigned parts,
                        struct result_slide *s, struct err *e)
{
    for (int m = 0; m < RESULT_MAPS; m++)
        if (result_has_quantiles(m) && !s->maps[m].absent && get_quantiles(o, m, s, e))
            return -1;
    if (get_slide_numbers(o, s, e) || get_octaves(o, &s->counts, e) ||
        result_check_numbers(p, s, e))
        return -1;
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        if (get_spectrum(o, spectrum_names[k], p, s->counts.windows, &s->spectra[k], e))
            return -1;
    return parts & RESULT_WITH_THUMBNAIL ? get_thumbnail(o, &s->thumbnail, e) : 0;
}

/* --- checking --- */

static bool same_real(double a, double b)
{
    return isnan(a) ? isnan(b) : fabs(a - b) < 1e-6;
}

static int check_profile(hid_t o, const struct result_params *p, const struct result_slide *s,
                         struct err *e)
{
    const hsize_t dims[1] = {FEATURES_OCTAVES};
    double want[FEATURES_OCTAVES], have[FEATURES_OCTAVES], slope = 0;
    result_profile(p, &s->counts, want);
    if (h5_read_array(o, "profile", H5T_NATIVE_DOUBLE, 1, dims, have, e))
        return -1;
    for (int k = 0; k < FEATURES_OCTAVES; k++)
        if (!same_real(want[k], have[k]))
            return err_set(e, "profile does not match profile_sums");
    hid_t ds = h5_open_array(o, "profile", H5T_NATIVE_DOUBLE, 1, dims, e);
    const int r = ds < 0 ? -1 : h5_get_real(ds, "slope", &slope, e);
    h5_close(ds);
    return r || same_real(slope, features_slope(want))
               ? r
               : err_set(e, "slope does not match the profile");
}

static int check_quantiles(const struct result_slide *s, int map, struct err *e)
{
    char name[32];
    double quantiles[FEATURES_QUANTILES];
    result_find_quantiles(s, map, quantiles);
    for (int q = 0; q < FEATURES_QUANTILES; q++)
        if (!same_real(quantiles[q], s->quantiles[map][q]))
            return err_set(e, "%s does not match %s",
                           result_quantile_name(name, sizeof name, map, q),
                           result_map_kind(map)->name);
    return 0;
}

/* Was the result made by a version that knows which seams are those of tiles? An earlier one looked
 * at other windows, and counted among all rows and columns. */
static bool knows_tile_seams(const struct result_slide *s)
{
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        if (slide_number_list[k].offset == offsetof(struct slide_numbers, tile_seam_rows))
            return !(s->lacks >> k & 1);
    return false;
}

static bool is_of_seams(int k)
{
    const size_t offset = slide_number_list[k].offset;
    return offset >= offsetof(struct slide_numbers, seam_rows) &&
           offset <= offsetof(struct slide_numbers, seam_x_px);
}

static int check_slide_numbers(const struct result_params *p, const struct result_slide *s,
                               struct err *e)
{
    struct slide_numbers want, have = s->of_spectra;
    result_find_slide_numbers(p, s, &want);
    for (int k = 0; k < SLIDE_NUMBERS; k++) {
        const double number = *slide_number_of(&have, k);
        if (!(s->lacks >> k & 1) && (knows_tile_seams(s) || !is_of_seams(k)) &&
            !same_real(*slide_number_of(&want, k), number))
            return err_set(e, "%s does not match the spectra and maps", slide_number_list[k].name);
    }
    return 0;
}

/* Results of version 1.0.0 lack these numbers. */
static int check_report_numbers(hid_t o, const struct result_params *p,
                                const struct result_slide *s, struct err *e)
{
    struct report_numbers want, have;
    report_numbers_find(p, s, &want);
    for (int k = 0; k < REPORT_NUMBER_KINDS; k++) {
        const struct report_number *x = &report_number_list[k];
        const double *a = report_number_of(&want, k), *b = report_number_of(&have, k);
        const int has = h5_has(o, x->name, e);
        if (has < 0 || (has && h5_get_reals(o, x->name, report_number_of(&have, k), x->n, e)))
            return -1;
        for (size_t i = 0; i < x->n && has; i++)
            if (!same_real(a[i], b[i]))
                return err_set(e, "%s does not match the maps, spectra and thumbnail", x->name);
    }
    return 0;
}

static bool follows_counting(enum result_formula f)
{
    return f == RESULT_OF_OCTAVE || f == RESULT_OF_OCTAVES || f == RESULT_OF_SHARPNESS ||
           f == RESULT_OF_GRAY;
}

/* Does the window have a value in every map of levels and of gray exactly if it counts, in those of
 * steps only if it is looked at, too, and in that of tissue exactly if its group is here and the
 * slide has a tissue map? sample: of features_choose_steps(); NULL: not known. */
static bool agrees_with_maps(const struct result_slide *s, const uint8_t *sample, int64_t k)
{
    const uint8_t flags = ((const uint8_t *)s->maps[RESULT_FLAGS].values)[k];
    const bool counts = flags & RESULT_FLAG_COUNTED;
    const bool steps = counts && (!sample || sample[k] & FEATURES_STEPPED);
    const bool tissue = !(flags & RESULT_FLAG_NO_GROUP) && !isnan(s->origin.tissue_fraction);
    for (int m = 0; m < RESULT_MAPS; m++) {
        if (s->maps[m].absent)
            continue;
        const bool has = !isnan(result_map_value(&s->maps[m], k));
        const enum result_formula formula = result_map_kind(m)->formula;
        if ((formula == RESULT_OF_TISSUE && has != tissue) ||
            (follows_counting(formula) && has != counts) ||
            ((formula == RESULT_OF_ROW_STEP || formula == RESULT_OF_COLUMN_STEP) && has && !steps))
            return false;
    }
    return true;
}

/* The windows whose steps are looked at, to be free()d. NULL: not known, because groups are missing
 * or the result is of an earlier version. */
static uint8_t *choose_steps(const struct result_slide *s)
{
    const int64_t n = s->nx * s->ny;
    const uint8_t *flags = s->maps[RESULT_FLAGS].values;
    bool known = knows_tile_seams(s);
    for (int64_t k = 0; k < s->group_count; k++)
        known &= s->groups[k] != 0;
    if (!known)
        return NULL;
    uint8_t *sample = memory_need((size_t)n + 1, 1), *inside = memory_need((size_t)n + 1, 1);
    for (int64_t k = 0; k < n; k++)
        inside[k] = !(flags[k] & RESULT_FLAG_OUTSIDE);
    features_choose_steps(s->maps[RESULT_TISSUE].values, inside, s->nx, s->ny, sample);
    free(inside);
    return sample;
}

/* Each window counts or has a reason, and only windows that count have values. */
static int check_flags(const struct result_slide *s, struct err *e)
{
    const uint8_t *flags = s->maps[RESULT_FLAGS].values;
    uint8_t *sample = choose_steps(s);
    int64_t counted = 0, bad = 0;
    for (int64_t k = 0; k < s->nx * s->ny; k++) {
        counted += (flags[k] & RESULT_FLAG_COUNTED) != 0;
        bad += !(flags[k] & ~RESULT_FLAG_EDGE) || !agrees_with_maps(s, sample, k);
    }
    free(sample);
    if (bad)
        return err_set(e, "window_flags contradicts the other maps");
    return counted == s->counts.windows
               ? 0
               : err_set(e, "window_flags has %" PRId64 " windows that count, not %" PRId64,
                         counted, s->counts.windows);
}

int result_check_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                          struct err *e)
{
    for (int m = 0; m < RESULT_MAPS; m++)
        if (result_has_quantiles(m) && !s->maps[m].absent && check_quantiles(s, m, e))
            return -1;
    return check_slide_numbers(p, s, e) || check_report_numbers(o, p, s, e) ||
                   check_profile(o, p, s, e) || check_flags(s, e)
               ? -1
               : 0;
}

/* --- adding up --- */

int result_add_features(const struct result_params *p, struct result_slide *sum,
                        const struct result_slide *s, struct err *e)
{
    for (int k = 0; k < FEATURES_SAMPLES; k++) {
        struct result_spectrum *a = &sum->spectra[k];
        const struct result_spectrum *b = &s->spectra[k];
        if (a->threshold != b->threshold)
            return err_set(e, "their stores have different tissue maps; run one store only");
        a->windows += b->windows;
        for (size_t v = 0; a->sums && v < result_spectrum_sums(p); v++)
            a->sums[v] += b->sums[v];
    }
    return 0;
}
