/*
 * test_stream - the stream against the plain way: whole rows read with H5Dread, laid into the backend's
 * buffers by one thread. Counts and maps must be equal to the last bit.
 *
 *   test_stream STORE...      prints "equal STORE" or "different STORE: what"
 */
#include "common/cli.h"
#include "common/gray.h"
#include "common/pipe.h"
#include "process/stream.h"

#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy {
    struct result_slide slide;
    int failed;
};

/* Keeps the stream's result. */
static int keep(void *ctx, int64_t k, const struct result_slide *s, const struct err *why, struct err *e)
{
    struct copy *c = ctx;
    (void)k;
    if (!s) {
        fprintf(stderr, "test_stream: %s\n", why->msg);
        c->failed = 1;
        return 0;
    }
    c->slide = *s;
    const int64_t bins = spectrum_defaults().bins;
    if (result_slide_alloc(&c->slide, bins, e))
        return -1;
    result_add_counts(&c->slide.counts, &s->counts, bins);
    for (int m = 0; m < RESULT_MAPS; m++)
        memcpy(c->slide.maps[m].values, s->maps[m].values,
               (size_t)(s->nx * s->ny) * result_type_bytes(s->maps[m].kind->type));
    return 0;
}

/* All rows of a store as the backends take them: [rows][pitch]. */
static float *read_rows(const char *path, int64_t *width, int64_t *height, int64_t *pitch, float *scale)
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
            rows[y * *pitch + x] = (float)(dims[2] == 3 ? 299 * p[0] + 587 * p[1] + 114 * p[2] : p[0]);
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
    struct spectrum *s = use->state;
    struct err e = {""};
    struct spectrum_band d = {0};
    float *rows = read_rows(path, &d.width, &d.height, &d.pitch, &d.scale);
    out->nx = d.nx = spectrum_windows(d.width, &p);
    out->ny = d.ny = spectrum_windows(d.height, &p);
    out->group_count = 1;
    if (result_slide_alloc(out, p.bins, &e) ||
        b->reserve(s, &d, (size_t)(d.height * d.pitch) * sizeof(float), &e))
        return fprintf(stderr, "test_stream: %s\n", e.msg), -1;
    d.end_wy = d.ny;
    d.end_row = d.slab_rows = d.height;
    d.mean_db = out->maps[RESULT_MEAN].values;
    d.std_db = out->maps[RESULT_STD].values;
    memcpy(b->buffer(s, 0), rows, (size_t)(d.height * d.pitch) * sizeof(float));
    const struct spectrum_slab slab = {.band = &d, .rows = d.height, .end_wy = d.ny};
    for (int64_t k = 0; k < b->units(s, &slab); k++)
        if (b->compute(s, &slab, k, 0, &out->counts, &e))
            return -1;
    struct spectrum_times times = {0, 0};
    if (b->finish)
        b->finish(s, &d, &out->counts, &times, &e);
    free(rows);
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
    for (int m = 0; m < RESULT_MAPS; m++)
        if (memcmp(a->maps[m].values, b->maps[m].values, maps * result_type_bytes(a->maps[m].kind->type)))
            return a->maps[m].kind->name;
    return NULL;
}

enum { THREADS = 3, MEMORY = 64 << 20 }; /* so little that there are several slabs */

int main(int argc, char **argv)
{
    const struct spectrum_setup want_cpu = {.choice = {.kind = SPECTRUM_CPU}, .threads = THREADS,
                                            .params = spectrum_defaults(), .memory = MEMORY};
    struct spectrum_use use;
    struct err e = {""}, note;
    int bad = spectrum_open(&use, &want_cpu, &note, &e);
    for (int k = 1; k < argc && !bad; k++) {
        struct copy got = {0};
        struct result_slide want = {0};
        const struct stream_setup setup = {.backend = use.backend, .spectrum = use.state,
                                           .params = want_cpu.params, .paths = argv + k,
                                           .n_paths = 1, .threads = THREADS, .memory = MEMORY,
                                           .ctx = &got, .report = keep};
        if (stream_run(&setup, &e) || got.failed || plain(&use, argv[k], &want))
            return fprintf(stderr, "test_stream: %s\n", e.msg), 1;
        const char *what = difference(&got.slide, &want);
        printf(what ? "different %s: %s\n" : "equal %s\n", argv[k], what);
        bad |= what != NULL;
        result_slide_free(&got.slide);
        result_slide_free(&want);
    }
    spectrum_close(&use);
    return bad;
}
