/*
 * polygons.h - areas made of polygons with holes, and the pixels that lie inside.
 *
 * A pixel lies inside if its centre does: pixel (x, y) has its centre at (x + 1/2, y + 1/2). Rings
 * of one polygon are combined by the even-odd rule, so the inner rings are holes, in any order and
 * direction. Several polygons are united: where they overlap, a pixel lies inside once. Rings are
 * closed implicitly. An edge belongs to the pixels at and right of it, so polygons that share an
 * edge share no pixel and leave none out.
 *
 * Numbers of pixels are exact integers, so shares of areas are the same in every order and for
 * every split of the work.
 *
 * Threads: objects are independent of each other; one call at a time per object.
 */
#ifndef WSI_POLYGONS_H
#define WSI_POLYGONS_H

#include "common/base/err.h"

#include <stdint.h>

#define POLYGONS_MOST_COORDINATE 1e9 /* px, in either direction */

struct polygons_edge {
    double x0, y0, x1, y1; /* y0 < y1 */
    int64_t polygon;
};

struct polygons {
    struct polygons_edge *edges; /* [n], owned; horizontal ones are left out */
    int64_t n;
    int64_t count;                  /* polygons */
    double left, top, right, below; /* of all points; left > right: there are none */
};

/* Zero bytes are not a valid object: begin with this. */
#define POLYGONS_NONE ((struct polygons){.left = 1, .right = -1})
void polygons_free(struct polygons *p);
/* Adds an edge to the polygon that was begun last (count - 1). Coordinates are within
 * POLYGONS_MOST_COORDINATE. */
void polygons_add_edge(struct polygons *p, const double a[2], const double b[2]);
/* CRC-32 of all edges in their order. */
uint32_t polygons_crc32(const struct polygons *p);
/* Adds (x, y) to all coordinates. */
void polygons_move(struct polygons *p, double x, double y);
/* Divides all coordinates. */
void polygons_shrink(struct polygons *p, double by);

/* -1 if all polygons lie outside of a slide of width x height level-0 px. */
int polygons_check_place(const struct polygons *p, double width, double height, struct err *e);

struct polygons_span {
    int64_t first, end; /* pixels first .. end - 1 */
};

/* --- the pixels of an image, row by row --- */

struct polygons_rows;
/* For an image of width x height px. `p` must outlive it. NULL: the polygons have too many edges
 * for an image of this height, or out of memory. */
struct polygons_rows *polygons_open(const struct polygons *p, int64_t width, int64_t height,
                                    struct err *e);
/* The n spans of pixels of row y that lie inside: ascending, disjoint, within the image. y must not
 * decrease from call to call. Valid until the next call. */
const struct polygons_span *polygons_row(struct polygons_rows *r, int64_t y, int64_t *n);
void polygons_close(struct polygons_rows *r); /* NULL is fine */

#endif
