/*
 * report_slides.h - what a report knows of each slide from its result, and the inputs without
 * numbers.
 */
#ifndef WSI_REPORT_SLIDES_H
#define WSI_REPORT_SLIDES_H

#include "common/base/err.h"
#include "common/result/features.h"
#include "common/result/result.h"
#include "common/result/result_numbers.h"
#include "process/report/report_curves.h"
#include "process/report/report_metric.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPORT_OCTAVES = FEATURES_OCTAVES - 1 }; /* those that version 2 has, too */

struct report_slide {
    char *name;   /* in the result; owned */
    char *vendor; /* owned; "" if not known */
    int64_t file; /* number of its result */
    int64_t version, width, height, nx, ny, windows, damaged, missing, level;
    int64_t damaged_tiles;            /* of the slide; 0 or less: none, or not known */
    int64_t groups, groups_missing;   /* of the store */
    double um, downsample, objective; /* NAN: not known. um: per stored pixel */
    double metric[REPORT_METRICS], profile[REPORT_OCTAVES]; /* NAN: no value */
    double octaves[RESULT_SPECTRUM_OCTAVES];                /* result_numbers.h; the same */
    double lines_period_px, lines_deg, direction_deg;       /* spectrum_numbers.h */
    double some_glass;   /* as REPORT_GLASS, but of fewer windows: only for telling kinds apart */
    int64_t curves;      /* their number; -1: the slide has no windows */
    char subsampling[8]; /* of the JPEG tiles; "" if not known */
    struct report_picture *pictures; /* see report_pictures.h; owned; NULL: none */
};

/* Starts as {0}. */
struct report_slides {
    struct result_params params;  /* of all results, but for what features they have */
    bool begun;                   /* params and curves are set */
    struct report_curves *curves; /* owned */
    char **creators;              /* [n_creators], of the results; owned */
    int n_creators;
    int64_t n, room;
    struct report_slide *slide; /* [n], by name; owned */
};

/* An input, or a slide of it, without numbers. */
struct report_failure {
    char *name;   /* of the slide or of the file; owned */
    char *path;   /* of the input; "" if it is not known; owned */
    char *reason; /* without folders; owned */
};

/* Starts as {0}. */
struct report_failures {
    int64_t n;
    struct report_failure *failure; /* [n], owned */
    bool trouble;                   /* the machine failed (err_is_trouble), not an input */
};

/* Of slide k, until some others were asked for: cdf[bins], and sharp[RESULT_SHARP_BINS] of windows
 * of tissue (result_numbers.h). NULL without windows. */
const float *report_cdf(const struct report_slides *s, int64_t k);
const uint32_t *report_sharp(const struct report_slides *s, int64_t k);

/* Takes over what the row owns. */
int report_slides_add(struct report_slides *s, const struct report_slide *row, struct err *e);
int report_slides_add_creator(struct report_slides *s, const char *creator, struct err *e);
/* Sorts by name, then by file. */
void report_slides_sort(struct report_slides *s);
/* The number of a slide; -1: none. The name may be that of the slide's file: "A.svs" is slide A. */
int64_t report_find_slide(const struct report_slides *s, const char *name);
void report_slide_free(struct report_slide *s); /* what it owns, not s */
void report_slides_free(struct report_slides *s);

int report_failures_add(struct report_failures *f, const char *name, const char *path,
                        const char *reason, struct err *e);
void report_failures_free(struct report_failures *f);

#endif
