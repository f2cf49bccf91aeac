/* score_map.c - see score_map.h: which cells there are, and two passes over the file or more. */
#include "process/scores/score_map.h"

#include "common/base/stop.h"
#include "process/scores/score_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_CELL = 32, STOP = 1 << 12 /* rows between looks at signals */ };

/* A pass over the file. */
struct pass {
    const struct score_map_setup *o;
    struct score_map *m;
    struct score_file *file;
    /* the slide; while its size is not known, as large as it can be */
    int64_t width, height;
};

/* --- rows of the file --- */

static bool is_outside(const struct pass *p, const struct score_patch *a)
{
    return a->x >= p->width || a->y >= p->height || a->x + a->size <= 0 || a->y + a->size <= 0;
}

/* The next patch that can be used. Only the first pass counts those that cannot. */
static enum score_next next_patch(struct pass *p, struct score_patch *a, bool count, struct err *e)
{
    for (;;) {
        struct err why = {""};
        enum score_next n = score_file_next(p->file, a, &why);
        if (n == SCORE_PATCH && is_outside(p, a)) {
            err_set(&why,
                    "the patch of %" PRId64 " px at (%" PRId64 ", %" PRId64
                    ") lies outside of the slide of %" PRId64 " x %" PRId64
                    " px; are its coordinates those of level 0?",
                    a->size, a->x, a->y, p->width, p->height);
            n = score_file_blame(p->file, a, &why);
        }
        if (n == SCORE_BAD && p->o->lenient) {
            p->m->bad += count;
            continue;
        }
        if (n == SCORE_BAD) {
            err_set(e, "%s; --partial leaves such rows out", why.msg);
            return SCORE_FAILED;
        }
        if (n == SCORE_FAILED)
            *e = why;
        return n;
    }
}

static void note_values(struct score_map *m, const struct score_patch *a)
{
    for (int k = 0; k < m->n; k++) {
        if (isnan(a->value[k]))
            continue;
        m->low[k] = m->low[k] <= a->value[k] ? m->low[k] : a->value[k];
        m->high[k] = m->high[k] >= a->value[k] ? m->high[k] : a->value[k];
    }
}

/* The first pass: checks every row, and finds how far the patches go. */
static int survey(struct pass *p, struct err *e)
{
    struct score_map *m = p->m;
    struct score_patch a;
    int64_t right = 0, bottom = 0;
    enum score_next n;
    while ((n = next_patch(p, &a, true, e)) == SCORE_PATCH) {
        if (m->patches++ % STOP == 0 && stop_check(e))
            return -1;
        right = a.x + a.size > right ? a.x + a.size : right;
        bottom = a.y + a.size > bottom ? a.y + a.size : bottom;
        m->smallest = m->patches == 1 || a.size < m->smallest ? a.size : m->smallest;
        m->largest = a.size > m->largest ? a.size : m->largest;
        note_values(m, &a);
    }
    m->width = p->o->width ? p->o->width : right;
    m->height = p->o->height ? p->o->height : bottom;
    return n == SCORE_FAILED ? -1 : 0;
}

/* --- the cells --- */

static int64_t cells_along(int64_t px, int64_t cell)
{
    return (px + cell - 1) / cell;
}

static int set_cells(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    const int64_t longest = m->width > m->height ? m->width : m->height;
    m->cell = o->cell ? o->cell : LEAST_CELL;
    while (!o->cell && cells_along(longest, m->cell) > o->side)
        m->cell *= 2;
    m->cols = cells_along(m->width, m->cell);
    m->rows = cells_along(m->height, m->cell);
    if (cells_along(longest, m->cell) > SCORES_MOST_SIDE || m->cols * m->rows > SCORES_MOST_CELLS)
        return err_set(e,
                       "%s: --cell %" PRId64 " makes %" PRId64 " x %" PRId64
                       " cells; at most %d along a side and %d in all are made",
                       o->path, m->cell, m->cols, m->rows, SCORES_MOST_SIDE, SCORES_MOST_CELLS);
    return 0;
}

static int fill_band(struct pass *p, struct err *e)
{
    struct score_patch a;
    enum score_next n;
    int64_t k = 0;
    if (score_file_rewind(p->file, e))
        return -1;
    while ((n = next_patch(p, &a, false, e)) == SCORE_PATCH)
        if ((k++ % STOP == 0 && stop_check(e)) || score_cells_add(p->m->cells, &a, e))
            return -1;
    return n == SCORE_FAILED ? -1 : 0;
}

static int fill(struct pass *p, struct err *e)
{
    struct score_map *m = p->m;
    if (!(m->cells = score_cells_create(m, p->o->weights, p->o->memory, e)))
        return -1;
    while (score_cells_begin_band(m->cells))
        if (fill_band(p, e) || score_cells_end_band(m->cells, e))
            return -1;
    return 0;
}

/* --- all --- */

static int check_count(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    char bad[64] = "";
    if (m->bad)
        snprintf(bad, sizeof bad, "%" PRId64 " row%s left out", m->bad, m->bad == 1 ? "" : "s");
    snprintf(m->missing, sizeof m->missing, "%s", bad);
    if (!o->patches || m->patches == o->patches)
        return 0;
    snprintf(m->missing, sizeof m->missing, "%" PRId64 " of %" PRId64 " patches%s%s", m->patches,
             o->patches, *bad ? ", " : "", bad);
    return o->lenient
               ? 0
               : err_set(e, "%s: has %" PRId64 " patches, not %" PRId64 "; --partial maps them",
                         o->path, m->patches, o->patches);
}

int score_map_make(const struct score_map_setup *o, struct score_map *m, struct err *e)
{
    *m = (struct score_map){.smallest = o->file.patch, .largest = 0};
    struct pass p = {.o = o,
                     .m = m,
                     .width = o->width ? o->width : INT64_MAX / 2,
                     .height = o->height ? o->height : INT64_MAX / 2};
    if (!(p.file = score_file_open(o->path, &o->file, e)))
        return -1;
    m->n = score_file_values(p.file);
    for (int k = 0; k < m->n; k++) {
        memcpy(m->name[k], score_file_name(p.file, k), SCORES_NAME);
        m->low[k] = m->high[k] = NAN;
    }
    const int bad =
        survey(&p, e) || check_count(o, m, e) || set_cells(o, m, e) || (m->cols && fill(&p, e));
    score_file_close(p.file);
    return bad ? -1 : 0;
}

void score_map_free(struct score_map *m)
{
    score_cells_free(m->cells);
    m->cells = NULL;
}

int score_map_row(const struct score_map *m, int value, int64_t row, float *values, float *coverage,
                  struct err *e)
{
    return score_cells_row(m->cells, value, row, values, coverage, e);
}

void score_map_range(const struct score_map *m, int value, double *low, double *high)
{
    const double a = m->low[value], b = m->high[value];
    const bool share = isnan(a) || (a >= 0 && b <= 1);
    *low = share ? 0 : a;
    *high = share ? 1 : b > a ? b : a + 1;
}
