/* map_command.c - the command line of `h5spec map`; see commands.h. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "process/draw/feature.h"
#include "process/map/map_formats.h"
#include "process/map/map_write.h"
#include "process/options/commands.h"
#include "process/options/input_files.h"
#include "process/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values of the options. */
struct arguments {
    struct map_setup setup;
    struct input_files files;
    const char **patterns; /* [setup.n_patterns], owned; the words belong to argv */
    bool json, quiet;
    bool format, blend; /* given */
};

/* --- options that take more than a value --- */

/* Calls add() for each word of a list separated by commas. */
static int each_word(const char *what, const char *list, struct arguments *a,
                     int (*add)(struct arguments *a, const char *word, struct err *e),
                     struct err *e)
{
    char word[64];
    for (const char *s = list;; s++) {
        const size_t n = strcspn(s, ",");
        if (n == 0 || n >= sizeof word)
            return err_set(e, "%s %s: not a list of names separated by commas", what, list);
        memcpy(word, s, n);
        word[n] = 0;
        if (add(a, word, e))
            return -1;
        if (!*(s += n))
            return 0;
    }
}

static int add_format(struct arguments *a, const char *word, struct err *e)
{
    const bool all = !strcmp(word, "all");
    const int f = map_format_find(word);
    if (f < 0 && !all)
        return err_set(e,
                       "--format %s: unknown; the formats are png, overlay, geojson, csv, tiff "
                       "and all",
                       word);
    if (f == MAP_TIFF && !map_tiff_available())
        return err_set(
            e, "--format tiff: this build cannot write OME-TIFF; build h5spec with libtiff");
    for (int k = 0; k < MAP_FORMATS; k++)
        if (k == f || (all && (k != MAP_TIFF || map_tiff_available())))
            a->setup.formats[k] = true;
    return 0;
}

static int add_feature(struct arguments *a, const char *word, struct err *e)
{
    char names[256] = "";
    const int m = feature_find(word);
    const bool all = !strcmp(word, "all");
    if (m >= 0)
        a->setup.features[m] = true;
    if (m >= 0 || all)
        return 0;
    for (int k = 0; k < RESULT_MAPS; k++)
        if (feature_is(k))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", feature_name(k));
    return err_set(e, "--feature %s: unknown; the features are %sand all", word, names);
}

/* A column of scores. */
static int add_name(struct arguments *a, const char *word, struct err *e)
{
    (void)e;
    struct map_scores_setup *s = &a->setup.scores;
    s->names = memory_grow(s->names, s->n_names, sizeof *s->names);
    s->names[s->n_names++] = memory_copy(word);
    return 0;
}

static int set_formats(void *ctx, const char *arg, struct err *e)
{
    struct arguments *a = ctx;
    a->format = true;
    return each_word("--format", arg, a, add_format, e);
}

/* WIDTHxHEIGHT */
static int set_size(void *ctx, const char *arg, struct err *e)
{
    struct map_scores_setup *s = &((struct arguments *)ctx)->setup.scores;
    const char *at = arg;
    if (number_digits(&at, &s->width) || *at++ != 'x' || number_digits(&at, &s->height) || *at ||
        s->width < 1 || s->height < 1 || s->width > SCORES_MOST_PX || s->height > SCORES_MOST_PX)
        return err_set(e, "--slide-size %s: not WIDTHxHEIGHT in px, such as 65000x43000", arg);
    return 0;
}

static int add_pattern(void *ctx, const char *arg, struct err *e)
{
    struct arguments *a = ctx;
    (void)e;
    choice_add(&a->patterns, &a->setup.n_patterns, arg);
    return 0;
}

/* --- the table --- */

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Output", 'o', "output", "OUT",
     "folder for the files, created if missing; or one file: .png, .overlay.png, .geojson, .csv or "
     ".ome.tif. Only files written by h5spec map are ever overwritten",
     COMMAND_TEXT(setup.output)},
    {NULL, 0, "format", "png|overlay|geojson|csv|tiff|all,...",
     "what goes into the folder, separated by commas", .shown = "png", COMMAND_CALL(set_formats)},
    OPTIONS_QUIET,
    {NULL, 0, "json", NULL, "print one JSON line: how many files of how many slides",
     COMMAND_FLAG(json)},
    {"Input", 0, "slide", "NAME",
     "only slides of this name; a pattern such as 'TCGA-A1*' matches several; may be repeated",
     COMMAND_CALL(add_pattern)},
    OPTIONS_LIST(NULL),
    {NULL, 0, "partial", NULL,
     "also map slides with missing groups; with --scores, leave out rows that cannot be used; "
     "files are marked as partial",
     COMMAND_FLAG(setup.partial)},
    {"Map", 0, "feature", "LIST",
     "features, separated by commas: mean_db, std_db ... or all; with --scores, its columns",
     .shown = "all", COMMAND_TEXT(setup.feature_list)},
    {NULL, 0, "blend", "none|box|tent|cos|gauss",
     "blend windows that overlap into cells, with these weights; none: one value per window "
     "(scores: box)",
     COMMAND_WORD(setup.weights), COMMAND_GIVEN(blend)},
    {NULL, 0, "colours", "LOW:HIGH",
     "values at the ends of the colours of a single feature, dB (default: fixed for each feature, "
     "the same for all slides; scores: 0:1, or their range if it is larger)",
     COMMAND_SPAN(setup.low, -SCORES_MOST_VALUE, SCORES_MOST_VALUE), COMMAND_GIVEN(setup.range)},
    {"Regions", 0, "class", "NAME",
     "GeoJSON has annotations of this class, such as 'Out of focus', instead of tiles: the places "
     "beyond --below or --above, joined to polygons. Without a limit: for focus, what h5spec "
     "report "
     "calls blurred; with fewer than 10 comparable slides, and for sharp and fine, what is 3.5 "
     "robust standard deviations below the median of the slide",
     COMMAND_TEXT(setup.class_name)},
    {NULL, 0, "below", "VALUE", "places with a lower value belong to --class",
     COMMAND_REAL(setup.below, -SCORES_MOST_VALUE, SCORES_MOST_VALUE)},
    {NULL, 0, "above", "VALUE", "places with a higher value belong to --class",
     COMMAND_REAL(setup.above, -SCORES_MOST_VALUE, SCORES_MOST_VALUE)},
    {"Scores", 0, "scores", "FILE",
     "map values that another program gave to patches: CSV, npy or HDF5 with x, y, size and one "
     "value or more, in px of level 0. RESULT is then a store or result with the slide, or absent",
     COMMAND_TEXT(setup.scores.path)},
    {NULL, 0, "patch", "PX", "size of the patches, where FILE does not state it",
     COMMAND_INT(setup.scores.patch, 1, SCORES_MOST_SIZE)},
    {NULL, 0, "slide-size", "WxH",
     "size of the slide at level 0, px, without a RESULT (default: as far as the patches reach)",
     COMMAND_CALL(set_size)},
    {NULL, 0, "follow", "SECONDS",
     "wait while FILE, a CSV table, grows: until it has a line #end, or has not grown for SECONDS. "
     "With --partial the maps are written again and again meanwhile",
     COMMAND_REAL(setup.scores.follow, 0.1, 1e6)},
    {"Advanced", 0, "no-bounds", NULL,
     "GeoJSON counts from the corner of the slide; without it from that of its scanned area, if it "
     "states one (openslide.bounds-x, -y), as QuPath does",
     COMMAND_FLAG(setup.no_bounds)},
    {NULL, 0, "cell", "PX",
     "size of the cells of --blend; must divide window and stride (default: the largest, with "
     "which all weights give the same if the stride is half a window). Scores: any (default: 32 px "
     "or more, with which a map has at most 1,024 cells per side)",
     COMMAND_INT(setup.cell, 1, SCORES_MOST_SIZE)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx = (struct arguments){.setup = {.below = NAN, .above = NAN}};
}

const struct command map_options = {
    OPTIONS_COMMAND("map", rows, set_defaults), .usage = "[options] -o OUT RESULT...",
    .summary = "write maps of windows as pictures and files for viewers",
    .details = "Writes the values of the windows of each slide as maps: PNG with one pixel per "
               "window and a colour bar, PNG to be laid over the slide, GeoJSON tiles for QuPath, "
               "CSV, and OME-TIFF with one channel per feature. Colours mean the same for all "
               "slides. Slides with missing groups are rejected unless --partial is given. A "
               "RESULT is a file made by h5spec run or merge, or a folder that is searched for "
               "results. With --scores it maps the scores of another program, such as a network.",
    .example = "h5spec map --format all -o maps result.h5"};

/* --- checks --- */

/* Calls add() for the words of --feature: names of features, or of columns of --scores. */
static int read_features(struct arguments *a, struct err *e)
{
    struct map_setup *s = &a->setup;
    if (!s->feature_list)
        return 0;
    if (!s->scores.path)
        return each_word("--feature", s->feature_list, a, add_feature, e);
    return strcmp(s->feature_list, "all") ? each_word("--feature", s->feature_list, a, add_name, e)
                                          : 0;
}

static int n_features(const struct map_setup *s)
{
    int n = s->scores.n_names;
    for (int m = 0; m < RESULT_MAPS; m++)
        n += s->features[m];
    return n;
}

/* Is one feature chosen? How many values a file of scores has is known when it is read. */
static bool may_be_one(const struct map_setup *s)
{
    return n_features(s) == 1 || (s->scores.path && n_features(s) == 0);
}

/* The output is one file: its ending is the format. */
static int check_single(struct arguments *a, int format, struct err *e)
{
    struct map_setup *s = &a->setup;
    if (a->format)
        return err_set(e, "--format is for folders; the ending of -o %s is the format", s->output);
    if (format == MAP_TIFF && !map_tiff_available())
        return add_format(a, "tiff", e);
    if ((format == MAP_PNG || format == MAP_OVERLAY) && !may_be_one(s))
        return err_set(e, "-o %s: a picture shows one feature; name it with --feature", s->output);
    s->formats[format] = true;
    return 0;
}

/* The options for scores only. */
static int check_no_scores(const struct arguments *a, struct err *e)
{
    const struct map_scores_setup *s = &a->setup.scores;
    const char *option = s->patch        ? "--patch"
                         : s->width      ? "--slide-size"
                         : s->follow > 0 ? "--follow"
                                         : NULL;
    if (option)
        return err_set(e, "%s has no effect without --scores", option);
    if (a->files.n == 0)
        return err_set(e, "no input file given");
    return a->setup.cell && a->setup.weights == WEIGHTS_NONE
               ? err_set(e, "--cell has no effect without --blend")
               : 0;
}

static int check_scores(struct arguments *a, struct err *e)
{
    struct map_setup *s = &a->setup;
    if (a->blend && s->weights == WEIGHTS_NONE)
        return err_set(e, "--blend none: scores are blended; box is the mean of the patches that "
                          "cover a cell");
    if (!a->blend)
        s->weights = WEIGHTS_BOX;
    if (a->files.n > 1)
        return err_set(e, "--scores is for one slide, but %d stores or results are given",
                       a->files.n);
    if (s->scores.width && a->files.n)
        return err_set(e, "--slide-size is for scores without a store or result");
    if (s->n_patterns > 1)
        return err_set(e, "--scores is for one slide; give --slide once");
    return 0;
}

static int check_class(const struct map_setup *s, struct err *e)
{
    const bool limit = !isnan(s->below) || !isnan(s->above);
    if (limit && !s->class_name)
        return err_set(e, "--below and --above have no effect without --class NAME");
    if (!s->class_name)
        return 0;
    if (!s->formats[MAP_GEOJSON])
        return err_set(e, "--class has no effect without --format geojson");
    if (!may_be_one(s))
        return err_set(e, "--class is for one feature; name it with --feature");
    if (!limit && !s->features[RESULT_FOCUS] && !s->features[RESULT_SHARP] &&
        !s->features[RESULT_FINE])
        return err_set(e, "--class: name a limit with --below or --above; only sharpness has one "
                          "of its own");
    return 0;
}

/* -1 for a wrong combination of options. */
static int check(struct arguments *a, struct err *e)
{
    struct map_setup *s = &a->setup;
    if (read_features(a, e))
        return -1;
    if (!s->output || !s->output[0])
        return input_files_lacks_output(&a->files, "OUT", e);
    const int format = map_format_of_file(s->output);
    if (format >= 0 ? check_single(a, format, e)
                    : output_check(s->output, ".png, .overlay.png, .geojson, .csv or .ome.tif", e))
        return -1;
    if (format < 0 && !a->format)
        s->formats[MAP_PNG] = true;
    if (s->scores.path ? check_scores(a, e) : check_no_scores(a, e))
        return -1;
    if (check_class(s, e))
        return -1;
    if (s->range && !may_be_one(s))
        return err_set(e, "--colours is for one feature; name it with --feature");
    const double least = s->scores.path ? 1e-6 : 0.01;
    if (s->range && !(s->high - s->low >= least))
        return err_set(e, "--colours %g:%g: HIGH must be above LOW by %g%s or more", s->low,
                       s->high, least, s->scores.path ? "" : " dB");
    if (s->range && !s->formats[MAP_PNG] && !s->formats[MAP_OVERLAY])
        return err_set(e, "--colours has no effect without pictures");
    return 0;
}

/* --- the run --- */

/* How many regions there are, and by which limit. None is said, too: an empty file looks broken. */
static void print_regions(const struct map_setup *o, const struct map_done *done)
{
    char limit[256] = "";
    if (done->by_report > 0)
        snprintf(limit, sizeof limit, "; %" PRId64 " by the limit of a report of these results",
                 done->by_report);
    if (done->by_own > 0)
        snprintf(limit + strlen(limit), sizeof limit - strlen(limit),
                 "; %" PRId64 " by the slide's own median: too few slides to compare with",
                 done->by_own);
    if (done->no_limit > 0)
        snprintf(limit + strlen(limit), sizeof limit - strlen(limit),
                 "; %" PRId64 " without a limit: too few places with a value", done->no_limit);
    cli_say("class '%s': %" PRId64 " region%s on %" PRId64 " of %" PRId64 " slide%s%s",
            o->class_name, done->regions, done->regions == 1 ? "" : "s", done->with_regions,
            done->slides, done->slides == 1 ? "" : "s", limit);
}

static int print_done(const struct arguments *a, const struct map_done *done, double begun)
{
    char memory[32], time[32], written[64] = "nothing";
    if (a->json) {
        json_begin("output", a->setup.output);
        json_text("kind", "map");
        json_int("files", done->files);
        json_int("slides", done->slides);
        json_int("inputs_failed", done->failed + a->files.failed);
        if (a->setup.class_name)
            json_int("regions", done->regions);
        puts("}");
    }
    if (done->files > 0)
        snprintf(written, sizeof written, "%" PRId64 " file%s of %" PRId64 " slide%s", done->files,
                 done->files == 1 ? "" : "s", done->slides, done->slides == 1 ? "" : "s");
    if (!a->quiet && a->setup.class_name)
        print_regions(&a->setup, done);
    if (!a->quiet)
        cli_say("%s written, %" PRId64 " failed; %s, peak memory %s", written, done->failed,
                clock_text(time, clock_now() - begun),
                number_size(memory, (double)cli_peak_memory()));
    if (done->trouble)
        return EXIT_TROUBLE;
    return done->failed ? cli_worst(EXIT_PART, input_files_status(&a->files))
                        : input_files_status(&a->files);
}

/* One file holds one slide: checked when the results are known. */
static int check_one_slide(const struct arguments *a, struct err *e)
{
    if (map_format_of_file(a->setup.output) < 0)
        return 0;
    return map_is_one_slide(&a->setup, e);
}

/* The output must not be a file that is read. */
static int check_inputs(const struct arguments *a, struct err *e)
{
    char *const scores[] = {(char *)a->setup.scores.path};
    return output_is_no_input("-o", a->setup.output, a->files.paths, a->files.n, e) ||
                   output_is_no_input("-o", a->setup.output, scores, 1, e)
               ? -1
               : 0;
}

static int run(struct arguments *a, int argc, char **argv)
{
    struct err e = {0};
    struct map_done done;
    const double begun = clock_now();
    int first;
    const int status = command_parse(&map_options, argc, argv, a, &first);
    if (status >= 0)
        return status;
    a->setup.patterns = a->patterns;
    input_files_add_words(&a->files, argv + first, argc - first);
    if (check(a, &e))
        return command_usage_error(&map_options, &e);
    input_files_expand(&a->files, a->setup.scores.path ? INPUT_BOTH : INPUT_RESULTS);
    a->setup.quiet = a->quiet;
    a->setup.files = a->files.paths;
    a->setup.n_files = a->files.n;
    stop_catch_signals();
    const bool scores = a->setup.scores.path != NULL;
    if (check_inputs(a, &e))
        return command_usage_error(&map_options, &e);
    if (scores ? map_scores_write(&a->setup, &done, &e)
               : check_one_slide(a, &e) || map_write(&a->setup, &done, &e))
        return cli_failed(&e);
    return print_done(a, &done, begun);
}

int map_main(int argc, char **argv)
{
    struct arguments a;
    const int status = run(&a, argc, argv);
    input_files_free(&a.files);
    free(a.patterns);
    for (int k = 0; k < a.setup.scores.n_names; k++)
        free(a.setup.scores.names[k]);
    free(a.setup.scores.names);
    return status;
}
