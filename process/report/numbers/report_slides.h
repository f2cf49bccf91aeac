/*
 * report_slides.h - what a report knows of each slide from its result, and the inputs without
 * numbers.
 */
#ifndef WSI_REPORT_SLIDES_H
#define WSI_REPORT_SLIDES_H

#include "common/base/err.h"
#include "common/result/features.h"
#include "common/result/report_numbers.h"
#include "common/result/result.h"
#include "process/report/numbers/report_metric.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The cumulative histogram and the sharpness of each slide, in a temporary file.
 *
 * They take 8 KiB per slide, most of what is known of it. The file is mapped to be read, and its
 * pages are dropped from memory at intervals.
 */

struct report_curves;
struct report_curves *report_curves_create(int64_t bins, struct err *e);
/* cdf[bins] and sharp[RESULT_SHARP_BINS] of one more slide. *at gets their number. */
int report_curves_add(struct report_curves *c, const float *cdf, const uint32_t *sharp, int64_t *at,
                      struct err *e);
/* After the last. The others can be used then, by one thread. */
int report_curves_map(struct report_curves *c, struct err *e);
const float *report_curves_cdf(struct report_curves *c, int64_t at);
const uint32_t *report_curves_sharp(struct report_curves *c, int64_t at);
void report_curves_free(struct report_curves *c); /* NULL is fine */

struct report_slide {
    char *name;   /* in the result; owned */
    char *vendor; /* owned; "" if not known */
    char *failed; /* why its last run failed, after this result was made; owned; NULL: it did not */
    int64_t file; /* number of its result */
    int64_t row;  /* of the table that has its numbers, for report_python.h */
    bool in_table; /* that is its result itself */
    int64_t width, height, nx, ny, windows, damaged, level;
    bool missing;                     /* the slide has tiles that were never scanned or are lost */
    bool brightfield;                 /* result_is_brightfield() */
    int64_t damaged_tiles;            /* of the slide; 0 or less: none, or not known */
    int64_t groups, groups_missing;   /* of the store */
    int64_t bounds_x, bounds_y;       /* level-0 px from which QuPath counts; 0, 0: its own */
    double um, downsample, objective; /* NAN: not known. um: per stored pixel */
    int64_t tile_rows, tile_cols;     /* px of the slide's tiles; 0: not known */
    double metric[REPORT_METRICS];    /* NAN: no value */
    double octaves[RESULT_SPECTRUM_OCTAVES]; /* report_numbers.h; the same */
    struct result_light light;               /* the same */
    struct slide_numbers of_spectra;
    double glass[GLASS_NUMBERS];     /* base/glass_numbers.h */
    int64_t curves;                  /* their number; -1: the slide has no windows */
    char subsampling[8];             /* of the JPEG tiles; "" if not known */
    struct report_picture *pictures; /* see report_pictures.h; owned; NULL: none */
};

/* Starts as {0}. */
struct report_slides {
    struct result_params params;  /* of all results */
    bool begun;                   /* params and curves are set */
    struct report_curves *curves; /* owned */
    char **creators;              /* [n_creators], of the results; owned */
    int n_creators;
    int64_t n_older; /* slides whose results, of an earlier version, lack numbers */
    int64_t n;
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
    int64_t n_copies;               /* no failures: the same slides as others */
    struct report_failure *copy;    /* [n_copies], owned; their reasons name the others */
    char *left_out; /* rows without a slide: about files that are not part of the corpus; owned */
    bool trouble;   /* the machine failed (err_is_trouble), not an input */
};

/* Of slide k, until some others were asked for: cdf[bins], and sharp[RESULT_SHARP_BINS] of windows
 * of tissue (report_numbers.h). NULL without windows. */
const float *report_cdf(const struct report_slides *s, int64_t k);
const uint32_t *report_sharp(const struct report_slides *s, int64_t k);

/* Takes over what the row owns. */
void report_slides_add(struct report_slides *s, const struct report_slide *row);
void report_slides_add_creator(struct report_slides *s, const char *creator);
/* Sorts by name, then by file. */
void report_slides_sort(struct report_slides *s);
/* The number of a slide; -1: none. The name may be that of the slide's file: "A.svs" is slide A. */
int64_t report_find_slide(const struct report_slides *s, const char *name);
void report_slide_free(struct report_slide *s); /* what it owns, not s */
void report_slides_free(struct report_slides *s);

void report_failures_add(struct report_failures *f, const char *name, const char *path,
                         const char *reason);
void report_failure_free(struct report_failure *f); /* what it owns, not f */
void report_failures_free(struct report_failures *f);

#endif
