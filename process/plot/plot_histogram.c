/* plot_histogram.c - see plot_histogram.h. */
#include "process/plot/plot_histogram.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "common/result/result_read.h"
#include "process/options/input_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- curves --- */

#define CELL_DB 0.5 /* width of a cell, if bins are not wider */
#define TAIL 0.0005 /* share of the values that may lie outside the axis, on each side */

/* --- cells --- */

static double bin_width(const struct curves *c)
{
    return (c->params.high_db - c->params.low_db) / (double)c->params.bins;
}

static void set_cells(struct curves *c)
{
    const double bins = floor(CELL_DB / bin_width(c) * (1 + 1e-9));
    c->cell_bins = bins < 1 ? 1 : bins > (double)c->params.bins ? c->params.bins : (int64_t)bins;
    c->cells = (c->params.bins + c->cell_bins - 1) / c->cell_bins;
}

/* Edges of a cell, dB. */
static double curves_low(const struct curves *c, int64_t cell)
{
    return c->params.low_db + bin_width(c) * (double)(cell * c->cell_bins);
}

static double curves_high(const struct curves *c, int64_t cell)
{
    return cell + 1 < c->cells ? curves_low(c, cell + 1) : c->params.high_db;
}

static double *shares_of(const struct curves *c, const struct result_counts *counts)
{
    double *share = memory_need((size_t)c->cells, sizeof *share);
    const double all = (double)result_samples(&c->params, counts);
    for (int64_t k = 0; k < c->cells; k++) {
        uint64_t n = 0;
        for (int64_t b = k * c->cell_bins; b < (k + 1) * c->cell_bins && b < c->params.bins; b++)
            n += counts->histogram[b];
        share[k] = (double)n / all / (curves_high(c, k) - curves_low(c, k));
    }
    return share;
}

/* --- loading --- */

static bool misses_a_group(const struct result_slide *s)
{
    return memchr(s->groups, 0, (size_t)s->group_count) != NULL;
}

static void add_slide(struct curves *c, const char *file, const struct result_slide *s)
{
    if (s->counts.windows == 0) {
        c->empty++;
        return;
    }
    c->list = memory_grow(c->list, c->n, sizeof *c->list);
    struct curve *one = &c->list[c->n++];
    *one = (struct curve){.file = file,
                          .windows = s->counts.windows,
                          .name = memory_copy(s->name),
                          .share = shares_of(c, &s->counts)};
    result_moments(&c->params, s->counts.histogram, &one->mean, &one->std);
    result_add_counts(&c->all, &s->counts, c->params.bins);
    c->partial += misses_a_group(s);
    c->gray += s->source_gray;
}

static int load_slide(struct curves *c, struct result *r, int64_t k, const char *file,
                      unsigned parts, struct err *e)
{
    struct result_slide s;
    if (result_load_parts(r, k, result_parts_in_file(r) | parts, &s, e))
        return -1;
    add_slide(c, file, &s);
    if (parts)
        c->slide = s;
    else
        result_slide_free(&s);
    return 0;
}

static void begin(struct curves *c, const struct result_params *p)
{
    c->params = *p;
    c->all.histogram = memory_need((size_t)p->bins, sizeof *c->all.histogram);
    set_cells(c);
}

static int load_file(struct curves *c, const char *file, struct choice *w, unsigned parts,
                     struct err *e)
{
    struct result *r = result_open(file, e);
    struct err line = {0};
    bool *changed = r ? result_find_changed(r, &line) : NULL;
    int bad = r ? 0 : -1;
    if (*line.msg)
        cli_say("%s", line.msg);
    if (r && c->cells == 0)
        begin(c, result_params(r));
    else if (r && result_same_params(&c->params, result_params(r), e))
        bad = err_add(e, "%s: parameters differ from those of the results before it", file);
    for (int64_t k = 0; !bad && k < result_slides(r); k++) {
        if (!choice_has(w, result_slide_name(r, k)))
            continue;
        if (stop_check(e))
            bad = -1;
        else if (changed && changed[k])
            bad = result_refuse_changed(r, k, e);
        else if (parts && c->n + c->empty > 0)
            bad = err_set(e, "--map shows one slide, but several are chosen; name it with --slide");
        else
            bad = load_slide(c, r, k, file, parts, e);
    }
    free(changed);
    result_close(r);
    return bad;
}

static int check_choice(const struct curves *c, const struct choice *w, const char *file,
                        struct err *e)
{
    if (choice_check(w, e))
        return -1;
    if (c->n > 0)
        return 0;
    return err_set(e, "%s: nothing to draw: %s", file,
                   c->empty ? "no window of the slide was counted" : "the result has no slide");
}

int curves_load(struct curves *c, char *const *files, int n_files, const char *const *patterns,
                int n_patterns, unsigned parts, struct err *e)
{
    struct choice w;
    *c = (struct curves){0};
    int bad = 0;
    choice_begin(&w, patterns, n_patterns);
    for (int k = 0; k < n_files && !bad; k++)
        bad = load_file(c, files[k], &w, parts, e);
    if (!bad)
        bad = check_choice(c, &w, files[0], e);
    choice_end(&w);
    return bad;
}

void curves_free(struct curves *c)
{
    for (int64_t k = 0; k < c->n; k++) {
        free(c->list[k].name);
        free(c->list[k].share);
    }
    free(c->list);
    free(c->all.histogram);
    result_slide_free(&c->slide);
    *c = (struct curves){0};
}

/* --- statistics over the curves --- */

/* out[cells]: the mean of the curves, each slide with the same weight. */
static void curves_mean(const struct curves *c, double *out)
{
    for (int64_t cell = 0; cell < c->cells; cell++) {
        double sum = 0;
        for (int64_t k = 0; k < c->n; k++)
            sum += c->list[k].share[cell];
        out[cell] = sum / (double)c->n;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of n sorted values. */
static double quantile(const double *sorted, int64_t n, double q)
{
    const double at = q * (double)(n - 1);
    const int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

/* out[n][cells]: in each cell the quantiles q[n] (0 to 1) of the curves, linear between them. */
static void curves_quantiles(const struct curves *c, const double *q, int n, double *const *out)
{
    double *values = memory_need((size_t)c->n, sizeof *values);
    for (int64_t cell = 0; cell < c->cells; cell++) {
        for (int64_t k = 0; k < c->n; k++)
            values[k] = c->list[k].share[cell];
        qsort(values, (size_t)c->n, sizeof *values, by_value);
        for (int k = 0; k < n; k++)
            out[k][cell] = quantile(values, c->n, q[k]);
    }
    free(values);
}

/* Part of the values in a cell. */
static double mass(const struct curves *c, const double *share, int64_t cell)
{
    return share[cell] * (curves_high(c, cell) - curves_low(c, cell));
}

/* Widens [*low, *high] to what holds a curve but for 0.05 % of its values on each side. */
static void curves_fit(const struct curves *c, const double *share, double *low, double *high)
{
    int64_t first = 0, last = c->cells - 1;
    double below = 0, above = 0;
    while (first < last && (below += mass(c, share, first)) <= TAIL)
        first++;
    while (last > first && (above += mass(c, share, last)) <= TAIL)
        last--;
    *low = fmin(*low, curves_low(c, first));
    *high = fmax(*high, curves_high(c, last));
}

/* Share of a slide's values outside [low, high]; those of a cell that is cut count as outside. */
static double curves_outside(const struct curves *c, const double *share, double low, double high)
{
    double inside = 0;
    for (int64_t k = 0; k < c->cells; k++)
        if (curves_low(c, k) >= low - 1e-9 && curves_high(c, k) <= high + 1e-9)
            inside += mass(c, share, k);
    return fmax(0, 1 - inside);
}

/* px: the panel, a row of the legend, a row of the bars above the panel, the axis below it; cells
 * that are wider than WIDE are drawn as steps */
enum { PANEL = 290, ROW = 17, BAR_ROW = 10, FOOT = 48, WIDE = 8 };
enum { NAME_COLUMNS = 50 };
#define SPIKE_DB 1.0 /* values of flat windows lie below: a spike that would flatten all curves */

/* Colours that people who cannot tell red from green see as different (Okabe and Ito), and dashes.
 * Twelve slides get twelve pairs; slides with the same dashes differ in brightness. */
static const char *const colours[] = {"#000000", "#0072b2", "#d55e00",
                                      "#009e73", "#56b4e9", "#e69f00"};
static const char *const dashes[] = {"none", "7 3", "2 2", "9 2 2 2"};
enum { N_COLOURS = sizeof colours / sizeof *colours, N_DASHES = sizeof dashes / sizeof *dashes };
static const char median_style[] = "stroke=\"#08306b\" stroke-dasharray=\"none\"";

static const double probabilities[PLOT_QUANTILES] = {0.05, 0.25, 0.5, 0.75, 0.95};

/* Attributes of the line of slide k. */
static const char *line_style(int64_t k, char out[96])
{
    snprintf(out, 96, "stroke=\"%s\" stroke-dasharray=\"%s\"", colours[k % N_COLOURS],
             dashes[k % N_DASHES]);
    return out;
}

/* --- numbers --- */

static void make_bands(struct plot_histogram *h)
{
    const size_t cells = (size_t)h->c->cells;
    h->mean = memory_need(cells, sizeof *h->mean);
    curves_mean(h->c, h->mean);
    for (int k = 0; k < PLOT_QUANTILES; k++)
        h->quantiles[k] = memory_need(cells, sizeof(double));
    curves_quantiles(h->c, probabilities, PLOT_QUANTILES, h->quantiles);
}

/* The largest share of cells that begin at `from` dB or above. */
static double largest(const struct curves *c, const double *share, double from)
{
    double most = 0;
    for (int64_t k = 0; k < c->cells; k++)
        if (curves_low(c, k) >= from - 1e-9)
            most = fmax(most, share[k]);
    return most;
}

/* The largest share that is drawn, of cells that begin at `from` or above. */
static double highest(const struct plot_histogram *h, double from)
{
    double most = h->band ? largest(h->c, h->quantiles[PLOT_QUANTILES - 1], from) : 0;
    for (int64_t k = 0; k < h->c->n && !h->band; k++)
        most = fmax(most, largest(h->c, h->c->list[k].share, from));
    return most;
}

/* The range of dB that holds the curves. */
static void find_range(const struct plot_histogram *h, double *low, double *high)
{
    const struct curves *c = h->c;
    *low = c->params.high_db;
    *high = c->params.low_db;
    if (h->band)
        curves_fit(c, h->mean, low, high);
    for (int64_t k = 0; k < c->n && !h->band; k++)
        curves_fit(c, c->list[k].share, low, high);
    if (*low < *high)
        return;
    *low = c->params.low_db; /* no value lies in the histogram's range */
    *high = c->params.high_db;
}

static void make_axes(struct plot_histogram *h, double left, double right)
{
    double low, high;
    find_range(h, &low, &high);
    const double step = axis_step(high - low, 14), half = step / 2;
    low = floor(low / half + 1e-9) * half;
    high = ceil(high / half - 1e-9) * half;
    h->x = (struct axis){low, high, step, left, right};
    const double above = highest(h, SPIKE_DB), most = above > 0 ? above : highest(h, -INFINITY);
    const double percent = most > 0 ? 100 * most * 1.04 : 1;
    h->cut = 100 * highest(h, -INFINITY);
    if (h->cut <= percent)
        h->cut = 0;
    h->y = (struct axis){0, percent, axis_step(percent, 6), 0, 0};
    for (int64_t k = 0; k < h->c->n; k++)
        h->outside = fmax(h->outside, curves_outside(h->c, h->c->list[k].share, low, high));
}

void plot_histogram_make(struct plot_histogram *h, const struct curves *c, bool band, double left,
                         double right)
{
    *h = (struct plot_histogram){.c = c, .band = band};
    if (band)
        make_bands(h);
    make_axes(h, left, right);
}

void plot_histogram_free(struct plot_histogram *h)
{
    for (int k = 0; k < PLOT_QUANTILES; k++)
        free(h->quantiles[k]);
    free(h->mean);
    *h = (struct plot_histogram){0};
}

/* --- curves --- */

/* Appends the points of a curve to a path that begins with `first`, from left to right, or `back`
 * from right to left: the middles of the cells, or both ends of cells that are wide in the
 * picture. */
static void add_points(const struct plot_histogram *h, struct svg *s, const double *share,
                       bool back, const char *first)
{
    const int64_t n = h->c->cells;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = back ? n - 1 - i : i;
        const double low = curves_low(h->c, k), high = curves_high(h->c, k);
        if (high <= h->x.low + 1e-9 || low >= h->x.high - 1e-9)
            continue;
        const double a = axis_px(&h->x, back ? high : low), b = axis_px(&h->x, back ? low : high);
        const double y = axis_px(&h->y, 100 * share[k]);
        if (fabs(b - a) > WIDE)
            svg_markup(s, "%s%.2f %.3f %.2f %.3f", first, a, y, b, y);
        else
            svg_markup(s, "%s%.2f %.3f", first, (a + b) / 2, y);
        first = " ";
    }
}

static void draw_line(const struct plot_histogram *h, struct svg *s, const char *style,
                      const char *name, const double *share)
{
    svg_markup(s, "<path class=\"curve\" %s d=\"", style);
    add_points(h, s, share, false, "M");
    svg_markup(s, "\"><title>");
    svg_escape(s, name);
    svg_markup(s, "</title></path>\n");
}

static void draw_band(const struct plot_histogram *h, struct svg *s, const char *style,
                      const double *low, const double *high)
{
    svg_markup(s, "<path class=\"%s\" d=\"", style);
    add_points(h, s, high, false, "M");
    add_points(h, s, low, true, "L");
    svg_markup(s, "Z\"/>\n");
}

static void draw_area(const struct plot_histogram *h, struct svg *s, const double *share)
{
    svg_markup(s, "<path class=\"area\" d=\"");
    add_points(h, s, share, false, "M");
    svg_markup(s, "V%.2fH%.2fZ\"/>\n", h->y.from, h->x.from);
}

static void draw_curves(const struct plot_histogram *h, struct svg *s)
{
    char style[96];
    if (h->band) {
        draw_band(h, s, "outer", h->quantiles[0], h->quantiles[4]);
        draw_band(h, s, "inner", h->quantiles[1], h->quantiles[3]);
        draw_line(h, s, median_style, "median", h->quantiles[2]);
        return;
    }
    if (h->c->n == 1)
        draw_area(h, s, h->c->list[0].share);
    for (int64_t k = 0; k < h->c->n; k++)
        draw_line(h, s, line_style(k, style), h->c->list[k].name, h->c->list[k].share);
}

/* --- mean and standard deviation --- */

/* A bar from mean - std to mean + std with a dot at the mean; an end that the axis cuts has no
 * cap. */
static void draw_bar(const struct plot_histogram *h, struct svg *s, const char *style, double y,
                     double mean, double std)
{
    const double from = axis_px(&h->x, mean - std), to = axis_px(&h->x, mean + std);
    const double cap = 3.5;
    svg_markup(s, "<path class=\"bar\" %s d=\"M%.2f %.2fH%.2f", style, from, y, to);
    if (mean - std >= h->x.low)
        svg_markup(s, "M%.2f %.2fV%.2f", from, y - cap, y + cap);
    if (mean + std <= h->x.high)
        svg_markup(s, "M%.2f %.2fV%.2f", to, y - cap, y + cap);
    svg_markup(s, "\"/>\n<circle class=\"bar dot\" %s cx=\"%.2f\" cy=\"%.2f\" r=\"3.2\"/>\n", style,
               axis_px(&h->x, mean), y);
}

static int64_t bars(const struct plot_histogram *h)
{
    return h->band ? 1 : h->c->n;
}

static void moments(const struct plot_histogram *h, int64_t k, double *mean, double *std)
{
    *mean = h->c->list[k].mean;
    *std = h->c->list[k].std;
    if (h->band)
        result_moments(&h->c->params, h->c->all.histogram, mean, std);
}

static void draw_bars(const struct plot_histogram *h, struct svg *s, double top, double bottom)
{
    char style[96];
    double mean, std;
    for (int64_t k = 0; k < bars(h); k++) {
        moments(h, k, &mean, &std);
        if (isnan(mean))
            continue;
        const double y = top + (double)k * BAR_ROW + BAR_ROW / 2.0;
        if (bars(h) == 1)
            svg_line(s, "mean", axis_px(&h->x, mean), y, axis_px(&h->x, mean), bottom);
        draw_bar(h, s, h->band ? median_style : line_style(k, style), y, mean, std);
    }
}

/* --- the panel --- */

static double bars_height(const struct plot_histogram *h)
{
    return (double)bars(h) * BAR_ROW + 6;
}

double plot_histogram_height(const struct plot_histogram *h)
{
    return bars_height(h) + PANEL + FOOT;
}

void plot_histogram_draw(struct plot_histogram *h, struct svg *s, double top)
{
    char label[128];
    const double left = h->x.from, right = h->x.to;
    const double upper = top + bars_height(h), lower = upper + PANEL;
    h->y.from = lower;
    h->y.to = upper;
    axis_draw_below(s, &h->x, lower, upper);
    axis_draw_left(s, &h->y, left, right);
    draw_curves(h, s);
    draw_bars(h, s, top, lower);
    if (h->cut > 0)
        svg_textf(s, "", left + 8, upper + 14, "cut: below %g dB up to %.3g %% per dB", SPIKE_DB,
                  h->cut);
    svg_rect(s, "frame", left, upper, right - left, PANEL);
    snprintf(label, sizeof label, "log magnitude, 20 log10(|F| + %g) (dB)", h->c->params.offset);
    svg_text(s, "middle", (left + right) / 2, lower + 38, label);
    svg_text_up(s, left - 46, (upper + lower) / 2, "share of the values per dB (%)");
}

/* --- the legend: a table with a row per line of the panel --- */

/* px from the panel's left edge to what the columns hold */
enum { NAME = 44, WINDOWS = 480, MEAN = 570, STD = 664, SAMPLE = 34 };

static void legend_numbers(const struct plot_histogram *h, struct svg *s, double y, int64_t windows,
                           double mean, double std)
{
    char text[64];
    const double left = h->x.from;
    svg_text(s, "end", left + WINDOWS, y, axis_number(text, (double)windows, 0));
    svg_text(s, "end", left + MEAN, y, isnan(mean) ? "-" : axis_number(text, mean, 2));
    svg_text(s, "end", left + STD, y, isnan(std) ? "-" : axis_number(text, std, 2));
}

static void legend_head(const struct plot_histogram *h, struct svg *s, double y)
{
    const double left = h->x.from;
    svg_text(s, "bold", left + NAME, y, h->band ? "slides" : "slide");
    svg_text(s, "bold end", left + WINDOWS, y, "windows");
    svg_text(s, "bold end", left + MEAN, y, "mean (dB)");
    svg_text(s, "bold end", left + STD, y, "std (dB)");
}

static void legend_line(const struct plot_histogram *h, struct svg *s, double y, const char *style)
{
    svg_markup(s, "<path class=\"curve\" %s d=\"M%.2f %.2fh%d\"/>\n", style, h->x.from, y - 4,
               SAMPLE);
}

/* Two slides of one name are told apart by their files. */
static void slide_label(const struct curves *c, int64_t k, char out[1024])
{
    char label[1024];
    snprintf(label, sizeof label, "%s", c->list[k].name);
    for (int64_t other = 0; other < c->n; other++)
        if (other != k && !strcmp(c->list[other].name, c->list[k].name))
            snprintf(label, sizeof label, "%s: %s", c->list[k].file, c->list[k].name);
    text_fit(out, 1024, label, NAME_COLUMNS);
}

static void legend_slides(const struct plot_histogram *h, struct svg *s, double y)
{
    char style[96], label[1024];
    for (int64_t k = 0; k < h->c->n; k++, y += ROW) {
        const struct curve *one = &h->c->list[k];
        legend_line(h, s, y, line_style(k, style));
        slide_label(h->c, k, label);
        svg_text(s, "", h->x.from + NAME, y, label);
        legend_numbers(h, s, y, one->windows, one->mean, one->std);
    }
}

static void legend_bands(const struct plot_histogram *h, struct svg *s, double y)
{
    double mean, std;
    const double left = h->x.from;
    moments(h, 0, &mean, &std);
    legend_line(h, s, y, median_style);
    svg_textf(s, "", left + NAME, y, "median of %" PRId64 " slides; numbers: all their values",
              h->c->n);
    legend_numbers(h, s, y, h->c->all.windows, mean, std);
    svg_rect(s, "inner", left, y + ROW - 10, SAMPLE, 11);
    svg_text(s, "", left + NAME, y + ROW, "25 % to 75 % quantile of the slides, in each step");
    svg_rect(s, "outer", left, y + 2 * ROW - 10, SAMPLE, 11);
    svg_text(s, "", left + NAME, y + 2 * ROW, "5 % to 95 % quantile of the slides, in each step");
}

double plot_histogram_legend_height(const struct plot_histogram *h)
{
    return (double)(1 + (h->band ? 3 : h->c->n)) * ROW + 12;
}

void plot_histogram_draw_legend(const struct plot_histogram *h, struct svg *s, double top)
{
    legend_head(h, s, top + ROW);
    if (h->band)
        legend_bands(h, s, top + 2 * ROW);
    else
        legend_slides(h, s, top + 2 * ROW);
}
