/* map_picture.c - see map_picture.h. */
#include "process/map/map_picture.h"

#include "common/base/stop.h"
#include "common/base/text.h"
#include "process/draw/axis.h"
#include "process/draw/colours.h"
#include "process/draw/png_file.h"
#include "process/map/map_font.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 4 }; /* of deflate */
/* px: least width of the picture; the bar's place and size; room for its numbers; of the text */
enum { LEAST_WIDTH = 490, GAP = 16, BAR_TOP = 10, BAR_WIDTH = 16, BAR_ROOM = 110 };
enum { BAR_LEAST = 150, BAR_MOST = 320, SWATCH = 14, FOOT = 40, MARGIN = 8, LINE = 16 };
enum { LINES = 6, LABELS = 24, LABEL_BYTES = 160 };

struct label {
    int64_t x, y; /* upper left corner */
    char text[LABEL_BYTES];
};

/* What the picture says about the values. */
struct statistics {
    int64_t values, below, above;
    double low, high, sum;
};

struct picture {
    const struct map_slide *m;
    const struct map_picture_setup *p;
    struct map_rows *source;
    struct png_file *png;
    int64_t zoom, cols, rows;        /* px of a place along a side; px of the map */
    int64_t width, height;           /* of the picture */
    int64_t bar_x, bar_height, foot; /* foot: first row below map and bar */
    struct axis axis;
    struct label labels[LABELS];
    int n_labels;
    float *values; /* [cols] */
    uint8_t *row;  /* [width] */
    struct statistics found;
};

static void add_label(struct picture *o, int64_t x, int64_t y, const char *fmt, ...)
    ERR_PRINTF(4, 5);
static void add_label(struct picture *o, int64_t x, int64_t y, const char *fmt, ...)
{
    va_list ap;
    if (o->n_labels == LABELS)
        return;
    struct label *l = &o->labels[o->n_labels++];
    l->x = x;
    l->y = y;
    va_start(ap, fmt);
    vsnprintf(l->text, sizeof l->text, fmt, ap);
    va_end(ap);
}

/* --- layout --- */

/* Small maps are enlarged by a whole factor, to the room that the bar and the text leave. */
static void set_size(struct picture *o)
{
    const int64_t x = (LEAST_WIDTH - GAP - BAR_WIDTH - BAR_ROOM) / o->m->cols;
    const int64_t y = BAR_MOST / o->m->rows, zoom = x < y ? x : y;
    o->zoom = zoom > 1 ? zoom : 1;
    o->cols = o->m->cols * o->zoom;
    o->rows = o->m->rows * o->zoom;
}

/* What is hatched; two lines have room there. */
static void add_hatched(struct picture *o, int64_t x, int64_t y)
{
    const bool glass = map_hides_glass(o->m, o->p->map);
    if (glass)
        add_label(o, x, y, "glass, or");
    add_label(o, x, y + (glass ? MAP_FONT_HEIGHT : 0), "no value");
}

static void lay_out(struct picture *o)
{
    char label[64];
    double value;
    set_size(o);
    o->bar_x = o->cols + GAP;
    o->width = o->bar_x + BAR_WIDTH + BAR_ROOM;
    o->width = o->width < LEAST_WIDTH ? LEAST_WIDTH : o->width;
    o->bar_height = o->rows - BAR_TOP - FOOT;
    o->bar_height = o->bar_height < BAR_LEAST  ? BAR_LEAST
                    : o->bar_height > BAR_MOST ? BAR_MOST
                                               : o->bar_height;
    o->foot = BAR_TOP + o->bar_height + FOOT;
    o->foot = o->foot < o->rows + 1 ? o->rows + 1 : o->foot;
    o->height = o->foot + MARGIN + LINES * LINE + MARGIN;
    o->axis = (struct axis){o->p->low, o->p->high, axis_step(o->p->high - o->p->low, 8),
                            BAR_TOP + (double)o->bar_height - 1, BAR_TOP};
    for (int k = 0; axis_tick(&o->axis, k, &value, label); k++)
        add_label(o, o->bar_x + BAR_WIDTH + 8,
                  llround(axis_px(&o->axis, value)) - MAP_FONT_HEIGHT / 2, "%s%s%s", label,
                  k ? "" : " ", k ? "" : map_feature_unit(o->m, o->p->map));
    add_hatched(o, o->bar_x + SWATCH + 10, BAR_TOP + o->bar_height + 15);
}

/* --- the lines below the map --- */

static void add_line(struct picture *o, int line, const char *fmt, ...) ERR_PRINTF(3, 4);
static void add_line(struct picture *o, int line, const char *fmt, ...)
{
    char text[512], fitted[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text_fit(fitted, LABEL_BYTES, text, (int)((o->width - 2 * MARGIN) / MAP_FONT_WIDTH));
    add_label(o, MARGIN, o->foot + MARGIN + line * LINE, "%s", fitted);
}

static void add_places(struct picture *o, int line)
{
    const struct map_slide *m = o->m;
    char scale[64] = "", place[64] = "1 pixel";
    if (o->zoom > 1)
        snprintf(place, sizeof place, "%" PRId64 " x %" PRId64 " pixels", o->zoom, o->zoom);
    if (!isnan(m->mpp_x))
        snprintf(scale, sizeof scale, " = %.4g um", m->pitch * m->mpp_x);
    if (m->scores)
        add_line(o, line, "%s = 1 cell of %g px%s", place, m->pitch, scale);
    else if (m->weights == WEIGHTS_NONE)
        add_line(o, line, "%s = 1 window of %" PRId64 " px, every %g px%s", place, m->params.window,
                 m->pitch, scale);
    else
        add_line(o, line, "%s = 1 cell of %g px%s; windows of %" PRId64 " px, %s", place, m->pitch,
                 scale, m->params.window, weights_name(m->weights));
}

/* " of 1,200 patches of 256 px (box)" for scores, else "", into text; returns text. */
static const char *patches_of(const struct map_slide *m, char text[160])
{
    const struct score_map *s = m->scores;
    char n[64], most[32] = "";
    text[0] = 0;
    if (!s)
        return text;
    if (s->largest > s->smallest)
        snprintf(most, sizeof most, " to %" PRId64, s->largest);
    snprintf(text, 160, " of %s patches of %" PRId64 "%s px (%s)",
             axis_number(n, (double)s->patches, 0), s->smallest, most, weights_name(m->weights));
    return text;
}

/* The text is complete when the map's last row is drawn. */
static void add_lines(struct picture *o)
{
    const struct statistics *s = &o->found;
    const char *unit = map_feature_unit(o->m, o->p->map);
    char count[64], of[160];
    const double n = s->values ? (double)s->values : 1;
    add_line(o, 0, "%s", o->m->s.name);
    add_line(o, 1, "%s%s, colours from %g to %g %s", map_feature_name(o->m, o->p->map),
             patches_of(o->m, of), o->p->low, o->p->high, unit);
    add_places(o, 2);
    axis_number(count, (double)s->values, 0);
    if (s->values)
        add_line(o, 3, "%s values from %.2f to %.2f, mean %.2f %s", count, s->low, s->high,
                 s->sum / n, unit);
    else
        add_line(o, 3, "no %s has a value", o->m->scores ? "patch" : "window");
    add_line(o, 4, "outside the colours: %.2f %% below, %.2f %% above", 100 * (double)s->below / n,
             100 * (double)s->above / n);
    if (o->m->partial)
        add_line(o, 5, "PARTIAL: %s", o->m->lacks);
}

/* --- rows --- */

static void count(struct statistics *s, double v, const struct map_picture_setup *p)
{
    s->low = s->values && s->low < v ? s->low : v;
    s->high = s->values && s->high > v ? s->high : v;
    s->sum += v;
    s->values++;
    s->below += v < p->low;
    s->above += v > p->high;
}

static void draw_places(struct picture *o, int64_t y)
{
    for (int64_t x = 0; x < o->cols; x++) {
        const double v = (double)o->values[x / o->zoom];
        const int k = colours_number(v, o->p->low, o->p->high, COLOURS_MAP);
        o->row[x] = (uint8_t)(k < 0 ? colours_hatch(x, y) : k);
        if (k >= 0 && x % o->zoom == 0 && y % o->zoom == 0)
            count(&o->found, v, o->p);
    }
}

static void draw_bar(struct picture *o, int64_t y)
{
    uint8_t *bar = o->row + o->bar_x;
    const int64_t at = y - BAR_TOP, swatch = at - o->bar_height - FOOT + SWATCH + 12;
    if (at >= 0 && at < o->bar_height) {
        const double t = (double)(o->bar_height - 1 - at) / (double)(o->bar_height - 1);
        memset(bar, (int)(t * (COLOURS_MAP - 1) + 0.5), BAR_WIDTH);
    } else if (swatch >= 0 && swatch < SWATCH) {
        for (int x = 0; x < BAR_WIDTH; x++)
            bar[x] = (uint8_t)colours_hatch(x, swatch);
    }
}

static void draw_ticks(struct picture *o, int64_t y)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(&o->axis, k, &value, label); k++)
        if (llround(axis_px(&o->axis, value)) == y)
            memset(o->row + o->bar_x + BAR_WIDTH, COLOURS_INK, 5);
}

static int draw_row(struct picture *o, int64_t y, struct err *e)
{
    memset(o->row, COLOURS_PAPER, (size_t)o->width);
    if (y < o->rows) {
        if (stop_check(e) || (y % o->zoom == 0 && map_rows_next(o->source, o->values, NULL, e)))
            return -1;
        draw_places(o, y);
        o->row[o->cols] = COLOURS_INK;
    } else if (y == o->rows) {
        memset(o->row, COLOURS_INK, (size_t)o->cols + 1);
    }
    draw_bar(o, y);
    draw_ticks(o, y);
    for (const struct label *l = o->labels; l < o->labels + o->n_labels; l++)
        if (y >= l->y && y < l->y + MAP_FONT_HEIGHT)
            map_font_row(o->row, o->width, l->x, (int)(y - l->y), l->text, COLOURS_INK);
    return png_file_row(o->png, o->row, e);
}

/* --- the picture --- */

static struct png_file *begin_file(const struct picture *o, FILE *f, struct err *e)
{
    const struct map_slide *m = o->m;
    uint32_t palette[COLOURS_PALETTE];
    char title[1100], text[512];
    colours_palette(palette, 255);
    text_fit(title, sizeof title, m->s.name, text_columns(m->s.name));
    snprintf(text, sizeof text,
             "%s; %" PRId64 " x %" PRId64 " places of %g px, the first at (%g, %g) px of level "
             "%" PRId64 ", %" PRId64 " x %" PRId64 " px; colours from %g to %g %s%s%s",
             map_feature_name(o->m, o->p->map), m->cols, m->rows, m->pitch, m->left, m->top,
             m->s.level, m->s.width, m->s.height, o->p->low, o->p->high,
             map_feature_unit(o->m, o->p->map), m->partial ? "; partial, " : "", m->lacks);
    const struct png_file_text texts[] = {{"Title", title}, {"Description", text}};
    const struct png_file_setup setup = {.width = o->width,
                                         .height = o->height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE - 1,
                                         .level = LEVEL,
                                         .texts = texts,
                                         .n_texts = 2};
    return png_file_begin(f, &setup, e);
}

static int draw(struct picture *o, FILE *f, struct err *e)
{
    lay_out(o);
    o->values = malloc((size_t)o->m->cols * sizeof *o->values);
    o->row = malloc((size_t)o->width);
    if (!o->values || !o->row)
        return err_set(e, "out of memory");
    if (!(o->source = map_rows_open_tissue(o->m, o->p->map, e)) || !(o->png = begin_file(o, f, e)))
        return -1;
    for (int64_t y = 0; y < o->height; y++) {
        if (y == o->foot)
            add_lines(o);
        if (draw_row(o, y, e))
            return -1;
    }
    return png_file_end(o->png, e);
}

int map_picture_draw(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                     struct err *e)
{
    struct picture o = {.m = m, .p = p};
    const int bad = draw(&o, f, e);
    png_file_free(o.png);
    map_rows_close(o.source);
    free(o.values);
    free(o.row);
    return bad;
}
