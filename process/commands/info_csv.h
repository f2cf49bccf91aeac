/*
 * info_csv.h - what `info --csv` and `info --histogram` print: tables.
 */
#ifndef WSI_INFO_CSV_H
#define WSI_INFO_CSV_H

#include "common/result/result.h"
#include "process/commands/info_forms.h"

#include <stdbool.h>

/* Of stores or of results. */
void info_csv_head(bool stores);
void info_store_csv(const struct info_store *s);
int info_result_csv(const char *path, struct result *r, struct err *e);
void info_histogram_head(bool several);
void info_result_histogram(const char *path, bool several, const struct result *r);

#endif
