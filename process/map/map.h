/*
 * map.h - `h5spec map`: maps of windows as pictures and as files for viewers.
 */
#ifndef WSI_MAP_H
#define WSI_MAP_H

#include "common/base/command.h"
#include "common/base/err.h"
#include "common/result/result.h"
#include "process/map/map_blend.h"
#include "process/map/map_files.h"

#include <stdbool.h>
#include <stdint.h>

struct map_setup {
    const char *output; /* a folder, or a file with the ending of a format */
    char *const *files; /* [n_files] results */
    int n_files;
    const char *const *patterns; /* [n_patterns] names or patterns of slides; none: all */
    int n_patterns;
    bool formats[MAP_FORMATS];  /* wanted */
    bool features[RESULT_MAPS]; /* wanted; none: all */
    enum map_weights weights;
    int64_t cell; /* px; 0: the largest */
    bool partial; /* slides may lack groups */
    bool range;   /* low and high are given, for the only feature */
    double low, high;
    int64_t width;   /* of overlays, px, at most */
    int64_t opacity; /* of overlays, percent */
};

struct map_done {
    int64_t files, slides; /* written; that files were written of */
    int64_t failed;        /* slides or results that were refused; each was reported */
};

/* Writes the maps of all chosen slides, in the order of the files. What fails is reported, and the
 * next slide follows. -1: stopped by a signal, or nothing could be begun. */
int map_write(const struct map_setup *setup, struct map_done *done, struct err *e);

/* -1 unless exactly one slide is chosen: one file holds one. */
int map_is_one_slide(const struct map_setup *setup, struct err *e);

/* The command line. map_main returns the program's exit status. */
extern const struct command map_options;
int map_main(int argc, char **argv);

#endif
