/*
 * report.h - `h5spec report`: one HTML page about a corpus, from its results.
 *
 * report_write() goes through these steps:
 *
 *   report_load     reads every slide once: numbers, histogram, pictures (report_pictures)
 *   report_groups   which group a slide belongs to: from a table, a pattern or its properties
 *   report_names    what slides, groups and failures are called on the page, and the key to it
 *   report_limits   the thresholds of --limits
 *   report_scores   pools, robust z, W1, flags, verdicts
 *   report_cells    histograms in cells of about 1 dB, and their bands
 *   report_page     the page: report_data writes what process/draw/page.js shows
 *   report_tables   --csv, --multiqc
 *
 * A pool is a group's slides of one resolution. Slides are compared within their pool only.
 * The memory of a report is about 4 bytes per bin and slide.
 */
#ifndef WSI_REPORT_H
#define WSI_REPORT_H

#include "common/base/command.h"
#include "common/base/err.h"
#include "common/base/stats.h"
#include "common/result/features.h"
#include "common/result/result.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum report_pictures { REPORT_AUTO, REPORT_ALL, REPORT_MAPS, REPORT_NONE };

struct report_setup {
    const char *output, *title;
    char *const *files; /* results */
    int n_files;
    char *const *folders; /* searched for results: their lists of failed slides are shown */
    int n_folders;
    const char *meta, *group, *group_regex, *limits, *failed; /* NULL: not given */
    const char *csv, *multiqc, *key;
    bool number_names; /* names are replaced by numbers; `key` is where they are written */
    enum report_pictures pictures;
    int64_t max_size; /* bytes of the page */
    int threads;
};

/* Writes the page and what else is asked for. *bad gets the number of inputs that could not be
 * used (the page lists them), *failing the number of slides that break a limit. */
int report_write(const struct report_setup *setup, int64_t *bad, int64_t *failing, struct err *e);

extern const struct command report_options;
/* The command; returns the exit status. */
int report_main(int argc, char **argv);

/* --- what the steps share --- */

/* The numbers that slides are compared by; report_words.c has their table. */
enum report_metric_number {
    REPORT_MEAN,
    REPORT_STD,
    REPORT_FOCUS_P05,
    REPORT_FOCUS_P50,
    REPORT_FOCUS_P95,
    REPORT_SLOPE,
    REPORT_TISSUE,
    REPORT_METRICS
};

struct report_metric {
    const char *name, *unit;
    const char *low,
        *high;  /* what an unusually low or high value means, in words; NULL: unscored */
    int digits; /* behind the point */
    const char *definition;
};
const struct report_metric *report_metric(int metric);

enum { REPORT_OCTAVES = FEATURES_OCTAVES - 1, REPORT_BANDS = 5 }; /* those of version 2, too */
extern const double report_bands[REPORT_BANDS];                   /* the quantiles of the bands */
enum report_verdict { REPORT_NO_VERDICT, REPORT_PASS, REPORT_WARN, REPORT_FAIL };

struct report_slide {
    char *name;   /* in the result; owned */
    char *shown;  /* on the page: the name or a number; owned */
    char *vendor; /* owned; "" if not known */
    int64_t file; /* number of its result */
    int64_t version, width, height, nx, ny, windows, damaged, missing, level;
    int64_t groups, groups_missing;    /* of the store */
    double mpp, downsample, objective; /* NAN: not known. mpp is that of level 0 */
    double metric[REPORT_METRICS], z[REPORT_METRICS], profile[REPORT_OCTAVES];
    double w1;  /* dB to the pool's median; NAN without windows */
    float *cdf; /* [bins], owned; NULL without windows */
    int32_t group, pool;
    enum report_verdict verdict;
    struct report_picture *pictures; /* see report_pictures.h; owned; NULL: none */
};

/* A group's slides of one resolution. */
struct report_pool {
    int32_t group;
    char resolution[32]; /* "0.25 um/px" */
    int64_t n, counted;  /* slides; those with windows */
    struct stats_summary summary[REPORT_METRICS];
    double profile[3][REPORT_OCTAVES]; /* quartiles of the octaves */
    float *median;                     /* [bins]: the median CDF; owned; NULL if counted is 0 */
    float *bands;                      /* [REPORT_BANDS][cells]: quantiles of the shares; owned */
};

/* What is left out of a page that is too large, each with what comes before it. Pictures go first;
 * see report_pictures.h. */
enum report_lean {
    REPORT_WHOLE,
    REPORT_LESS_TABLE, /* rows without a reason, of the table without JavaScript */
    REPORT_NO_CURVES,  /* histogram and profile of each slide */
};

enum { REPORT_EVERY_GROUP = -1, REPORT_NO_GROUP = -2 };

struct report_limit {
    int metric;        /* REPORT_METRICS: w1_db */
    bool above;        /* values above are bad */
    double warn, fail; /* NAN: none */
    char *group_name;  /* "": all; owned */
    int32_t group;     /* number, or one of the two above */
    int64_t line;      /* of the file */
};

/* An input, or a slide of it, without numbers. */
struct report_failure {
    char *name;   /* of the slide or of the file; owned */
    char *path;   /* of the input; "" if it is not known; owned */
    char *reason; /* without folders; owned */
    char *shown;  /* on the page: the base name or a number; owned */
};

struct report {
    const struct report_setup *setup;
    struct result_params params; /* of all results */
    char **creators;             /* [n_creators], of the results; owned */
    int n_creators;
    bool begun; /* params are set */
    int64_t n, room;
    struct report_slide *slides; /* [n], by name */
    int32_t n_groups;
    char **groups;      /* [n_groups], owned; group 0 is that of slides without another */
    char **group_names; /* [n_groups], owned: what they are called before numbers replace names */
    int32_t n_pools;
    struct report_pool *pools;
    int64_t n_limits;
    struct report_limit *limits;
    int64_t n_failures, bad;
    struct report_failure *failures;
    double eta[REPORT_METRICS];           /* share of the variation between groups */
    int64_t cell_bins, first_cell, cells; /* histograms on the page: bins per cell, cells shown */
    double most_share;                    /* 1/dB: the largest of all cells */
    int64_t scored, flags;                /* values that have a z; those with |z| > STATS_FLAG */
    struct report_spool *spool;           /* NULL: no pictures */
    enum report_lean lean;
};

int report_load(struct report *r, struct err *e);
int report_group(struct report *r, struct err *e);
int report_name(struct report *r, struct err *e);
int report_key(const struct report *r, FILE *f, struct err *e);
int report_score(struct report *r, struct err *e);
int report_cells(struct report *r, struct err *e);
int report_read_limits(struct report *r, struct err *e);
/* Finds the groups of limits, once they are known. Reports limits that no slide can break. */
int report_place_limits(struct report *r, struct err *e);
/* Does a limit hold for a slide, and is x beyond a threshold of it? */
bool report_limit_holds(const struct report_limit *l, const struct report_slide *s);
bool report_limit_breaks(const struct report_limit *l, double x, double threshold);
int report_page(const struct report *r, FILE *f, struct err *e);
void report_data(const struct report *r, FILE *f);
int report_csv(const struct report *r, FILE *f, struct err *e);
int report_multiqc(const struct report *r, struct err *e);

void report_slide_free(struct report_slide *s); /* what it owns, not s */
void report_lists_free(struct report *r);       /* groups, failures and limits */
/* Lists an input or a slide that has no numbers. */
int report_fail(struct report *r, const char *name, const char *path, const char *reason,
                struct err *e);

/* The share of a slide's values in a cell, per dB. The slide has windows. */
double report_share(const struct report *r, const struct report_slide *s, int64_t cell);
/* The reason as the page may show it. */
const char *report_failure_reason(const struct report *r, const struct report_failure *f);
/* Value of a metric; REPORT_METRICS is w1. */
double report_value(const struct report_slide *s, int metric);
/* The number of a metric of this name; -1: none. */
int report_find_metric(const char *name);
/* Is a slide unusual: a flag of its own, or a verdict other than pass? */
bool report_is_flagged(const struct report_slide *s);
/* Reason k = 0, 1 ... for looking at a slide, or what its numbers lack. False: no more. */
bool report_reason(const struct report *r, const struct report_slide *s, int k, char *out,
                   size_t size);
/* "group, 0.25 um/px". */
void report_pool_label(const struct report *r, const struct report_pool *p, char *out, size_t size);

#endif
