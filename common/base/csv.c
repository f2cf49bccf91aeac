/* csv.c - see csv.h. */
#include "common/base/csv.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 16 }; /* bytes of a text once it is printable */

/* Does a formula begin here, perhaps after apostrophes? */
static bool is_formula(const char *s)
{
    s += strspn(s, "'");
    return *s && strchr("=+-@\t\r\n", *s);
}

void csv_exact(FILE *f, const char *s)
{
    fputs(is_formula(s) ? "\"'" : "\"", f);
    for (; *s; s++) {
        if (*s == '"')
            putc('"', f);
        putc(*s, f);
    }
    putc('"', f);
}

void csv_text(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    text_fit(text, sizeof text, s, MOST_TEXT);
    csv_exact(f, text);
}

void csv_number(FILE *f, double x)
{
    if (isfinite(x))
        fprintf(f, "%.10g", x);
}

const char *csv_original(const char *cell)
{
    return *cell == '\'' && is_formula(cell) ? cell + 1 : cell;
}

enum { MOST_BYTES = 64 << 20 };

/* The whole file with a NUL behind it; *n gets its bytes. */
static char *read_file(const char *path, size_t *n, struct err *e)
{
    FILE *f = read_named(path);
    char *text = NULL;
    size_t room = 1 << 16;
    *n = 0;
    if (!f) {
        err_open(e, "%s: cannot be opened", path);
        return NULL;
    }
    for (size_t got = 1; got > 0 && *n <= MOST_BYTES; *n += got) {
        char *more = *n + 2 > room || !text ? realloc(text, room *= 2) : text;
        if (!more) {
            err_blame(e, ERR_MEMORY, "%s: out of memory", path);
            goto fail;
        }
        text = more;
        got = fread(text + *n, 1, room - *n - 1, f);
    }
    if (ferror(f)) {
        if (!stop_check(e))
            err_sys(e, "%s: cannot be read", path);
        goto fail;
    }
    if (*n > MOST_BYTES) {
        err_set(e, "%s: larger than 64 MiB; not a table of slides", path);
        goto fail;
    }
    fclose(f);
    text[*n] = 0;
    return text;
fail:
    fclose(f);
    free(text);
    return NULL;
}

struct parser {
    const char *path;
    char *in;  /* what is to be read */
    char *out; /* where the next character of a cell goes; never beyond `in` */
    int64_t line;
    char separator;
};

/* Reads a field to its separator or line end and terminates it. *last: it is the row's last. */
static int read_field(struct parser *p, char **cell, bool *last, struct err *e)
{
    p->in += strspn(p->in, " ");
    const bool quoted = *p->in == '"';
    const int64_t line = p->line;
    *cell = p->out;
    p->in += quoted;
    for (;; p->in++) {
        if (quoted && *p->in == '"' && *++p->in != '"')
            break;
        if (!quoted && (!*p->in || *p->in == p->separator || *p->in == '\n' || *p->in == '\r'))
            break;
        if (!*p->in)
            return err_set(e, "%s: line %" PRId64 ": a quote is not closed", p->path, line);
        p->line += *p->in == '\n';
        *p->out++ = *p->in;
    }
    if (!quoted)
        while (p->out > *cell && p->out[-1] == ' ')
            p->out--;
    else
        p->in += strspn(p->in, " ");
    p->in += p->in[0] == '\r';
    *last = *p->in == '\n' || !*p->in;
    if (!*last && *p->in != p->separator)
        return err_set(e, "%s: line %" PRId64 ": text after a closing quote", p->path, p->line);
    p->line += *p->in == '\n';
    p->in += *p->in != 0;
    *p->out++ = 0; /* there is room: a separator, a line end or the NUL has been read */
    return 0;
}

static int add_row(struct table *t, int64_t line, char **cells, int64_t n, struct err *e)
{
    const size_t rows = t->cells ? (size_t)t->rows + 1 : 0;
    if (t->cells && n != t->columns)
        return err_set(e, "line %" PRId64 ": %" PRId64 " fields, but the header has %" PRId64, line,
                       n, t->columns);
    t->columns = n;
    t->cells = memory_grow(t->cells, (int64_t)rows, (size_t)n * sizeof *t->cells);
    t->lines = memory_grow(t->lines, (int64_t)rows, sizeof *t->lines);
    memcpy(t->cells + rows * (size_t)n, cells, (size_t)n * sizeof *cells);
    t->lines[rows] = line;
    t->rows = (int64_t)rows;
    return 0;
}

/* Spreadsheets end with rows of separators. */
static bool is_empty(char *const *cells, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (*cells[k])
            return false;
    return true;
}

/* The character that separates most cells of the header; in German or French it is ';'. */
static char find_separator(const char *head)
{
    static const char all[] = ",;\t";
    int most = 0;
    char found = ',';
    for (const char *s = all; *s; s++) {
        int n = 0;
        bool quoted = false;
        for (const char *c = head; *c && (quoted || (*c != '\n' && *c != '\r')); c++) {
            quoted ^= *c == '"';
            n += !quoted && *c == *s;
        }
        found = n > most ? *s : found;
        most = n > most ? n : most;
    }
    return found;
}

enum { MOST_COLUMNS = 1024 };

static int parse(struct table *t, struct parser *p, struct err *e)
{
    char *cells[MOST_COLUMNS];
    while (*p->in) {
        const int64_t line = p->line;
        int64_t n = 0;
        for (bool last = false; !last;)
            if (n == MOST_COLUMNS)
                return err_set(e, "%s: more than %d columns", p->path, MOST_COLUMNS);
            else if (read_field(p, &cells[n++], &last, e))
                return -1;
        if (!is_empty(cells, n) && add_row(t, line, cells, n, e))
            return err_add(e, "%s", p->path);
    }
    return t->cells ? 0 : err_set(e, "%s: empty; a table begins with a header line", p->path);
}

int table_read(struct table *t, const char *path, struct err *e)
{
    size_t n;
    *t = (struct table){0};
    if (!(t->text = read_file(path, &n, e)))
        return -1;
    if (memchr(t->text, 0, n))
        return err_set(e, "%s: not a text file in UTF-8 (it has NUL bytes)", path);
    const size_t mark = strncmp(t->text, "\xef\xbb\xbf", 3) ? 0 : 3;
    struct parser p = {path, t->text + mark, t->text, 1, find_separator(t->text + mark)};
    return parse(t, &p, e);
}

void table_free(struct table *t)
{
    free(t->text);
    free(t->cells);
    free(t->lines);
    *t = (struct table){0};
}

const char *table_cell(const struct table *t, int64_t row, int64_t column)
{
    return csv_original(t->cells[row * t->columns + column]);
}

int64_t table_column(const struct table *t, const char *name)
{
    for (int64_t k = 0; k < t->columns; k++)
        if (!strcmp(table_cell(t, 0, k), name))
            return k;
    return -1;
}
