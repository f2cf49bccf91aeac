/* score_csv.c - scores as a table of text; see score_file.h. */
#include "process/scores/score_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINE = 1 << 16 };

struct csv {
    FILE *f;
    int64_t limit, used; /* bytes: to read (-1: all), read so far */
    int64_t line, first; /* numbers of the line that was read last, and of the header */
    int64_t begin;       /* bytes before the first row */
    char separator;
    int columns;
    const struct score_columns *roles;
    char text[LINE];
    char *field[SCORES_COLUMNS + 1];
};

/* The next line that is no comment, without its end. SCORE_PATCH: there is one. */
static enum score_next next_line(struct csv *c, struct err *e)
{
    while (c->limit < 0 || c->used < c->limit) {
        errno = 0;
        if (!fgets(c->text, LINE, c->f)) {
            if (ferror(c->f))
                return err_sys(e, "cannot be read"), SCORE_FAILED;
            return SCORE_END;
        }
        size_t n = strlen(c->text);
        const bool whole = n && c->text[n - 1] == '\n';
        c->used += (int64_t)n;
        c->line++;
        if (!whole && !feof(c->f))
            return n < LINE - 2
                       ? err_set(e, "line %" PRId64 ": not a text file in UTF-8 (it has NUL bytes)",
                                 c->line)
                       : err_set(e, "line %" PRId64 " is longer than %d bytes", c->line, LINE - 2),
                   SCORE_FAILED;
        while (n && (c->text[n - 1] == '\n' || c->text[n - 1] == '\r'))
            c->text[--n] = 0;
        if (!strcmp(c->text, "#end"))
            return SCORE_END;
        if (n && c->text[0] != '#')
            return SCORE_PATCH;
    }
    return SCORE_END;
}

/* One field, in quotes or not; *s is left behind its separator, or NULL at the end of the line. */
static char *take_field(char **s, char separator)
{
    char *from = *s, *to = from, *field = from;
    bool quoted = false;
    for (; *from && (quoted || *from != separator); from++) {
        if (*from != '"')
            *to++ = *from;
        else if (quoted && from[1] == '"')
            *to++ = *from++;
        else
            quoted = !quoted;
    }
    *s = *from ? from + 1 : NULL;
    *to = 0;
    while (*field == ' ')
        field++;
    while (to > field && to[-1] == ' ')
        *--to = 0;
    return field;
}

static int split(struct csv *c)
{
    int n = 0;
    for (char *s = c->text; s && n <= SCORES_COLUMNS; n++)
        c->field[n] = take_field(&s, c->separator);
    return n;
}

static bool is_none(const char *s)
{
    return !*s || !strcasecmp(s, "nan") || !strcasecmp(s, "na") || !strcasecmp(s, "none") ||
           !strcasecmp(s, "null");
}

static int take_number(const char *s, double *out)
{
    char *end;
    if (is_none(s)) {
        *out = NAN;
        return 0;
    }
    *out = strtod(s, &end);
    return *end || isnan(*out) ? -1 : 0;
}

static bool is_empty(const struct csv *c, int n)
{
    for (int k = 0; k < n && k <= SCORES_COLUMNS; k++)
        if (*c->field[k])
            return false;
    return true;
}

static enum score_next next(void *state, double *row, int64_t *number, struct err *e)
{
    struct csv *c = state;
    const enum score_next got = next_line(c, e);
    *number = c->line;
    if (got != SCORE_PATCH)
        return got;
    const int n = split(c);
    if (is_empty(c, n)) /* spreadsheets end with rows of separators */
        return next(state, row, number, e);
    if (n != c->columns) {
        err_set(e, "%d fields, but the header has %d", n, c->columns);
        return SCORE_BAD;
    }
    for (int k = 0; k < n; k++)
        if (c->roles->role[k] >= 0 && take_number(c->field[k], &row[k])) {
            err_set(e, "\"%.40s\" is no number; --feature names the columns to map", c->field[k]);
            return SCORE_BAD;
        }
    return SCORE_PATCH;
}

static int go_back(void *state, struct err *e)
{
    struct csv *c = state;
    clearerr(c->f);
    c->line = c->first;
    c->used = c->begin;
    return fseeko(c->f, c->begin, SEEK_SET) ? err_sys(e, "cannot be read again") : 0;
}

static void close_csv(void *state)
{
    struct csv *c = state;
    if (c->f)
        fclose(c->f);
    free(c);
}

static int read_header(struct csv *c, const struct score_options *o, struct score_columns *columns,
                       struct err *e)
{
    const enum score_next got = next_line(c, e);
    if (got != SCORE_PATCH)
        return got == SCORE_END ? err_set(e, "has no header line") : -1;
    if (!strncmp(c->text, "\xef\xbb\xbf", 3))
        memmove(c->text, c->text + 3, strlen(c->text + 3) + 1);
    c->separator = strchr(c->text, ',') ? ',' : strchr(c->text, '\t') ? '\t' : ';';
    c->columns = split(c);
    c->begin = ftello(c->f);
    c->used = c->begin;
    c->first = c->line;
    c->roles = columns;
    return score_columns_set(columns, c->field, c->columns, o, e);
}

static void *open_csv(const char *path, struct score_options *o, struct score_columns *columns,
                      struct err *e)
{
    struct csv *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(e, "out of memory");
        return NULL;
    }
    c->limit = o->limit;
    c->f = fopen(path, "rbe");
    if (!c->f)
        err_sys(e, "cannot open it");
    else if (!read_header(c, o, columns, e))
        return c;
    close_csv(c);
    return NULL;
}

const struct score_reader score_csv = {open_csv, next, go_back, close_csv};
