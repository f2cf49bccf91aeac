/* map_places.c - maps as GeoJSON and CSV; see map_formats.h. */
#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "process/map/map_formats.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 24, RECORD = 2048 };

/* --- numbers: a few decimals, without trailing zeros --- */

static char *put_whole(char *out, uint64_t n)
{
    char digits[24];
    int k = 0;
    do
        digits[k++] = (char)('0' + n % 10);
    while (n /= 10);
    while (k)
        *out++ = digits[--k];
    return out;
}

/* |x| < 9e12. `digits` behind the point, 3 or 6. Returns the end; there is no NUL. */
static char *put_digits(char *out, double x, int digits)
{
    const uint64_t one = digits == 3 ? 1000 : 1000000;
    const int64_t q = llround((double)one * x);
    const uint64_t n = (uint64_t)(q < 0 ? -q : q);
    if (q < 0)
        *out++ = '-';
    out = put_whole(out, n / one);
    if (n % one == 0)
        return out;
    *out++ = '.';
    for (uint64_t at = one / 10, rest = n % one; rest; rest %= at, at /= 10)
        *out++ = (char)('0' + rest / at);
    return out;
}

static char *put_number(char *out, double x)
{
    return put_digits(out, x, 3);
}

static char *put_text(char *out, const char *text)
{
    const size_t n = strlen(text);
    memcpy(out, text, n);
    return out + n;
}

/* --- the places of a slide, row by row --- */

struct places {
    const struct map_slide *m;
    const int *maps; /* [n] */
    int n;
    FILE *f;
    struct map_rows *rows[MAP_MOST];
    float *values[MAP_MOST];    /* [cols] each */
    bool glass;                 /* also the sharpness of windows of glass */
    struct map_rows *flag_rows; /* NULL: no flags */
    float *flags;               /* [cols]; NaN: the fill value */
    float *coverage;            /* [cols], of the first feature */
    int64_t from_x, from_y;     /* px of level 0 that count as 0 */
    char (*edges)[NUMBER];      /* [cols + 1]: level-0 px of the places' left edges, as text */
};

/* Level-0 px of edge k along an axis, with a NUL. Places with a value lie within the slide. */
static void edge(const struct places *p, int64_t k, double corner, int64_t from, char out[NUMBER])
{
    *put_number(out, (corner + (double)k * p->m->pitch) * p->m->downsample - (double)from) = 0;
}

static int begin(struct places *p, struct err *e)
{
    const struct map_slide *m = p->m;
    p->edges = memory_try(((size_t)m->cols + 1), sizeof *p->edges, e);
    p->coverage = memory_try((size_t)m->cols, sizeof *p->coverage, e);
    if (!p->edges || !p->coverage)
        return -1;
    for (int64_t i = 0; i <= m->cols; i++)
        edge(p, i, m->left, p->from_x, p->edges[i]);
    for (int k = 0; k < p->n; k++) {
        p->values[k] = memory_try((size_t)m->cols, sizeof *p->values[k], e);
        if (!p->values[k])
            return -1;
        p->rows[k] =
            p->glass ? map_rows_open(m, p->maps[k], e) : map_rows_open_tissue(m, p->maps[k], e);
        if (!p->rows[k])
            return -1;
    }
    return 0;
}

static int begin_flags(struct places *p, struct err *e)
{
    if (p->m->scores || p->m->weights != WEIGHTS_NONE)
        return 0;
    if (!(p->flags = memory_try((size_t)p->m->cols, sizeof *p->flags, e)))
        return -1;
    p->flag_rows = map_rows_open(p->m, RESULT_FLAGS, e);
    return p->flag_rows ? 0 : -1;
}

static void end(struct places *p)
{
    map_rows_close(p->flag_rows);
    free(p->flags);
    for (int k = 0; k < p->n; k++) {
        map_rows_close(p->rows[k]);
        free(p->values[k]);
    }
    free(p->edges);
    free(p->coverage);
}

static int next_row(struct places *p, struct err *e)
{
    if (stop_check(e))
        return -1;
    for (int k = 0; k < p->n; k++)
        if (map_rows_next(p->rows[k], p->values[k], k == 0 ? p->coverage : NULL, e))
            return -1;
    return p->flag_rows ? map_rows_next(p->flag_rows, p->flags, NULL, e) : 0;
}

/* How much of a window is tissue is known of windows that do not count, too. */
static bool is_measured(const struct places *p, int k)
{
    return p->n == 1 || p->m->scores || result_map_kind(p->maps[k])->formula != RESULT_OF_TISSUE;
}

static bool has_value(const struct places *p, int64_t i)
{
    for (int k = 0; k < p->n; k++)
        if (is_measured(p, k) && !isnan(p->values[k][i]))
            return true;
    return false;
}

/* Is there a coverage that is neither 0 nor 1? */
static bool has_coverage(const struct places *p)
{
    return p->m->weights != WEIGHTS_NONE;
}

/* --- GeoJSON --- */

static void put_head(const struct places *p)
{
    char name[1100];
    const struct map_slide *m = p->m;
    text_fit(name, sizeof name, m->s.name, text_columns(m->s.name));
    fprintf(p->f, MAP_GEOJSON_HEAD " " WSI_VERSION "\",\"slide\":");
    json_write_string(p->f, name);
    fprintf(p->f, ",\"blend\":\"%s\",\"partial\":%s,\"missing_groups\":\"%s\"",
            weights_name(m->weights), m->partial ? "true" : "false", m->missing);
    if (m->scores)
        fprintf(p->f, ",\"patches\":%" PRId64 ",\"lacks\":\"%s\"", m->scores->patches, m->lacks);
    fputs(",\n\"features\":[", p->f);
}

static char *put_corner(char *out, const char *x, const char *y, char after)
{
    *out++ = '[';
    out = put_text(out, x);
    *out++ = ',';
    out = put_text(out, y);
    *out++ = ']';
    *out++ = after;
    return out;
}

/* The corners run as RFC 7946 wants them: counterclockwise where y points up. */
static char *put_polygon(char *out, const char *x0, const char *x1, const char *y0, const char *y1)
{
    out = put_text(out,
                   "\n{\"type\":\"Feature\",\"geometry\":{\"type\":\"Polygon\",\"coordinates\":[[");
    out = put_corner(out, x0, y0, ',');
    out = put_corner(out, x1, y0, ',');
    out = put_corner(out, x1, y1, ',');
    out = put_corner(out, x0, y1, ',');
    return put_corner(out, x0, y0, ']');
}

/* Features have 0.01 dB; scores may be small shares. */
static char *put_value(char *out, const struct places *p, double value)
{
    return put_digits(out, value, p->m->scores ? 6 : 3);
}

static char *put_measurement(char *out, const struct places *p, bool first, const char *name,
                             double value)
{
    if (!first)
        *out++ = ',';
    *out++ = '"';
    out = put_text(out, name);
    out = put_text(out, "\":");
    return put_value(out, p, value);
}

static void put_tile(const struct places *p, int64_t i, const char *y0, const char *y1, bool first)
{
    char record[RECORD], *out = record;
    bool none = true;
    if (!first)
        *out++ = ',';
    out = put_polygon(out, p->edges[i], p->edges[i + 1], y0, y1);
    out = put_text(out, "]},\"properties\":{\"objectType\":\"tile\",\"measurements\":{");
    for (int k = 0; k < p->n; k++)
        if (!isnan(p->values[k][i])) {
            out = put_measurement(out, p, none, map_feature_name(p->m, p->maps[k]),
                                  (double)p->values[k][i]);
            none = false;
        }
    if (has_coverage(p))
        out = put_measurement(out, p, none, "coverage", (double)p->coverage[i]);
    out = put_text(out, "}}}");
    fwrite(record, 1, (size_t)(out - record), p->f);
}

static int put_tiles(struct places *p, struct err *e)
{
    bool first = true;
    for (int64_t j = 0; j < p->m->rows; j++) {
        char y0[NUMBER], y1[NUMBER];
        edge(p, j, p->m->top, p->from_y, y0);
        edge(p, j + 1, p->m->top, p->from_y, y1);
        if (next_row(p, e))
            return -1;
        for (int64_t i = 0; i < p->m->cols; i++)
            if (has_value(p, i)) {
                put_tile(p, i, y0, y1, first);
                first = false;
            }
    }
    return 0;
}

int map_write_geojson(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e)
{
    struct places p = {
        .m = m, .maps = maps, .n = n, .f = f, .from_x = m->from_x, .from_y = m->from_y};
    int bad = begin(&p, e);
    if (!bad) {
        put_head(&p);
        bad = put_tiles(&p, e);
        fputs("\n]}\n", f);
    }
    end(&p);
    return bad;
}

/* --- regions --- */

struct regions {
    struct places *p;
    const struct map_setup *o;
    int64_t cols, rows;
    float *values;  /* [rows][cols]; NaN: none */
    uint8_t *state; /* [rows][cols]: of enum below */
    int64_t *cells; /* [rows * cols]: those of one region, the first of its first row in front */
    int64_t n;
    int64_t written; /* regions */
};

/* TRACED: the upper side of a place; HERE: the place is of the region being written. */
enum { IN = 1, TAKEN = 2, TRACED = 4, HERE = 8 };

static bool is_one(const struct regions *r, int64_t x, int64_t y, int what)
{
    return x >= 0 && y >= 0 && x < r->cols && y < r->rows && r->state[y * r->cols + x] & what;
}

static int load_values(struct regions *r, struct err *e)
{
    for (int64_t j = 0; j < r->rows; j++) {
        if (next_row(r->p, e))
            return -1;
        memcpy(r->values + j * r->cols, r->p->values[0], (size_t)r->cols * sizeof *r->values);
    }
    return 0;
}

/* The median of the map less 3.5 robust standard deviations; NaN: not known. */
static int find_own_limit(const struct regions *r, double *limit, struct err *e)
{
    const int64_t n = r->cols * r->rows;
    double *v = memory_try((2 * (size_t)n + 1), sizeof *v, e);
    if (!v)
        return -1;
    for (int64_t k = 0; k < n; k++)
        v[k] = (double)r->values[k];
    const struct stats_summary s = stats_summarise(v, n, v + n);
    *limit = s.n < STATS_LEAST || s.mad == 0 ? NAN : s.q50 - STATS_FLAG * s.mad / 0.6745;
    free(v);
    return 0;
}

/* The limit below which places belong to the class; the user's may be absent. */
static int find_limit(const struct regions *r, struct map_done *done, double *below, struct err *e)
{
    *below = r->o->below;
    if (!isnan(*below) || !isnan(r->o->above))
        return 0;
    *below = r->p->maps[0] == RESULT_FOCUS ? r->p->m->blurred_below : NAN;
    done->by_report += !isnan(*below);
    if (!isnan(*below))
        return 0;
    if (find_own_limit(r, below, e))
        return -1;
    done->by_own += !isnan(*below);
    done->no_limit += isnan(*below);
    return 0;
}

/* Marks the places beyond the limits. */
static int mark(struct regions *r, struct map_done *done, struct err *e)
{
    double limit;
    if (find_limit(r, done, &limit, e))
        return -1;
    const float below = (float)limit, above = (float)r->o->above;
    for (int64_t k = 0; k < r->cols * r->rows; k++)
        r->state[k] = r->values[k] < below || r->values[k] > above ? IN : 0;
    return 0;
}

/* Lists the places that are connected to place k by sides. */
static void take_region(struct regions *r, int64_t k)
{
    static const int step[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    r->n = 0;
    r->cells[r->n++] = k;
    r->state[k] |= TAKEN | HERE;
    for (int64_t i = 0; i < r->n; i++)
        for (int d = 0; d < 4; d++) {
            const int64_t x = r->cells[i] % r->cols + step[d][0],
                          y = r->cells[i] / r->cols + step[d][1], next = y * r->cols + x;
            if (!is_one(r, x, y, IN) || r->state[next] & TAKEN)
                continue;
            r->state[next] |= TAKEN | HERE;
            r->cells[r->n++] = next;
        }
}

static void put_point(const struct regions *r, int64_t x, int64_t y)
{
    char text[NUMBER];
    edge(r->p, y, r->p->m->top, r->p->from_y, text);
    fprintf(r->p->f, "[%s,%s]", r->p->edges[x], text);
}

/* Follows the border from the upper left corner of place k, with the region on its right, until it
 * is there again: an outline, or a hole. Where two places of the region touch at a corner, it goes
 * on along the other one. So what the region encloses there is a hole with a ring of its own, and
 * no ring meets itself: the rule of OGC, JTS and QuPath. */
static void put_ring(struct regions *r, int64_t k)
{
    static const int step[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};    /* right, down, left, up */
    static const int right[4][2] = {{0, 0}, {-1, 0}, {-1, -1}, {0, -1}}; /* the place ahead */
    const int64_t x0 = k % r->cols, y0 = k / r->cols;
    int64_t x = x0, y = y0;
    int d = 0;
    putc('[', r->p->f);
    put_point(r, x, y);
    do {
        if (d == 0)
            r->state[y * r->cols + x] |= TRACED;
        x += step[d][0];
        y += step[d][1];
        const int left = (d + 3) % 4;
        const int turn = is_one(r, x + right[left][0], y + right[left][1], HERE) ? 3
                         : is_one(r, x + right[d][0], y + right[d][1], HERE)     ? 0
                                                                                 : 1;
        d = (d + turn) % 4;
        if (turn || (x == x0 && y == y0 && d == 0)) {
            putc(',', r->p->f);
            put_point(r, x, y);
        }
    } while (x != x0 || y != y0 || d != 0);
    putc(']', r->p->f);
}

static void put_region(struct regions *r)
{
    FILE *f = r->p->f;
    double sum = 0;
    fprintf(f, "%s\n{\"type\":\"Feature\",\"geometry\":{\"type\":\"Polygon\",\"coordinates\":[",
            r->written++ ? "," : "");
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t k = r->cells[i];
        sum += (double)r->values[k];
        if (r->state[k] & TRACED || is_one(r, k % r->cols, k / r->cols - 1, HERE))
            continue;
        if (i > 0)
            putc(',', f);
        put_ring(r, k);
    }
    fputs("]},\"properties\":{\"objectType\":\"annotation\",\"classification\":{\"name\":", f);
    json_write_string(f, r->o->class_name);
    fprintf(f,
            ",\"color\":[200,60,0]},\"measurements\":{\"places\":%" PRId64 ",\"mean %s\":%.3f}}}",
            r->n, map_feature_name(r->p->m, r->p->maps[0]), sum / (double)r->n);
    for (int64_t i = 0; i < r->n; i++)
        r->state[r->cells[i]] &= (uint8_t)~HERE;
}

static int put_regions(struct regions *r, struct map_done *done, struct err *e)
{
    const size_t n = (size_t)(r->cols * r->rows) + 1;
    r->values = memory_try(n, sizeof *r->values, e);
    r->state = memory_try(n, 1, e);
    r->cells = memory_try(n, sizeof *r->cells, e);
    if (!r->values || !r->state || !r->cells)
        return -1;
    if (load_values(r, e) || mark(r, done, e))
        return -1;
    for (int64_t k = 0; k < r->cols * r->rows; k++)
        if ((r->state[k] & (IN | TAKEN)) == IN) {
            take_region(r, k);
            put_region(r);
        }
    done->regions += r->written;
    done->with_regions += r->written > 0;
    return 0;
}

int map_write_regions(const struct map_slide *m, const struct map_setup *o, int map,
                      struct map_done *done, FILE *f, struct err *e)
{
    struct places p = {
        .m = m, .maps = &map, .n = 1, .f = f, .from_x = m->from_x, .from_y = m->from_y};
    struct regions r = {.p = &p, .o = o, .cols = m->cols, .rows = m->rows};
    int bad = begin(&p, e);
    if (!bad) {
        put_head(&p);
        bad = put_regions(&r, done, e);
        fputs("\n]}\n", f);
    }
    end(&p);
    free(r.values);
    free(r.state);
    free(r.cells);
    return bad;
}

/* --- CSV --- */

static void put_line(const struct places *p, int64_t i, int64_t j, const char *y0)
{
    char record[RECORD], *out = record;
    out = put_whole(out, (uint64_t)i);
    *out++ = ',';
    out = put_whole(out, (uint64_t)j);
    *out++ = ',';
    out = put_text(out, p->edges[i]);
    *out++ = ',';
    out = put_text(out, y0);
    *out++ = ',';
    out = put_number(out, p->m->pitch * p->m->downsample);
    for (int k = 0; k < p->n; k++) {
        *out++ = ',';
        if (!isnan(p->values[k][i]))
            out = put_value(out, p, (double)p->values[k][i]);
    }
    *out++ = ',';
    out = put_number(out, (double)p->coverage[i]);
    if (p->flag_rows) {
        const bool fill = isnan(p->flags[i]);
        *out++ = ',';
        out = put_number(out, fill ? result_map_kind(RESULT_FLAGS)->fill : (double)p->flags[i]);
    }
    *out++ = '\n';
    fwrite(record, 1, (size_t)(out - record), p->f);
}

static int put_lines(struct places *p, struct err *e)
{
    fputs(MAP_CSV_HEAD, p->f);
    for (int k = 0; k < p->n; k++)
        fprintf(p->f, ",%s", map_feature_name(p->m, p->maps[k]));
    fprintf(p->f, ",coverage%s\n", p->flag_rows ? ",flags" : "");
    for (int64_t j = 0; j < p->m->rows; j++) {
        char y0[NUMBER];
        edge(p, j, p->m->top, p->from_y, y0);
        if (next_row(p, e))
            return -1;
        for (int64_t i = 0; i < p->m->cols; i++)
            put_line(p, i, j, y0);
    }
    return 0;
}

/* Sharpness of glass means nothing, so the table says which windows are glass. */
static int add_tissue(const struct map_slide *m, const int *maps, int n, int all[MAP_MOST])
{
    bool glass = false, tissue = false;
    for (int k = 0; k < n; k++) {
        all[k] = maps[k];
        glass = glass || map_hides_glass(m, maps[k]);
        tissue = tissue || maps[k] == RESULT_TISSUE;
    }
    if (glass && !tissue)
        all[n++] = RESULT_TISSUE;
    return n;
}

int map_write_csv(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e)
{
    int all[MAP_MOST];
    n = add_tissue(m, maps, n, all);
    struct places p = {.m = m, .maps = all, .n = n, .f = f, .glass = true};
    const int bad = begin(&p, e) || begin_flags(&p, e) || put_lines(&p, e) ? -1 : 0;
    end(&p);
    return bad;
}
