/* report_cells.c - the histograms of a page, in cells of about 1 dB; see report.h. */
#include "process/report/report.h"

#include <math.h>
#include <stdlib.h>

#define CELL_DB 1.0
#define TAIL 0.0005f /* share of a slide's values that may lie outside, on each side */

const double report_bands[REPORT_BANDS] = {0.05, 0.25, 0.5, 0.75, 0.95};

static double bin_width(const struct report *r)
{
    return (r->params.high_db - r->params.low_db) / (double)r->params.bins;
}

/* The last bin of a cell. */
static int64_t last_bin(const struct report *r, int64_t cell)
{
    const int64_t end = (r->first_cell + cell + 1) * r->cell_bins;
    return (end < r->params.bins ? end : r->params.bins) - 1;
}

double report_share(const struct report *r, const struct report_slide *s, int64_t cell)
{
    const int64_t first = (r->first_cell + cell) * r->cell_bins, last = last_bin(r, cell);
    const float below = first > 0 ? s->cdf[first - 1] : 0;
    const double width = bin_width(r) * (double)(last + 1 - first);
    return fmax(0, (double)s->cdf[last] - (double)below) / width;
}

/* The cells that hold all slides, but for their tails. */
static void choose_cells(struct report *r)
{
    const int64_t bins = r->params.bins;
    const double each = floor(CELL_DB / bin_width(r) * (1 + 1e-9));
    int64_t first = bins - 1, last = 0;
    r->cell_bins = each < 1 ? 1 : each > (double)bins ? bins : (int64_t)each;
    for (int64_t k = 0; k < r->n; k++) {
        const float *cdf = r->slides[k].cdf;
        if (!cdf)
            continue;
        while (first > 0 && cdf[first - 1] > TAIL)
            first--;
        while (last < bins - 1 && cdf[last] < 1 - TAIL)
            last++;
    }
    r->first_cell = first / r->cell_bins;
    r->cells = last < first ? 0 : last / r->cell_bins - r->first_cell + 1;
}

static int make_bands(struct report *r, int32_t pool, double *work, struct err *e)
{
    struct report_pool *q = &r->pools[pool];
    q->bands = calloc(REPORT_BANDS * (size_t)r->cells + 1, sizeof *q->bands);
    if (!q->bands)
        return err_set(e, "out of memory");
    for (int64_t c = 0; c < r->cells; c++) {
        int64_t n = 0;
        for (int64_t k = 0; k < r->n; k++)
            if (r->slides[k].pool == pool && r->slides[k].cdf)
                work[n++] = report_share(r, &r->slides[k], c);
        n = stats_sort(work, n);
        if (n > 0)
            r->most_share = fmax(r->most_share, work[n - 1]);
        for (int b = 0; b < REPORT_BANDS && n > 0; b++)
            q->bands[b * r->cells + c] = (float)stats_quantile(work, n, report_bands[b]);
    }
    return 0;
}

int report_cells(struct report *r, struct err *e)
{
    double *work = malloc(((size_t)r->n + 1) * sizeof *work);
    int bad = work ? 0 : err_set(e, "out of memory");
    if (r->begun)
        choose_cells(r);
    for (int32_t p = 0; p < r->n_pools && !bad; p++)
        bad = make_bands(r, p, work, e);
    free(work);
    return bad;
}
