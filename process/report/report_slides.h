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

#include <stdbool.h>
#include <stdint.h>

/*
 * The numbers that slides are compared by.
 *
 * A number sets a flag in two ways: by its distance to the median of its pool (robust z), and by a
 * limit that holds for all slides.
 */

enum report_metric_number {
    REPORT_MEAN,
    REPORT_STD,
    REPORT_FOCUS_P50,
    REPORT_SHARP_P50,
    REPORT_SHARP_P05,
    REPORT_PIECES,
    REPORT_FINE_P50,
    REPORT_BLURRED, /* known once the slides of the pool are */
    REPORT_SLOPE,
    REPORT_TISSUE,
    REPORT_GLASS, /* glass_std */
    REPORT_GLASS_RANGE,
    REPORT_GLASS_LINES,
    REPORT_STAIN,
    REPORT_HUE,
    REPORT_GRAY,
    REPORT_INK,
    REPORT_LIGHT, /* light_step */
    REPORT_COLOURLESS,
    REPORT_GLASS_GRAY,
    REPORT_GRAY_LOW,
    REPORT_GRAY_HIGH,
    REPORT_LINES,
    REPORT_SEAMS,
    REPORT_DIRECTION,
    REPORT_DETAIL_4,
    REPORT_DETAIL_7,
    REPORT_FALL, /* detail_fall_db */
    REPORT_QUALITY,
    REPORT_TWICE,
    REPORT_METRICS,
    REPORT_W1 = REPORT_METRICS, /* ranks slides, sets no flag */
    REPORT_NUMBERS
};

/* Which picture of a slide shows what a number says. */
enum report_look { REPORT_LOOK_NONE, REPORT_LOOK_MAP, REPORT_LOOK_SLIDE };

struct report_metric {
    const char *name;  /* in tables of --csv */
    const char *title; /* on the page */
    const char *unit;  /* " dB", "" ... behind a value; " %": a share, shown in percent */
    int digits;        /* behind the point, as shown */
    const char *definition;
    const char *low, *high; /* what an unusually low or high value means; NULL: it is no flag */
    bool angle;             /* degrees: 359 and 1 differ by 2 */
    bool ratio;             /* %s of the words is how many times the median the value is */
    bool unsure;            /* of few slides high values need more: 1 + 6 / slides times the z */
    bool skewed;            /* real groups are: what is usual is wider on their long side */
    double least_value;     /* values below are a flag; 0: none */
    double low_below;       /* a low value is a flag only below this; 0: any may be */
    double most;            /* values above are a flag; 0: none */
    bool widens;            /* up to twice as much, where the group's slides are near that */
    bool spreads;           /* no flag up to four times the third quartile of the group; without a
                             * group up to 0.01 */
    double least;           /* a smaller difference from the median is no flag, whatever its z;
                             * with `ratio`, a part of the median */
    double times;  /* a smaller ratio to the median, or of the median, is no flag; 0: any may be */
    double floor;  /* a smaller MAD counts as this: values that differ by less mean nothing */
    bool specific; /* it names the cause, so it comes before numbers that only notice it */
    enum report_look look;
};

/* Of metric 0 .. REPORT_NUMBERS - 1. */
const struct report_metric *report_metric(int metric);
/* Has it a z? */
bool report_is_scored(int metric);
/* Is it a share, shown in percent? */
bool report_is_share(int metric);
/* Can it set a flag, or rank slides? The others are in tables only. */
bool report_is_on_page(int metric);
/* The number of a metric of this name; -1: none. */
int report_find_metric(const char *name);

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
    int64_t width, height, nx, ny, windows, damaged, missing, level;
    int64_t damaged_tiles;                   /* of the slide; 0 or less: none, or not known */
    int64_t groups, groups_missing;          /* of the store */
    double um, downsample, objective;        /* NAN: not known. um: per stored pixel */
    int64_t tile_rows, tile_cols;            /* px of the slide's tiles; 0: not known */
    double metric[REPORT_METRICS];           /* NAN: no value */
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
    bool trouble;                   /* the machine failed (err_is_trouble), not an input */
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

/*
 * Slides that are read a second time, when it is known what of them is needed.
 */

/* Starts with the first two only: the results of the report, and what all have in common. */
struct report_again {
    char *const *files;
    const struct result_params *params;
    struct result *open; /* result number `file`, counted from 1; 0: none */
    int64_t file;
};

/* Opens the result of a slide, if it is not open yet. -1 also if it is another one now: what has
 * been kept of its slides was sized by the first. */
int report_open_again(struct report_again *a, const struct report_slide *s, struct err *e);
/* Loads parts of a slide (result_load_parts); *out is to be freed with result_slide_free(). -1 if
 * the slide cannot be read any more. */
int report_load_again(struct report_again *a, const struct report_slide *s, unsigned parts,
                      struct result_slide *out, struct err *e);
void report_again_end(struct report_again *a);

#endif
