/* regions.c - see regions.h. */
#include "process/engine/regions.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- which file --- */

/* The file of the store; owned by the caller. NULL on failure. */
static char *find_file(const char *folder, const char *store, const struct store_info *i,
                       struct err *e)
{
    static const char *const endings[] = {"geojson", "json", NULL};
    size_t n;
    const char *stem = path_stem(store, &n), *dot = strrchr(i->source_name, '.');
    const size_t whole = strlen(i->source_name);
    const struct folder_name names[] = {{stem, n},
                                        {i->source_name, whole},
                                        {i->source_name, dot ? (size_t)(dot - i->source_name) : 0}};
    char *file = folder_file_named(folder, names, 3, endings);
    if (!file)
        err_set(e,
                "%s: no regions: %s has no file %.*s.geojson (nor .json, nor one with the "
                "slide's name %s)",
                store, folder, (int)n, stem, i->source_name);
    return file;
}

/* --- polygons in pixels of the store --- */

static int check_place(const struct polygons *p, const char *file, const struct store_info *i,
                       struct err *e)
{
    const double width = (double)i->width * i->downsample;
    const double height = (double)i->height * i->downsample;
    return polygons_check_place(p, width, height, e) ? err_add(e, "%s", file) : 0;
}

int regions_load(const struct regions_choice *c, const char *store, const struct store_info *i,
                 struct polygons *p, struct regions_version *v, struct err *e)
{
    struct stat st = {0};
    char *file = folder_is(c->path) ? find_file(c->path, store, i, e) : memory_copy(c->path);
    *p = POLYGONS_NONE;
    if (!file)
        return -1;
    int bad = geojson_read(file, &c->classes, p, e);
    if (!bad && !c->no_bounds)
        polygons_move(p, (double)i->bounds_x, (double)i->bounds_y);
    if (bad || check_place(p, file, i, e)) {
        free(file);
        polygons_free(p);
        return err_add(e, "%s", store);
    }
    stat(file, &st);
    free(file);
    *v = (struct regions_version){polygons_crc32(p), st.st_mtim};
    polygons_shrink(p, i->downsample);
    return 0;
}

/* --- windows --- */

/*
 * sum[i] counts the pixels inside, in the columns of windows column i, of all rows so far. A row of
 * windows has what was added between its first and its last row of pixels, so `before` keeps the
 * sums at the beginning of each row of windows that is not complete.
 */
struct counting {
    const struct result_params *params;
    int64_t nx, depth;
    int64_t *sum;    /* [nx] */
    int64_t *before; /* [depth][nx]; window row j is at j % depth */
};

/* Pixels of the spans before x, where the spans before *at end at or before x; *below are theirs.
 * x must not decrease from call to call. */
static int64_t pixels_before(const struct polygons_span *spans, int64_t n, int64_t x, int64_t *at,
                             int64_t *below)
{
    for (; *at < n && spans[*at].end <= x; ++*at)
        *below += spans[*at].end - spans[*at].first;
    const bool in = *at < n && spans[*at].first < x;
    return *below + (in ? x - spans[*at].first : 0);
}

static void add_row(struct counting *c, const struct polygons_span *spans, int64_t n)
{
    int64_t left = 0, left_below = 0, right = 0, right_below = 0;
    for (int64_t i = 0; n > 0 && i < c->nx; i++) {
        const int64_t x = i * c->params->stride;
        c->sum[i] += pixels_before(spans, n, x + c->params->window, &right, &right_below) -
                     pixels_before(spans, n, x, &left, &left_below);
    }
}

static void judge_row(const struct counting *c, int64_t j, uint8_t *inside)
{
    const double least = c->params->min_roi * (double)c->params->window * (double)c->params->window;
    const int64_t *before = c->before + j % c->depth * c->nx;
    for (int64_t i = 0; i < c->nx; i++)
        inside[j * c->nx + i] = (double)(c->sum[i] - before[i]) >= least;
}

static int count_rows(struct counting *c, struct polygons_rows *rows, int64_t ny, uint8_t *inside,
                      struct err *e)
{
    const int64_t window = c->params->window, stride = c->params->stride;
    const size_t bytes = (size_t)c->nx * sizeof *c->sum;
    for (int64_t y = 0; y < (ny - 1) * stride + window; y++) {
        const int64_t done = y + 1 - window;
        int64_t n;
        if (stop_check(e))
            return -1;
        if (y % stride == 0 && y / stride < ny)
            memcpy(c->before + y / stride % c->depth * c->nx, c->sum, bytes);
        const struct polygons_span *spans = polygons_row(rows, y, &n);
        add_row(c, spans, n);
        if (done >= 0 && done % stride == 0)
            judge_row(c, done / stride, inside);
    }
    return 0;
}

int regions_windows(const struct polygons *p, const struct result_params *params, int64_t nx,
                    int64_t ny, uint8_t *inside, struct err *e)
{
    struct counting c = {.params = params,
                         .nx = nx,
                         .depth = (params->window + params->stride - 1) / params->stride};
    if (nx == 0 || ny == 0)
        return 0;
    struct polygons_rows *rows = polygons_open(p, (nx - 1) * params->stride + params->window,
                                               (ny - 1) * params->stride + params->window, e);
    if (!rows)
        return -1;
    c.sum = memory_try_zero((size_t)nx, sizeof *c.sum, e);
    c.before = memory_try_zero((size_t)(nx * c.depth), sizeof *c.before, e);
    const int r = c.sum && c.before ? count_rows(&c, rows, ny, inside, e) : -1;
    free(c.sum);
    free(c.before);
    polygons_close(rows);
    return r;
}
