/* report_command.c - the command line of `h5spec report`; see report.h. */
#include "process/report/report.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/number.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "process/options/list.h"
#include "process/options/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    OPT_OUTPUT = COMMAND_OWN,
    OPT_TITLE,
    OPT_CSV,
    OPT_MULTIQC,
    OPT_LIST,
    OPT_FAILED,
    OPT_META,
    OPT_GROUP,
    OPT_REGEX,
    OPT_LIMITS,
    OPT_STRICT,
    OPT_NAMES,
    OPT_KEY,
    OPT_PICTURES,
    OPT_SIZE,
    OPT_THREADS,
    OPT_QUIET
};

static const struct command_option rows[] = {
    {"Output", 'o', "output", "REPORT.html", OPT_OUTPUT,
     "file for the page; only a report made by h5spec is ever overwritten"},
    {NULL, 0, "title", "TEXT", OPT_TITLE, "title (default: the number of slides)"},
    {NULL, 0, "csv", "FILE", OPT_CSV,
     "also write the table of slides, with scores and reasons; failed ones have no numbers"},
    {NULL, 0, "multiqc", "DIR", OPT_MULTIQC,
     "also write custom content that MultiQC shows when it is run on DIR"},
    {"Input", 0, "list", "FILE", OPT_LIST,
     "read more inputs from FILE, one per line; - reads standard input"},
    {NULL, 0, "failed", "FILE.csv", OPT_FAILED,
     "more slides that have no result, with columns slide and reason; the page lists them"},
    {"Groups", 0, "meta", "FILE.csv", OPT_META,
     "table with a column slide; --group names the column to group by"},
    {NULL, 0, "group", "COLUMN", OPT_GROUP,
     "group slides by a column of --meta or, without it, by vendor, objective_power or result"},
    {NULL, 0, "group-regex", "RE", OPT_REGEX,
     "group slides by what RE, an extended regular expression, matches in their names; by its "
     "first parenthesis if it has one"},
    {"Limits", 0, "limits", "FILE.csv", OPT_LIMITS,
     "columns metric,side,warn,fail and maybe group; side is below or above: slides pass, warn or "
     "fail"},
    {NULL, 0, "strict", NULL, OPT_STRICT, "end with status 1 if a slide fails a limit"},
    {"Privacy", 0, "names", "HOW", OPT_NAMES,
     "keep, or number: names of slides are replaced by numbers, also groups that are derived from "
     "names"},
    {NULL, 0, "key", "FILE", OPT_KEY,
     "with --names number: which number is which slide, group or failed input (default: "
     "REPORT.html.key.csv)"},
    {"Pictures", 0, "pictures", "WHICH", OPT_PICTURES,
     "auto: as large as --max-size allows, of flagged slides only if need be; all: of all slides, "
     "whatever the size; maps: as auto, without thumbnails; none"},
    {NULL, 0, "max-size", "BYTES", OPT_SIZE,
     "size of the page: pictures are made smaller or left out until it fits, then the plain table "
     "of "
     "slides without a reason, then histograms and profiles of slides; what remains is written, "
     "with a warning"},
    {"Other", 'j', "threads", "N", OPT_THREADS, "number of threads"},
    {NULL, 'q', "quiet", NULL, OPT_QUIET, "no summary at the end"},
    COMMAND_LAST_ROWS};

/* What the options set. */
struct arguments {
    struct report_setup setup;
    struct list files;
    bool strict, quiet;
    char *key; /* the default of --key; owned */
};

static int set_word(const char *what, const char *text, const char *const *words, int *out,
                    struct err *e)
{
    for (int k = 0; words[k]; k++)
        if (!strcmp(text, words[k]))
            return *out = k, 0;
    return err_set(e, "%s %s: not one of its words", what, text);
}

static int set(void *ctx, int id, const char *arg, struct err *e)
{
    static const char *const names[] = {"keep", "number", NULL};
    static const char *const pictures[] = {"auto", "all", "maps", "none", NULL};
    struct arguments *a = ctx;
    struct report_setup *o = &a->setup;
    int64_t n;
    int word = 0;
    switch (id) {
    case OPT_OUTPUT: o->output = arg; return 0;
    case OPT_TITLE: o->title = arg; return 0;
    case OPT_CSV: o->csv = arg; return 0;
    case OPT_MULTIQC: o->multiqc = arg; return 0;
    case OPT_LIST: return list_add_file(&a->files, arg, e);
    case OPT_FAILED: o->failed = arg; return 0;
    case OPT_META: o->meta = arg; return 0;
    case OPT_GROUP: o->group = arg; return 0;
    case OPT_REGEX: o->group_regex = arg; return 0;
    case OPT_LIMITS: o->limits = arg; return 0;
    case OPT_STRICT: a->strict = true; return 0;
    case OPT_KEY: o->key = arg; return 0;
    case OPT_QUIET: a->quiet = true; return 0;
    case OPT_SIZE:
        return number_bytes("--max-size", arg, 1 << 16, INT64_C(1) << 40, &o->max_size, e);
    case OPT_NAMES:
        if (set_word("--names", arg, names, &word, e))
            return -1;
        o->number_names = word;
        return 0;
    case OPT_PICTURES:
        if (set_word("--pictures", arg, pictures, &word, e))
            return -1;
        o->pictures = (enum report_pictures)word;
        return 0;
    case OPT_THREADS:
        if (number_int("--threads", arg, 1, 1024, &n, e))
            return -1;
        o->threads = (int)n;
        return 0;
    default: return err_set(e, "unknown option");
    }
}

static const char *value(int id, char buf[64])
{
    if (id == OPT_THREADS) {
        snprintf(buf, 64, "%d, all processors", pipe_cpus());
        return buf;
    }
    return id == OPT_NAMES ? "keep" : id == OPT_PICTURES ? "auto" : id == OPT_SIZE ? "19M" : NULL;
}

const struct command report_options = {
    .program = "h5spec",
    .word = "report",
    .usage = "[options] -o REPORT.html RESULT...",
    .summary = "write one page about a corpus",
    .details = "Writes one HTML page about the slides of results: which need a look, and why. The "
               "page is one file that needs no network and no server. Slides are compared with "
               "those of their group and resolution. A RESULT is a file made by h5spec run or "
               "merge, or a folder that is searched for results. Results that cannot be used are "
               "listed on the page; the status is then 1. The page also shows the lists of failed "
               "slides that wsi2h5 and h5spec run leave in their output folders, if these "
               "folders are given.",
    .example = "h5spec report -o report.html corpus.h5",
    .options = rows,
    .set = set,
    .value = value,
    .version = options_version};

static bool is_page_name(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && !strcasecmp(path + n - 5, ".html") && path[n - 6] != '/';
}

/* -1 for a wrong combination of options. */
static int check(struct arguments *a, struct err *e)
{
    struct report_setup *o = &a->setup;
    if (!o->output)
        return err_set(e, "-o REPORT.html is missing");
    if (!is_page_name(o->output))
        return err_set(e, "-o %s: the name of a report must end in .html", o->output);
    if (a->files.n == 0 && !o->failed)
        return err_set(e, "no input file given");
    if (o->meta && !o->group)
        return err_set(e, "--meta has no effect without --group COLUMN");
    if (o->group_regex && (o->group || o->meta))
        return err_set(e, "--group-regex and --group exclude each other");
    if (o->key && !o->number_names)
        return err_set(e, "--key has no effect without --names number");
    if (a->strict && !o->limits)
        return err_set(e, "--strict has no effect without --limits");
    if (o->number_names && !o->key) {
        if (asprintf(&a->key, "%s.key.csv", o->output) < 0)
            return err_set(e, "out of memory");
        o->key = a->key;
    }
    return 0;
}

static int finish(const struct arguments *a, int64_t bad, int64_t failing, double begun)
{
    char time[32], memory[32];
    if (!a->quiet)
        cli_say("%s: written in %s, peak memory %s", a->setup.output,
                clock_text(time, clock_now() - begun),
                number_size(memory, (double)cli_peak_memory()));
    if (failing > 0)
        cli_say("%" PRId64 " slide%s a limit", failing, failing == 1 ? " fails" : "s fail");
    return bad > 0 || a->files.failed > 0 || (a->strict && failing > 0) ? EXIT_PART : EXIT_DONE;
}

static int run(struct arguments *a, int argc, char **argv)
{
    const double begun = clock_now();
    struct err e = {""};
    int64_t bad, failing;
    int first;
    const int status = command_parse(&report_options, argc, argv, a, &first);
    if (status >= 0)
        return status;
    if (list_add_words(&a->files, argv + first, argc - first, &e)) {
        cli_say("%s", e.msg);
        return EXIT_PART;
    }
    if (check(a, &e))
        return command_usage_error(&report_options, &e);
    if (list_expand(&a->files, LIST_REPORT, &e)) {
        cli_say("%s", e.msg);
        return EXIT_PART;
    }
    a->setup.files = a->files.paths;
    a->setup.n_files = a->files.n;
    a->setup.folders = a->files.folders;
    a->setup.n_folders = a->files.n_folders;
    stop_catch_signals();
    if (report_write(&a->setup, &bad, &failing, &e)) {
        cli_say("%s", e.msg);
        return stop_signal() ? EXIT_STOPPED : EXIT_PART;
    }
    return finish(a, bad, failing, begun);
}

int report_main(int argc, char **argv)
{
    struct arguments a = {.setup = {.max_size = 19 << 20, .threads = pipe_cpus()}};
    const int status = run(&a, argc, argv);
    list_free(&a.files);
    free(a.key);
    return status;
}
