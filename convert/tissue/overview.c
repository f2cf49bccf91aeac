/* overview.c - see overview.h. One run of the parallel loop; an item is one tile. */
#include "convert/tissue/overview.h"

#include "common/base/memory.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct item {
    int64_t col, row;
    enum store_status status;
    uint8_t *rgb; /* one tile */
    struct tissue_sums sums;
};

struct pass {
    struct slide *slide;
    const struct slide_info *info;
    const struct slide *open; /* the open level, if this is a coarser one; else NULL */
    const struct slide_info *open_info;
    struct tissue *tissue;
    double scale;                /* pixels of the stored level per pixel of this one */
    int shrink;                  /* 8: tiles are decoded at 1/8; else 1 */
    int64_t columns, rows, next; /* tiles */
    int64_t damaged;             /* tiles */
};

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct pass *p = ctx;
    struct item *it = slot;
    (void)number;
    if (stop_check(e))
        return -1;
    if (p->next == p->columns * p->rows)
        return PIPE_END;
    it->col = p->next % p->columns;
    it->row = p->next++ / p->columns;
    if (it->col == 0 && it->row % 4 == 0 && p->slide->reader->prefetch)
        p->slide->reader->prefetch(p->slide, it->row, 8);
    return PIPE_ITEM;
}

static int64_t cut(int64_t size, int64_t tile, int64_t k)
{
    return size - k * tile < tile ? size - k * tile : tile;
}

/* The tiles of the open level below tile k of the coarser one, along one axis. What overlaps by
 * less than a coarse pixel is left out, as downsamples are not whole numbers. */
static void tiles_below(int64_t k, int64_t low_tile, double scale, int64_t tile, int64_t size,
                        int64_t range[2])
{
    const int64_t most = (size - 1) / tile;
    range[0] = (int64_t)((double)(k * low_tile + 1) * scale) / tile;
    range[1] = (int64_t)((double)((k + 1) * low_tile - 1) * scale) / tile;
    if (range[1] > most)
        range[1] = most;
}

/* Does the open level have bytes where a tile of the coarser one is empty? */
static bool is_only_coarsely_missing(const struct pass *p, int64_t col, int64_t row)
{
    int64_t cols[2], rows[2];
    const struct slide_info *i = p->open_info;
    if (!p->open)
        return false;
    const struct slide_reader *reader = p->open->reader;
    tiles_below(col, p->info->tile_cols, p->scale, i->tile_cols, i->width, cols);
    tiles_below(row, p->info->tile_rows, p->scale, i->tile_rows, i->height, rows);
    for (int64_t r = rows[0]; r <= rows[1]; r++)
        for (int64_t c = cols[0]; c <= cols[1]; c++)
            if (!reader->is_missing || !reader->is_missing(p->open, c, r))
                return true;
    return false;
}

/* At 1/8 if `shrink` is 8. */
static int read_tile(const struct pass *p, struct item *it, int shrink, int thread, struct err *e)
{
    const struct slide_reader *reader = p->slide->reader;
    return shrink == 1
               ? reader->read(p->slide, thread, it->col, it->row, 3, it->rgb, &it->status, e)
               : reader->read_eighth(p->slide, thread, it->col, it->row, it->rgb, &it->status, e);
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct pass *p = ctx;
    struct item *it = slot;
    const struct slide_info *i = p->info;
    const int64_t cols = cut(i->width, i->tile_cols, it->col);
    const int64_t rows = cut(i->height, i->tile_rows, it->row);
    /* pixels at 1/8 of a tile that reaches beyond the slide can hold what lies there */
    const int shrink = cols < i->tile_cols || rows < i->tile_rows ? 1 : p->shrink;
    const int64_t pitch = i->tile_cols / shrink;
    const int64_t x = it->col * pitch, y = it->row * (i->tile_rows / shrink);
    const double scale = p->scale * shrink;
    stop_library_begin();
    const int bad = read_tile(p, it, shrink, thread, e);
    stop_library_end();
    if (bad)
        return -1;
    if (it->status == STORE_DAMAGED ||
        (it->status == STORE_MISSING && is_only_coarsely_missing(p, it->col, it->row)))
        tissue_sum_damaged(&it->sums, cols / shrink, rows / shrink, x, y, scale);
    else
        tissue_sum(&it->sums, it->rgb, cols / shrink, rows / shrink, pitch, x, y, scale,
                   shrink < p->shrink ? TISSUE_STEP : 1);
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct pass *p = ctx;
    struct item *it = slot;
    p->damaged += it->status == STORE_DAMAGED;
    return tissue_add(p->tissue, &it->sums, e);
}

static int run(struct pass *p, int threads, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int depth = 2 * threads + 2;
    const size_t bytes = (size_t)(3 * p->info->tile_cols * p->info->tile_rows);
    struct item *items = memory_need((size_t)depth, sizeof *items);
    int r = 0;
    for (int k = 0; k < depth && r == 0; k++)
        r = (items[k].rgb = memory_try_zero(1, bytes, e)) ? 0 : -1;
    p->columns = (p->info->width + p->info->tile_cols - 1) / p->info->tile_cols;
    p->rows = (p->info->height + p->info->tile_rows - 1) / p->info->tile_rows;
    if (r == 0)
        r = pipe_run(&ops, p, items, sizeof *items, depth, threads, e);
    for (int k = 0; k < depth; k++) {
        free(items[k].rgb);
        tissue_sums_free(&items[k].sums);
    }
    free(items);
    return r;
}

/* The coarsest level below `limit` with a pixel for every cell and clearly fewer pixels than the
 * open one, or -1. */
static int64_t coarse_level(const struct slide_info *i, double limit)
{
    int64_t best = -1;
    double most = 1.9;
    for (int64_t k = 0; k < i->levels; k++) {
        const double scale = i->downsamples[k] / i->downsample;
        if (scale > most && scale < limit) {
            most = scale;
            best = k;
        }
    }
    return best;
}

/* Opens the coarsest level that can be opened (OpenSlide rejects some). *s is NULL when there is
 * none. -1: an error that may pass. */
static int open_coarse(struct slide **s, const struct slide_file *file,
                       const struct slide_info *info, int threads, struct slide_info *low,
                       struct err *e)
{
    double limit = TISSUE_CELL / 2 + 0.5;
    *s = NULL;
    for (int64_t k; !*s && (k = coarse_level(info, limit)) >= 0;
         limit = info->downsamples[k] / info->downsample) {
        errno = 0;
        *s = slide_open(file, k, threads, low, e);
        if (!*s && slide_may_pass(errno))
            return -1;
    }
    return 0;
}

int overview_tissue(const struct slide_file *file, struct slide *s, const struct slide_info *info,
                    int threads, bool must, struct tissue *t, struct err *problem, struct err *e)
{
    struct slide_info low;
    struct slide *coarse;
    struct pass p = {.slide = s, .info = info, .tissue = t, .scale = 1, .shrink = 1};
    if (open_coarse(&coarse, file, info, threads, &low, e))
        return -1;
    if (coarse) {
        p.open = s;
        p.open_info = info;
        p.slide = coarse;
        p.info = &low;
        p.scale = low.downsample / info->downsample;
    } else if (!must)
        return 0;
    else if (info->has_eighth)
        p.shrink = 8;
    const int r = run(&p, threads, e);
    slide_close(coarse);
    if (r)
        return -1;
    if (coarse && p.damaged)
        err_set(problem, "%" PRId64 " tile%s of level %" PRId64 " %s damaged", p.damaged,
                p.damaged == 1 ? "" : "s", low.level, p.damaged == 1 ? "is" : "are");
    tissue_finish(t);
    return 1;
}
