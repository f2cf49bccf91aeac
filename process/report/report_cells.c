/* report_cells.c - see report_cells.h. */
#include "process/report/report_cells.h"

#include <math.h>
#include <stdlib.h>

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
        const float *cdf = s->slide[k].cdf;
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

static int make_bands(const struct report_slides *s, const struct report_scores *scores,
                      int32_t pool, struct report_cells *c, double *work, struct err *e)
{
    float *bands = calloc(REPORT_BANDS * (size_t)c->n + 1, sizeof *bands);
    c->bands[pool] = bands;
    if (!bands)
        return err_set(e, "out of memory");
    for (int64_t cell = 0; cell < c->n; cell++) {
        int64_t n = 0;
        for (int64_t k = 0; k < s->n; k++)
            if (scores->of[k].pool == pool && s->slide[k].cdf)
                work[n++] = report_share(c, s->slide[k].cdf, cell);
        n = stats_sort(work, n);
        if (n > 0)
            c->most_share = fmax(c->most_share, work[n - 1]);
        for (int b = 0; b < REPORT_BANDS && n > 0; b++)
            bands[b * c->n + cell] = (float)stats_quantile(work, n, report_bands[b]);
    }
    return 0;
}

int report_cells(const struct report_slides *s, const struct report_scores *scores,
                 struct report_cells *out, struct err *e)
{
    double *work = malloc(((size_t)s->n + 1) * sizeof *work);
    out->bands = calloc((size_t)scores->n_pools + 1, sizeof *out->bands);
    out->n_pools = scores->n_pools;
    int bad = work && out->bands ? 0 : err_set(e, "out of memory");
    if (s->begun)
        choose_cells(s, out);
    for (int32_t p = 0; p < scores->n_pools && !bad; p++)
        bad = make_bands(s, scores, p, out, work, e);
    free(work);
    return bad;
}

void report_cells_free(struct report_cells *c)
{
    for (int32_t p = 0; c->bands && p < c->n_pools; p++)
        free(c->bands[p]);
    free(c->bands);
}
