/*
 * report_rows.h - slides of results as rows of a temporary table: what a program in Python reads
 * instead of results.
 *
 * The file has the form of the table of h5spec merge (common/FORMAT.md), in the order in which rows
 * are added. Its rows name no results. It has no name once it is whole: it is gone when the program
 * ends, however that happens.
 */
#ifndef WSI_REPORT_ROWS_H
#define WSI_REPORT_ROWS_H

#include "common/result/report_numbers.h"
#include "common/result/result.h"

struct report_rows;
/* A table in TMPDIR. NULL on failure. */
struct report_rows *report_rows_create(const struct result_params *p, struct err *e);
/* *row gets the number of the row. */
int report_rows_add(struct report_rows *r, const struct result_slide *s,
                    const struct report_numbers *n, int64_t *row, struct err *e);
/* After the last row. */
int report_rows_finish(struct report_rows *r, struct err *e);
/* Of the whole table. */
int report_rows_descriptor(const struct report_rows *r);
void report_rows_free(struct report_rows *r); /* NULL is fine */

#endif
