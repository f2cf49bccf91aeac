/* score_rows.c - reads rows of scores from npy and HDF5 files; see score_file.h. */
#include "process/scores/score_file.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/hdf5/h5_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Rows of numbers of fixed sizes in a file, as NumPy saves them.
 */

struct score_rows_field {
    int64_t at;    /* bytes from the row's begin, or by column from `begin` */
    int64_t bytes; /* 1, 2, 4, 8 */
    char kind;     /* 'f', 'i', 'u'; little-endian */
};

struct score_rows_layout {
    int64_t begin, rows, row_bytes; /* by_column: row_bytes are those of one number */
    int columns;
    bool by_column; /* all of column 0, then all of column 1 ... */
    struct score_rows_field field[SCORES_COLUMNS];
};

enum { BLOCK = 1 << 12 }; /* rows that are read at a time */

struct rows {
    struct score_rows_layout l;
    int fd;
    int64_t next, whole; /* rows: the one that comes next, those that the file has */
    int64_t first, n;    /* rows in memory */
    unsigned char *data; /* [BLOCK] rows, or by column [columns][BLOCK] numbers */
};

static int64_t stride(const struct rows *r)
{
    return r->l.by_column ? BLOCK * r->l.row_bytes : 0; /* from a column to the next in `data` */
}

/* Rows of which every number is in the file. */
static int64_t whole_rows(const struct score_rows_layout *l, int64_t bytes)
{
    const int64_t last = l->by_column ? l->field[l->columns - 1].at : 0;
    const int64_t n = (bytes - l->begin - last) / l->row_bytes;
    return n < 0 ? 0 : n < l->rows ? n : l->rows;
}

/* Takes over fd. A file that has fewer rows than it says has a last bad one. NULL on failure; then
 * fd stays the caller's. */
static void *score_rows_open(int fd, const struct score_rows_layout *l, struct err *e)
{
    struct stat st;
    const int64_t columns = l->by_column ? l->columns : 1;
    void *data = memory_try((size_t)(BLOCK * columns), (size_t)l->row_bytes, e);
    if (!data)
        return NULL;
    if (fstat(fd, &st)) {
        err_sys(e, "cannot be read");
        free(data);
        return NULL;
    }
    struct rows *r = memory_need(1, sizeof *r);
    *r = (struct rows){.l = *l, .fd = fd, .whole = whole_rows(l, st.st_size), .data = data};
    return r;
}

static int load(struct rows *r, struct err *e)
{
    const struct score_rows_layout *l = &r->l;
    const int64_t left = r->whole - r->next;
    r->first = r->next;
    r->n = left < BLOCK ? left : BLOCK;
    for (int k = 0; k < (l->by_column ? l->columns : 1); k++) {
        const int64_t at = l->begin + (l->by_column ? l->field[k].at : 0) + r->first * l->row_bytes;
        const size_t n = (size_t)(r->n * l->row_bytes);
        if (read_at(r->fd, (uint64_t)at, r->data + k * stride(r), n) != n)
            return err_sys(e, "cannot be read");
    }
    return 0;
}

/* IEEE 754 binary16. */
static double half(uint16_t h)
{
    const int exponent = h >> 10 & 31, part = h & 1023;
    const double size = exponent == 31 ? (part ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + part, exponent - 25)
                                       : ldexp(part, -24);
    return h & 0x8000 ? -size : size;
}

static double number_of(const unsigned char *p, const struct score_rows_field *f)
{
    float single;
    double real;
    uint64_t v = 0;
    if (f->kind == 'f' && f->bytes == 4)
        return (double)*(float *)memcpy(&single, p, sizeof single);
    if (f->kind == 'f' && f->bytes == 8)
        return *(double *)memcpy(&real, p, sizeof real);
    for (int64_t k = 0; k < f->bytes; k++)
        v |= (uint64_t)p[k] << 8 * k;
    if (f->kind == 'f')
        return half((uint16_t)v);
    if (f->kind == 'i') {
        const int unused = (int)(64 - 8 * f->bytes);
        return (double)((int64_t)(v << unused) >> unused);
    }
    return (double)v;
}

static enum score_next score_rows_next(void *state, double *row, int64_t *number, struct err *e)
{
    struct rows *r = state;
    const struct score_rows_layout *l = &r->l;
    *number = r->next + 1;
    if (r->next >= r->whole) {
        if (r->next++ > r->whole || r->whole == l->rows)
            return SCORE_END;
        err_set(e, "the file ends here, but says that it has %" PRId64 " rows; copy it again",
                l->rows);
        return SCORE_BAD;
    }
    if ((r->next < r->first || r->next >= r->first + r->n) && load(r, e))
        return SCORE_FAILED;
    for (int k = 0; k < l->columns; k++) {
        const unsigned char *at = r->data + (r->next - r->first) * l->row_bytes +
                                  (l->by_column ? k * stride(r) : l->field[k].at);
        row[k] = number_of(at, &l->field[k]);
    }
    r->next++;
    return SCORE_PATCH;
}

static int score_rows_rewind(void *state, struct err *e)
{
    struct rows *r = state;
    (void)e;
    r->next = 0;
    return 0;
}

static void score_rows_close(void *state)
{
    struct rows *r = state;
    close(r->fd);
    free(r->data);
    free(r);
}

enum { HEADER = 1 << 16 };

/* The contents of the header. */
struct array {
    struct score_rows_layout layout;
    bool structured;
    char *names[SCORES_COLUMNS]; /* of the fields; point into the header */
};

static int wrong(struct err *e)
{
    return err_set(e, "damaged: its header is not one that NumPy writes");
}

static const char *skip(const char *s)
{
    while (*s == ' ' || *s == '\n')
        s++;
    return s;
}

/* A text in quotes: ends it with a NUL; returns what follows, or NULL. */
static char *take_text(char *s, char **out)
{
    s = (char *)skip(s);
    const char quote = *s;
    char *end = quote == '\'' || quote == '"' ? strchr(s + 1, quote) : NULL;
    if (!end)
        return NULL;
    *end = 0;
    *out = s + 1;
    return end + 1;
}

/* "<f4" and so on. */
static int take_type(const char *text, struct score_rows_field *f, struct err *e)
{
    const char order = text[0], kind = order ? text[1] : 0;
    const int bytes = kind ? atoi(text + 2) : 0;
    const bool known =
        (kind == 'f' && (bytes == 2 || bytes == 4 || bytes == 8)) ||
        ((kind == 'i' || kind == 'u') && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8));
    if (!known || (order == '>' && bytes > 1))
        return err_set(e, "values of type %.16s are not read; save float32 or float64", text);
    f->kind = kind;
    f->bytes = bytes;
    return 0;
}

/* [('x', '<i8'), ('y', '<i8'), ...] */
static int take_fields(char *s, struct array *a, struct err *e)
{
    int64_t at = 0;
    a->structured = true;
    for (s++; *(s = (char *)skip(s)) == '(' || *s == ',';) {
        char *type = NULL;
        if (*s++ == ',')
            continue;
        if (a->layout.columns == SCORES_COLUMNS)
            return err_set(e, "has more than %d fields", SCORES_COLUMNS);
        struct score_rows_field *f = &a->layout.field[a->layout.columns];
        if (!(s = take_text(s, &a->names[a->layout.columns])) || *(s = (char *)skip(s)) != ',' ||
            !(s = take_text(s + 1, &type)) || *(s = (char *)skip(s)) != ')')
            return wrong(e);
        if (take_type(type, f, e))
            return -1;
        f->at = at;
        at += f->bytes;
        a->layout.columns++;
        s++;
    }
    a->layout.row_bytes = at;
    return *s == ']' && a->layout.columns ? 0 : wrong(e);
}

/* (1000,) or (1000, 4) */
static int take_shape(const char *s, int64_t shape[2], int *rank, struct err *e)
{
    *rank = 0;
    if (*(s = skip(s)) != '(')
        return wrong(e);
    for (s = skip(s + 1); *s >= '0' && *s <= '9';) {
        char *end;
        errno = 0;
        const long long n = strtoll(s, &end, 10);
        if (*rank == 2)
            return err_set(e, "is an array of more than 2 dimensions");
        if (errno || n > SCORES_MOST_PX)
            return err_set(e, "says that it has %.20s rows or columns", s);
        shape[(*rank)++] = n;
        s = skip(end);
        s = *s == ',' ? skip(s + 1) : s;
    }
    return *s == ')' ? 0 : wrong(e);
}

/* Where the value of a key begins. */
static char *find_key(char *text, const char *key)
{
    char *s = strstr(text, key);
    s = s ? (char *)skip(s + strlen(key)) : NULL;
    return s && *s == ':' ? (char *)skip(s + 1) : NULL;
}

static int set_columns(struct array *a, const int64_t shape[2], int rank, bool fortran,
                       const char *type, struct err *e)
{
    struct score_rows_layout *l = &a->layout;
    if (a->structured)
        return rank == 1 ? 0 : err_set(e, "a structured array must have 1 dimension");
    if (rank != 2 || shape[1] < 3 || shape[1] > SCORES_COLUMNS)
        return err_set(e, "is not an array of rows x, y, size, value");
    if (take_type(type, &l->field[0], e))
        return -1;
    l->columns = (int)shape[1];
    for (int k = 0; k < l->columns; k++) {
        l->field[k] = l->field[0];
        l->field[k].at = l->field[0].bytes * k * (fortran ? l->rows : 1);
    }
    l->row_bytes = l->field[0].bytes * (fortran ? 1 : l->columns);
    l->by_column = fortran;
    return 0;
}

static int parse(char *text, struct array *a, struct err *e)
{
    int64_t shape[2] = {0, 0};
    int rank;
    char *type = NULL;
    /* shape and order first: taking texts ends them with NULs */
    const char *at = find_key(text, "'shape'"), *order = find_key(text, "'fortran_order'");
    char *descr = find_key(text, "'descr'");
    if (!at || !order || !descr)
        return wrong(e);
    if (take_shape(at, shape, &rank, e))
        return -1;
    const bool fortran = !strncmp(order, "True", 4);
    a->layout.rows = shape[0];
    if (*descr == '[' ? take_fields(descr, a, e) : take_text(descr, &type) ? 0 : wrong(e))
        return -1;
    return set_columns(a, shape, rank, fortran, type, e);
}

/* The header, with a NUL; a->layout.begin is behind it. To be free()d. */
static char *read_header(int fd, struct array *a, struct err *e)
{
    unsigned char head[12];
    char *text = NULL;
    const size_t got = read_at(fd, 0, head, sizeof head);
    const size_t size = got < 12 ? 0 : head[6] == 1 ? 2 : head[6] <= 3 ? 4 : 0;
    size_t n = 0;
    for (size_t k = 0; k < size; k++)
        n |= (size_t)head[8 + k] << 8 * k;
    if (size && n > 0 && n <= HEADER)
        text = memory_need(n + 1, 1);
    if (text && read_at(fd, 8 + size, text, n) == n) {
        a->layout.begin = (int64_t)(8 + size + n);
        return text;
    }
    free(text);
    wrong(e);
    return NULL;
}

/* Without names: x, y, size unless the user gives it, and values. */
static int name_columns(struct array *a, const struct score_options *o, struct score_columns *c,
                        struct err *e)
{
    static char *const places[] = {"x", "y", "size"};
    char text[SCORES_COLUMNS][24];
    const int n = a->layout.columns, first = n == 3 && o->patch ? 2 : 3;
    for (int k = 0; k < n && !a->structured; k++) {
        a->names[k] = k < first ? places[k] : text[k];
        if (k >= first && n == first + 1)
            snprintf(text[k], sizeof *text, "value");
        else if (k >= first)
            snprintf(text[k], sizeof *text, "value_%d", k - first + 1);
    }
    return score_columns_set(c, a->names, n, o, e);
}

static void *open_npy(const char *path, struct score_options *o, struct score_columns *c,
                      struct err *e)
{
    struct array *a = memory_need(1, sizeof *a);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    void *rows = NULL;
    if (fd < 0)
        err_open(e, "cannot open it");
    else if ((text = read_header(fd, a, e)) && !parse(text, a, e) && !name_columns(a, o, c, e))
        rows = score_rows_open(fd, &a->layout, e);
    if (!rows && fd >= 0)
        close(fd);
    free(text);
    free(a);
    return rows;
}

const struct score_reader score_npy = {open_npy, score_rows_next, score_rows_rewind,
                                       score_rows_close};

static void set_layout(const struct h5_child *t, struct score_rows_layout *l)
{
    *l = (struct score_rows_layout){.rows = t->rows,
                                    .row_bytes = t->columns * (int64_t)sizeof(double),
                                    .columns = (int)t->columns};
    for (int k = 0; k < l->columns; k++)
        l->field[k] = (struct score_rows_field){k * (int64_t)sizeof(double), sizeof(double), 'f'};
}

/* -1: there is none. */
static int temporary(struct err *e)
{
    FILE *f = temporary_open("numbers", e);
    const int fd = f ? dup(fileno(f)) : -1;
    if (f && fd < 0)
        err_sys(e, "cannot keep a temporary file");
    if (f)
        fclose(f);
    return fd;
}

/* The size that the user gives comes before that of the file. */
static int set_h5_columns(const struct h5_child *t, struct score_options *o,
                          struct score_columns *c, struct err *e)
{
    char *names[H5_CHILD_COLUMNS];
    for (int k = 0; k < (int)t->columns; k++)
        names[k] = (char *)t->name[k];
    if (!o->patch && t->size > SCORES_MOST_SIZE)
        return err_set(e, "says that its patches have %g px; at most %d are read", t->size,
                       SCORES_MOST_SIZE);
    if (!o->patch)
        o->patch = (int64_t)(t->size + 0.5);
    return score_columns_set(c, names, (int)t->columns, o, e);
}

static void *open_h5(const char *path, struct score_options *o, struct score_columns *c,
                     struct err *e)
{
    struct h5_child *t = memory_need(1, sizeof *t);
    struct score_rows_layout *l = memory_need(1, sizeof *l);
    void *rows = NULL;
    int fd = -1;
    if ((fd = temporary(e)) >= 0 && !h5_child_read(path, fd, t, e) && !set_h5_columns(t, o, c, e)) {
        set_layout(t, l);
        rows = score_rows_open(fd, l, e);
    }
    if (!rows && fd >= 0)
        close(fd);
    free(l);
    free(t);
    return rows;
}

const struct score_reader score_h5 = {open_h5, score_rows_next, score_rows_rewind,
                                      score_rows_close};
