/*
 * result.c - the result format; see result.h. Adding files up is in result_merge.c.
 *
 * Every slide carries a CRC-32 over its histogram and its maps (`data_crc32`), and its samples must
 * add up to windows * window^2: a damaged result is refused, not added.
 */
#include "common/result.h"

#include "common/cli.h"
#include "common/codec.h"
#include "common/h5.h"
#include "common/publish.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_GROUPS = 1 << 24, MOST_WINDOWS = 1 << 28, MISSING_TEXT = 8192, MOST_SECONDS = 100000000, STAGE_NAME = 32 };

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

static int put_params(hid_t o, const struct result_params *p, struct err *e)
{
    return h5_put_int(o, "window", p->window, e) || h5_put_int(o, "stride", p->stride, e) ||
           h5_put_real(o, "sigma", p->sigma, e) || h5_put_int(o, "radius", p->radius, e) ||
           h5_put_text(o, "taper", p->taper, e) || h5_put_real(o, "offset", p->offset, e) ||
           h5_put_u8(o, "tissue_only", p->tissue_only, e) ||
           h5_put_real(o, "min_tissue", p->min_tissue, e) ? -1 : 0;
}

static int get_params(hid_t file, struct result_params *p, struct err *e)
{
    int64_t tissue_only;
    hid_t ds = -1;
    if (h5_get_int(file, "window", 0, INT32_MAX, &p->window, e) ||
        h5_get_int(file, "stride", 0, INT32_MAX, &p->stride, e) ||
        h5_get_real(file, "sigma", &p->sigma, e) ||
        h5_get_int(file, "radius", 0, INT32_MAX, &p->radius, e) ||
        h5_get_text(file, "taper", p->taper, sizeof p->taper, e) ||
        h5_get_real(file, "offset", &p->offset, e) ||
        h5_get_int(file, "tissue_only", 0, 1, &tissue_only, e) ||
        h5_get_real(file, "min_tissue", &p->min_tissue, e) ||
        h5_get_int(file, "bins", 0, INT32_MAX, &p->bins, e))
        return -1;
    p->tissue_only = tissue_only;
    hsize_t dims[1] = {(hsize_t)p->bins};
    ds = h5_open_array(file, "histogram", H5T_NATIVE_UINT64, 1, dims, e);
    int r = ds < 0 || h5_get_real(ds, "low_db", &p->low_db, e) ||
            h5_get_real(ds, "high_db", &p->high_db, e) ? -1 : 0;
    if (ds >= 0)
        H5Dclose(ds);
    return r ? r : result_check_params(p, e);
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

double result_seconds(double a, double b)
{
    const double sum = (double)(llround(a * 1e6) + llround(b * 1e6)) / 1e6;
    return sum < MOST_SECONDS ? sum : MOST_SECONDS;
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

static uint64_t samples_of(const struct result_params *p, const struct result_counts *c)
{
    return (uint64_t)c->windows * (uint64_t)p->window * (uint64_t)p->window;
}

/* Every sample is in a bin or beside them. */
static int check_sum(const struct result_params *p, const struct result_counts *c, struct err *e)
{
    uint64_t sum = c->underflow + c->overflow;
    for (int64_t k = 0; k < p->bins; k++)
        sum += c->histogram[k];
    return sum == samples_of(p, c) ? 0 : err_set(e, "the histogram does not add up: damaged");
}

static int put_counts(hid_t o, const struct result_params *p, const struct result_counts *c,
                      struct err *e)
{
    const hsize_t dims[1] = {(hsize_t)p->bins};
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    if (h5_put_int(o, "windows", c->windows, e) ||
        h5_put_int(o, "samples", (int64_t)samples_of(p, c), e) ||
        h5_put_int(o, "underflow", (int64_t)c->underflow, e) ||
        h5_put_int(o, "overflow", (int64_t)c->overflow, e) || h5_put_int(o, "bins", p->bins, e) ||
        h5_put_real(o, "mean_db", mean, e) || h5_put_real(o, "std_db", std, e) ||
        h5_write_array(o, "histogram", H5T_STD_U64LE, 1, dims, 0, c->histogram, e))
        return -1;
    hid_t ds = h5_open_array(o, "histogram", H5T_NATIVE_UINT64, 1, dims, e);
    int r = ds < 0 || h5_put_real(ds, "low_db", p->low_db, e) ||
            h5_put_real(ds, "high_db", p->high_db, e) ? -1 : 0;
    if (ds >= 0)
        H5Dclose(ds);
    return r;
}

static int get_counts(hid_t o, const struct result_params *p, struct result_counts *c,
                      struct err *e)
{
    const hsize_t dims[1] = {(hsize_t)p->bins};
    int64_t under, over;
    if (h5_get_int(o, "windows", 0, INT64_MAX >> 20, &c->windows, e) ||
        h5_get_int(o, "underflow", 0, INT64_MAX, &under, e) ||
        h5_get_int(o, "overflow", 0, INT64_MAX, &over, e) ||
        h5_read_array(o, "histogram", H5T_NATIVE_UINT64, 1, dims, c->histogram, e))
        return -1;
    c->underflow = (uint64_t)under;
    c->overflow = (uint64_t)over;
    return check_sum(p, c, e);
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

/* Over everything that HDF5 does not check itself. */
static uint32_t data_crc(const struct result_params *p, const struct result_slide *s)
{
    const size_t maps = (size_t)s->nx * (size_t)s->ny * sizeof(float);
    uint32_t part[4] = {codec_crc32(s->counts.histogram, (size_t)p->bins * sizeof(uint64_t)),
                        codec_crc32(s->mean_db, maps), codec_crc32(s->std_db, maps),
                        codec_crc32(s->groups, (size_t)s->group_count)};
    return codec_crc32(part, sizeof part);
}

/* --- writing --- */

struct result_writer {
    struct result_params params;
    struct publish publish;
    hid_t file, slides;
    struct result_counts totals;
    int64_t slide_count, groups_missing, microseconds;
    bool failed; /* HDF5 failed: hands off the file */
};

struct result_writer *result_create(const char *path, const struct result_params *p, struct err *e)
{
    struct result_writer *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(e, "out of memory");
        return NULL;
    }
    w->params = *p;
    w->file = w->slides = -1;
    w->publish.fd = -1;
    w->failed = true;
    w->totals.histogram = calloc((size_t)p->bins, sizeof(uint64_t));
    if (!w->totals.histogram) {
        err_set(e, "out of memory");
        goto fail;
    }
    if (publish_begin(&w->publish, path, e) || (w->file = h5_create(w->publish.temp_path, e)) < 0 ||
        (w->slides = h5_create_group(w->file, "slides", e)) < 0)
        goto fail;
    w->failed = false;
    return w;
fail:
    result_abort(w);
    return NULL;
}

static const char *stage_attribute(char *name, int stage)
{
    snprintf(name, STAGE_NAME, "%s_seconds", result_stage_name(stage));
    return name;
}

static int put_stages(hid_t o, const struct result_slide *s, struct err *e)
{
    char name[STAGE_NAME];
    for (int k = 0; k < RESULT_STAGES; k++)
        if (h5_put_real(o, stage_attribute(name, k), result_seconds(s->stages[k], 0), e))
            return -1;
    return 0;
}

static int put_slide(struct result_writer *w, hid_t o, const struct result_slide *s, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx}, groups[1] = {(hsize_t)s->group_count};
    char missing[MISSING_TEXT];
    int64_t first = 0, last = s->group_count;
    while (first < s->group_count - 1 && !s->groups[first])
        first++;
    while (last > first + 1 && !s->groups[last - 1])
        last--;
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    return put_params(o, &w->params, e) || put_counts(o, &w->params, &s->counts, e) ||
           h5_put_text(o, "source_name", s->source_name, e) ||
           h5_put_text(o, "quickhash", s->quickhash, e) ||
           h5_put_int(o, "source_bytes", s->source_bytes, e) ||
           h5_put_int(o, "level", s->level, e) || h5_put_int(o, "width", s->width, e) ||
           h5_put_int(o, "height", s->height, e) ||
           h5_put_int(o, "group_rows", s->group_rows, e) ||
           h5_put_int(o, "group_count", s->group_count, e) ||
           h5_put_int(o, "group_first", first + 1, e) || h5_put_int(o, "group_last", last, e) ||
           h5_put_text(o, "groups_missing", missing, e) ||
           h5_put_u8(o, "source_gray", s->source_gray, e) ||
           h5_put_text(o, "backend", s->backend, e) || h5_put_text(o, "device", s->device, e) ||
           h5_put_text(o, "kernel", s->kernel, e) || h5_put_text(o, "io", s->io, e) ||
           h5_put_real(o, "seconds", result_seconds(s->seconds, 0), e) || put_stages(o, s, e) ||
           h5_put_int(o, "data_crc32", data_crc(&w->params, s), e) ||
           h5_write_array(o, "groups_done", H5T_STD_U8LE, 1, groups, 1, s->groups, e) ||
           /* as they are: to pack them takes several times as long as all the rest */
           h5_write_array(o, "window_mean_db", H5T_IEEE_F32LE, 2, dims, 0, s->mean_db, e) ||
           h5_write_array(o, "window_std_db", H5T_IEEE_F32LE, 2, dims, 0, s->std_db, e) ? -1 : 0;
}

int result_put_slide(struct result_writer *w, const struct result_slide *s, struct err *e)
{
    assert(!w->failed);
    h5_enter();
    hid_t o = h5_create_group(w->slides, s->name, e);
    int r = o < 0 ? -1 : put_slide(w, o, s, e);
    if (o >= 0 && H5Gclose(o) < 0 && r == 0) {
        h5_mark_broken();
        r = h5_error(e, "cannot write");
    }
    h5_leave();
    if (r) {
        w->failed = true;
        return -1;
    }
    result_add_counts(&w->totals, &s->counts, w->params.bins);
    w->slide_count++;
    if (__builtin_add_overflow(w->microseconds, llround(s->seconds * 1e6), &w->microseconds))
        w->microseconds = INT64_MAX;
    for (int64_t k = 0; k < s->group_count; k++)
        w->groups_missing += !s->groups[k];
    return 0;
}

static int finish_file(struct result_writer *w, struct err *e)
{
    hid_t f = w->file;
    if (h5_put_text(f, "format", RESULT_FORMAT, e) || h5_put_int(f, "format_version", 1, e) ||
        h5_put_text(f, "creator", "h5spec " WSI_VERSION, e) || put_params(f, &w->params, e) ||
        put_counts(f, &w->params, &w->totals, e) ||
        h5_put_int(f, "slide_count", w->slide_count, e) ||
        h5_put_int(f, "groups_missing", w->groups_missing, e) ||
        h5_put_real(f, "seconds", (double)w->microseconds / 1e6, e))
        return -1;
    bool bad = H5Gclose(w->slides) < 0;
    w->slides = -1;
    if (bad || H5Fflush(f, H5F_SCOPE_LOCAL) < 0) {
        h5_mark_broken();
        return h5_error(e, "cannot write");
    }
    if (h5_put_u8(f, "complete", 1, e))
        return -1;
    bad = H5Fclose(f) < 0;
    w->file = -1;
    if (!bad)
        return 0;
    h5_mark_broken();
    return h5_error(e, "cannot close the file");
}

int result_commit(struct result_writer *w, struct err *e)
{
    int r = finish_file(w, e);
    if (r)
        w->failed = true;
    else
        r = publish_commit(&w->publish, e);
    result_abort(w);
    return r;
}

void result_abort(struct result_writer *w)
{
    if (!w)
        return;
    if (!w->failed && w->file >= 0 && H5Fclose(w->file) < 0)
        h5_mark_broken();
    h5_leave();
    publish_abort(&w->publish);
    free(w->totals.histogram);
    free(w);
}

int result_check_target(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return 0;
    if (S_ISDIR(st.st_mode))
        return err_set(e, "%s: is a folder; name a file", path);
    if (h5_look(path, RESULT_FORMAT) != H5_OTHER)
        return 0;
    return err_set(e, "%s: stands there already and is not a result; it is left alone: name another "
                      "file", path);
}

/* --- reading --- */

bool result_is(const char *path)
{
    return h5_look(path, RESULT_FORMAT) != H5_OTHER;
}

struct result {
    char *path;
    struct result_params params;
    struct result_counts totals;
    hid_t file, slides;
    int64_t count;
    char **names; /* [count], sorted */
};

/* Called for each link of /slides. */
static herr_t collect_name(hid_t group, const char *name, const H5L_info_t *info, void *arg)
{
    struct result *r = arg;
    (void)group;
    (void)info;
    char **more = realloc(r->names, (size_t)(r->count + 1) * sizeof *more);
    if (!more)
        return -1;
    r->names = more;
    r->names[r->count] = strdup(name);
    return r->names[r->count] ? (r->count++, 0) : -1;
}

struct result *result_open(const char *path, struct err *e)
{
    int64_t slide_count;
    struct result *r = calloc(1, sizeof *r);
    if (!r || !(r->path = strdup(path))) {
        free(r);
        err_set(e, "out of memory");
        return NULL;
    }
    r->slides = -1;
    r->file = h5_open(path, RESULT_FORMAT, e);
    if (r->file < 0)
        goto fail;
    if (get_params(r->file, &r->params, e))
        goto unsound;
    r->totals.histogram = calloc((size_t)r->params.bins, sizeof(uint64_t));
    if (!r->totals.histogram) {
        err_set(e, "out of memory");
        goto fail;
    }
    if (get_counts(r->file, &r->params, &r->totals, e) ||
        h5_get_int(r->file, "slide_count", 0, INT32_MAX, &slide_count, e) ||
        (r->slides = h5_open_group(r->file, "slides", e)) < 0)
        goto unsound;
    if (H5Literate(r->slides, H5_INDEX_NAME, H5_ITER_INC, NULL, collect_name, r) < 0 ||
        r->count != slide_count) {
        err_set(e, "its list of slides is damaged");
        goto unsound;
    }
    return r;
unsound:
    err_add(e, "%s: not a sound result", path);
fail:
    result_close(r);
    return NULL;
}

void result_close(struct result *r)
{
    if (!r)
        return;
    if (r->slides >= 0)
        H5Gclose(r->slides);
    if (r->file >= 0)
        H5Fclose(r->file);
    for (int64_t k = 0; k < r->count; k++)
        free(r->names[k]);
    free(r->names);
    free(r->totals.histogram);
    free(r->path);
    free(r);
}

const struct result_params *result_params(const struct result *r)
{
    return &r->params;
}

const struct result_counts *result_totals(const struct result *r)
{
    return &r->totals;
}

int64_t result_slides(const struct result *r)
{
    return r->count;
}

const char *result_slide_name(const struct result *r, int64_t k)
{
    return r->names[k];
}

static int get_seconds(hid_t o, const char *name, double *seconds, struct err *e)
{
    if (h5_get_real(o, name, seconds, e))
        return -1;
    return *seconds >= 0 && *seconds <= MOST_SECONDS ? 0 : err_set(e, "its %s are out of range", name);
}

static int get_stages(hid_t o, struct result_slide *s, struct err *e)
{
    char name[STAGE_NAME];
    for (int k = 0; k < RESULT_STAGES; k++)
        if (get_seconds(o, stage_attribute(name, k), &s->stages[k], e))
            return -1;
    return 0;
}

static int get_slide_head(hid_t o, struct result_slide *s, struct err *e)
{
    int64_t gray;
    if (h5_get_text(o, "source_name", s->source_name, sizeof s->source_name, e) ||
        h5_get_text(o, "quickhash", s->quickhash, sizeof s->quickhash, e) ||
        h5_get_int(o, "source_bytes", 0, INT64_MAX, &s->source_bytes, e) ||
        h5_get_int(o, "level", 0, INT32_MAX, &s->level, e) ||
        h5_get_int(o, "width", 1, INT32_MAX, &s->width, e) ||
        h5_get_int(o, "height", 1, INT32_MAX, &s->height, e) ||
        h5_get_int(o, "group_rows", 1, INT64_MAX, &s->group_rows, e) ||
        h5_get_int(o, "group_count", 1, MOST_GROUPS, &s->group_count, e) ||
        h5_get_int(o, "source_gray", 0, 1, &gray, e) ||
        h5_get_text(o, "backend", s->backend, sizeof s->backend, e) ||
        h5_get_text(o, "device", s->device, sizeof s->device, e) ||
        h5_get_text(o, "kernel", s->kernel, sizeof s->kernel, e) ||
        h5_get_text(o, "io", s->io, sizeof s->io, e) ||
        get_seconds(o, "seconds", &s->seconds, e) || get_stages(o, s, e))
        return -1;
    s->source_gray = gray;
    return 0;
}

static int64_t windows_that_fit(int64_t size, const struct result_params *p)
{
    return size < p->window ? 0 : (size - p->window) / p->stride + 1;
}

static int get_slide(hid_t o, const struct result_params *p, struct result_slide *s, struct err *e)
{
    int64_t crc;
    if (get_slide_head(o, s, e) || h5_get_int(o, "data_crc32", 0, UINT32_MAX, &crc, e))
        return -1;
    s->nx = windows_that_fit(s->width, p);
    s->ny = windows_that_fit(s->height, p);
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx}, groups[1] = {(hsize_t)s->group_count};
    if (result_slide_alloc(s, p->bins, e) || get_counts(o, p, &s->counts, e) ||
        h5_read_array(o, "groups_done", H5T_NATIVE_UINT8, 1, groups, s->groups, e) ||
        h5_read_array(o, "window_mean_db", H5T_NATIVE_FLOAT, 2, dims, s->mean_db, e) ||
        h5_read_array(o, "window_std_db", H5T_NATIVE_FLOAT, 2, dims, s->std_db, e))
        return -1;
    return data_crc(p, s) == (uint32_t)crc ? 0 : err_set(e, "its checksum does not fit: damaged");
}

int result_load_slide(struct result *r, int64_t k, struct result_slide *s, struct err *e)
{
    *s = (struct result_slide){0};
    snprintf(s->name, sizeof s->name, "%s", r->names[k]);
    hid_t o = h5_open_group(r->slides, r->names[k], e);
    int bad = o < 0 || get_slide(o, &r->params, s, e);
    if (o >= 0)
        H5Gclose(o);
    if (!bad)
        return 0;
    result_slide_free(s);
    return err_add(e, "%s: slide %s", r->path, r->names[k]);
}
