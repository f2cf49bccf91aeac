/* run_remarks.c - see run_remarks.h. */
#include "process/run/run_remarks.h"

#include "common/base/cli.h"
#include "common/store/store.h"

#include <inttypes.h>

/* Windows over pixels that the slide does not have. Left-out tiles were left out on request. */
static void report_filled(const char *path, const struct result_counts *c)
{
    if (c->touching[RESULT_DAMAGED])
        cli_say("%s: %" PRId64 " of %" PRId64 " windows touch damaged tiles (--skip-damaged leaves "
                "them out)",
                path, c->touching[RESULT_DAMAGED], c->windows);
    if (c->touching[RESULT_SKIPPED])
        cli_say("%s: %" PRId64 " windows that touch damaged tiles are not counted", path,
                c->touching[RESULT_SKIPPED]);
    if (c->touching[RESULT_MISSING])
        cli_say("%s: %" PRId64 " of %" PRId64 " windows touch tiles that are missing in the slide",
                path, c->touching[RESULT_MISSING], c->windows);
}

#define TISSUE_REMEDY "if that is wrong, convert the slide with " STORE_TISSUE_REMEDY

/* With tissue_only: a map that is probably wrong, or by which no window counts. */
static void report_tissue(const char *path, const struct result_params *p,
                          const struct result_slide *s)
{
    char shows[64];
    const double fraction = s->origin.tissue_fraction;
    const bool none = s->counts.windows == 0 && !p->roi;
    const bool doubtful = store_doubts_tissue(fraction, shows, sizeof shows);
    if (!doubtful)
        snprintf(shows, sizeof shows, "%.2g %% tissue", 100 * fraction);
    if (none)
        cli_say("%s: no window counts: none has %g %% of its area in tissue, and the tissue map "
                "shows %s; " TISSUE_REMEDY,
                path, 100 * p->min_tissue, shows);
    else if (doubtful)
        cli_say("%s: the tissue map shows %s; " TISSUE_REMEDY, path, shows);
}

/* More than a tenth of the slide's tiles: the run is slower than it could be. */
static void report_left(const char *path, const struct result_slide *s)
{
    int most = 0;
    for (int k = 0; k < RESULT_LEFTS; k++)
        most = s->left[k] > s->left[most] ? k : most;
    if (s->tiles_on_host * 10 > s->origin.tiles)
        cli_say("%s: the host decoded %" PRId64 " of %" PRId64 " JPEG tiles: %s (%" PRId64 ")",
                path, s->tiles_on_host, s->origin.tiles, result_left_words(most), s->left[most]);
}

void run_remarks(const char *path, const struct result_params *p, const struct result_slide *s)
{
    if (s->nx * s->ny == 0) {
        cli_say("%s: %" PRId64 " x %" PRId64 " px: smaller than one window of %" PRId64
                " px, nothing to compute",
                path, s->width, s->height, p->window);
        return;
    }
    if (p->roi && s->counts.windows == 0)
        cli_say("%s: no window counts: none has %g %% of its area inside the regions%s", path,
                100 * p->min_roi, p->tissue_only ? " and enough tissue" : "");
    if (p->tissue_only)
        report_tissue(path, p, s);
    report_filled(path, &s->counts);
    report_left(path, s);
}
