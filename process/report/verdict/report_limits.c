/* report_limits.c - see report_limits.h. */
#include "process/report/verdict/report_limits.h"

#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool report_limit_holds(const struct report_limit *l, int32_t group)
{
    return l->group == REPORT_EVERY_GROUP || l->group == group;
}

bool report_limit_breaks(const struct report_limit *l, double x, double threshold)
{
    const double beyond =
        report_metric(l->metric)->angle ? stats_turn(x, threshold) : x - threshold;
    return l->above ? beyond > 0 : beyond < 0; /* false for NaN */
}

/* --- reading --- */

static int read_threshold(const char *where, const char *text, double *out, struct err *e)
{
    *out = NAN;
    return *text ? number_real(where, text, -1e9, 1e9, out, e) : 0;
}

/* Can both thresholds be met? */
static int check_thresholds(const struct report_limit *l, struct err *e)
{
    const double thresholds[] = {l->warn, l->fail};
    if (isnan(l->warn) && isnan(l->fail))
        return err_set(e, "neither warn nor fail has a number");
    for (int k = 0; k < 2 && report_metric(l->metric)->angle; k++)
        if (thresholds[k] < 0 || thresholds[k] >= 360)
            return err_set(e, "%g is not an angle from 0 to less than 360", thresholds[k]);
    if (isnan(l->warn) || isnan(l->fail) || report_limit_breaks(l, l->fail, l->warn))
        return 0;
    return err_set(e, "warn %g is never met: a slide %s %g fails already; swap them", l->warn,
                   l->above ? "above" : "below", l->fail);
}

/* The columns of the file; the last may be missing. */
enum { METRIC, SIDE, WARN, FAIL, GROUP, COLUMNS };

static int read_limit(const struct table *t, int64_t row, const int64_t at[COLUMNS],
                      struct report_limit *l, struct err *e)
{
    const char *metric = table_cell(t, row, at[METRIC]), *side = table_cell(t, row, at[SIDE]);
    l->line = t->lines[row];
    l->metric = report_find_metric(metric);
    if (l->metric < 0)
        return err_set(e, "no metric is called %s", metric);
    if (strcmp(side, "below") && strcmp(side, "above"))
        return err_set(e, "side must be below or above, not %s", side);
    l->above = !strcmp(side, "above");
    l->group_name = memory_copy(at[GROUP] < 0 ? "" : table_cell(t, row, at[GROUP]));
    return read_threshold("warn", table_cell(t, row, at[WARN]), &l->warn, e) ||
                   read_threshold("fail", table_cell(t, row, at[FAIL]), &l->fail, e) ||
                   check_thresholds(l, e)
               ? -1
               : 0;
}

static int find_columns(const struct table *t, const char *path, int64_t at[COLUMNS], struct err *e)
{
    static const char *const names[COLUMNS] = {"metric", "side", "warn", "fail", "group"};
    for (int k = 0; k < COLUMNS; k++) {
        at[k] = table_column(t, names[k]);
        if (at[k] < 0 && k != GROUP)
            return err_set(e, "%s: has no column %s; the header is metric,side,warn,fail[,group]",
                           path, names[k]);
    }
    return 0;
}

int report_limits_read(const char *path, struct report_limits *l, struct err *e)
{
    struct table t = {0};
    int64_t at[COLUMNS];
    if (!path)
        return 0;
    int bad = table_read(&t, path, e) || find_columns(&t, path, at, e) ? -1 : 0;
    if (!bad)
        l->limit = memory_need((size_t)t.rows + 1, sizeof *l->limit);
    for (int64_t k = 1; !bad && k <= t.rows; k++)
        if (read_limit(&t, k, at, &l->limit[l->n++], e))
            bad = err_add(e, "%s: line %" PRId64, path, t.lines[k]);
    table_free(&t);
    return bad;
}

/* --- once the slides are known --- */

/* The range of a metric. */
static void range_of(const struct result_params *p, int metric, double *least, double *most)
{
    const double width = p->high_db - p->low_db;
    const double range[][2] = {[RANGE_ANY] = {-INFINITY, INFINITY},
                               [RANGE_FROM_0] = {0, INFINITY},
                               [RANGE_SHARE] = {0, 1},
                               [RANGE_MEAN_DB] = {p->low_db, p->high_db},
                               [RANGE_STD_DB] = {0, width / 2},
                               [RANGE_DIFFERENCE_DB] = {-width, width},
                               [RANGE_DISTANCE_DB] = {0, width}};
    *least = range[report_metric(metric)->range][0];
    *most = range[report_metric(metric)->range][1];
}

static int check_reach(const char *path, const struct result_params *p,
                       const struct report_limit *l, struct err *e)
{
    double least, most;
    range_of(p, l->metric, &least, &most);
    const double thresholds[] = {l->warn, l->fail};
    for (int k = 0; k < 2; k++)
        if (l->above ? thresholds[k] >= most : thresholds[k] <= least)
            return err_set(e, "%s: line %" PRId64 ": %s lies between %g and %g, never %s %g", path,
                           l->line, report_metric(l->metric)->name, least, most,
                           l->above ? "above" : "below", thresholds[k]);
    return 0;
}

static int32_t group_of(const struct report_groups *g, const char *name)
{
    for (int32_t k = 0; k < g->n; k++)
        if (!strcmp(g->name[k], name))
            return k;
    return REPORT_NO_GROUP;
}

int report_limits_place(const char *path, const struct report_slides *s,
                        const struct report_groups *g, struct report_limits *l, struct err *e)
{
    for (int64_t k = 0; k < l->n; k++) {
        struct report_limit *x = &l->limit[k];
        x->group = *x->group_name ? group_of(g, x->group_name) : REPORT_EVERY_GROUP;
        if (x->group == REPORT_NO_GROUP)
            cli_say("%s: line %" PRId64 ": no slide is in group %s; this limit holds for none",
                    path, x->line, x->group_name);
        if (s->begun && check_reach(path, &s->params, x, e))
            return -1;
    }
    return 0;
}

void report_limits_free(struct report_limits *l)
{
    for (int64_t k = 0; k < l->n; k++)
        free(l->limit[k].group_name);
    free(l->limit);
}
