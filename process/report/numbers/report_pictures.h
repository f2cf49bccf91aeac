/*
 * report_pictures.h - the pictures of slides for a report: map, thumbnail, spectra.
 *
 * Maps and thumbnails are encoded in several sizes as soon as their slide is loaded, because the
 * size that fits is known only at the end. If not even the smallest of all slides can fit, they are
 * made at the end, for the slides that do not pass. The bytes go to a temporary file without a
 * name, so memory does not grow with them. Spectra are loaded when the page is written, for the
 * slides that show them.
 */
#ifndef WSI_REPORT_PICTURES_H
#define WSI_REPORT_PICTURES_H

#include "common/result/result.h"
#include "process/report/numbers/report_setup.h"

#include <stdbool.h>
#include <stdio.h>

struct report_picture; /* where a slide's pictures are in the spool */
struct report_spool;

/* Begins the pictures of at least `least` slides, perhaps of n. */
struct report_spool *report_spool_create(const struct report_setup *o, int64_t least, int64_t n,
                                         struct err *e);
void report_spool_free(struct report_spool *s);
/* Are there so many slides that only those show pictures that do not pass? */
bool report_spool_is_late(const struct report_spool *s);

/* Encodes map and thumbnail of a slide. *out is owned by the caller; NULL if there is nothing to
 * show. Any thread. */
int report_pictures_make(const struct report_spool *spool, const struct result_slide *s,
                         struct report_picture **out, struct err *e);
/* Moves the bytes into the spool. One thread at a time. */
int report_pictures_keep(struct report_spool *s, struct report_picture *p, struct err *e);
void report_pictures_free(struct report_picture *p); /* NULL is fine */

/* Writes where they are in the spool, for another program that reads it, as JSON: [AT, bytes of map
 * and thumbnail of each size ...]; null: there are none. */
void report_pictures_describe(const struct report_picture *p, FILE *f);
/* The spool as a file, in which all pictures are that have been kept. */
int report_spool_descriptor(struct report_spool *s);

/* How many sizes each picture has: 0 is the largest. */
int report_spool_sizes(const struct report_spool *s);
/* Bytes that a slide's pictures of this size take in a page. */
int64_t report_pictures_bytes(const struct report_picture *p, int size);
/* Writes "MAP THUMB", each in base64 or empty. */
int report_pictures_put(const struct report_spool *s, const struct report_picture *p, int size,
                        FILE *f, struct err *e);

#endif
