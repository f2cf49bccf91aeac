/*
 * csv.h - CSV tables, written and read.
 */
#ifndef WSI_CSV_H
#define WSI_CSV_H

#include "common/base/err.h"

#include <stdint.h>
#include <stdio.h>

/*
 * --- cells, which people open in spreadsheets and programs read back ---
 *
 * A spreadsheet takes a text that begins with = + - @, a tab or a line end for a formula, in quotes
 * or not. Such a text gets an apostrophe in front. So does one that begins with apostrophes before
 * such a character, so that csv_original() restores every text.
 */

/* Prints a text as a cell, in quotes and printable (text_fit). Errors show as ferror(f). */
void csv_text(FILE *f, const char *s);
/* The same with every byte as it is: for names that programs look up. */
void csv_exact(FILE *f, const char *s);
/* Prints a number with at most 10 significant digits; an empty cell for NaN and infinities. */
void csv_number(FILE *f, double x);

/* The text that a cell was made from: without the apostrophe. Points into `cell`. */
const char *csv_original(const char *cell);

/*
 * --- reading small tables: files with a header line, as spreadsheets write them ---
 *
 * UTF-8, with or without a byte order mark; lines end with LF or CRLF; fields are separated by
 * commas, or by tabs if the header line has a tab and no comma; a field in double quotes may
 * contain separators, line ends and doubled quotes. Blank lines are skipped. The apostrophe that
 * guards a text against being taken for a formula is dropped.
 */

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
