/* score_rows.c - see score_rows.h. */
#include "process/scores/score_rows.h"

#include "common/base/read_at.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void *score_rows_open(int fd, const struct score_rows_layout *l, struct err *e)
{
    struct stat st;
    struct rows *r = calloc(1, sizeof *r);
    const int64_t columns = l->by_column ? l->columns : 1;
    if (r && !fstat(fd, &st) && (r->data = malloc((size_t)(BLOCK * l->row_bytes * columns)))) {
        r->l = *l;
        r->fd = fd;
        r->whole = whole_rows(l, st.st_size);
        return r;
    }
    free(r);
    err_set(e, "out of memory");
    return NULL;
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

enum score_next score_rows_next(void *state, double *row, int64_t *number, struct err *e)
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

int score_rows_rewind(void *state, struct err *e)
{
    struct rows *r = state;
    (void)e;
    r->next = 0;
    return 0;
}

void score_rows_close(void *state)
{
    struct rows *r = state;
    close(r->fd);
    free(r->data);
    free(r);
}
