/*
 * test_stream - the stream against the plain way: whole rows read with H5Dread, laid into the
 * backend's buffers by one thread. Counts and maps must be bit-identical. Run with the CPU backend,
 * and with devices of plain C (device.h) that take chunks, one of which may fail.
 *
 *   test_stream STORE...      prints "equal STORE: WAY" or "different STORE: WAY: what"
 */
#include "common/base/pipe.h"
#include "common/store/gray.h"
#include "process/engine/stream.h"
#include "process/spectrum/spectrum_open.h"
#include "tests/device.h"

#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a run has reported of each store. */
struct copy {
    struct result_slide slide;
    char why[1024]; /* "" if it has a slide */
};

struct reports {
    struct copy *copies; /* [stores] */
    int64_t n;           /* reports so far */
    int notes;
};

/* Keeps a copy of a result. */
static int keep(void *ctx, int64_t k, const struct result_slide *s, const struct err *why,
                struct err *e)
{
    struct reports *r = ctx;
    struct copy *c = &r->copies[k];
    if (k != r->n++)
        return err_set(e, "store %" PRId64 " is reported out of order", k);
    snprintf(c->why, sizeof c->why, "%s", s ? "" : why->msg);
    if (!s)
        return 0;
    const struct result_params p = spectrum_defaults();
    c->slide = *s;
    if (result_slide_alloc(&c->slide, &p, e))
        return -1;
    result_add_counts(&c->slide.counts, &s->counts, p.bins);
    for (int m = 0; m < RESULT_MAPS; m++)
        memcpy(c->slide.maps[m].values, s->maps[m].values,
               (size_t)(s->nx * s->ny) * result_type_bytes(s->maps[m].kind->type));
    return 0;
}

static void count_note(void *ctx, int64_t k, const char *text)
{
    struct reports *r = ctx;
    (void)k;
    r->notes += strstr(text, "another device computes it again") != NULL;
}

/* All rows of a store as the backends take them: [rows][pitch]. */
static float *read_rows(const char *path, int64_t *width, int64_t *height, int64_t *pitch,
                        float *scale)
{
    hsize_t dims[3];
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t ds = H5Dopen2(file, "/pixels", H5P_DEFAULT), space = H5Dget_space(ds);
    H5Sget_simple_extent_dims(space, dims, NULL);
    const size_t n = (size_t)(dims[0] * dims[1]);
    uint8_t *px = malloc(n * (size_t)dims[2]);
    *height = (int64_t)dims[0];
    *width = (int64_t)dims[1];
    *pitch = (*width + 15) / 16 * 16;
    *scale = dims[2] == 3 ? GRAY_SCALE_RGB : 1;
    float *rows = calloc((size_t)(*height * *pitch), sizeof *rows);
    if (!px || !rows || H5Dread(ds, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, px) < 0)
        exit(1);
    for (int64_t y = 0; y < *height; y++)
        for (int64_t x = 0; x < *width; x++) {
            const uint8_t *p = px + (size_t)(y * *width + x) * (size_t)dims[2];
            const int gray = dims[2] == 3 ? 299 * p[0] + 587 * p[1] + 114 * p[2] : p[0];
            rows[y * *pitch + x] = (float)gray;
        }
    free(px);
    H5Sclose(space);
    H5Dclose(ds);
    H5Fclose(file);
    return rows;
}

/* The whole slide as one slab. */
static int plain(const struct spectrum_use *use, const char *path, struct result_slide *out)
{
    const struct result_params p = spectrum_defaults();
    const struct spectrum_backend *b = use->backend;
    struct spectrum *s = use->devices[0];
    struct spectrum_thread t = {0};
    struct err e = {0};
    struct spectrum_band d = {0};
    float *rows = read_rows(path, &d.width, &d.height, &d.pitch, &d.scale);
    out->nx = d.nx = result_windows_along(d.width, &p);
    out->ny = d.ny = result_windows_along(d.height, &p);
    out->group_count = 1;
    if (result_slide_alloc(out, &p, &e) ||
        b->reserve(s, &d, (size_t)(d.height * d.pitch) * sizeof(float), true, &e))
        return fprintf(stderr, "test_stream: %s\n", e.msg), -1;
    d.end_wy = d.ny;
    d.end_row = d.slab_rows = d.height;
    d.maps = out->maps;
    struct spectrum_features features = {.sample = calloc((size_t)(d.nx * d.ny), 1)};
    features_values(p.window, features.values);
    d.features = &features;
    memcpy(spectrum_cpu_buffer(s, 0), rows, (size_t)(d.height * d.pitch) * sizeof(float));
    const struct spectrum_slab slab = {.band = &d, .rows = d.height, .end_wy = d.ny};
    for (int64_t k = 0; k < b->units(s, &slab); k++)
        if (b->compute(s, &slab, k, &t, &out->counts, &e))
            return -1;
    struct spectrum_times times = {0};
    if (b->finish)
        b->finish(s, &d, &out->counts, &times, &e);
    free(rows);
    free((void *)(uintptr_t)features.sample);
    return 0;
}

static const char *difference(const struct result_slide *a, const struct result_slide *b)
{
    const size_t bins = (size_t)spectrum_defaults().bins, maps = (size_t)(a->nx * a->ny);
    if (a->nx != b->nx || a->ny != b->ny || a->counts.windows != b->counts.windows)
        return "windows";
    if (a->counts.windows == 0)
        return "no windows at all";
    if (memcmp(a->counts.histogram, b->counts.histogram, bins * sizeof(uint64_t)))
        return "histogram";
    for (int m = 0; m < RESULT_MAPS; m++) /* flags and tissue come from the job */
        if (m != RESULT_FLAGS && m != RESULT_TISSUE &&
            memcmp(a->maps[m].values, b->maps[m].values,
                   maps * result_type_bytes(a->maps[m].kind->type)) != 0)
            return a->maps[m].kind->name;
    return NULL;
}

/* --- units of two slabs at once --- */

static atomic_bool second_begun, waited_in_vain;

/* The first unit of a band's first slab is not done before one of the second slab has begun. */
static int compute_late(struct spectrum *b, const struct spectrum_slab *s, int64_t k,
                        struct spectrum_thread *t, struct result_counts *counts, struct err *e)
{
    const bool first = s->row == s->band->first_row;
    if (!first)
        second_begun = true;
    for (int ms = 0; first && k == 0 && s->rows < s->band->end_row - s->row && !second_begun;
         ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (ms == 10000) {
            waited_in_vain = true;
            break;
        }
    }
    return spectrum_cpu.compute(b, s, k, t, counts, e);
}

/* A way to run the stream. */
struct way {
    const char *name;
    const struct spectrum_backend *backend;
    int64_t memory;
    enum stream_io io;
    int devices, failing;
    int64_t fail_call;
    bool fails; /* no device is left: every store from the failure on fails */
};

static int compare(const struct way *w, const char *path, const struct copy *got,
                   const struct result_slide *want)
{
    const char *what = got->why;
    if (w->fails && *what) /* it names the file once, and the cause */
        what =
            strstr(what, path) == what && !strstr(what + 1, path) &&
                    (strstr(what, "test device 0 has failed") || strstr(what, "no device is left"))
                ? NULL
                : what;
    else if (!*what)
        what = difference(&got->slide, want);
    if (what)
        printf("different %s: %s: %s\n", path, w->name, what);
    else
        printf("equal %s: %s\n", path, w->name);
    return what != NULL;
}

/* All stores in one run. Returns how many differ. */
static int run_way(const struct way *w, char **paths, int n, const struct result_slide *want)
{
    struct err e = {0}, note = {0};
    struct reports got = {.copies = calloc((size_t)n, sizeof *got.copies)};
    struct spectrum_use use = {.backend = w->backend, .threads = THREADS};
    struct stream_setup setup = {.use = &use,
                                 .params = spectrum_defaults(),
                                 .io = w->io,
                                 .paths = paths,
                                 .n_paths = n,
                                 .memory = w->memory,
                                 .ctx = &got,
                                 .report = keep,
                                 .note = count_note};
    const struct spectrum_setup open = {
        .params = setup.params, .threads = THREADS, .memory = w->memory};
    int bad = 0;
    device_plan.devices = w->devices;
    device_plan.failing = w->failing;
    device_plan.fail_call = w->fail_call;
    device_plan.failed = false;
    if (w->backend->open(&use, &open, &note, &e) || stream_run(&setup, &e)) {
        printf("different %s: %s\n", w->name, e.msg);
        return 1;
    }
    w->backend->close(&use);
    for (int k = 0; k < n; k++) {
        bad += compare(w, paths[k], &got.copies[k], &want[k]);
        result_slide_free(&got.copies[k].slide);
    }
    if (device_plan.failed && !w->fails && got.notes == 0)
        bad += printf("different: %s: no note about the device\n", w->name) > 0;
    free(got.copies);
    return bad;
}

int main(int argc, char **argv)
{
    static struct spectrum_backend late;
    static const struct way ways[] = {
        {"cpu", &spectrum_cpu, 64 << 20, STREAM_AUTO, 0, -1, 0, false}, /* several slabs */
        {"slabs overlap", &late, 64 << 20, STREAM_AUTO, 0, -1, 0, false},
        {"device", &device_backend, 0, STREAM_AUTO, 1, -1, 0, false},
        {"direct", &device_backend, 0, STREAM_DIRECT, 2, -1, 0, false},
        {"two devices", &device_backend, 0, STREAM_BUFFERED, 2, -1, 0, false},
        {"0 fails first", &device_backend, 0, STREAM_BUFFERED, 2, 0, 1, false},
        {"1 fails early", &device_backend, 0, STREAM_BUFFERED, 2, 1, 7, false},
        {"0 fails later", &device_backend, 0, STREAM_BUFFERED, 2, 0, 20, false},
        {"1 fails later", &device_backend, 0, STREAM_BUFFERED, 2, 1, 12, false},
        {"none is left", &device_backend, 0, STREAM_BUFFERED, 1, 0, 30, true},
    };
    const int n = argc - 1;
    const struct spectrum_setup cpu = {
        .choice = {.kind = SPECTRUM_CPU}, .threads = 1, .params = spectrum_defaults()};
    struct result_slide *want = calloc((size_t)n, sizeof *want);
    struct err e = {0}, note = {0};
    struct spectrum_use use;
    int failures = 0;
    late = spectrum_cpu;
    late.compute = compute_late;
    int bad = spectrum_open(&use, &cpu, &note, &e) || !want;
    for (int k = 0; k < n && !bad; k++)
        bad = plain(&use, argv[1 + k], &want[k]) != 0;
    spectrum_close(&use);
    for (size_t k = 0; k < sizeof ways / sizeof *ways && !bad; k++) {
        bad = run_way(&ways[k], argv + 1, n, want);
        failures += device_plan.failed;
    }
    if (!bad && failures < 2) /* the first call of 0, and the only device */
        bad = printf("different: devices failed in %d of 5 ways\n", failures);
    if (!bad && (!second_begun || waited_in_vain))
        bad = printf("different: a slab waited for all units of the one before it\n");
    for (int k = 0; want && k < n; k++)
        result_slide_free(&want[k]);
    free(want);
    return bad != 0;
}
