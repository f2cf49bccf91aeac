/*
 * report_places.h - where on a slide its blurred tissue is.
 *
 * The maps of slides with blurred tissue (report_scores.h) are read again, because what is blurred
 * is known only when all slides are.
 */
#ifndef WSI_REPORT_PLACES_H
#define WSI_REPORT_PLACES_H

#include "process/report/report_scores.h"
#include "process/report/report_setup.h"

struct report_place {
    double x, y;       /* of the slide's width and height: amid the blurred windows; NAN: none */
    const char *where; /* "in the lower left", "in many places"; NULL: nothing is blurred */
};

/* Starts as {0}. */
struct report_places {
    struct report_place *of; /* [slides], owned */
};

/* -1: out of memory, or a result cannot be read again. */
int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out,
                       struct err *e);
void report_places_free(struct report_places *p);

#endif
