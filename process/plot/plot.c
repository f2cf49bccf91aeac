/*
 * plot.c - `h5spec plot`: results as a picture, an SVG file.
 *
 * Up to PLOT_MOST_CURVES slides are drawn as one curve each, more as their median with two bands:
 * pointwise quantiles of the slides' normalised histograms. Equal inputs give equal bytes.
 */
#include "common/base/cli.h"
#include "common/base/command.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "common/result/result.h"
#include "process/draw/feature.h"
#include "process/draw/raster.h"
#include "process/draw/svg.h"
#include "process/options/commands.h"
#include "process/options/input_files.h"
#include "process/options/options.h"
#include "process/plot/plot_histogram.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLOT_MOST_CURVES = 12 };

struct plot_setup {
    const char *output; /* FILE.svg; an existing picture of ours is replaced */
    char *const *files; /* [n_files] results */
    int n_files;
    const char *const *patterns; /* [n_patterns] names or patterns of slides; none: all */
    int n_patterns;
    const char *title;        /* NULL: the slide's name or the number of slides; "": no title */
    bool map;                 /* add a map of the only slide */
    int feature;              /* enum result_map_number; -1: focus, or mean without it */
    bool colours;             /* map_low and map_high are set */
    double map_low, map_high; /* dB, the ends of the map's colours */
};

/*
 * --- the map ---
 *
 * The map of a slide's windows as a panel of a picture.
 *
 * A cell is a block of b x b windows, b as small as gives at most 200 cells along either side; its
 * colour is the mean of the windows in it that have a value. Cells without one are hatched.
 */

struct plot_map {
    const struct result_slide *slide; /* the caller's */
    int map;                          /* enum result_map_number: one that has a unit */
    int64_t nx, ny, block;            /* block: windows along a side of a cell */
    int64_t stride, origin;           /* px between windows; px of the map's upper left corner */
    double low, high;                 /* dB, the ends of the colours */
    double scale;                     /* px of the picture per window */
    double um_per_px;                 /* of the stored level; NaN: not known, and no scale bar */
    int64_t counted, below, above;    /* windows with a value, of them below `low`, above `high` */
};

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

/* Lays out a map of the slide so that it and its colour bar fit into `width` px. Returns the
 * panel's height in px, labels and scale bar included. */
static double plot_map_layout(struct plot_map *m, const struct result_params *p,
                              const struct result_slide *s, int map, double low, double high,
                              double width)
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
    svg_text_up(s, x + BAR_WIDTH + 54, top + height / 2, bar_text);
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
    svg_text_up(s, left - 52, top + height / 2, "y (px)");
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

static void plot_map_draw(const struct plot_map *m, struct svg *s, double left, double top)
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

/* --- the picture --- */

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

static void draw(struct plot *p)
{
    char title[1200];
    make_title(p, title, sizeof title);
    double top = title[0] ? TITLE + MARGIN : MARGIN;
    const double legend = top + plot_histogram_height(&p->histogram);
    const double map = legend + plot_histogram_legend_height(&p->histogram);
    const double caption = map + p->map_height;
    const double height = caption + caption_lines(p->caption, NULL, 0) * CAPTION_LINE + MARGIN;
    svg_begin(&p->svg, WIDTH, height, title[0] ? title : "Spectral histogram", sheet);
    if (title[0])
        svg_text(&p->svg, "title", LEFT, TITLE, title);
    plot_histogram_draw(&p->histogram, &p->svg, top);
    plot_histogram_draw_legend(&p->histogram, &p->svg, legend);
    if (p->map_height > 0)
        plot_map_draw(&p->map, &p->svg, LEFT, map);
    caption_lines(p->caption, &p->svg, caption);
}

static int map_of(const struct plot_setup *o)
{
    return o->feature < 0 ? RESULT_FOCUS : o->feature;
}

static void lay_out_map(struct plot *p)
{
    const struct plot_setup *o = p->setup;
    const struct result_slide *s = &p->c.slide;
    const int map = map_of(o);
    const struct result_map_kind *kind = result_map_kind(map);
    p->map_height =
        plot_map_layout(&p->map, &p->c.params, s, map, o->colours ? o->map_low : kind->low,
                        o->colours ? o->map_high : kind->high, RIGHT - LEFT);
}

static int make(struct plot *p, struct err *e)
{
    const struct plot_setup *o = p->setup;
    const unsigned maps = RESULT_WITH_MAP(map_of(o)) | RESULT_WITH_MAP(RESULT_TISSUE);
    if (curves_load(&p->c, o->files, o->n_files, o->patterns, o->n_patterns, o->map ? maps : 0, e))
        return -1;
    plot_histogram_make(&p->histogram, &p->c, p->c.n > PLOT_MOST_CURVES, LEFT, RIGHT);
    if (o->map)
        lay_out_map(p);
    add_parameters(p);
    add_notes(p);
    if (o->map)
        add_map(p);
    draw(p);
    return svg_write(&p->svg, o->output, e);
}

/* Draws and publishes the picture. On failure no file is created or changed. */
static int plot_write(const struct plot_setup *setup, struct err *e)
{
    struct plot p = {.setup = setup};
    const int bad = svg_check_target(setup->output, e) || make(&p, e) ? -1 : 0;
    svg_end(&p.svg);
    plot_histogram_free(&p.histogram);
    curves_free(&p.c);
    return bad;
}

/* --- the command line --- */

/* The values of the options. */
struct arguments {
    struct plot_setup setup;
    struct input_files files;
    const char **patterns; /* [setup.n_patterns], owned; the words belong to argv */
};

static int set_feature(void *ctx, const char *name, struct err *e)
{
    struct plot_setup *s = &((struct arguments *)ctx)->setup;
    s->feature = feature_find(name);
    return s->feature >= 0
               ? 0
               : err_set(e, "--feature %s: unknown; maps show %s", name, feature_words());
}

static int add_pattern(void *ctx, const char *arg, struct err *e)
{
    struct arguments *a = ctx;
    (void)e;
    choice_add(&a->patterns, &a->setup.n_patterns, arg);
    return 0;
}

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Output", 'o', "output", "FILE.svg",
     "file for the picture; only a picture drawn by h5spec is ever overwritten",
     COMMAND_TEXT(setup.output)},
    {NULL, 0, "title", "TEXT", "title; '' for none (default: the slide, or the number of slides)",
     COMMAND_TEXT(setup.title)},
    {"Input", 0, "slide", "NAME",
     "draw only slides of this name; a pattern such as 'TCGA-A1*' matches several; may be "
     "repeated",
     COMMAND_CALL(add_pattern)},
    OPTIONS_LIST(NULL),
    {"Map", 0, "map", NULL, "add a map of the windows of a single slide", COMMAND_FLAG(setup.map)},
    {NULL, 0, "feature", "NAME", "what the map shows; focus is sharpness (default: focus)",
     .words = feature_words, COMMAND_CALL(set_feature)},
    {"Advanced", 0, "colours", "LOW:HIGH",
     "dB at the ends of the map's colours (default: %s for focus)",
     COMMAND_SPAN(setup.map_low, -1000, 1000), COMMAND_GIVEN(setup.colours)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    const struct result_map_kind *focus = result_map_kind(RESULT_FOCUS);
    *(struct arguments *)ctx = (struct arguments){
        .setup = {.feature = -1, .map_low = focus->low, .map_high = focus->high}};
}

const struct command plot_options = {
    OPTIONS_COMMAND("plot", rows, set_defaults), .usage = "[options] -o FILE.svg RESULT...",
    .summary = "draw results as a picture",
    .details = "Draws the histograms of the slides of results as an SVG picture: a curve per slide "
               "for up to 12 slides, the median with bands of 5 to 95 % and 25 to 75 % of the "
               "slides for more. All results must have the same parameters. A RESULT is a file "
               "made by h5spec run or merge, or a folder that is searched for results.",
    .example = "h5spec plot --map -o slide.svg result.h5"};

/* -1 for a wrong combination of options. */
static int check(const struct arguments *a, struct err *e)
{
    if (!a->setup.output)
        return input_files_lacks_output(&a->files, "FILE.svg", e);
    if (!svg_is_name(a->setup.output))
        return err_set(e,
                       "-o %s: plot draws SVG pictures; name it FILE.svg, which browsers show "
                       "(h5spec map draws maps as PNG)",
                       a->setup.output);
    if (a->files.n == 0)
        return err_set(e, "no input file given");
    if (a->setup.colours && !(a->setup.map_high - a->setup.map_low >= 0.01))
        return err_set(e, "--colours %g:%g: HIGH must be above LOW by 0.01 dB or more",
                       a->setup.map_low, a->setup.map_high);
    if ((a->setup.colours || a->setup.feature >= 0) && !a->setup.map)
        return err_set(e, "%s has no effect without --map; add it",
                       a->setup.colours ? "--colours" : "--feature");
    return 0;
}

static int run(struct arguments *a, int argc, char **argv)
{
    struct err e = {0};
    int first;
    const int status = command_parse(&plot_options, argc, argv, a, &first);
    if (status >= 0)
        return status;
    a->setup.patterns = a->patterns;
    input_files_add_words(&a->files, argv + first, argc - first);
    if (check(a, &e))
        return command_usage_error(&plot_options, &e);
    publish_clean(a->setup.output); /* however this run ends */
    input_files_expand(&a->files, INPUT_RESULTS);
    if (output_is_no_input("-o", a->setup.output, a->files.paths, a->files.n, &e))
        return command_usage_error(&plot_options, &e);
    if (a->files.failed > 0) /* they are reported; a picture without them would mislead */
        return input_files_status(&a->files);
    a->setup.files = a->files.paths;
    a->setup.n_files = a->files.n;
    stop_catch_signals();
    return plot_write(&a->setup, &e) ? cli_failed(&e) : EXIT_DONE;
}

int plot_main(int argc, char **argv)
{
    struct arguments a;
    const int status = run(&a, argc, argv);
    input_files_free(&a.files);
    free(a.patterns);
    return status;
}
