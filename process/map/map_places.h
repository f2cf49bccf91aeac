/*
 * map_places.h - maps as text: GeoJSON for viewers, CSV for tables. One record per place, with one
 * value per feature; coordinates in level-0 px.
 *
 * GeoJSON: a FeatureCollection of polygons, as QuPath's measurement maps take them:
 * properties.objectType is "tile", properties.measurements {"focus_db": -31.25, ...}. Places
 * without any value are left out, and so is sharpness of glass. Further members of the collection
 * give the slide's name, the blending, whether the map is partial, and the missing groups.
 *
 * CSV: i,j,x_px,y_px,size_px,FEATURE...,coverage[,flags] for every place; fields without a value
 * are empty. (x_px, y_px) is the upper left corner. Flags (enum result_flag) say why a window has
 * no value; maps of cells, and results of version 1, have none. Sharpness of glass is there, beside
 * the column tissue.
 */
#ifndef WSI_MAP_PLACES_H
#define WSI_MAP_PLACES_H

#include "process/map/map_setup.h"
#include "process/map/map_source.h"

#include <stdio.h>

/* maps[n]: the features, enum result_map_number. */
int map_write_geojson(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e);
int map_write_csv(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e);

/* The places beyond o->below or o->above, as annotations of the class o->class_name: places that
 * share a side are one polygon. Without either, places below the median of the map less 3.5 robust
 * standard deviations, as a report judges windows of tissue. */
int map_write_regions(const struct map_slide *m, const struct map_setup *o, int map, FILE *f,
                      struct err *e);

#endif
