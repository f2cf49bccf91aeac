/* svg.c - see svg.h. */
#include "process/draw/svg.h"

#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "process/draw/html.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How our pictures begin: only files that begin like this are ever replaced. */
static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<!-- drawn by h5spec -->\n"
                           "<svg xmlns=\"http://www.w3.org/2000/svg\"";

int svg_begin(struct svg *s, double width, double height, const char *title, const char *sheet,
              struct err *e)
{
    *s = (struct svg){0};
    s->f = open_memstream(&s->text, &s->bytes);
    if (!s->f)
        return err_set(e, "out of memory");
    fputs(head, s->f);
    svg_markup(s, " width=\"%.0f\" height=\"%.0f\"", width, height);
    svg_markup(s, " viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>", width, height);
    svg_escape(s, title);
    svg_markup(s, "</title>\n<style>\n%s</style>\n", sheet);
    svg_markup(s, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
    return 0;
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

void svg_text_up(struct svg *s, const char *style, double x, double y, const char *text)
{
    fputs("<text", s->f);
    style_of(s, style);
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
    const bool bad = ferror(s->f);
    if (fclose(s->f) || bad) {
        s->f = NULL;
        return err_set(e, "%s: out of memory for the picture", path);
    }
    s->f = NULL;
    if (svg_check_target(path, e) || publish_begin(&p, path, e))
        return -1;
    if (write_whole(p.fd, s->text, s->bytes)) {
        err_sys(e, "%s: cannot write the picture", path);
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
