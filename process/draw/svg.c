/* svg.c - see svg.h. */
#include "process/draw/svg.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "process/draw/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How our pictures begin: only files that begin like this are ever replaced. */
static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<!-- drawn by h5spec -->\n"
                           "<svg xmlns=\"http://www.w3.org/2000/svg\"";

void svg_begin(struct svg *s, double width, double height, const char *title, const char *sheet)
{
    *s = (struct svg){0};
    s->f = memory_stream(&s->text, &s->bytes);
    fputs(head, s->f);
    svg_markup(s, " width=\"%.0f\" height=\"%.0f\"", width, height);
    svg_markup(s, " viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>", width, height);
    svg_escape(s, title);
    svg_markup(s, "</title>\n<style>\n%s</style>\n", sheet);
    svg_markup(s, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
}

/* --- shapes --- */

void svg_markup(struct svg *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(s->f, fmt, ap);
    va_end(ap);
}

static void style_of(struct svg *s, const char *style)
{
    if (style[0])
        fprintf(s->f, " class=\"%s\"", style);
}

void svg_line(struct svg *s, const char *style, double x1, double y1, double x2, double y2)
{
    fputs("<line", s->f);
    style_of(s, style);
    svg_markup(s, " x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", x1, y1, x2, y2);
}

void svg_rect(struct svg *s, const char *style, double x, double y, double width, double height)
{
    fputs("<rect", s->f);
    style_of(s, style);
    svg_markup(s, " x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", x, y, width, height);
}

/* --- text --- */

void svg_escape(struct svg *s, const char *text)
{
    html_text(s->f, text);
}

void svg_text(struct svg *s, const char *style, double x, double y, const char *text)
{
    fputs("<text", s->f);
    style_of(s, style);
    svg_markup(s, " x=\"%.2f\" y=\"%.2f\">", x, y);
    svg_escape(s, text);
    fputs("</text>\n", s->f);
}

void svg_textf(struct svg *s, const char *style, double x, double y, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    svg_text(s, style, x, y, text);
}

void svg_text_up(struct svg *s, double x, double y, const char *text)
{
    fputs("<text", s->f);
    style_of(s, "middle");
    svg_markup(s, " transform=\"translate(%.2f %.2f) rotate(-90)\">", x, y);
    svg_escape(s, text);
    fputs("</text>\n", s->f);
}

/* --- the file --- */

bool svg_is_name(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && !strcasecmp(path + n - 4, ".svg") && path[n - 5] != '/';
}

int svg_check_target(const char *path, struct err *e)
{
    return text_file_check(path, head, "a picture drawn by h5spec", e);
}

int svg_write(struct svg *s, const char *path, struct err *e)
{
    struct publish p;
    fputs("</svg>\n", s->f);
    memory_stream_end(s->f);
    s->f = NULL;
    if (svg_check_target(path, e) || publish_begin(&p, path, e))
        return -1;
    if (write_whole(p.fd, s->text, s->bytes)) {
        err_write(e, "%s: cannot write the picture", path);
        publish_abort(&p);
        return -1;
    }
    return publish_commit(&p, e);
}

void svg_end(struct svg *s)
{
    if (s->f)
        fclose(s->f);
    free(s->text);
    *s = (struct svg){0};
}

/* --- axes --- */

double axis_step(double span, int most)
{
    static const double factors[] = {1, 2, 5};
    const double least = span / most;
    double power = pow(10, floor(log10(least)) - 1);
    for (;; power *= 10)
        for (int k = 0; k < 3; k++)
            if (factors[k] * power >= least * (1 - 1e-9))
                return factors[k] * power;
}

double axis_px(const struct axis *a, double value)
{
    const double t = (value - a->low) / (a->high - a->low);
    return a->from + fmin(fmax(t, 0), 1) * (a->to - a->from);
}

const char *axis_number(char out[64], double value, int digits)
{
    char plain[48];
    snprintf(plain, sizeof plain, "%.*f", digits, value);
    const size_t whole = strcspn(plain, "."), sign = plain[0] == '-';
    size_t n = 0;
    for (size_t k = 0; plain[k]; k++) {
        if (k > sign && k < whole && (whole - k) % 3 == 0)
            out[n++] = ',';
        out[n++] = plain[k];
    }
    out[n] = 0;
    return out;
}

static int digits_of(double step)
{
    const int digits = (int)ceil(-log10(step) - 1e-9);
    return digits < 0 ? 0 : digits > 9 ? 9 : digits;
}

int axis_tick(const struct axis *a, int k, double *value, char label[64])
{
    *value = a->step * (ceil(a->low / a->step - 1e-9) + k);
    if (*value > a->high + 1e-9 * a->step)
        return 0;
    if (fabs(*value) < 1e-9 * a->step)
        *value = 0;
    axis_number(label, *value, digits_of(a->step));
    return 1;
}

void axis_draw_below(struct svg *s, const struct axis *a, double y, double end)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double x = axis_px(a, value);
        if (end < y)
            svg_line(s, "grid", x, y, x, end);
        svg_line(s, "tick", x, y, x, y + 5);
        svg_text(s, "middle", x, y + 19, label);
    }
}

void axis_draw_left(struct svg *s, const struct axis *a, double x, double end)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double y = axis_px(a, value);
        if (end > x)
            svg_line(s, "grid", x, y, end, y);
        svg_line(s, "tick", x - 5, y, x, y);
        svg_text(s, "end", x - 9, y + 4.5, label);
    }
}

void axis_draw_right(struct svg *s, const struct axis *a, double x)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double y = axis_px(a, value);
        svg_line(s, "tick", x, y, x + 5, y);
        svg_text(s, "", x + 9, y + 4.5, label);
    }
}
