/*
 * score_rows.h - rows of numbers of fixed sizes in a file, as NumPy saves them.
 */
#ifndef WSI_SCORE_ROWS_H
#define WSI_SCORE_ROWS_H

#include "process/scores/score_file.h"

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

/* Takes over fd. A file that has fewer rows than it says has a last bad one. NULL on failure; then
 * fd stays the caller's. */
void *score_rows_open(int fd, const struct score_rows_layout *l, struct err *e);
enum score_next score_rows_next(void *rows, double *row, int64_t *number, struct err *e);
int score_rows_rewind(void *rows, struct err *e);
void score_rows_close(void *rows);

#endif
