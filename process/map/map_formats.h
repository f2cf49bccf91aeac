/*
 * map_formats.h - the settings and the outcome of `h5spec map`, and the formats that it writes.
 */
#ifndef WSI_MAP_FORMATS_H
#define WSI_MAP_FORMATS_H

#include "common/result/result.h"
#include "process/map/map_source.h"
#include "process/scores/score_map.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum map_format { MAP_PNG, MAP_OVERLAY, MAP_GEOJSON, MAP_CSV, MAP_TIFF, MAP_FORMATS };

/* The first bytes of files that this program writes; a file is replaced only by one of its kind. */
#define MAP_GEOJSON_HEAD "{\"type\":\"FeatureCollection\",\"generator\":\"h5spec"
#define MAP_CSV_HEAD "i,j,x_px,y_px,size_px"
#define MAP_TIFF_SOFTWARE "h5spec"

/* Scores of another program (map_write.h). */
struct map_scores_setup {
    const char *path; /* NULL: maps of results */
    char **names;     /* [n_names] values that are wanted; owned by the command */
    int n_names;
    int64_t patch, width, height; /* score_map.h */
    double follow; /* s without growth that end the file (map_write.h); 0: it is complete */
};

struct map_setup {
    const char *output; /* a folder, or a file with the ending of a format */
    char *const *files; /* [n_files] results */
    int n_files;
    const char *const *patterns; /* [n_patterns] names or patterns of slides; none: all */
    int n_patterns;
    bool formats[MAP_FORMATS];  /* wanted */
    bool features[RESULT_MAPS]; /* wanted; none: all */
    const char *feature_list;   /* as the user wrote it; NULL: none */
    enum weights weights;
    int64_t cell; /* px; 0: the largest */
    bool partial; /* slides may lack groups */
    bool quiet;
    bool no_bounds;         /* GeoJSON counts from the slide's corner */
    const char *class_name; /* of regions in GeoJSON; NULL: tiles */
    double below, above;    /* what belongs to the regions; NAN: not given */
    bool range;             /* low and high are given, for the only feature */
    double low, high;
    struct map_scores_setup scores;
};

struct map_done {
    int64_t files, slides; /* written; that files were written of */
    int64_t failed;        /* slides or results that were refused; each was reported */
    int64_t trouble;       /* of those: by the machine (disk, memory), not by the input */
    int64_t regions;       /* of --class */
    int64_t with_regions;  /* slides */
    int64_t by_report, by_own, no_limit; /* slides by where their limit comes from */
};

/*
 * --- PNG ---
 *
 * A picture is drawn from top to bottom in little memory.
 *
 * map_picture_draw: one pixel per place, from the picture's upper left corner on: pixel (i, j) is
 * window (i, j), or cell (i, j) of a blended map. A place of a small map is z x z pixels, with the
 * largest z that fits 348 x 320. To the right of the map is the colour bar with its numbers; below
 * it are the slide's name, the feature, and how many windows have which values. Places without a
 * value are hatched.
 *
 * map_picture_overlay: a picture with the slide's aspect, to be laid over the slide. Pixel (x, y)
 * of w x h shows the place that covers the slide's point ((x + 1/2) W/w, (y + 1/2) H/h), so no
 * rounding accumulates. Where the map has no place or no value it is transparent, the latter with
 * the hatching's strokes.
 */

struct map_picture_setup {
    int map;          /* a feature (map_source.h) */
    double low, high; /* ends of the colours */
};

int map_picture_draw(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                     struct err *e);
int map_picture_overlay(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                        struct err *e);

/*
 * Maps as text: GeoJSON for viewers, CSV for tables. One record per place, with one
 * value per feature; coordinates in level-0 px, in CSV from the slide's corner.
 *
 * GeoJSON: a FeatureCollection of polygons, as QuPath's measurement maps take them:
 * properties.objectType is "tile", properties.measurements {"focus_db": -31.25, ...}. Places
 * without any value are left out, and so is sharpness of glass. Further members of the collection
 * give the slide's name, the blending, whether the map is partial, and the missing groups.
 *
 * CSV: i,j,x_px,y_px,size_px,FEATURE...,coverage[,flags] for every place; fields without a value
 * are empty. (x_px, y_px) is the upper left corner. Flags (enum result_flag) say why a window has
 * no value; maps of cells have none. Sharpness of glass is included, beside the column tissue.
 */

/* maps[n]: the features, enum result_map_number. */
int map_write_geojson(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e);
int map_write_csv(const struct map_slide *m, const int *maps, int n, FILE *f, struct err *e);

/*
 * Regions: the places beyond a limit, as annotations of the class o->class_name. Places that share
 * a side are one polygon, and no ring meets itself. A limit and the values are compared as float32,
 * which maps hold: 0.1 is not above 0.1.
 *
 * The limits are o->below and o->above. Without either, for focus_db what a report of all results
 * calls blurred (m->blurred_below); if that is not known, and for other features, the median of the
 * map less 3.5 robust standard deviations. done gets their number and which limit it was.
 */
int map_write_regions(const struct map_slide *m, const struct map_setup *o, int map,
                      struct map_done *done, FILE *f, struct err *e);

/*
 * --- OME-TIFF ---
 *
 * Maps as OME-TIFF: float32, one channel per feature, tiles, a pyramid.
 *
 * The first directory is channel 0 and so on; the lower resolutions of each are its SubIFDs, each
 * half as large as the one before, until it fits one tile: a pixel is the mean of the places below
 * it that have a value. NaN is "no value". PhysicalSize is the distance of two places, PositionX
 * and Y the corner of the map on the slide, in um if the slide's resolution is known, else in px.
 * Deflate has no predictor, because several readers know none for floats. Without libtiff,
 * map_tiff_none.c takes the place of map_tiff.c.
 */

/* Is OME-TIFF part of this build? */
bool map_tiff_available(void);
/* Writes the features maps[n] into the empty file `fd`, which stays open. */
int map_write_tiff(const struct map_slide *m, const int *maps, int n, int fd, struct err *e);
/* Is `path` a TIFF file that this program wrote? */
bool map_tiff_is_ours(const char *path);

#endif
