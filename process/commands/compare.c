/*
 * compare.c - h5spec compare: the same slides in two results, and what changed.
 *
 * Slides are matched by a table of pairs, if one is given. Else by name, and the rest by quickhash,
 * if one slide on each side has it; results of one slide each are compared whatever it is called.
 * The distance between two slides is W1, the Wasserstein-1 distance of their histograms in dB; maps
 * are compared window by window.
 */
#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/err.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stats.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"
#include "process/options/commands.h"
#include "process/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compare_change {
    int64_t windows;   /* that have a value in both */
    int64_t changed;   /* of these */
    int64_t lone;      /* windows that have a value in one only */
    double mean, most; /* of |b - a|, dB; NaN without windows */
};

/* One slide; all differences are b - a. */
struct compare_slide {
    char name[256], name_b[256];  /* they differ if the slides were matched by quickhash */
    int64_t windows_a, windows_b; /* that count */
    double mean_db, std_db;       /* differences; NaN if either has no windows */
    double w1_db;                 /* NaN if only one of them has windows; 0 if none has */
    bool same_shape;              /* the maps have the same size; else they are not compared */
    bool same_counts;             /* the histogram and all counts */
    char different[512];          /* names of what else differs, of all that reports read: "a, b" */
    bool identical;               /* neither counts nor anything else differ */
    double mpp_a, mpp_b;          /* of the stored level, um; NaN if unknown */
    bool other_resolution;        /* same_resolution.h: W1 says nothing about the slide */
    struct compare_change maps[RESULT_MAPS]; /* of those in `maps` below */
    double octaves[FEATURES_OCTAVES];        /* of the mean levels; NaN where one is unknown */
};

struct compare {
    struct compare_slide *slides; /* [n], worst first; owned */
    int64_t n, n_renamed;         /* slides; of these, matched by quickhash */
    char **only[2]; /* names of slides in the first and in the second result alone; owned */
    int64_t n_only[2];
    bool maps[RESULT_MAPS]; /* are compared: `change` of map_table.h */
};

/* --- comparing --- */

struct both {
    struct result *file[2];
    float *cdf[2];    /* [bins] */
    int64_t *rest[2]; /* [n_rest] slides whose name the other file does not have */
    int64_t n_rest[2];
    struct compare *out;
};

/* --- one slide --- */

static void add_change(struct compare_change *c, double a, double b)
{
    if (isnan(a) || isnan(b)) {
        c->lone += isnan(a) != isnan(b);
        return;
    }
    const double off = fabs(b - a);
    c->windows++;
    c->changed += off > 0;
    c->mean += off;
    c->most = off > c->most ? off : c->most;
}

static struct compare_change change_of(const struct result_slide *a, const struct result_slide *b,
                                       int map)
{
    struct compare_change c = {0};
    for (int64_t k = 0; k < a->nx * a->ny; k++)
        add_change(&c, result_map_value(&a->maps[map], k), result_map_value(&b->maps[map], k));
    c.mean = c.windows ? c.mean / (double)c.windows : NAN;
    c.most = c.windows ? c.most : NAN;
    return c;
}

static double w1_of(const struct both *r, const struct result_params *p,
                    const struct result_counts *a, const struct result_counts *b)
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    if (a->windows == 0 || b->windows == 0)
        return a->windows == b->windows ? 0 : NAN;
    stats_cdf(a->histogram, p->bins, a->underflow, a->overflow, r->cdf[0]);
    stats_cdf(b->histogram, p->bins, b->underflow, b->overflow, r->cdf[1]);
    return stats_w1(r->cdf[0], r->cdf[1], p->bins, width);
}

static bool same_counts(const struct result_params *p, const struct result_counts *a,
                        const struct result_counts *b)
{
    return !fields_same(result_counts_fields, FIELD_ALL, a, b, NULL) &&
           !memcmp(a->octaves, b->octaves, sizeof a->octaves) &&
           !memcmp(a->histogram, b->histogram, (size_t)p->bins * sizeof *a->histogram);
}

/* Notes a name, if it is not the last one already. */
static void note_different(struct compare_slide *s, const char *name)
{
    const size_t n = strlen(s->different), m = strlen(name);
    if (n >= m && !strcmp(s->different + n - m, name))
        return;
    if (n + m + 3 < sizeof s->different)
        snprintf(s->different + n, sizeof s->different - n, "%s%s", n ? ", " : "", name);
}

static bool same_numbers(const double *a, const double *b, int n)
{
    for (int k = 0; k < n; k++)
        if (a[k] != b[k] && !(isnan(a[k]) && isnan(b[k])))
            return false;
    return true;
}

static bool same_map(const struct result_slide *a, const struct result_slide *b, int map)
{
    const size_t bytes = result_type_bytes(result_map_kind(map)->type);
    return !memcmp(a->maps[map].values, b->maps[map].values, (size_t)(a->nx * a->ny) * bytes);
}

static bool same_spectrum(const struct result_params *p, const struct result_spectrum *a,
                          const struct result_spectrum *b)
{
    return a->windows == b->windows && a->threshold == b->threshold &&
           !memcmp(a->sums, b->sums, result_spectrum_sums(p) * sizeof *a->sums);
}

static bool same_picture(const struct result_picture *a, const struct result_picture *b)
{
    return a->width == b->width && a->height == b->height &&
           (a->width == 0 || !memcmp(a->rgb, b->rgb, (size_t)(a->width * a->height * 3)));
}

/* Its names and where it lies do not state what a slide is, nor does how its store packs it. */
static bool names_slide(const struct field *f)
{
    return f->at == offsetof(struct result_slide, source_name) ||
           f->at == offsetof(struct result_slide, source_bytes) ||
           f->at == offsetof(struct result_slide, quickhash) ||
           f->at == offsetof(struct result_slide, content_crc32);
}

static void compare_maps(const struct result_params *p, const struct result_slide *a,
                         const struct result_slide *b, struct compare_slide *s)
{
    for (int m = 0; m < RESULT_MAPS; m++)
        if (!a->maps[m].absent && !b->maps[m].absent && !same_map(a, b, m))
            note_different(s, result_map_kind(m)->name);
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        if (!same_spectrum(p, &a->spectra[k], &b->spectra[k]))
            note_different(s, "spectra");
    if (!same_picture(&a->thumbnail, &b->thumbnail))
        note_different(s, "thumbnail");
}

/* Everything but counts that reports read. */
static void compare_rest(const struct result_params *p, const struct result_slide *a,
                         const struct result_slide *b, struct compare_slide *s)
{
    struct slide_numbers x = a->of_spectra, y = b->of_spectra;
    const double *fraction[2] = {&a->origin.tissue_fraction, &b->origin.tissue_fraction};
    if (!same_numbers(fraction[0], fraction[1], 1) ||
        (s->same_shape && !same_map(a, b, RESULT_TISSUE)))
        note_different(s, "tissue");
    for (const struct field *f = result_slide_fields; f->name; f++)
        if ((f->set & (RESULT_OF_SOURCE | RESULT_OF_ORIGIN | RESULT_REGIONS)) && !names_slide(f) &&
            !field_is_same(f, a, b))
            note_different(s, f->name);
    if (s->same_shape)
        compare_maps(p, a, b, s);
    for (int m = 0; m < RESULT_MAPS; m++)
        if (!a->maps[m].absent && !b->maps[m].absent &&
            !same_numbers(a->quantiles[m], b->quantiles[m], FEATURES_QUANTILES))
            note_different(s, "quantiles");
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        if (!same_numbers(slide_number_of(&x, k), slide_number_of(&y, k), 1))
            note_different(s, slide_number_list[k].name);
}

static void compare_slides(const struct both *r, const struct result_slide *a,
                           const struct result_slide *b, struct compare_slide *s)
{
    const struct result_params *p = result_params(r->file[0]);
    double mean[2], std[2], profile[2][FEATURES_OCTAVES];
    result_profile(p, &a->counts, profile[0]);
    result_profile(p, &b->counts, profile[1]);
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        s->octaves[o] = profile[1][o] - profile[0][o];
    result_moments(p, a->counts.histogram, &mean[0], &std[0]);
    result_moments(p, b->counts.histogram, &mean[1], &std[1]);
    snprintf(s->name, sizeof s->name, "%s", a->name);
    snprintf(s->name_b, sizeof s->name_b, "%s", b->name);
    s->windows_a = a->counts.windows;
    s->windows_b = b->counts.windows;
    s->mean_db = mean[1] - mean[0];
    s->std_db = std[1] - std[0];
    s->w1_db = w1_of(r, p, &a->counts, &b->counts);
    s->mpp_a = same_resolution_um(&a->origin);
    s->mpp_b = same_resolution_um(&b->origin);
    s->other_resolution = same_resolution_differ(s->mpp_a, s->mpp_b);
    s->same_shape = a->nx == b->nx && a->ny == b->ny;
    s->same_counts = same_counts(p, &a->counts, &b->counts);
    compare_rest(p, a, b, s);
    s->identical = s->same_shape && s->same_counts && !s->different[0];
    for (int m = 0; m < RESULT_MAPS && s->same_shape; m++)
        if (r->out->maps[m])
            s->maps[m] = change_of(a, b, m);
}

/* --- pairs of slides --- */

static int add_pair(const struct both *r, int64_t i, int64_t j, struct err *e)
{
    struct result_slide a, b;
    if (stop_check(e) || result_load_slide(r->file[0], i, &a, e))
        return -1;
    const int bad = result_load_slide(r->file[1], j, &b, e);
    if (!bad) {
        compare_slides(r, &a, &b, &r->out->slides[r->out->n++]);
        result_slide_free(&b);
    }
    result_slide_free(&a);
    return bad;
}

/* Both lists are sorted by name. */
static int pair_names(struct both *r, struct err *e)
{
    const int64_t n = result_slides(r->file[0]), m = result_slides(r->file[1]);
    int bad = 0;
    for (int64_t i = 0, j = 0; (i < n || j < m) && !bad;) {
        const int order =
            i == n   ? 1
            : j == m ? -1
                     : strcmp(result_slide_name(r->file[0], i), result_slide_name(r->file[1], j));
        if (order == 0)
            bad = add_pair(r, i++, j++, e);
        else if (order < 0)
            r->rest[0][r->n_rest[0]++] = i++;
        else
            r->rest[1][r->n_rest[1]++] = j++;
    }
    return bad;
}

/* The slides of each row of a table. */
static int pair_rows(struct both *r, const struct table *t, const char *path, struct err *e)
{
    const char *const names[] = {"a", "b"};
    int64_t column[2], k[2];
    for (int side = 0; side < 2; side++)
        if ((column[side] = table_column(t, names[side])) < 0)
            return err_set(e, "%s: has no column %s", path, names[side]);
    for (int64_t row = 1; row <= t->rows; row++) {
        for (int side = 0; side < 2; side++) {
            const char *name = table_cell(t, row, column[side]);
            if ((k[side] = result_find_slide(r->file[side], name)) < 0)
                return err_set(e, "%s: line %" PRId64 ": no slide %s in %s", path, t->lines[row],
                               name, side ? "B" : "A");
        }
        if (add_pair(r, k[0], k[1], e))
            return -1;
    }
    return 0;
}

/* --- slides with other names --- */

/* A slide whose name only one file has. */
struct rest {
    char quickhash[sizeof((struct result_slide){0}.quickhash)];
    int64_t k; /* its number in the file */
    int side;
};

static int by_quickhash(const void *x, const void *y)
{
    return strcmp(((const struct rest *)x)->quickhash, ((const struct rest *)y)->quickhash);
}

static int by_number(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static int load_rest(const struct both *r, struct rest *out, struct err *e)
{
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < r->n_rest[side]; i++, out++) {
            struct result_slide s;
            if (stop_check(e) || result_load_parts(r->file[side], r->rest[side][i], 0, &s, e))
                return -1;
            *out = (struct rest){.k = r->rest[side][i], .side = side};
            snprintf(out->quickhash, sizeof out->quickhash, "%s", s.quickhash);
            result_slide_free(&s);
        }
    return 0;
}

/* How many of the sorted slides have the quickhash of the first. */
static int64_t run_of(const struct rest *s, int64_t n)
{
    int64_t k = 1;
    while (k < n && !strcmp(s[k].quickhash, s->quickhash))
        k++;
    return k;
}

/* Compares slides of equal quickhash; the others stay in `rest`. */
static int pair_sorted(struct both *r, const struct rest *s, int64_t n, struct err *e)
{
    r->n_rest[0] = r->n_rest[1] = 0;
    for (int64_t k = 0, run; k < n; k += run) {
        run = run_of(s + k, n - k);
        if (run == 2 && s[k].quickhash[0] && s[k].side != s[k + 1].side) {
            const int first = s[k].side; /* 1: that of the second file comes first */
            r->out->n_renamed++;
            if (add_pair(r, s[k + first].k, s[k + !first].k, e))
                return -1;
            continue;
        }
        for (int64_t i = k; i < k + run; i++)
            r->rest[s[i].side][r->n_rest[s[i].side]++] = s[i].k;
    }
    return 0;
}

static int pair_quickhashes(struct both *r, struct err *e)
{
    const int64_t n = r->n_rest[0] + r->n_rest[1];
    if (r->n_rest[0] == 0 || r->n_rest[1] == 0)
        return 0;
    struct rest *s = memory_need((size_t)n, sizeof *s);
    int bad = load_rest(r, s, e);
    if (!bad) {
        qsort(s, (size_t)n, sizeof *s, by_quickhash);
        bad = pair_sorted(r, s, n, e);
    }
    free(s);
    return bad;
}

/* The names of the slides that are in one file only. */
static void note_rest(struct both *r)
{
    for (int side = 0; side < 2; side++) {
        qsort(r->rest[side], (size_t)r->n_rest[side], sizeof *r->rest[side], by_number);
        for (int64_t i = 0; i < r->n_rest[side]; i++)
            r->out->only[side][r->out->n_only[side]++] =
                memory_copy(result_slide_name(r->file[side], r->rest[side][i]));
    }
}

/* --- all slides --- */

/* Worst first; what has no distance is worse than any that has; equal ones by name. */
static int by_distance(const void *x, const void *y)
{
    const struct compare_slide *a = x, *b = y;
    const double p = isnan(a->w1_db) ? INFINITY : a->w1_db;
    const double q = isnan(b->w1_db) ? INFINITY : b->w1_db;
    return p > q ? -1 : p < q ? 1 : strcmp(a->name, b->name);
}

static int check_parameters(const struct both *r, const char *a, const char *b, struct err *e)
{
    return result_same_params(result_params(r->file[0]), result_params(r->file[1]), e)
               ? err_add(e, "%s and %s cannot be compared: different parameters", a, b)
               : 0;
}

static int pair_all(struct both *r, const struct table *t, const char *pairs, struct err *e)
{
    if (pairs)
        return pair_rows(r, t, pairs, e);
    if (result_slides(r->file[0]) == 1 && result_slides(r->file[1]) == 1)
        return add_pair(r, 0, 0, e);
    if (pair_names(r, e) || pair_quickhashes(r, e))
        return -1;
    note_rest(r);
    return 0;
}

static int compare_all(struct both *r, const struct table *t, const char *pairs, struct err *e)
{
    struct compare *c = r->out;
    const size_t bins = (size_t)result_params(r->file[0])->bins;
    int64_t slides[2];
    for (int k = 0; k < 2; k++) {
        slides[k] = result_slides(r->file[k]);
        c->only[k] = memory_need((size_t)slides[k], sizeof *c->only[k]);
        r->cdf[k] = memory_need(bins, sizeof *r->cdf[k]);
        r->rest[k] = memory_need((size_t)slides[k], sizeof *r->rest[k]);
    }
    c->slides = memory_need((size_t)(pairs ? t->rows : slides[0]), sizeof *c->slides);
    for (int m = 0; m < RESULT_MAPS; m++)
        c->maps[m] = result_map_kind(m)->change != NULL;
    if (pair_all(r, t, pairs, e))
        return -1;
    qsort(c->slides, (size_t)c->n, sizeof *c->slides, by_distance);
    return 0;
}

/* Compares the results at two paths, which must have equal parameters.
 * pairs: a table with columns a and b, or NULL. The message names the file. Call compare_free()
 * either way. */
static int compare_results(const char *a, const char *b, const char *pairs, struct compare *c,
                           struct err *e)
{
    struct both r = {.out = c};
    struct table t = {0};
    *c = (struct compare){0};
    int bad = !(r.file[0] = result_open(a, e)) || !(r.file[1] = result_open(b, e)) ||
              check_parameters(&r, a, b, e) || (pairs && table_read(&t, pairs, e)) ||
              compare_all(&r, &t, pairs, e);
    table_free(&t);
    for (int k = 0; k < 2; k++) {
        result_close(r.file[k]);
        free(r.cdf[k]);
        free(r.rest[k]);
    }
    return bad ? -1 : 0;
}

static void compare_free(struct compare *c)
{
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < c->n_only[k]; i++)
            free(c->only[k][i]);
        free(c->only[k]);
    }
    free(c->slides);
}

/* --- the command --- */

enum { LEAST_COLUMNS = 20, MOST_COLUMNS = 48 }; /* of the names in the table */

struct arguments {
    const char *paths[2], *pairs;
    double limit; /* NaN: none */
    bool json;
};

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Input", 0, "pairs", "FILE.csv",
     "compare only the slides of its columns a and b: names in A.h5 and in B.h5",
     COMMAND_TEXT(pairs)},
    {"Output", 0, "limit", "DB",
     "end with status 1 if the W1 distance of any slide is greater, if a slide's um per px differ, "
     "if a slide is in one result only, or if no slide is in both",
     COMMAND_REAL(limit, 0, 2000)},
    {NULL, 0, "json", NULL, "print one JSON line instead of the table", COMMAND_FLAG(json)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx = (struct arguments){.limit = NAN};
}

const struct command compare_options = {
    OPTIONS_COMMAND("compare", rows, set_defaults), .usage = "[options] A.h5 B.h5",
    .summary = "show what changed between two results of the same slides",
    .details =
        "Compares the slides of two results: did another scanner firmware, a new export or "
        "another codec change anything? Slides are matched by name, those without a match "
        "by OpenSlide's quickhash; results of one slide each are compared whatever its "
        "name. If nothing can be compared, the status is 1. For each slide, worst first, it "
        "prints the Wasserstein-1 distance W1 between the histograms, the change of mean and "
        "std from A to B, and how much window_mean_db, window_focus_db, window_fine_db and "
        "window_sharp_db differ: the mean over all windows; of a single slide also the "
        "change of its spectrum by octaves. h5spec plot draws the histograms of both. "
        "Windows of glass are among them, unless h5spec run left them out (--tissue-only). "
        "The parameters of both results must be equal. The results of a folder are compared "
        "after h5spec merge.",
    .example = "h5spec compare --limit 0.1 before.h5 after.h5"};

/* --- the verdict --- */

static int64_t above_limit(const struct compare *c, double limit)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += !(c->slides[k].w1_db <= limit);
    return n;
}

static int64_t identical(const struct compare *c)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += c->slides[k].identical;
    return n;
}

/* A spectrum has frequencies in cycles/px: at another resolution even W1 = 0 does not say that the
 * slide is the same. */
static int64_t other_resolution(const struct compare *c)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += c->slides[k].other_resolution;
    return n;
}

static bool is_within(const struct compare *c, double limit)
{
    return c->n > 0 && c->n_only[0] == 0 && c->n_only[1] == 0 && above_limit(c, limit) == 0 &&
           other_resolution(c) == 0;
}

/* --- JSON --- */

static void put_change(const char *name, const struct compare_change *c)
{
    printf(", \"%s\": {\"windows\": %" PRId64 ", \"changed\": %" PRId64, name, c->windows,
           c->changed);
    json_real("mean", c->mean);
    json_real("most", c->most);
    putchar('}');
}

static void put_slide(const struct compare_slide *s, const bool *maps)
{
    json_begin("slide", s->name);
    json_text("slide_b", s->name_b);
    json_real("w1_db", s->w1_db);
    json_real("mean_db", s->mean_db);
    json_real("std_db", s->std_db);
    json_int("windows_a", s->windows_a);
    json_int("windows_b", s->windows_b);
    json_real("mpp_a", s->mpp_a);
    json_real("mpp_b", s->mpp_b);
    json_bool("other_resolution", s->other_resolution);
    json_bool("identical", s->identical);
    json_bool("same_counts", s->same_counts);
    json_text("different", s->different);
    for (int o = 0; o < FEATURES_OCTAVES; o++) {
        char key[16];
        snprintf(key, sizeof key, "octave_%d", FEATURES_OCTAVE(o));
        json_real(key, s->octaves[o]);
    }
    for (int m = 0; m < RESULT_MAPS; m++)
        if (s->same_shape && maps[m])
            put_change(result_map_kind(m)->name, &s->maps[m]);
    putchar('}');
}

static void put_names(const char *key, char *const *names, int64_t n)
{
    printf(", \"%s\": [", key);
    for (int64_t k = 0; k < n; k++) {
        fputs(k ? ", " : "", stdout);
        json_write_string(stdout, names[k]);
    }
    putchar(']');
}

static void print_json(const struct arguments *a, const struct compare *c)
{
    json_begin("input_a", a->paths[0]);
    json_text("input_b", a->paths[1]);
    json_text("kind", "result");
    json_int("compared", c->n);
    json_int("identical", identical(c));
    json_int("other_resolution", other_resolution(c));
    json_real("limit", a->limit);
    if (!isnan(a->limit)) {
        json_bool("within_limit", is_within(c, a->limit));
        json_int("above_limit", above_limit(c, a->limit));
    }
    put_names("only_in_a", c->only[0], c->n_only[0]);
    put_names("only_in_b", c->only[1], c->n_only[1]);
    fputs(", \"slides\": [", stdout);
    for (int64_t k = 0; k < c->n; k++) {
        fputs(k ? ", " : "", stdout);
        put_slide(&c->slides[k], c->maps);
    }
    puts("]}");
}

/* --- the table --- */

static int columns_of(const char *name)
{
    const int columns = text_columns(name);
    return columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
}

static int name_columns(const struct compare *c)
{
    int most = LEAST_COLUMNS;
    for (int64_t k = 0; k < c->n; k++) {
        const int columns = columns_of(c->slides[k].name);
        most = columns > most ? columns : most;
    }
    return most;
}

static void print_name(const char *name, int columns)
{
    char out[4 * sizeof((struct compare_slide){0}.name)];
    const int used = text_fit(out, sizeof out, name, columns);
    printf("%s%*s", out, columns - used, "");
}

static void print_db(int columns, double value, const char *form)
{
    char out[32];
    snprintf(out, sizeof out, form, value);
    printf(" %*s", columns, isnan(value) ? "-" : out);
}

/* Differences that the numbers do not show. */
static void print_note(const struct compare_slide *s)
{
    if (s->identical)
        fputs("  identical", stdout);
    else if (!s->same_shape)
        fputs("  different size", stdout);
    else if (s->windows_a != s->windows_b)
        printf("  %" PRId64 " and %" PRId64 " windows", s->windows_a, s->windows_b);
    if (s->same_counts && s->different[0])
        printf("  same counts; different: %s", s->different);
    else if (!strncmp(s->different, "tissue", 6))
        fputs("  different tissue", stdout);
    if (s->other_resolution)
        printf("  %g and %g um/px", s->mpp_a, s->mpp_b);
    if (strcmp(s->name, s->name_b)) {
        fputs("  in B: ", stdout);
        print_name(s->name_b, columns_of(s->name_b));
    }
    putchar('\n');
}

static void print_slide(const struct compare_slide *s, int columns, const bool *maps)
{
    print_name(s->name, columns);
    print_db(16, s->w1_db, "%.4f");
    print_db(9, s->mean_db, "%+.4f");
    print_db(9, s->std_db, "%+.4f");
    for (int m = 0; m < RESULT_MAPS; m++)
        if (maps[m])
            print_db(9, s->same_shape ? s->maps[m].mean : NAN,
                     result_map_kind(m)->type == RESULT_INT16 ? "%.2f" : "%.3f");
    print_note(s);
}

static void print_only(char *const *names, int64_t n, const char *path)
{
    for (int64_t k = 0; k < n; k++) {
        print_name(names[k], LEAST_COLUMNS);
        printf(" only in %s\n", path);
    }
}

/* What changed as a spectrum: the mean level of each octave but the finest, which corners have. */
static void print_octaves(const struct compare_slide *s)
{
    printf("\n%-*s", LEAST_COLUMNS, "px per cycle");
    for (int o = 0; o < FEATURES_OCTAVES - 1; o++) {
        char octave[16];
        const int px = 1 << (FEATURES_OCTAVES - o);
        snprintf(octave, sizeof octave, "%d-%d", px / 2, px);
        printf(" %9s", octave);
    }
    printf("\n%-*s", LEAST_COLUMNS, "change of level, dB");
    for (int o = 0; o < FEATURES_OCTAVES - 1; o++)
        print_db(9, s->octaves[o], "%+.2f");
    putchar('\n');
}

static void print_table(const struct arguments *a, const struct compare *c)
{
    const int columns = name_columns(c);
    printf("%-*s %16s %9s %9s", columns, "slide", "distance (W1) dB", "mean dB", "std dB");
    for (int m = 0; m < RESULT_MAPS; m++)
        if (c->maps[m])
            printf(" %9s", result_map_kind(m)->change);
    putchar('\n');
    for (int64_t k = 0; k < c->n; k++)
        print_slide(&c->slides[k], columns, c->maps);
    for (int k = 0; k < 2; k++)
        print_only(c->only[k], c->n_only[k], a->paths[k]);
    if (c->n == 1 && !c->slides[0].identical)
        print_octaves(&c->slides[0]);
}

static void last_line(const struct arguments *a, const struct compare *c)
{
    char limit[96] = "", worst[64] = "", other[64] = "", renamed[64] = "";
    double largest = -1; /* of the slides that have windows in both */
    for (int64_t k = 0; k < c->n; k++)
        largest = c->slides[k].w1_db > largest ? c->slides[k].w1_db : largest;
    if (!isnan(a->limit))
        snprintf(limit, sizeof limit, "; %" PRId64 " above the limit of %g dB",
                 above_limit(c, a->limit), a->limit);
    if (largest >= 0)
        snprintf(worst, sizeof worst, "; largest W1 %.4f dB", largest);
    if (c->n_renamed > 0)
        snprintf(renamed, sizeof renamed, " (%" PRId64 " by quickhash: other names)", c->n_renamed);
    if (other_resolution(c) > 0)
        snprintf(other, sizeof other, "; %" PRId64 " with other um/px", other_resolution(c));
    cli_say("%" PRId64 " slide%s compared%s, %" PRId64 " identical, %" PRId64 " only in A, %" PRId64
            " only in B%s%s%s",
            c->n, c->n == 1 ? "" : "s", renamed, identical(c), c->n_only[0], c->n_only[1], worst,
            limit, other);
}

/* --- the run --- */

static int print_all(const struct arguments *a, const struct compare *c)
{
    if (a->json)
        print_json(a, c);
    else
        print_table(a, c);
    last_line(a, c);
    if (c->n == 0)
        cli_say("nothing was compared: no slide of A is in B; --pairs FILE.csv names pairs");
    return c->n > 0 && (isnan(a->limit) || is_within(c, a->limit)) ? EXIT_DONE : EXIT_PART;
}

int compare_main(int argc, char **argv)
{
    struct arguments a;
    struct compare c = {0};
    struct err e = {0};
    int first;
    int status = command_parse(&compare_options, argc, argv, &a, &first);
    if (status >= 0)
        return status;
    if (argc - first != 2) {
        err_set(&e, "name two results, not %d", argc - first);
        return command_usage_error(&compare_options, &e);
    }
    for (int k = 0; k < 2; k++) {
        a.paths[k] = argv[first + k];
        if (!folder_is(a.paths[k]))
            continue;
        err_set(&e, "%s: a folder", a.paths[k]);
        path_remedy(&e, "merge its results into one file first: h5spec merge -o CORPUS.h5",
                    a.paths[k]);
        return command_usage_error(&compare_options, &e);
    }
    stop_catch_signals();
    if (compare_results(a.paths[0], a.paths[1], a.pairs, &c, &e) == 0)
        status = print_all(&a, &c);
    else
        status = cli_failed(&e);
    compare_free(&c);
    return status;
}
