/* plot.c - see plot.h. */
#include "process/plot/plot.h"

#include "common/base/text.h"
#include "process/draw/feature.h"
#include "process/draw/svg.h"
#include "process/map/map_source.h"
#include "process/plot/plot_histogram.h"
#include "process/plot/plot_map.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { WIDTH = 760, LEFT = 70, RIGHT = 736, TITLE = 30, MARGIN = 14 }; /* px */
enum { CAPTION_LINE = 15, CAPTION_COLUMNS = 118, TITLE_COLUMNS = 74 };

static const char sheet[] =
    "text { font: 12px Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif }\n"
    "text { fill: #222 }\n"
    ".title { font-size: 16px; font-weight: bold } .bold { font-weight: bold }\n"
    ".caption { font-size: 11px; fill: #444 }\n"
    ".middle { text-anchor: middle } .end { text-anchor: end }\n"
    ".grid { stroke: #e3e3e3 } .tick { stroke: #444 } .frame { fill: none; stroke: #444 }\n"
    ".curve { fill: none; stroke-width: 1.6; stroke-linejoin: round }\n"
    ".bar { fill: #fff; stroke-width: 1.6 } .mean { stroke: #777; stroke-dasharray: 2 3 }\n"
    ".dot { stroke-dasharray: none }\n"
    ".area { fill: #000; fill-opacity: 0.1 }\n"
    ".outer { fill: #c9dcef; stroke: #9dbfe0; stroke-width: 0.5 }\n"
    ".inner { fill: #7fabd6 }\n"
    ".scale { fill: #222 } .crisp { shape-rendering: crispEdges }\n"
    ".hatched { fill: url(#hatch) }\n";

/* A picture being made. */
struct plot {
    const struct plot_setup *setup;
    struct curves c;
    struct plot_histogram histogram;
    struct plot_map map;
    double map_height; /* px; 0 without a map */
    struct svg svg;
    char caption[4096];
};

/* --- the caption: how the numbers were made, and what the picture does not show --- */

static void add(struct plot *p, const char *fmt, ...) ERR_PRINTF(2, 3);
static void add(struct plot *p, const char *fmt, ...)
{
    const size_t n = strlen(p->caption);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->caption + n, sizeof p->caption - n, fmt, ap);
    va_end(ap);
}

static void add_parameters(struct plot *p)
{
    char bins[64];
    const struct result_params *r = &p->c.params;
    const double width = (r->high_db - r->low_db) / (double)r->bins;
    add(p, "Windows of %" PRId64 " x %" PRId64 " px, stride %" PRId64 " px; ", r->window, r->window,
        r->stride);
    if (r->sigma > 0)
        add(p, "Gaussian smoothing, sigma %g px; ", r->sigma);
    else
        add(p, "no smoothing; ");
    add(p, "%s taper; %s bins of %.6g dB from %g to %g dB, drawn in steps of %.6g dB.", r->taper,
        axis_number(bins, (double)r->bins, 0), width, r->low_db, r->high_db,
        width * (double)p->c.cell_bins);
    if (r->tissue_only)
        add(p, " Only windows with at least %g %% tissue.", 100 * r->min_tissue);
    if (r->roi)
        add(p, " Only windows inside regions (%g %% of the area).", 100 * r->min_roi);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void add_notes(struct plot *p)
{
    const struct curves *c = &p->c;
    const double percent = 100 * p->histogram.outside;
    add(p, " The %s above the panel show%s mean and standard deviation.",
        c->n == 1 || p->histogram.band ? "bar" : "bars", c->n == 1 || p->histogram.band ? "s" : "");
    if (percent < 0.0005)
        add(p, " No values lie outside the axis.");
    else
        add(p, " Outside the axis: %s%.3f %% of %s values.", c->n > 1 ? "at most " : "", percent,
            c->n > 1 ? "a slide's" : "the");
    if (c->gray > 0)
        add(p, " %" PRId64 " slide%s from 8-bit gray.", c->gray, plural(c->gray));
    if (c->partial > 0)
        add(p, " %" PRId64 " slide%s incomplete: groups are missing.", c->partial,
            c->partial == 1 ? " is" : "s are");
    if (c->empty > 0)
        add(p, " Not shown: %" PRId64 " slide%s without counted windows.", c->empty,
            plural(c->empty));
}

static void add_map(struct plot *p)
{
    const struct plot_map *m = &p->map;
    const double all = m->counted ? (double)m->counted / 100 : 1;
    if (m->block > 1)
        add(p, " Map: each cell is the mean of %" PRId64 " x %" PRId64 " windows.", m->block,
            m->block);
    else
        add(p, " Map: each cell is a window.");
    if (m->below > 0 || m->above > 0)
        add(p, " Outside the colours: %.2f %% of the windows below, %.2f %% above.",
            (double)m->below / all, (double)m->above / all);
}

/* Bytes of the next line of the caption: at most CAPTION_COLUMNS, cut at a blank. */
static size_t line_length(const char *text)
{
    size_t n = strlen(text);
    if (n <= CAPTION_COLUMNS)
        return n;
    for (n = CAPTION_COLUMNS; n > 0 && text[n] != ' ';)
        n--;
    return n ? n : CAPTION_COLUMNS;
}

/* Draws the caption; with `svg` NULL it only counts. Returns the number of lines. */
static int caption_lines(const char *text, struct svg *svg, double top)
{
    int lines = 0;
    for (size_t n; *text; text += n + (text[n] == ' '), lines++) {
        n = line_length(text);
        if (svg)
            svg_textf(svg, "caption", LEFT, top + CAPTION_LINE * (lines + 1), "%.*s", (int)n, text);
    }
    return lines;
}

/* --- the picture --- */

static void make_title(const struct plot *p, char *out, size_t size)
{
    char text[1024];
    if (p->setup->title)
        snprintf(text, sizeof text, "%s", p->setup->title);
    else if (p->c.n == 1)
        snprintf(text, sizeof text, "Spectral histogram of %s", p->c.list[0].name);
    else
        snprintf(text, sizeof text, "Spectral histograms of %" PRId64 " slides", p->c.n);
    text_fit(out, size, text, TITLE_COLUMNS);
}

static int draw(struct plot *p, struct err *e)
{
    char title[1200];
    make_title(p, title, sizeof title);
    double top = title[0] ? TITLE + MARGIN : MARGIN;
    const double legend = top + plot_histogram_height(&p->histogram);
    const double map = legend + plot_histogram_legend_height(&p->histogram);
    const double caption = map + p->map_height;
    const double height = caption + caption_lines(p->caption, NULL, 0) * CAPTION_LINE + MARGIN;
    if (svg_begin(&p->svg, WIDTH, height, title[0] ? title : "Spectral histogram", sheet, e))
        return -1;
    if (title[0])
        svg_text(&p->svg, "title", LEFT, TITLE, title);
    plot_histogram_draw(&p->histogram, &p->svg, top);
    plot_histogram_draw_legend(&p->histogram, &p->svg, legend);
    if (p->map_height > 0)
        plot_map_draw(&p->map, &p->svg, LEFT, map);
    caption_lines(p->caption, &p->svg, caption);
    return 0;
}

static void lay_out_map(struct plot *p)
{
    const struct plot_setup *o = p->setup;
    const struct result_slide *s = &p->c.slide;
    const int map = o->feature < 0 ? RESULT_FOCUS : o->feature;
    const struct result_map_kind *kind = result_map_kind(map);
    p->map_height =
        plot_map_layout(&p->map, &p->c.params, s, map, o->colours ? o->map_low : kind->low,
                        o->colours ? o->map_high : kind->high, RIGHT - LEFT);
}

static int make(struct plot *p, struct err *e)
{
    const struct plot_setup *o = p->setup;
    if (curves_load(&p->c, o->files, o->n_files, o->patterns, o->n_patterns, o->map, e))
        return -1;
    if (o->band && p->c.n < 3)
        return err_set(e, "--band: needs at least 3 slides with counted windows, not %" PRId64,
                       p->c.n);
    const bool band = o->band || p->c.n > PLOT_MOST_CURVES;
    plot_histogram_make(&p->histogram, &p->c, band, LEFT, RIGHT);
    if (o->map)
        lay_out_map(p);
    add_parameters(p);
    add_notes(p);
    if (o->map)
        add_map(p);
    return draw(p, e) || svg_write(&p->svg, o->output, e) ? -1 : 0;
}

int plot_write(const struct plot_setup *setup, int64_t *slides, struct err *e)
{
    struct plot p = {.setup = setup};
    const int bad = svg_check_target(setup->output, e) || make(&p, e) ? -1 : 0;
    *slides = p.c.n;
    svg_end(&p.svg);
    plot_histogram_free(&p.histogram);
    curves_free(&p.c);
    return bad;
}
