/*
 * geojson.h - polygons from a GeoJSON file, such as QuPath exports.
 *
 * The file holds a FeatureCollection, a Feature, a geometry, or an array of these. Polygons,
 * MultiPolygons and GeometryCollections give polygons; geometries without an area (points, lines)
 * are ignored. Coordinates are level-0 pixels, x to the right and y down. QuPath counts them from
 * the corner of what was scanned, if the slide states it (openslide.bounds-x, -y): the caller adds
 * struct store_info's bounds.
 *
 * The class of a feature is properties.classification.name, as QuPath writes it. Derived classes
 * (`names`) are joined by ": ". A text in place of the object is the name itself.
 *
 * A file is untrusted: its size, the memory to parse it, the depth of nesting and every coordinate
 * are limited. Builds without Jansson read no file and say so.
 *
 * Any thread may call; one file is read at a time, so that the limit of memory holds for all.
 */
#ifndef WSI_GEOJSON_H
#define WSI_GEOJSON_H

#include "common/base/err.h"
#include "common/regions/polygons.h"

#include <stdbool.h>

/* Ends a line about places that count from the bounds. */
#define GEOJSON_BOUNDS                                                                             \
    "(openslide.bounds-x, -y), as in QuPath; --no-bounds: from the slide's corner"

/* Does this build read GeoJSON? */
bool geojson_works(void);

/* The classes of which polygons are wanted; n 0: all polygons, also those without a class. */
struct geojson_classes {
    const char **names; /* [n] */
    int n;
};

/* Reads the polygons of the wanted classes; free *p with polygons_free(). It is an error if there
 * is none, and the message then names the classes that exist. Messages name the file. */
int geojson_read(const char *path, const struct geojson_classes *classes, struct polygons *p,
                 struct err *e);

#endif
