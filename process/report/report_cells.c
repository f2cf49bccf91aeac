/* report_cells.c - see report_cells.h. */
#include "process/report/report_cells.h"

#include <math.h>
#include <stdlib.h>

enum { SHARES_BYTES = 64 << 20 }; /* of shares that are in memory at a time */
#define CELL_DB 1.0
#define TAIL 0.0005f /* share of a slide's values that may lie outside, on each side */

const double report_bands[REPORT_BANDS] = {0.05, 0.25, 0.5, 0.75, 0.95};

/* The last bin of a cell. */
static int64_t last_bin(const struct report_cells *c, int64_t cell)
{
    const int64_t end = (c->first + cell + 1) * c->bins;
    return (end < c->all_bins ? end : c->all_bins) - 1;
}

double report_share(const struct report_cells *c, const float *cdf, int64_t cell)
{
    const int64_t first = (c->first + cell) * c->bins, last = last_bin(c, cell);
    const float below = first > 0 ? cdf[first - 1] : 0;
    const double width = c->width * (double)(last + 1 - first);
    return fmax(0, (double)cdf[last] - (double)below) / width;
}

/* The cells that hold all slides, but for their tails. */
static void choose_cells(const struct report_slides *s, struct report_cells *c)
{
    const int64_t bins = s->params.bins;
    c->all_bins = bins;
    c->width = (s->params.high_db - s->params.low_db) / (double)bins;
    const double each = floor(CELL_DB / c->width * (1 + 1e-9));
    int64_t first = bins - 1, last = 0;
    c->bins = each < 1 ? 1 : each > (double)bins ? bins : (int64_t)each;
    for (int64_t k = 0; k < s->n; k++) {
        const float *cdf = report_cdf(s, k);
        if (!cdf)
            continue;
        while (first > 0 && cdf[first - 1] > TAIL)
            first--;
        while (last < bins - 1 && cdf[last] < 1 - TAIL)
            last++;
    }
    c->first = first / c->bins;
    c->n = last < first ? 0 : last / c->bins - c->first + 1;
}

/* What the bands of some cells are made from. */
struct shares {
    double *of; /* [cells][n] */
    int64_t n;  /* slides */
    int64_t cells;
};

/* Shares of the slides of a pool in `cells` cells from `first` on. Returns how many slides. */
static int64_t list_shares(const struct report_slides *s, const struct report_scores *scores,
                           int32_t pool, const struct report_cells *c, int64_t first, int64_t cells,
                           struct shares *w)
{
    int64_t n = 0;
    for (int64_t k = 0; k < s->n; k++) {
        const float *cdf = scores->of[k].pool == pool ? report_cdf(s, k) : NULL;
        if (!cdf)
            continue;
        for (int64_t cell = 0; cell < cells; cell++)
            w->of[cell * w->n + n] = report_share(c, cdf, first + cell);
        n++;
    }
    return n;
}

static int make_bands(const struct report_slides *s, const struct report_scores *scores,
                      int32_t pool, struct report_cells *c, struct shares *w, struct err *e)
{
    float *bands = calloc(REPORT_BANDS * (size_t)c->n + 1, sizeof *bands);
    c->bands[pool] = bands;
    if (!bands)
        return err_set(e, "out of memory");
    for (int64_t first = 0; first < c->n; first += w->cells) {
        const int64_t cells = c->n - first < w->cells ? c->n - first : w->cells;
        const int64_t all = list_shares(s, scores, pool, c, first, cells, w);
        for (int64_t cell = 0; cell < cells; cell++) {
            double *of = w->of + cell * w->n;
            const int64_t n = stats_sort(of, all);
            if (n > 0)
                c->most_share = fmax(c->most_share, of[n - 1]);
            for (int b = 0; b < REPORT_BANDS && n > 0; b++)
                bands[b * c->n + first + cell] = (float)stats_quantile(of, n, report_bands[b]);
        }
    }
    return 0;
}

/* As many cells at a time as there is room for. */
static int alloc_shares(struct shares *w, int64_t slides, int64_t cells, struct err *e)
{
    w->n = slides + 1;
    w->cells = SHARES_BYTES / 8 / w->n;
    w->cells = w->cells < 1 ? 1 : w->cells > cells ? cells + 1 : w->cells;
    w->of = malloc((size_t)w->cells * (size_t)w->n * sizeof *w->of);
    return w->of ? 0 : err_set(e, "out of memory");
}

int report_cells(const struct report_slides *s, const struct report_scores *scores,
                 struct report_cells *out, struct err *e)
{
    struct shares work = {0};
    out->bands = calloc((size_t)scores->n_pools + 1, sizeof *out->bands);
    out->n_pools = scores->n_pools;
    int bad = out->bands ? 0 : err_set(e, "out of memory");
    if (s->begun)
        choose_cells(s, out);
    bad = bad || alloc_shares(&work, s->n, out->n, e);
    for (int32_t p = 0; p < scores->n_pools && !bad; p++)
        bad = make_bands(s, scores, p, out, &work, e);
    free(work.of);
    return bad ? -1 : 0;
}

void report_cells_free(struct report_cells *c)
{
    for (int32_t p = 0; c->bands && p < c->n_pools; p++)
        free(c->bands[p]);
    free(c->bands);
}
