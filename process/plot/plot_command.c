/* plot_command.c - the command line of `h5spec plot`; see plot.h. */
#include "process/plot/plot.h"

#include "common/base/cli.h"
#include "common/base/command.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "process/draw/feature.h"
#include "process/draw/svg.h"
#include "process/map/map_source.h"
#include "process/options/list.h"
#include "process/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the options set. */
struct arguments {
    struct plot_setup setup;
    struct list files;
    const char **patterns; /* [setup.n_patterns], owned; the words belong to argv */
    bool json;
};

static int set_feature(void *ctx, const char *name, struct err *e)
{
    struct plot_setup *s = &((struct arguments *)ctx)->setup;
    s->feature = feature_find(name);
    return s->feature >= 0
               ? 0
               : err_set(e, "--feature %s: unknown; maps show %s", name, feature_words());
}

static int add_pattern(void *ctx, const char *arg, struct err *e)
{
    struct arguments *a = ctx;
    (void)e;
    choice_add(&a->patterns, &a->setup.n_patterns, arg);
    return 0;
}

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Output", 'o', "output", "FILE.svg",
     "file for the picture; only a picture drawn by h5spec is ever overwritten",
     COMMAND_TEXT(setup.output)},
    {NULL, 0, "title", "TEXT", "title; '' for none (default: the slide, or the number of slides)",
     COMMAND_TEXT(setup.title)},
    {NULL, 0, "json", NULL, "print one JSON line: the picture and how many slides it shows",
     COMMAND_FLAG(json)},
    {"Input", 0, "slide", "NAME",
     "draw only slides of this name; a pattern such as 'TCGA-A1*' matches several; may be "
     "repeated",
     COMMAND_CALL(add_pattern)},
    OPTIONS_LIST(NULL),
    {"Map", 0, "map", NULL, "add a map of the windows of a single slide", COMMAND_FLAG(setup.map)},
    {NULL, 0, "feature", "NAME", "what the map shows; focus is sharpness (default: focus)",
     .words = feature_words, COMMAND_CALL(set_feature)},
    {"Advanced", 0, "band", NULL,
     "draw median and bands of 3 slides and more, not a curve per slide (always done for more "
     "than 12)",
     COMMAND_FLAG(setup.band)},
    {NULL, 0, "colours", "LOW:HIGH", "dB at the ends of the map's colours (default: %s for focus)",
     COMMAND_SPAN(setup.map_low, -1000, 1000), COMMAND_GIVEN(setup.colours)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    const struct result_map_kind *focus = result_map_kind(RESULT_FOCUS);
    *(struct arguments *)ctx = (struct arguments){
        .setup = {.feature = -1, .map_low = focus->low, .map_high = focus->high}};
}

const struct command plot_options = {
    OPTIONS_COMMAND("plot", rows, set_defaults), .usage = "[options] -o FILE.svg RESULT...",
    .summary = "draw results as a picture",
    .details = "Draws the histograms of the slides of results as an SVG picture: a curve per slide "
               "for up to 12 slides, the median with bands of 5 to 95 % and 25 to 75 % of the "
               "slides for more. All results must have the same parameters. A RESULT is a file "
               "made by h5spec run or merge, or a folder that is searched for results.",
    .example = "h5spec plot --map -o slide.svg result.h5"};

/* -1 for a wrong combination of options. */
static int check(const struct arguments *a, struct err *e)
{
    if (!a->setup.output)
        return list_lacks_output(&a->files, "FILE.svg", e);
    if (!svg_is_name(a->setup.output))
        return err_set(e,
                       "-o %s: plot draws SVG pictures; name it FILE.svg, which browsers show "
                       "(h5spec map draws maps as PNG)",
                       a->setup.output);
    if (a->files.n == 0)
        return err_set(e, "no input file given");
    if (a->setup.colours && !(a->setup.map_high - a->setup.map_low >= 0.01))
        return err_set(e, "--colours %g:%g: HIGH must be above LOW by 0.01 dB or more",
                       a->setup.map_low, a->setup.map_high);
    if (a->setup.band && a->setup.map)
        return err_set(e, "--band is for several slides, --map for one: choose one of them");
    if ((a->setup.colours || a->setup.feature >= 0) && !a->setup.map)
        return err_set(e, "%s has no effect without --map; add it",
                       a->setup.colours ? "--colours" : "--feature");
    return 0;
}

static int run(struct arguments *a, int argc, char **argv)
{
    struct err e = {""};
    int first;
    const int status = command_parse(&plot_options, argc, argv, a, &first);
    if (status >= 0)
        return status;
    a->setup.patterns = a->patterns;
    list_add_words(&a->files, argv + first, argc - first);
    if (check(a, &e))
        return command_usage_error(&plot_options, &e);
    publish_clean(a->setup.output); /* however this run ends */
    list_expand(&a->files, LIST_RESULTS);
    if (output_is_no_input("-o", a->setup.output, a->files.paths, a->files.n, &e))
        return command_usage_error(&plot_options, &e);
    if (a->files.failed > 0) /* they are reported; a picture without them would mislead */
        return EXIT_PART;
    a->setup.files = a->files.paths;
    a->setup.n_files = a->files.n;
    stop_catch_signals();
    int64_t slides;
    if (plot_write(&a->setup, &slides, &e))
        return cli_failed(&e);
    if (a->json) {
        json_begin("output", a->setup.output);
        json_text("kind", "plot");
        json_int("slides", slides);
        puts("}");
    }
    return EXIT_DONE;
}

int plot_main(int argc, char **argv)
{
    struct arguments a;
    const int status = run(&a, argc, argv);
    list_free(&a.files);
    free(a.patterns);
    return status;
}
