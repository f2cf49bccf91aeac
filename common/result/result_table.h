/*
 * result_table.h - the slides of a result as a table; for the other result*.c only.
 *
 *   /table/NAME        one number, text or row of numbers per slide, in the order of their names
 *   /table/histograms  u64 [slides][bins]
 *
 * A row has what struct result_slide has but maps, spectra and the thumbnail. These stay in the
 * result that the row names by its path, relative to the folder of the table: below it, so that a
 * forged table leads nowhere else. A slide in a table has all its groups.
 *
 * Columns lie in memory, about 1 KiB per slide. Histograms do not: one strip of rows does.
 */
#ifndef WSI_RESULT_TABLE_H
#define WSI_RESULT_TABLE_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

enum { RESULT_MOST_ROWS = 1 << 21, RESULT_ROW_PATH = 1024 };

struct result_row {
    struct result_slide slide;    /* its pointers are not the row's, but for counts.histogram */
    char result[RESULT_ROW_PATH]; /* that has the rest */
    double mean, std;             /* of the histogram */
    int64_t histogram_crc32;      /* CRC-32 of the histogram's bytes */
};

struct result_table;

/* --- writing --- */

/* In a file that is being written; at most `most` rows follow. NULL on failure. */
struct result_table *result_table_create(hid_t file, const struct result_params *p, int64_t most,
                                         struct err *e);
/* The slide has a name, counts with the histogram, what it comes from, and data_crc32. Names must
 * ascend. The rest of the row is computed. */
int result_table_add(struct result_table *t, const struct result_slide *s, const char *result,
                     struct err *e);
/* Writes the columns. */
int result_table_finish(struct result_table *t, struct err *e);
/* Frees the memory of a table that was written, and leaves the file alone. NULL is fine. */
void result_table_free(struct result_table *t);

/* --- reading --- */

/* Reads the columns of `slides` rows, and checks the order of their names. NULL on failure. */
struct result_table *result_table_open(hid_t file, const struct result_params *p, int64_t slides,
                                       struct err *e);
/* The name of slide k, to be free()d; NULL without memory. */
char *result_table_name(const struct result_table *t, int64_t k);
/* Row k; every number is checked against its range, and the histogram against its checksum and
 * counts. `histogram` [bins] gets it; NULL: only the columns are wanted. */
int result_table_load(struct result_table *t, int64_t k, uint64_t *histogram,
                      struct result_row *row, struct err *e);

void result_table_close(struct result_table *t); /* of result_table_open(); NULL is fine */

#endif
