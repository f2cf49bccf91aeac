/* plot_map.c - see plot_map.h. */
#include "process/plot/plot_map.h"

#include "process/draw/colours.h"
#include "process/draw/feature.h"
#include "process/draw/shrink.h"
#include "process/draw/svg.h"
#include "process/map/map_source.h"

#include <math.h>
#include <stdio.h>

enum { MOST_CELLS = 200 };
enum { HEAD = 30, FOOT = 46, BAR_GAP = 22, BAR_WIDTH = 16, BAR_ROOM = 130, MOST_HEIGHT = 430 };
enum { SCALE = 18 }; /* px: room for the scale bar */

/* --- cells --- */

static void count_windows(struct plot_map *m)
{
    for (int64_t y = 0; y < m->ny; y++)
        for (int64_t x = 0; x < m->nx; x++) {
            const double value = shrink_map(m->slide, m->map, x, y, 1);
            m->counted += !isnan(value);
            m->below += value < m->low;
            m->above += value > m->high;
        }
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One path of all cells of a colour; neighbours in a row share a rectangle. */
static void draw_colour(const struct plot_map *m, struct svg *s, const int16_t *cells, int64_t cols,
                        int64_t rows, int k)
{
    bool open = false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0, end; c < cols; c = end) {
            for (end = c + 1; end < cols && cells[r * cols + end] == cells[r * cols + c];)
                end++;
            if (cells[r * cols + c] != k)
                continue;
            if (!open)
                svg_markup(s, "<path fill=\"#%06x\" d=\"", colours_rgb(k));
            open = true;
            const int64_t width = at_most(end * m->block, m->nx) - c * m->block;
            const int64_t height = at_most((r + 1) * m->block, m->ny) - r * m->block;
            svg_markup(s, "M%lld %lldh%lldv%lldh-%lldz", (long long)(c * m->block),
                       (long long)(r * m->block), (long long)width, (long long)height,
                       (long long)width);
        }
    if (open)
        svg_markup(s, "\"/>\n");
}

/* --- the panel --- */

double plot_map_layout(struct plot_map *m, const struct result_params *p,
                       const struct result_slide *s, int map, double low, double high, double width)
{
    *m = (struct plot_map){.slide = s,
                           .map = map,
                           .nx = s->nx,
                           .ny = s->ny,
                           .stride = p->stride,
                           .origin = (p->window - p->stride) / 2,
                           .low = low,
                           .high = high};
    const int64_t longer = m->nx > m->ny ? m->nx : m->ny;
    m->block = (longer + MOST_CELLS - 1) / MOST_CELLS;
    m->scale = fmin((width - BAR_ROOM) / (double)m->nx, (double)MOST_HEIGHT / (double)m->ny);
    count_windows(m);
    m->um_per_px = s->origin.mpp_x * s->origin.downsample;
    return HEAD + fmax(m->scale * (double)m->ny, 150) + FOOT + (isnan(m->um_per_px) ? 0 : SCALE);
}

static void draw_cells(const struct plot_map *m, struct svg *s, double left, double top)
{
    static int16_t cells[MOST_CELLS * MOST_CELLS];
    const int64_t cols = (m->nx + m->block - 1) / m->block;
    const int64_t rows = (m->ny + m->block - 1) / m->block;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            cells[r * cols + c] = (int16_t)colours_number(
                shrink_map(m->slide, m->map, c, r, m->block), m->low, m->high, COLOURS);
    svg_markup(s, "<g class=\"map crisp\" transform=\"translate(%.2f %.2f) scale(%.6f)\">\n", left,
               top, m->scale);
    for (int k = 0; k < COLOURS; k++)
        draw_colour(m, s, cells, cols, rows, k);
    svg_markup(s, "</g>\n");
}

static void draw_bar(const struct plot_map *m, struct svg *s, double x, double top, double height)
{
    const struct axis a = {m->low, m->high, axis_step(m->high - m->low, 5), top + height, top};
    char bar_text[64];
    snprintf(bar_text, sizeof bar_text, "%s (%s)", feature_name(m->map),
             result_map_kind(m->map)->unit);
    svg_markup(s, "<g class=\"crisp\">\n");
    for (int k = 0; k < COLOURS; k++) {
        const double y = top + height * (COLOURS - 1 - k) / COLOURS;
        svg_markup(s, "<rect fill=\"#%06x\" x=\"%.2f\" y=\"%.2f\" width=\"%d\" height=\"%.2f\"/>\n",
                   colours_rgb(k), x, y, BAR_WIDTH, height / COLOURS + 0.3);
    }
    svg_markup(s, "</g>\n");
    svg_rect(s, "frame", x, top, BAR_WIDTH, height);
    axis_draw_right(s, &a, x + BAR_WIDTH);
    svg_text_up(s, "middle", x + BAR_WIDTH + 54, top + height / 2, bar_text);
}

static void draw_axes(const struct plot_map *m, struct svg *s, double left, double top)
{
    const double width = m->scale * (double)m->nx, height = m->scale * (double)m->ny;
    const double low = (double)m->origin, x_high = low + (double)(m->nx * m->stride);
    const double y_high = low + (double)(m->ny * m->stride);
    const double px = fmax(width, height) / fmax(x_high - low, y_high - low);
    const double step = axis_step(90 / px, 1);
    const struct axis x = {low, x_high, step, left, left + width};
    const struct axis y = {low, y_high, step, top, top + height};
    axis_draw_below(s, &x, top + height, top + height);
    axis_draw_left(s, &y, left, left);
    svg_text(s, "middle", left + width / 2, top + height + 38, "x (px of the stored level)");
    svg_text_up(s, "middle", left - 52, top + height / 2, "y (px)");
}

/* A line of a round length: at most half of the map, or 200 px if that is more. */
static void draw_scale(const struct plot_map *m, struct svg *s, double left, double y)
{
    const double px_per_um = m->scale / ((double)m->stride * m->um_per_px);
    const double um = axis_step(fmax(0.4 * m->scale * (double)m->nx, 160) / px_per_um, 2);
    char label[32];
    snprintf(label, sizeof label, um < 1000 ? "%g um" : "%g mm", um < 1000 ? um : um / 1000);
    svg_rect(s, "scale", left, y - 3, um * px_per_um, 3);
    svg_text(s, "", left + um * px_per_um + 9, y + 2, label);
}

void plot_map_draw(const struct plot_map *m, struct svg *s, double left, double top)
{
    const double width = m->scale * (double)m->nx, height = m->scale * (double)m->ny;
    const double bar = fmax(height, 150) - (m->counted < m->nx * m->ny ? 34 : 0);
    char title[128];
    snprintf(title, sizeof title, "Map of %s: %s", feature_name(m->map),
             result_map_kind(m->map)->meaning);
    top += HEAD;
    svg_markup(s, "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
                  "patternUnits=\"userSpaceOnUse\"><path d=\"M0 6L6 0\" stroke=\"#8a8a8a\"/>"
                  "</pattern></defs>\n");
    svg_text(s, "bold", left, top - 10, title);
    svg_rect(s, "hatched", left, top, width, height);
    draw_cells(m, s, left, top);
    svg_rect(s, "frame", left, top, width, height);
    draw_axes(m, s, left, top);
    if (!isnan(m->um_per_px))
        draw_scale(m, s, left, top + fmax(height, 150) + FOOT + 8);
    const double x = left + width + BAR_GAP;
    draw_bar(m, s, x, top, bar);
    if (m->counted == m->nx * m->ny)
        return;
    svg_rect(s, "hatched", x, top + bar + 16, BAR_WIDTH, 14);
    svg_rect(s, "frame", x, top + bar + 16, BAR_WIDTH, 14);
    svg_text(s, "", x + BAR_WIDTH + 9, top + bar + 28,
             result_is_sharpness(m->map) && m->slide->maps[RESULT_TISSUE].values
                 ? "glass or no value"
                 : "no value");
}
