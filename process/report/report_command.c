/* report_command.c - the command line of `h5spec report`; see report.h. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "process/options/commands.h"
#include "process/options/input_files.h"
#include "process/options/options.h"
#include "process/report/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The values of the options. */
struct arguments {
    struct report_setup setup;
    struct input_files files;
    bool strict, quiet, json;
};

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Output", 'o', "output", "REPORT.html",
     "file for the page; only a report made by h5spec is ever overwritten",
     COMMAND_TEXT(setup.output)},
    {NULL, 0, "title", "TEXT", "title (default: the number of slides)", COMMAND_TEXT(setup.title)},
    {NULL, 0, "csv", "FILE",
     "also write the table of slides, with scores and reasons; failed ones have no numbers",
     COMMAND_TEXT(setup.csv)},
    OPTIONS_QUIET,
    {NULL, 0, "json", NULL, "print one JSON line: how many slides have each verdict",
     COMMAND_FLAG(json)},
    OPTIONS_LIST("Input"),
    {NULL, 0, "failed", "FILE.csv",
     "more slides that have no result, with columns slide and reason; the page lists them. A row "
     "without a slide is about files that are not part of the corpus",
     COMMAND_TEXT(setup.failed)},
    {"Groups", 0, "meta", "FILE.csv",
     "table with a column slide; --group names the column to group by", COMMAND_TEXT(setup.meta)},
    {NULL, 0, "group", "COLUMN",
     "group slides by a column of --meta or, without it, by vendor, objective_power or result",
     COMMAND_TEXT(setup.group)},
    {"Limits", 0, "limits", "FILE.csv",
     "columns metric,side,warn,fail and maybe group; side is below or above: slides beyond warn "
     "are for review, beyond fail they fail",
     COMMAND_TEXT(setup.limits)},
    {NULL, 0, "accepted", "LIST",
     "file with the names of good slides, one per line: the others are compared with them, and "
     "what a good slide shows counts as usual",
     COMMAND_TEXT(setup.accepted)},
    {NULL, 0, "strict", NULL, "end with status 1 if a slide fails or is not judged",
     COMMAND_FLAG(strict)},
    {"Privacy", 0, "anonymous", "FILE.csv",
     "names of slides are replaced by numbers, also groups that are derived from names; FILE.csv, "
     "the key, says which number is which slide, group or failed input",
     COMMAND_TEXT(setup.key)},
    {"Advanced", 0, "no-bounds", NULL,
     "places for QuPath count from the corner of the slide; without it from that of its scanned "
     "area, if it states one (openslide.bounds-x, -y), as QuPath does",
     COMMAND_FLAG(setup.no_bounds)},
    {NULL, 0, "max-size", "BYTES",
     "size of the page: pictures are made smaller or left out, those of slides that pass first, "
     "until it fits, then the plain table of slides without a reason; what remains is written, "
     "with a warning. 0: no pictures, and no limit",
     COMMAND_BYTES(setup.max_size, 0, INT64_C(1) << 40)},
    {NULL, 0, "multiqc", "DIR",
     "also write custom content that MultiQC shows when it is run on DIR",
     COMMAND_TEXT(setup.multiqc)},
    {NULL, 'j', "threads", "N", "number of threads", COMMAND_THREADS(setup.threads)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx =
        (struct arguments){.setup = {.max_size = 19 << 20, .threads = pipe_cpus()}};
}

const struct command report_options = {
    OPTIONS_COMMAND("report", rows, set_defaults), .usage = "[options] -o REPORT.html RESULT...",
    .summary = "write one page about a corpus",
    .details = "Writes one HTML page about the slides of results: which need a look, and why. The "
               "page is one file that needs no network and no server. Slides are compared with "
               "those of their group and resolution. A RESULT is a file made by h5spec run or "
               "merge, or a folder that is searched for results. Results that cannot be used are "
               "listed on the page; the status is then 1. The page also shows the lists of failed "
               "slides that wsi2h5 and h5spec run leave in their output folders, if these "
               "folders are given.",
    .example = "h5spec report -o report.html corpus.h5"};

static bool is_page_name(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && !strcasecmp(path + n - 5, ".html") && path[n - 6] != '/';
}

/* -1 for a wrong combination of options. */
static int check(const struct arguments *a, struct err *e)
{
    const struct report_setup *o = &a->setup;
    if (!o->output)
        return input_files_lacks_output(&a->files, "REPORT.html", e);
    if (!is_page_name(o->output))
        return err_set(e, "-o %s: the name of a report must end in .html", o->output);
    if (a->files.n == 0 && !o->failed)
        return err_set(e, "no input file given");
    if (o->meta && !o->group)
        return err_set(e, "--meta has no effect without --group COLUMN");
    if (o->key && output_check_key(o->key, e))
        return -1;
    return 0;
}

/* An output must not be one of the inputs. */
static int check_inputs(const struct arguments *a, struct err *e)
{
    const struct report_setup *o = &a->setup;
    char *const read[] = {(char *)o->meta, (char *)o->limits, (char *)o->failed,
                          (char *)o->accepted};
    const struct {
        const char *option, *path;
    } written[] = {
        {"-o", o->output}, {"--csv", o->csv}, {"--multiqc", o->multiqc}, {"--anonymous", o->key}};
    int bad = 0;
    for (size_t k = 0; k < sizeof written / sizeof *written && !bad; k++)
        bad = output_is_no_input(written[k].option, written[k].path, read, 4, e) ||
              output_is_no_input(written[k].option, written[k].path, a->files.paths, a->files.n, e);
    return bad ? -1 : 0;
}

static void print_json(const struct arguments *a, int64_t bad, const int64_t *verdicts)
{
    json_begin("output", a->setup.output);
    json_text("kind", "report");
    json_int("pass", verdicts[REPORT_PASS]);
    json_int("not_judged", verdicts[REPORT_NOT_JUDGED]);
    json_int("review", verdicts[REPORT_REVIEW]);
    json_int("fail", verdicts[REPORT_FAIL]);
    json_int("inputs_failed", bad);
    puts("}");
}

static int finish(const struct arguments *a, int64_t bad, bool trouble, const int64_t *verdicts,
                  double begun)
{
    const bool strict = verdicts[REPORT_FAIL] > 0 || verdicts[REPORT_NOT_JUDGED] > 0;
    char time[32], memory[32];
    if (a->json)
        print_json(a, bad, verdicts);
    if (!a->quiet)
        cli_say("%s: %" PRId64 " pass, %" PRId64 " not judged, %" PRId64 " for review, %" PRId64
                " fail; written in %s, peak memory %s",
                a->setup.output, verdicts[REPORT_PASS], verdicts[REPORT_NOT_JUDGED],
                verdicts[REPORT_REVIEW], verdicts[REPORT_FAIL],
                clock_text(time, clock_now() - begun),
                number_size(memory, (double)cli_peak_memory()));
    if (trouble)
        return EXIT_TROUBLE;
    return cli_worst(bad > 0 || (a->strict && strict) ? EXIT_PART : EXIT_DONE,
                     input_files_status(&a->files));
}

static int run(struct arguments *a, int argc, char **argv)
{
    const double begun = clock_now();
    struct err e = {0};
    int64_t bad, verdicts[REPORT_VERDICTS];
    bool trouble;
    int first, ended;
    const int status = command_parse(&report_options, argc, argv, a, &first);
    if (status >= 0)
        return status;
    input_files_add_words(&a->files, argv + first, argc - first);
    if (check(a, &e))
        return command_usage_error(&report_options, &e);
    input_files_expand(&a->files, INPUT_REPORT);
    if (check_inputs(a, &e))
        return command_usage_error(&report_options, &e);
    const char *stores = input_files_only_stores(&a->files);
    if (stores) {
        char *given = path_quoted(stores), *output = path_quoted(a->setup.output);
        err_set(&e,
                "%s: stores, not results; run h5spec run -o results/ %s && h5spec report -o %s "
                "results/",
                stores, given, output);
        free(given);
        free(output);
        return cli_failed(&e);
    }
    if (a->files.n == 0 && a->files.failed > 0 && !a->setup.failed)
        return input_files_status(&a->files);
    a->setup.files = a->files.paths;
    a->setup.n_files = a->files.n;
    a->setup.folders = a->files.folders;
    a->setup.n_folders = a->files.n_folders;
    a->setup.words = argv + 1;
    a->setup.n_words = argc - 1;
    a->setup.quiet = a->quiet;
    stop_catch_signals();
    if (report_write(&a->setup, &bad, &trouble, verdicts, &ended, &e))
        return cli_failed(&e);
    if (ended)
        return ended;
    return finish(a, bad, trouble, verdicts, begun);
}

int report_main(int argc, char **argv)
{
    struct arguments a;
    const int status = run(&a, argc, argv);
    input_files_free(&a.files);
    return status;
}
