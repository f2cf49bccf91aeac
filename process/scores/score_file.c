/* score_file.c - see score_file.h: which format a file has, and what is the same in all. */
#include "process/scores/score_file.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct score_file {
    const struct score_reader *reader;
    void *state;
    char *path;
    struct score_options o;
    struct score_columns columns;
};

/* --- columns --- */

static bool is_called(const char *name, const char *word)
{
    const size_t n = strlen(word);
    return !strncasecmp(name, word, n) && (!name[n] || !strcasecmp(name + n, "_px"));
}

static int place_of(const char *name)
{
    static const char *const words[] = {"x", "y", "size"};
    for (int k = SCORES_X; k < SCORES_VALUE; k++)
        if (is_called(name, words[k]))
            return k;
    return -1;
}

/* The name as all formats may show it; one that another column has gets a number. */
static void clean_name(struct score_columns *c, const char *name)
{
    char *out = c->name[c->n_values];
    int n = 0;
    for (const unsigned char *s = (const unsigned char *)name; *s && n < SCORES_NAME - 5; s++)
        if (*s < 0x80 || *s >= 0xc0) { /* one sign for each character */
            const bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                               (*s >= '0' && *s <= '9') || (n && strchr("_.-+", *s));
            out[n++] = plain ? (char)*s : '_';
        }
    out[n] = 0;
    if (n == 0)
        n = snprintf(out, SCORES_NAME, "value");
    for (int again = 2, k = 0; k < c->n_values; k++)
        if (!strcmp(c->name[k], out)) {
            snprintf(out + n, (size_t)(SCORES_NAME - n), "_%d", again++);
            k = -1; /* the new name may be that of another */
        }
}

static int add_value(struct score_columns *c, int column, const char *name, struct err *e)
{
    if (c->n_values == SCORES_MOST)
        return err_set(e, "more than %d values per patch; choose some with --feature", SCORES_MOST);
    clean_name(c, name);
    c->role[column] = (int8_t)(SCORES_VALUE + c->n_values++);
    return 0;
}

static int find(char *const *names, int n, const char *name)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(names[k], name))
            return k;
    return -1;
}

static int add_values(struct score_columns *c, char *const *names, int n,
                      const struct score_options *o, struct err *e)
{
    for (int k = 0; k < o->n_names; k++) {
        const int at = find(names, n, o->names[k]);
        if (at < 0)
            return err_set(e, "has no column %s", o->names[k]);
        if (c->role[at] < 0 && add_value(c, at, names[at], e))
            return -1;
    }
    for (int k = 0; k < n && !o->n_names; k++)
        if (c->role[k] < 0 && add_value(c, k, names[k], e))
            return -1;
    return c->n_values ? 0 : err_set(e, "has no column of values beside x, y and size");
}

int score_columns_set(struct score_columns *c, char *const *names, int n,
                      const struct score_options *o, struct err *e)
{
    bool found[SCORES_VALUE] = {false};
    *c = (struct score_columns){.n = n};
    if (n > SCORES_COLUMNS)
        return err_set(e, "has %d columns; at most %d are read", n, SCORES_COLUMNS);
    memset(c->role, -1, sizeof c->role);
    for (int k = 0; k < n; k++) {
        const int place = place_of(names[k]);
        if (place >= 0 && found[place])
            return err_set(e, "has two columns %s", names[k]);
        if (place >= 0)
            found[place] = true, c->role[k] = (int8_t)place;
    }
    c->has_size = found[SCORES_SIZE];
    if (!found[SCORES_X] || !found[SCORES_Y])
        return err_set(e,
                       "has no column %s; the columns are x, y, size and values, named by a "
                       "header line",
                       found[SCORES_X] ? "y" : "x");
    if (!c->has_size && !o->patch)
        return err_set(e, "does not say the size of its patches; give it with --patch PX");
    return add_values(c, names, n, o, e);
}

static int take_px(const char *what, double v, double low, double high, int64_t *out, struct err *e)
{
    if (!(v >= low && v <= high)) /* NaN is not */
        return err_set(e, "%s is %g; it must be from %.0f to %.0f px", what, v, low, high);
    *out = llround(v);
    return 0;
}

static int take_value(const char *name, double v, double *out, struct err *e)
{
    if (fabs(v) > SCORES_MOST_VALUE)
        return err_set(e, "%s is %g; values must be from %g to %g", name, v, -SCORES_MOST_VALUE,
                       SCORES_MOST_VALUE);
    *out = v;
    return 0;
}

/* Sets p from the numbers of a row, by their columns. -1: they are no patch. */
static int take_row(const struct score_columns *c, const double *row, const struct score_options *o,
                    struct score_patch *p, struct err *e)
{
    const double most = SCORES_MOST_PX;
    p->size = o->patch;
    for (int k = 0; k < c->n; k++) {
        const int role = c->role[k];
        int bad = 0;
        if (role == SCORES_X)
            bad = take_px("x", row[k], -most, most, &p->x, e);
        else if (role == SCORES_Y)
            bad = take_px("y", row[k], -most, most, &p->y, e);
        else if (role == SCORES_SIZE)
            bad = take_px("size", row[k], 1, SCORES_MOST_SIZE, &p->size, e);
        else if (role >= SCORES_VALUE)
            bad =
                take_value(c->name[role - SCORES_VALUE], row[k], &p->value[role - SCORES_VALUE], e);
        if (bad)
            return -1;
    }
    return 0;
}

/* --- files --- */

static const struct score_reader *reader_of(const unsigned char *head, size_t n)
{
    if (n >= 6 && !memcmp(head, "\x93NUMPY", 6))
        return &score_npy;
    return n >= 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8) ? &score_h5 : &score_csv;
}

static const struct score_reader *look(const char *path, struct err *e)
{
    unsigned char head[8];
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        err_open(e, "cannot open it");
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    const bool is_file = S_ISREG(st.st_mode);
    const size_t n = is_file ? read_at(fd, 0, head, sizeof head) : 0;
    close(fd);
    if (is_file)
        return reader_of(head, n);
    err_set(e, "not a file; write the scores to a file first, which is read more than once");
    return NULL;
}

bool score_file_grows(const char *path)
{
    struct err e;
    return look(path, &e) == &score_csv;
}

struct score_file *score_file_open(const char *path, const struct score_options *o, struct err *e)
{
    struct score_file *f = memory_need(1, sizeof *f);
    f->path = memory_copy(path);
    f->o = *o;
    if ((f->reader = look(path, e)) && (f->state = f->reader->open(path, &f->o, &f->columns, e)))
        return f;
    err_add(e, "%s", path);
    score_file_close(f);
    return NULL;
}

void score_file_close(struct score_file *f)
{
    if (!f)
        return;
    if (f->state)
        f->reader->close(f->state);
    free(f->path);
    free(f);
}

int score_file_values(const struct score_file *f)
{
    return f->columns.n_values;
}

const char *score_file_name(const struct score_file *f, int value)
{
    return f->columns.name[value];
}

enum score_next score_file_blame(const struct score_file *f, const struct score_patch *p,
                                 struct err *e)
{
    err_add(e, "%s: %s %" PRId64, f->path, f->reader == &score_csv ? "line" : "row", p->number);
    return SCORE_BAD;
}

enum score_next score_file_next(struct score_file *f, struct score_patch *p, struct err *e)
{
    double row[SCORES_COLUMNS];
    enum score_next n = f->reader->next(f->state, row, &p->number, e);
    if (n == SCORE_PATCH && take_row(&f->columns, row, &f->o, p, e))
        n = SCORE_BAD;
    if (n == SCORE_BAD)
        score_file_blame(f, p, e);
    else if (n == SCORE_FAILED)
        err_add(e, "%s", f->path);
    return n;
}

int score_file_rewind(struct score_file *f, struct err *e)
{
    return f->reader->rewind(f->state, e) ? err_add(e, "%s", f->path) : 0;
}

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
    struct csv *c = memory_need(1, sizeof *c);
    c->limit = o->limit;
    c->f = fopen(path, "rbe");
    if (!c->f)
        err_open(e, "cannot open it");
    else if (!read_header(c, o, columns, e))
        return c;
    close_csv(c);
    return NULL;
}

const struct score_reader score_csv = {open_csv, next, go_back, close_csv};
