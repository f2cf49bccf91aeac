/*
 * score_npy.c - scores as an array of NumPy; see score_file.h.
 *
 * Source: the NPY format, numpy/lib/format.py of NumPy: magic, version, the length of the header,
 * and the header, a literal of Python with the keys descr, fortran_order and shape.
 */
#include "process/scores/score_file.h"

#include "common/base/read_at.h"
#include "process/scores/score_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 1 << 16 };

/* What the header says. */
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
    if (size && n > 0 && n <= HEADER && (text = calloc(1, n + 1)) &&
        read_at(fd, 8 + size, text, n) == n) {
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
    struct array *a = calloc(1, sizeof *a);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    void *rows = NULL;
    if (!a)
        err_set(e, "out of memory");
    else if (fd < 0)
        err_sys(e, "cannot open it");
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
