/*
 * map_source.h - the maps of one slide, of a result or of scores, as rows of numbers from top to
 * bottom.
 *
 * A raw map has one place per window. As a picture, a place is the block of S x S px around the
 * window's centre: the map's upper left corner is at ((N - S)/2, (N - S)/2) px and places are S px
 * apart. A blended map has cells of C px from the slide's origin (map_source.c); the last
 * column and row may reach beyond the slide. Maps of scores are blended ones, in px of level 0
 * (score_map.h).
 *
 * Rows are read from the file as they are asked for: memory does not depend on the slide's height.
 */
#ifndef WSI_MAP_SOURCE_H
#define WSI_MAP_SOURCE_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "process/scores/score_map.h"

#include <stdbool.h>
#include <stdint.h>

/* --- slides --- */

enum { MAP_MOST = 16 }; /* maps of a slide */

struct map_slide {
    struct result *result;          /* the caller's; NULL: the maps are scores */
    const struct score_map *scores; /* the caller's; NULL: of a result */
    int64_t k;                      /* number of the slide */
    struct result_params params;    /* of the result */
    struct result_slide s;          /* without histogram and maps */
    enum weights weights;
    int64_t cols, rows;      /* places */
    double left, top, pitch; /* px of the stored level: corner of the map; from place to place */
    int64_t from_x, from_y;  /* level-0 px from which GeoJSON counts (geojson.h) */
    double downsample;       /* level-0 px per px of the stored level; NaN: not known */
    double mpp_x, mpp_y;     /* um per px of the stored level; NaN: not known */
    double blurred_below;    /* dB of focus_db, by a report of all results; NaN: not known */
    bool partial;            /* something is missing */
    char missing[160];       /* which groups: "2-3,7" */
    char lacks[200];         /* in words: "missing groups 2-3,7" */
};

/* Opens slide k. `cell` is used unless weights is WEIGHTS_NONE; 0: the largest cell. A slide
 * without windows has cols = rows = 0. Free with map_slide_free, also after a failure. */
int map_slide_open(struct map_slide *m, struct result *r, int64_t k, enum weights weights,
                   int64_t cell, struct err *e);
/* The slide of scores: name, and um per px of level 0 (NaN: not known). */
void map_slide_of_scores(struct map_slide *m, const struct score_map *scores, const char *name,
                         enum weights weights, double mpp_x, double mpp_y);
void map_slide_free(struct map_slide *m);
/* The size of a cell, px; with 0, the largest possible. -1 unless it divides window and stride. */
int64_t map_cell(const struct result_params *p, int64_t cell, struct err *e);

/* --- features: enum result_map_number, or the number of a value of scores --- */

const char *map_feature_name(const struct map_slide *m, int map);
const char *map_feature_unit(const struct map_slide *m, int map);
/* The ends of the colours of pictures. */
void map_feature_range(const struct map_slide *m, int map, double *low, double *high);

/* --- rows --- */

struct map_rows;
/* Begins at the top. NULL on failure. */
struct map_rows *map_rows_open(const struct map_slide *m, int map, struct err *e);
/* Is the map sharpness, which glass does not have, and is it known what is glass? */
bool map_hides_glass(const struct map_slide *m, int map);
/* The same for what people look at: windows of which less than half is tissue have no sharpness. */
struct map_rows *map_rows_open_tissue(const struct map_slide *m, int map, struct err *e);
/* The next row: values[cols], NaN where there is none, and coverage[cols] (may be NULL): the share
 * of the weights of all windows there that have a value. */
int map_rows_next(struct map_rows *r, float *values, float *coverage, struct err *e);
void map_rows_close(struct map_rows *r); /* NULL is fine */

#endif
