/*
 * csv.h - cells of CSV tables, which people open in spreadsheets and programs read back.
 *
 * A spreadsheet takes a text that begins with = + - @, a tab or a line end for a formula, in quotes
 * or not. Such a text gets an apostrophe in front. So does one that begins with apostrophes before
 * such a character, so that csv_original() restores every text.
 */
#ifndef WSI_CSV_H
#define WSI_CSV_H

#include <stdio.h>

/* Prints a text as a cell, in quotes and printable (text_fit). Errors show as ferror(f). */
void csv_text(FILE *f, const char *s);
/* The same with every byte as it is: for names that programs look up. */
void csv_exact(FILE *f, const char *s);
/* Prints a number with at most 10 significant digits; an empty cell for NaN and infinities. */
void csv_number(FILE *f, double x);

/* The text that a cell was made from: without the apostrophe. Points into `cell`. */
const char *csv_original(const char *cell);

#endif
