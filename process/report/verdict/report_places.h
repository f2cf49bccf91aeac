/*
 * report_places.h - where on a slide a reason shows: its blurred, least sharp and damaged windows,
 * and stain that is unlike that of the others.
 *
 * The maps of slides with such a reason are read again, because what is blurred is known only when
 * all slides are.
 */
#ifndef WSI_REPORT_PLACES_H
#define WSI_REPORT_PLACES_H

#include "process/report/numbers/report_setup.h"
#include "process/report/verdict/report_scores.h"

struct report_place {
    double x, y;       /* of the slide's width and height; NAN: none */
    const char *where; /* "in the lower left", "in many places"; NULL: none */
};

/* Amid the blurred windows; the least sharp tissue; amid the windows that touch damaged tiles; the
 * tissue of the strangest colour; the densest. */
enum report_place_of {
    REPORT_PLACE_BLURRED,
    REPORT_PLACE_DULL,
    REPORT_PLACE_DAMAGED,
    REPORT_PLACE_HUE,
    REPORT_PLACE_DENSE,
    REPORT_PLACES
};

/* Starts as {0}. */
struct report_places {
    struct report_place (*of)[REPORT_PLACES]; /* [slides], owned */
};

/* *bad grows by the slides whose result cannot be read again; they have no places. -1: out of
 * memory or the like. */
int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out, int64_t *bad,
                       struct err *e);
void report_places_free(struct report_places *p);

#endif
