/* job_windows.c - see job_windows.h. */
#include "process/engine/job_windows.h"

#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/store/store_read.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a table of sums: row r has, for each corner of cells, the tissue cells above r and left
 * of the corner. The rows that a window needs are kept; they come in order. */
struct tissue_rows {
    const uint8_t *mask; /* [rows][cols] */
    int64_t cols, rows, cell;
    int64_t *kept; /* [n][cols + 1], row r in r % n */
    int64_t n, last;
};

static int64_t *row_of_table(struct tissue_rows *t, int64_t r)
{
    const int64_t pitch = t->cols + 1;
    for (; t->last < r; t->last++) {
        const int64_t *above = t->kept + t->last % t->n * pitch;
        int64_t *row = t->kept + (t->last + 1) % t->n * pitch, in_row = 0;
        const uint8_t *mask = t->mask + t->last * t->cols;
        for (int64_t c = 0; c < t->cols; c++) {
            in_row += mask[c] != 0;
            row[c + 1] = above[c + 1] + in_row;
        }
    }
    return t->kept + r % t->n * pitch;
}

/* Adds to sums[corner] `sign` times the tissue above y and left of the corner, in cells times px of
 * height. */
static void add_above(struct tissue_rows *t, int64_t y, int64_t sign, int64_t *sums)
{
    const bool below = y / t->cell >= t->rows;
    const int64_t r = below ? t->rows : y / t->cell, dy = below ? 0 : y % t->cell;
    const int64_t *b = row_of_table(t, dy ? r + 1 : r), *a = row_of_table(t, r);
    for (int64_t c = 0; c <= t->cols; c++)
        sums[c] += sign * (t->cell * a[c] + dy * (b[c] - a[c]));
}

/* Where x lies: right of a corner by some px. */
struct place {
    int64_t corner, px;
};

static struct place place_of(const struct tissue_rows *t, int64_t x)
{
    const bool right = x / t->cell >= t->cols;
    return right ? (struct place){t->cols, 0} : (struct place){x / t->cell, x % t->cell};
}

/* Px of tissue left of a place, where sums[] is as above. */
static int64_t tissue_left(const int64_t *sums, struct place p, int64_t cell)
{
    const int64_t own = p.px ? sums[p.corner + 1] - sums[p.corner] : 0;
    return cell * sums[p.corner] + p.px * own;
}

static int choose_rows(const struct result_params *p, struct tissue_rows *t, int64_t *sums,
                       struct place *places, int64_t nx, int64_t ny, uint8_t *wanted,
                       uint8_t *percent, struct err *e)
{
    const int64_t all = p->window * p->window;
    const double least = p->min_tissue * (double)p->window * (double)p->window;
    for (int64_t i = 0; i < nx; i++) {
        places[2 * i] = place_of(t, i * p->stride);
        places[2 * i + 1] = place_of(t, i * p->stride + p->window);
    }
    for (int64_t j = 0; j < ny; j++) {
        memset(sums, 0, (size_t)(t->cols + 1) * sizeof *sums);
        add_above(t, j * p->stride, -1, sums);
        add_above(t, j * p->stride + p->window, 1, sums);
        for (int64_t i = 0; i < nx; i++) {
            const int64_t area = tissue_left(sums, places[2 * i + 1], t->cell) -
                                 tissue_left(sums, places[2 * i], t->cell);
            wanted[j * nx + i] = (double)area >= least;
            percent[j * nx + i] = features_percent(area, all);
        }
        if (stop_check(e))
            return -1;
    }
    return 0;
}

int tissue_windows_find(const struct result_params *p, const uint8_t *mask, int64_t cols,
                        int64_t rows, int64_t cell, int64_t nx, int64_t ny, uint8_t *wanted,
                        uint8_t *percent, struct err *e)
{
    struct tissue_rows t = {mask, cols, rows, cell, .n = p->window / cell + 3};
    t.kept = memory_try_zero((size_t)(t.n * (cols + 1)), sizeof *t.kept, e);
    int64_t *sums = memory_try((size_t)(cols + 1), sizeof *sums, e);
    struct place *places = memory_try((size_t)(2 * nx + 1), sizeof *places, e);
    const int r = t.kept && sums && places
                      ? choose_rows(p, &t, sums, places, nx, ny, wanted, percent, e)
                      : -1;
    free(t.kept);
    free(sums);
    free(places);
    return r;
}

_Static_assert((int)RESULT_MISSING == (int)STORE_MISSING &&
                   (int)RESULT_DAMAGED == (int)STORE_DAMAGED &&
                   (int)RESULT_LEFT_OUT == (int)STORE_LEFT_OUT,
               "a status is an index of result_counts.touching");

/*
 * --- windows that touch filled tiles: missing or damaged in the slide, or left out ---
 *
 * A window touches a tile if the tile holds one of the window's pixels, or one of the pixels around
 * it that the smoothing reads. So no window that touches none depends on a filled pixel.
 */

/* Some window rows of a store, and the chunks that they need. */
struct filled {
    const struct result_params *params;
    const struct store_info *info;
    const struct store_chunk *list; /* [rows][columns] of the store, from `first_row` on */
    int64_t first_row, rows;        /* of chunks */
    int64_t nx, ny;                 /* windows of the slide */
    int64_t first_wy, end_wy;
    uint8_t *flags; /* [ny][nx]: gets the bits of enum result_flag for the tiles that it touches */
};

static bool any_filled(const struct filled *f)
{
    const int64_t n = f->rows * store_chunk_columns(f->info);
    for (int64_t k = 0; k < n; k++)
        if (f->list[k].status != STORE_WHOLE)
            return true;
    return false;
}

/* The chunks, first .. last, that hold `window` pixels from `at` on and what smoothing reads around
 * them. `size`: pixels of the slide in this direction; `each`: of a chunk. */
static void chunks_touched(const struct result_params *p, int64_t at, int64_t size, int64_t each,
                           int64_t *first, int64_t *last)
{
    const int64_t low = at - p->radius, high = at + p->window - 1 + p->radius;
    *first = (low < 0 ? 0 : low) / each;
    *last = (high < size ? high : size - 1) / each;
}

/* Bits 1 << status of the chunks in each column that window row wy needs. */
static void merge_rows(const struct filled *f, int64_t wy, uint8_t *columns)
{
    const int64_t n = store_chunk_columns(f->info);
    int64_t first, last;
    chunks_touched(f->params, wy * f->params->stride, f->info->height, f->info->chunk_rows, &first,
                   &last);
    memset(columns, 0, (size_t)n);
    for (int64_t r = first; r <= last; r++)
        for (int64_t c = 0; c < n; c++)
            columns[c] |= (uint8_t)(1 << f->list[(r - f->first_row) * n + c].status);
}

static unsigned merge_columns(const struct filled *f, int64_t wx, const uint8_t *columns)
{
    unsigned bits = 0;
    int64_t first, last;
    chunks_touched(f->params, wx * f->params->stride, f->info->width, f->info->chunk_cols, &first,
                   &last);
    for (int64_t c = first; c <= last; c++)
        bits |= columns[c];
    return bits;
}

static uint8_t flags_of_tile(unsigned bits)
{
    return (uint8_t)((bits >> STORE_MISSING & 1 ? RESULT_FLAG_MISSING : 0) |
                     (bits >> STORE_DAMAGED & 1 ? RESULT_FLAG_DAMAGED : 0) |
                     (bits >> STORE_LEFT_OUT & 1 ? RESULT_FLAG_LEFT_OUT : 0));
}

static void count_row(const struct filled *f, int64_t wy, const uint8_t *columns, uint8_t *wanted,
                      struct result_counts *counts)
{
    for (int64_t wx = 0; wx < f->nx; wx++) {
        const unsigned bits = merge_columns(f, wx, columns);
        f->flags[wy * f->nx + wx] |= flags_of_tile(bits);
        if (wanted && !wanted[wy * f->nx + wx])
            continue;
        if (f->params->skip_damaged && bits >> STORE_DAMAGED & 1) {
            wanted[wy * f->nx + wx] = 0;
            counts->touching[RESULT_SKIPPED]++;
            continue;
        }
        for (int k = RESULT_MISSING; k <= RESULT_LEFT_OUT; k++)
            counts->touching[k] += bits >> k & 1;
    }
}

/*
 * Counts in *counts the windows that touch filled tiles, by the tile's status. `wanted` is
 * [ny][nx], 1 for windows that are to be counted; NULL: all, which needs params without
 * skip_damaged. With it, windows that touch damaged tiles are removed from `wanted` and counted as
 * skipped.
 */
static void filled_count(const struct filled *f, uint8_t *wanted, struct result_counts *counts)
{
    if (!any_filled(f))
        return;
    uint8_t *columns = memory_need((size_t)store_chunk_columns(f->info), 1);
    for (int64_t wy = f->first_wy; wy < f->end_wy; wy++) {
        merge_rows(f, wy, columns);
        count_row(f, wy, columns, wanted, counts);
    }
    free(columns);
}

static const struct result_params *params_of(const struct job *j)
{
    return &j->terms->setup->params;
}

static size_t windows_of(const struct job *j)
{
    return (size_t)(j->result.nx * j->result.ny);
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
    if (!(j->tissue = job_memory(j, windows_of(j), 1, e)) ||
        !(j->percent = job_memory(j, windows_of(j), 1, e)))
        return -1;
    return tissue_windows_find(params_of(j), t->mask, t->cols, t->rows, STORE_CELL, r->nx, r->ny,
                               j->tissue, j->percent, e)
               ? err_add(e, "%s", j->path)
               : 0;
}

static int no_tissue_map(const struct job *j, struct err *e)
{
    const char *why = store_info(j->store)->tissue_missing;
    return err_set(e, "%s: has no tissue map%s%s; convert it with --tissue-mask", j->path,
                   *why ? ": " : "", why);
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
    if (!(j->inside = job_memory(j, windows_of(j), 1, e)))
        return -1;
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
        if (!(j->wanted = job_memory(j, windows_of(j), 1, e)))
            return -1;
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

/* The flags that do not need the tables of tiles: the edge, too little tissue, and the regions. */
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
                j->sample[k] |= (uint8_t)(1 + kind);
        }
}

static int choose_sample(struct job *j, int64_t first_wy, int64_t end_wy, struct err *e)
{
    if (!(j->sample = job_memory(j, windows_of(j), 1, e)))
        return -1;
    features_choose_steps(j->percent, j->inside, j->result.nx, j->result.ny, j->sample);
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
