/*
 * table.h - reads small tables: CSV files with a header line, as spreadsheets write them.
 *
 * UTF-8, with or without a byte order mark; lines end with LF or CRLF; fields are separated by
 * commas, or by tabs if the header line has a tab and no comma; a field in double quotes may
 * contain separators, line ends and doubled quotes. Blank lines are skipped. The apostrophe that
 * guards a text against being taken for a formula (common/base/csv.h) is dropped.
 */
#ifndef WSI_TABLE_H
#define WSI_TABLE_H

#include "common/base/err.h"

#include <stdint.h>

struct table {
    int64_t columns, rows; /* rows below the header */
    char **cells;          /* [rows + 1][columns], row 0 is the header; points into text */
    int64_t *lines;        /* [rows + 1]: the line of the file that a row begins on */
    char *text;            /* owned */
};

/* Reads a file of at most 64 MiB. Each row must have as many fields as the header. The message
 * names the file and the line. Free with table_free(), also after a failure. */
int table_read(struct table *t, const char *path, struct err *e);
void table_free(struct table *t);
/* The number of the column of this name; -1: there is none. */
int64_t table_column(const struct table *t, const char *name);
/* Row 0 is the header. */
const char *table_cell(const struct table *t, int64_t row, int64_t column);

#endif
