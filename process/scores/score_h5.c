/* score_h5.c - scores as datasets of HDF5; see score_file.h. */
#include "common/base/temporary.h"
#include "common/hdf5/h5_foreign.h"
#include "process/scores/score_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void set_layout(const struct h5_foreign *t, struct score_rows_layout *l)
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
static int set_columns(const struct h5_foreign *t, struct score_options *o, struct score_columns *c,
                       struct err *e)
{
    char *names[H5_FOREIGN_COLUMNS];
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
    struct h5_foreign *t = calloc(1, sizeof *t);
    struct score_rows_layout *l = malloc(sizeof *l);
    void *rows = NULL;
    int fd = -1;
    if (!t || !l)
        err_set(e, "out of memory");
    else if ((fd = temporary(e)) >= 0 && !h5_foreign_read(path, fd, t, e) &&
             !set_columns(t, o, c, e)) {
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
