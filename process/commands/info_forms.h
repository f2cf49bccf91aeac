/*
 * info_forms.h - what the forms of `info` print of a store.
 */
#ifndef WSI_INFO_FORMS_H
#define WSI_INFO_FORMS_H

#include "common/store/store.h"

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

#endif
