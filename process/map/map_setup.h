/*
 * map_setup.h - what `h5spec map` is asked for, and what it did.
 */
#ifndef WSI_MAP_SETUP_H
#define WSI_MAP_SETUP_H

#include "common/result/result.h"
#include "process/scores/score_map.h"

#include <stdbool.h>
#include <stdint.h>

enum map_format { MAP_PNG, MAP_OVERLAY, MAP_GEOJSON, MAP_CSV, MAP_TIFF, MAP_FORMATS };

/* How files that this program writes begin; each is replaced only by its like. */
#define MAP_GEOJSON_HEAD "{\"type\":\"FeatureCollection\",\"generator\":\"h5spec"
#define MAP_CSV_HEAD "i,j,x_px,y_px,size_px"
#define MAP_TIFF_SOFTWARE "h5spec"

/* Scores of another program (map_write.h). */
struct map_scores_setup {
    const char *path; /* NULL: maps of results */
    char **names;     /* [n_names] values that are wanted; owned by the command */
    int n_names;
    int64_t patch, width, height, memory, patches; /* score_map.h */
    bool follow;
    double idle; /* s */
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
    int64_t cell;           /* px; 0: the largest */
    bool partial;           /* slides may lack groups */
    const char *class_name; /* of regions in GeoJSON; NULL: tiles */
    double below, above;    /* what belongs to the regions; NAN: not given */
    bool range;             /* low and high are given, for the only feature */
    double low, high;
    int64_t width;   /* of overlays, px, at most */
    int64_t opacity; /* of overlays, percent */
    struct map_scores_setup scores;
};

struct map_done {
    int64_t files, slides; /* written; that files were written of */
    int64_t failed;        /* slides or results that were refused; each was reported */
    int64_t trouble;       /* of those: by the machine (disk, memory), not by the input */
};

#endif
