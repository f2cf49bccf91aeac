/* map_places.c - see map_places.h. */
#include "process/map/map_places.h"

#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "common/result/result_read.h"
#include "process/map/map_files.h"

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
    char (*edges)[NUMBER];      /* [cols + 1]: level-0 px of the places' left edges, as text */
};

/* Level-0 px of edge k along an axis, with a NUL. Places with a value lie within the slide. */
static void edge(const struct places *p, int64_t k, double corner, char out[NUMBER])
{
    *put_number(out, (corner + (double)k * p->m->pitch) * p->m->downsample) = 0;
}

static int begin(struct places *p, struct err *e)
{
    const struct map_slide *m = p->m;
    p->edges = malloc(((size_t)m->cols + 1) * sizeof *p->edges);
    p->coverage = malloc((size_t)m->cols * sizeof *p->coverage);
    if (!p->edges || !p->coverage)
        return err_set(e, "out of memory");
    for (int64_t i = 0; i <= m->cols; i++)
        edge(p, i, m->left, p->edges[i]);
    for (int k = 0; k < p->n; k++) {
        p->values[k] = malloc((size_t)m->cols * sizeof *p->values[k]);
        if (!p->values[k])
            return err_set(e, "out of memory");
        p->rows[k] =
            p->glass ? map_rows_open(m, p->maps[k], e) : map_rows_open_tissue(m, p->maps[k], e);
        if (!p->rows[k])
            return -1;
    }
    return 0;
}

static int begin_flags(struct places *p, struct err *e)
{
    if (p->m->scores || p->m->weights != WEIGHTS_NONE ||
        !result_has_map(p->m->result, RESULT_FLAGS))
        return 0;
    if (!(p->flags = malloc((size_t)p->m->cols * sizeof *p->flags)))
        return err_set(e, "out of memory");
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
        edge(p, j, p->m->top, y0);
        edge(p, j + 1, p->m->top, y1);
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
    struct places p = {.m = m, .maps = maps, .n = n, .f = f};
    int bad = begin(&p, e);
    if (!bad) {
        put_head(&p);
        bad = put_tiles(&p, e);
        fputs("\n]}\n", f);
    }
    end(&p);
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
        edge(p, j, p->m->top, y0);
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
