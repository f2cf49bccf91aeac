/*
 * result_table.h - the slides of a result as a table; for the other result*.c only.
 *
 *   /table/NAME        one number, text or row of numbers per slide, in the order of their names
 *   /table/histograms  u64 [slides][bins]
 *   /table/sharpness   u32 [slides][RESULT_SHARP_BINS]
 *
 * A row has what struct result_slide has but maps, spectra and the thumbnail, and the numbers that
 * follow from these (report_numbers.h). The rest stays in the result that the row names by its
 * path, relative to the folder of the table: below it, so that a forged table leads nowhere else.
 * Size and time of the result say later whether the row is still right. A slide in a table has all
 * its groups.
 *
 * Columns lie in memory, about 1 KiB per slide. Histograms and sharpness do not: one row does.
 */
#ifndef WSI_RESULT_TABLE_H
#define WSI_RESULT_TABLE_H

#include "common/hdf5/h5.h"
#include "common/result/report_numbers.h"
#include "common/result/result.h"
#include "common/result/result_write.h"

enum { RESULT_MOST_ROWS = 1 << 21, RESULT_ROW_PATH = 1024 };

struct result_row {
    struct result_slide slide;    /* its pointers are not the row's, but for counts.histogram */
    char result[RESULT_ROW_PATH]; /* that has the rest */
    struct result_stamp stamp;    /* of that file */
    double mean, std;             /* of the histogram */
    struct report_numbers numbers;
    int64_t histogram_crc32, sharpness_crc32; /* CRC-32 of the bytes of both */
};

struct result_table;

/* --- writing --- */

/* In a file that is being written; at most `most` rows follow, or with 0 any number.
 * NULL on failure. */
struct result_table *result_table_create(hid_t file, const struct result_params *p, int64_t most,
                                         struct err *e);
/* The slide has a name, counts with the histogram, what it comes from, and data_crc32. Names must
 * ascend. The rest of the row is computed. */
int result_table_add(struct result_table *t, const struct result_slide *s,
                     const struct report_numbers *n, const char *result,
                     const struct result_stamp *stamp, struct err *e);
/* The same with row k of another table; its histogram is copied as it is stored. *row gets the row,
 * without the histogram. */
int result_table_copy(struct result_table *t, struct result_table *from, int64_t k,
                      const char *result, const struct result_row **row, struct err *e);
/* Writes the columns. */
int result_table_finish(struct result_table *t, struct err *e);

/* --- reading --- */

/* Reads the columns of `slides` rows, and checks the order of their names. NULL on failure. */
struct result_table *result_table_open(hid_t file, const struct result_params *p, int64_t slides,
                                       struct err *e);
/* The name of slide k, to be free()d. */
char *result_table_name(const struct result_table *t, int64_t k);
/* Row k; every number is checked against its range, and the histogram against its checksum and
 * counts. `histogram` [bins] gets it; NULL: only the columns are wanted. numbers.sharp is left
 * out. */
int result_table_load(struct result_table *t, int64_t k, uint64_t *histogram,
                      struct result_row *row, struct err *e);
/* numbers.sharp of the row that was loaded last. */
int result_table_load_sharpness(struct result_table *t, int64_t k, struct report_numbers *n,
                                struct err *e);
/* Path and stamp of the result of row k, without any check. */
void result_table_source(const struct result_table *t, int64_t k, char path[RESULT_ROW_PATH],
                         struct result_stamp *stamp);

void result_table_close(struct result_table *t); /* written or read; NULL is fine */
/* After a failed write, when HDF5 must not be asked to close anything of the file. NULL is fine. */
void result_table_forget(struct result_table *t);

/* The table of a result that is open; NULL: it has none. */
struct result_table *result_table_of(const struct result *r);

#endif
