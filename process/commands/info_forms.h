/*
 * info_forms.h - what the forms of `info` print.
 */
#ifndef WSI_INFO_FORMS_H
#define WSI_INFO_FORMS_H

#include "common/result/result_read.h"
#include "common/store/store_read.h"

#include <stdbool.h>
#include <stdint.h>

/* A store, and what `info` computes from it. */
struct info_store {
    const char *path;
    const struct store_info *info;
    struct store_extras extras;
    struct store_source *sources; /* [n_sources]: what it was made from */
    int64_t n_sources;
    int64_t file_bytes;
    int64_t tiles; /* over all groups */
    double tissue; /* share of the slide, NaN without a tissue map */
    double ratio;  /* bytes of the stored chunks' pixels / their stored bytes; NaN if none */
};

/* For people. */
void info_store_text(const struct info_store *s);
int info_result_text(const char *path, struct result *r, struct err *e);

/* For programs. */
void info_store_json(const struct info_store *s);
int info_result_json(const char *path, struct result *r, struct err *e);

/* Tables, of stores or of results. */
void info_csv_head(bool stores);
void info_store_csv(const struct info_store *s);
int info_result_csv(const char *path, struct result *r, struct err *e);
void info_histogram_head(bool several);
void info_result_histogram(const char *path, bool several, const struct result *r);

#endif
