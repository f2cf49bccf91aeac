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

/* A fact of a store, for programs. */
struct info_fact {
    const char *name;
    enum { INFO_FACT_TEXT, INFO_FACT_INT, INFO_FACT_REAL, INFO_FACT_TRUTH } kind;
    bool lacks; /* most stores lack it: a line of JSON does, too */
    const char *text;
    int64_t integer; /* also a truth */
    double real;
};
enum { INFO_FACTS = 48 }; /* at most */
/* The facts in their order; texts point into *s. Returns how many there are. */
int info_store_facts(const struct info_store *s, struct info_fact out[INFO_FACTS]);

#endif
