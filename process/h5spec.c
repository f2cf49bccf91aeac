/*
 * h5spec.c - the command: options, subcommands, messages, exit status.
 */
#include "common/cli.h"
#include "common/codec.h"
#include "common/h5_exit.h"
#include "common/pipe.h"
#include "common/result.h"
#include "common/store.h"
#include "process/info.h"
#include "process/list.h"
#include "process/lookup.h"
#include "process/results.h"
#include "process/spectrum.h"
#include "process/stream.h"
#include "process/tune.h"
#include "process/verify.h"
#include "wsi_build.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *message)
{
    fprintf(stderr, "h5spec: %s\n", message);
}

static int usage_error(const struct err *e)
{
    say(e->msg);
    fputs("Try 'h5spec --help'.\n", stderr);
    return EXIT_USAGE;
}

/* --- help --- */

static void print_help(void)
{
    const struct result_params p = spectrum_defaults();
    printf("Usage: h5spec run [options] -o RESULT.h5 STORE...   (the word run may be left out)\n"
           "       h5spec merge [--partial] -o CORPUS.h5 RESULT...\n"
           "       h5spec info [--json|--csv|--histogram] FILE...\n"
           "       h5spec verify [-j N] STORE...\n"
           "       h5spec lookup STORE...\n"
           "       h5spec tune [-j N] STORE...\n"
           "\n"
           "Computes the spectral histogram of slides from the stores that wsi2h5 makes.\n"
           "\n"
           "run: every window of every store, gray, Gaussian, 2-D FFT, log magnitude, histogram\n"
           "  -o, --output FILE      the result, or a folder: each slide's own result NAME.h5 there; those\n"
           "                         that are there already are left alone and counted as done\n"
           "      --task I/N         only share I of N of the stores, into a folder; auto: that of this\n"
           "                         task of an array job of Slurm or Grid Engine\n"
           "      --force            replace results that are in the folder\n"
           "      --device WHERE     auto, cpu or cuda[:0,1,...] (auto)\n"
           "      --window N         window of N x N px, a power of two from 64 to 1024 (%" PRId64 ")\n"
           "      --stride S         px from one window to the next (%" PRId64 ")\n"
           "      --sigma PX         Gaussian before the windows are cut, 0 for none (%g)\n"
           "      --taper NAME       rectangular or hann (%s)\n"
           "      --bins N           bins of the histogram (%" PRId64 ")\n"
           "      --range LOW:HIGH   of the histogram, dB (%g:%g)\n"
           "      --tissue-only      count only windows with enough tissue\n"
           "      --min-tissue F     share of a window's area that is enough (%g)\n"
           "      --groups A-B       only these groups of one store, counted from 1 (all)\n"
           "  -j, --threads N        threads (%d, the processors of this machine)\n"
           "      --memory BYTES     for pixels in flight, such as 512M (what serves the device best)\n"
           "      --io HOW           auto, direct (past the page cache) or buffered (auto)\n"
           "      --json             a line of JSON a store on stdout\n"
           "      --progress WHEN    auto, yes or no (auto: on a terminal)\n"
           "  -q, --quiet            only what went wrong\n"
           "\n"
           "merge: adds results up; the order makes no difference\n"
           "  -o, --output FILE      the sum\n"
           "      --partial          although groups are missing; the sum says which\n"
           "\n"
           "info: what a store or a result holds\n"
           "      --json             for programs, a line a file\n"
           "      --csv              for tables, a line a slide and one for all of a result\n"
           "      --histogram        a result's histogram, a line a bin\n"
           "\n"
           "verify: reads every chunk of a store and checks its checksum\n"
           "  -j, --threads N        threads (%d)\n"
           "  -q, --quiet            only what is wrong\n"
           "\n"
           "lookup: first group, last group and name of each store, all groups numbered from 1\n"
           "\n"
           "tune: how fast groups of various sizes are read here, and the --group-bytes for wsi2h5\n"
           "  -j, --threads N        at most so many threads (%d)\n"
           "\n"
           "All of them\n"
           "      --list FILE        files to work on, one a line, besides those given\n"
           "  -h, --help             this text\n"
           "      --version          version, libraries and backends\n"
           "\n"
           "Exit status: 0 all done, 1 some input failed and the rest was done, 2 wrong usage,\n"
           "3 stopped by a signal with nothing half-done left.\n",
           p.window, p.stride, p.sigma, p.taper, p.bins, p.low_db, p.high_db, p.min_tissue, pipe_cpus(),
           pipe_cpus(), pipe_cpus());
}

static void print_version(void)
{
    struct err no = {""};
    char why[256];
    printf("h5spec " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s\n", h5_library(), codec_library());
    printf("backends: %s; vectors of the CPU: %s\n", spectrum_backends(), spectrum_cpu_vectors());
    if (!spectrum_find("cuda", why, &no))
        printf("no cuda: %s\n", no.msg);
    puts(WSI_BUGS);
}

/* --- options --- */

struct options {
    const char *output;
    const char *device;
    struct result_params params;
    int64_t first_group, last_group;
    int64_t threads, memory;
    enum stream_io io;
    int64_t task, tasks; /* our share of the inputs */
    bool json, histogram, csv, partial, force, quiet;
    enum cli_when progress;
    char **inputs;
    int n_inputs;
};

static struct list files; /* what o.inputs points to */

enum {
    OPT_DEVICE = 256, OPT_WINDOW, OPT_STRIDE, OPT_SIGMA, OPT_TAPER, OPT_BINS, OPT_RANGE, OPT_GROUPS, OPT_TISSUE_ONLY, OPT_MIN_TISSUE,
    OPT_MEMORY, OPT_IO, OPT_JSON, OPT_PROGRESS, OPT_PARTIAL, OPT_HISTOGRAM, OPT_CSV, OPT_LIST,
    OPT_TASK, OPT_FORCE, OPT_VERSION,
};

#define COMMON {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, OPT_VERSION}, \
               {"list", required_argument, NULL, OPT_LIST}
#define OUTPUT {"output", required_argument, NULL, 'o'}
#define THREADS {"threads", required_argument, NULL, 'j'}
#define QUIET {"quiet", no_argument, NULL, 'q'}

static const struct option run_options[] = {
    COMMON, OUTPUT, THREADS, QUIET,
    {"device", required_argument, NULL, OPT_DEVICE}, {"window", required_argument, NULL, OPT_WINDOW},
    {"stride", required_argument, NULL, OPT_STRIDE}, {"sigma", required_argument, NULL, OPT_SIGMA},
    {"taper", required_argument, NULL, OPT_TAPER}, {"bins", required_argument, NULL, OPT_BINS},
    {"tissue-only", no_argument, NULL, OPT_TISSUE_ONLY},
    {"min-tissue", required_argument, NULL, OPT_MIN_TISSUE},
    {"range", required_argument, NULL, OPT_RANGE}, {"groups", required_argument, NULL, OPT_GROUPS},
    {"memory", required_argument, NULL, OPT_MEMORY}, {"io", required_argument, NULL, OPT_IO},
    {"json", no_argument, NULL, OPT_JSON},
    {"progress", required_argument, NULL, OPT_PROGRESS}, {"task", required_argument, NULL, OPT_TASK},
    {"force", no_argument, NULL, OPT_FORCE}, {NULL, 0, NULL, 0}};
static const struct option merge_options[] = {
    COMMON, OUTPUT, QUIET, {"partial", no_argument, NULL, OPT_PARTIAL}, {NULL, 0, NULL, 0}};
static const struct option info_options[] = {
    COMMON, {"json", no_argument, NULL, OPT_JSON}, {"histogram", no_argument, NULL, OPT_HISTOGRAM},
    {"csv", no_argument, NULL, OPT_CSV}, {NULL, 0, NULL, 0}};
static const struct option verify_options[] = {COMMON, THREADS, QUIET, {NULL, 0, NULL, 0}};
static const struct option tune_options[] = {COMMON, THREADS, {NULL, 0, NULL, 0}};
static const struct option lookup_options[] = {COMMON, {NULL, 0, NULL, 0}};

static int parse_range(const char *text, struct result_params *p, struct err *e)
{
    char low[64];
    const char *colon = strchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof low)
        return err_set(e, "--range %s: not LOW:HIGH", text);
    memcpy(low, text, (size_t)(colon - text));
    low[colon - text] = 0;
    return cli_real("--range", low, -1000, 1000, &p->low_db, e) ||
           cli_real("--range", colon + 1, -1000, 1000, &p->high_db, e) ? -1 : 0;
}

static int parse_io(const char *text, enum stream_io *io, struct err *e)
{
    static const char *const words[] = {[STREAM_AUTO] = "auto", [STREAM_DIRECT] = "direct", [STREAM_BUFFERED] = "buffered"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(text, words[k])) {
            *io = (enum stream_io)k;
            return 0;
        }
    return err_set(e, "--io %s: must be auto, direct or buffered", text);
}

static int parse_one(int option, const char *arg, struct options *o, struct err *e)
{
    struct result_params *p = &o->params;
    switch (option) {
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case 'j': return cli_int("-j", arg, 1, 1024, &o->threads, e);
    case OPT_DEVICE: o->device = arg; return 0;
    case OPT_WINDOW: return cli_int("--window", arg, 64, 1024, &p->window, e);
    case OPT_STRIDE: return cli_int("--stride", arg, 1, 1024, &p->stride, e);
    case OPT_SIGMA: return cli_real("--sigma", arg, 0, 10, &p->sigma, e);
    case OPT_TAPER: snprintf(p->taper, sizeof p->taper, "%s", arg); return 0;
    case OPT_BINS: return cli_int("--bins", arg, 1, 65536, &p->bins, e);
    case OPT_RANGE: return parse_range(arg, p, e);
    case OPT_TISSUE_ONLY: p->tissue_only = true; return 0;
    case OPT_MIN_TISSUE: return cli_real("--min-tissue", arg, 0, 1, &p->min_tissue, e);
    case OPT_GROUPS: return cli_range("--groups", arg, &o->first_group, &o->last_group, e);
    case OPT_MEMORY: return cli_bytes("--memory", arg, 1 << 20, INT64_C(1) << 50, &o->memory, e);
    case OPT_IO: return parse_io(arg, &o->io, e);
    case OPT_JSON: o->json = true; return 0;
    case OPT_PROGRESS: return cli_when("--progress", arg, &o->progress, e);
    case OPT_PARTIAL: o->partial = true; return 0;
    case OPT_HISTOGRAM: o->histogram = true; return 0;
    case OPT_CSV: o->csv = true; return 0;
    case OPT_LIST: return list_add_file(&files, arg, e);
    case OPT_TASK: return cli_task("--task", arg, &o->task, &o->tasks, e);
    case OPT_FORCE: o->force = true; return 0;
    default: return err_set(e, "unknown option");
    }
}

/* Returns -1 to go on, or the exit status. */
static int parse(int argc, char **argv, const char *letters, const struct option *table,
                 struct options *o)
{
    struct err e = {""};
    int option;
    *o = (struct options){.device = "auto", .params = spectrum_defaults(), .threads = pipe_cpus(),
                          .task = 1, .tasks = 1};
    while ((option = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        if (option == 'h') {
            print_help();
            return EXIT_DONE;
        }
        if (option == OPT_VERSION) {
            print_version();
            return EXIT_DONE;
        }
        if (option == '?') { /* getopt has said what */
            fputs("Try 'h5spec --help'.\n", stderr);
            return EXIT_USAGE;
        }
        if (parse_one(option, optarg, o, &e))
            return usage_error(&e);
    }
    for (int k = optind; k < argc; k++)
        if (list_add(&files, argv[k], &e))
            return usage_error(&e);
    o->inputs = files.paths;
    o->n_inputs = files.n;
    o->params.radius = spectrum_radius(o->params.sigma);
    if (o->n_inputs == 0)
        return err_set(&e, "no input file given"), usage_error(&e);
    return -1;
}

/* --- run --- */

struct run {
    struct options *o;
    struct results *out;
    struct cli_progress progress;
    int64_t stores, skipped, failed;
    struct result_counts counts;
};

static void json_store(const char *path, const struct result_params *p, const struct result_slide *s,
                       const struct err *why)
{
    fputs("{\"store\": ", stdout);
    cli_json_string(stdout, path);
    printf(", \"status\": \"%s\"", s ? "done" : why ? "failed" : "skipped");
    if (s) {
        double mean, std;
        result_moments(p, s->counts.histogram, &mean, &std);
        printf(", \"windows\": %" PRId64 ", \"mean_db\": ", s->counts.windows);
        cli_json_number(stdout, mean);
        fputs(", \"std_db\": ", stdout);
        cli_json_number(stdout, std);
        printf(", \"seconds\": %.3f, \"backend\": \"%s\", \"device\": ", s->seconds, s->backend);
        cli_json_string(stdout, s->device);
        printf(", \"kernel\": \"%s\", \"io\": \"%s\"", s->kernel, s->io);
        for (int k = 0; k < RESULT_STAGES; k++)
            printf(", \"%s_seconds\": %.3f", result_stage_name(k), s->stages[k]);
    } else if (why) {
        fputs(", \"message\": ", stdout);
        cli_json_string(stdout, why->msg);
    }
    puts("}");
    fflush(stdout);
}

static int report_store(void *ctx, int64_t k, const struct result_slide *s, const struct err *why, struct err *e)
{
    struct run *r = ctx;
    const char *path = r->o->inputs[k];
    cli_progress_clear(&r->progress);
    if (r->o->json)
        json_store(path, &r->o->params, s, why);
    if (!s) {
        r->failed++;
        say(why->msg);
        return 0;
    }
    if (s->nx * s->ny == 0 && !r->o->quiet)
        fprintf(stderr, "h5spec: %s: %" PRId64 " x %" PRId64 " px is smaller than a window of %"
                PRId64 " px: it has no windows\n", path, s->width, s->height, r->o->params.window);
    r->stores++;
    result_add_counts(&r->counts, &s->counts, r->o->params.bins);
    return results_put(r->out, s, e);
}

static void note_store(void *ctx, int64_t k, const char *text)
{
    struct run *r = ctx;
    cli_progress_clear(&r->progress);
    fprintf(stderr, "h5spec: %s: %s\n", r->o->inputs[k], text);
}

static void show_progress(void *ctx, int64_t k, double fraction)
{
    struct run *r = ctx;
    cli_progress_show(&r->progress, cli_base_name(r->o->inputs[k]), (double)k + fraction,
                      r->o->n_inputs);
}

/* Length of a store's name in the result: without its folder and without ".h5". */
static size_t name_length(const char *base)
{
    const size_t n = strlen(base);
    return n > 3 && !strcmp(base + n - 3, ".h5") ? n - 3 : n;
}

static int by_name(const void *a, const void *b)
{
    const char *x = cli_base_name(*(char *const *)a), *y = cli_base_name(*(char *const *)b);
    const size_t n = name_length(x), m = name_length(y);
    const int order = memcmp(x, y, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

/* A result has a slide under the store's base name: no two may have the same. */
static int check_names(const struct options *o, struct err *e)
{
    char **sorted = malloc((size_t)o->n_inputs * sizeof *sorted);
    int r = 0;
    if (!sorted)
        return err_set(e, "out of memory");
    memcpy(sorted, o->inputs, (size_t)o->n_inputs * sizeof *sorted);
    qsort(sorted, (size_t)o->n_inputs, sizeof *sorted, by_name);
    for (int k = 0; k < o->n_inputs && r == 0; k++) {
        const char *base = cli_base_name(sorted[k]);
        if (strlen(base) > 250 || !strcmp(base, ".") || !strcmp(base, "..h5"))
            r = err_set(e, "%s: cannot be the name of a slide in a result", sorted[k]);
        else if (k > 0 && !by_name(&sorted[k - 1], &sorted[k]))
            r = err_set(e, "%s and %s: two stores of one name; run them into two results",
                        sorted[k - 1], sorted[k]);
    }
    free(sorted);
    return r;
}

static int check_run(const struct options *o, struct err *e)
{
    if (!o->output)
        return err_set(e, "-o RESULT.h5 is missing");
    if (o->first_group && o->n_inputs > 1)
        return err_set(e, "--groups takes one store at a time");
    if (o->tasks > 1 && !results_is_folder(o->output))
        return err_set(e, "-o %s: with --task each slide's result goes into a folder; name one that is there",
                       o->output);
    if (!spectrum_is_device(o->device))
        return err_set(e, "--device %s: must be auto, cpu or cuda[:0,1,...]", o->device);
    return result_check_params(&o->params, e) || check_names(o, e) ? -1 : 0;
}

static void last_line(const struct run *r, double seconds)
{
    char memory[32], time[32];
    double mean, std;
    result_moments(&r->o->params, r->counts.histogram, &mean, &std);
    fprintf(stderr, "h5spec: %" PRId64 " done, ", r->stores);
    if (r->skipped)
        fprintf(stderr, "%" PRId64 " were there already, ", r->skipped);
    fprintf(stderr, "%" PRId64 " failed: %" PRId64 " windows", r->failed, r->counts.windows);
    if (!isnan(mean))
        fprintf(stderr, ", mean %.3f dB, std %.3f dB", mean, std);
    fprintf(stderr, "; %s, %.0f windows/s, peak memory %s\n", cli_time(time, seconds),
            (double)r->counts.windows / (seconds > 0 ? seconds : 1),
            cli_size(memory, (double)cli_peak_memory()));
}

/* Takes the stores out whose result is there already, or another's is in its place. */
static void leave_out_finished(struct run *r)
{
    struct options *o = r->o;
    int kept = 0;
    for (int k = 0; k < o->n_inputs; k++) {
        struct err e = {""};
        const int have = o->force || cli_stopped() ? 0 : results_have(r->out, o->inputs[k], &e);
        if (have == 0) {
            o->inputs[kept++] = o->inputs[k];
            continue;
        }
        r->skipped += have > 0;
        r->failed += have < 0;
        if (have < 0)
            say(e.msg);
        if (o->json)
            json_store(o->inputs[k], &o->params, NULL, have < 0 ? &e : NULL);
        free(o->inputs[k]);
    }
    o->n_inputs = files.n = kept;
}

static int run_stores(struct run *r, const struct spectrum_backend *backend)
{
    struct err e = {""};
    r->out = results_open(r->o->output, &r->o->params, r->o->first_group, r->o->last_group, &e);
    if (r->out)
        leave_out_finished(r);
    const struct stream_setup setup = {
        .backend = backend, .devices = spectrum_device_numbers(r->o->device), .io = r->o->io,
        .params = r->o->params, .paths = r->o->inputs,
        .n_paths = r->o->n_inputs, .threads = (int)r->o->threads, .memory = r->o->memory,
        .first_group = r->o->first_group, .last_group = r->o->last_group, .ctx = r,
        .report = report_store, .note = note_store, .progress = r->progress.on ? show_progress : NULL};
    int bad = !r->out || (setup.n_paths > 0 && stream_run(&setup, &e));
    cli_progress_clear(&r->progress);
    if (bad)
        results_abort(r->out);
    else
        bad = results_commit(r->out, &e);
    if (bad)
        say(e.msg);
    if (bad && cli_stopped())
        return EXIT_STOPPED;
    return bad || r->failed ? EXIT_PART : EXIT_DONE;
}

static int command_run(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    char why[256];
    int status = parse(argc, argv, "o:j:qh", run_options, &o);
    if (status >= 0)
        return status;
    if (check_run(&o, &e))
        return usage_error(&e);
    cli_catch_signals();
    const struct spectrum_backend *backend = spectrum_find(o.device, why, &e);
    if (!backend) {
        err_add(&e, "--device %s", o.device);
        say(e.msg);
        return EXIT_PART;
    }
    list_share(&files, o.task, o.tasks);
    if (files.n == 0 && !o.quiet)
        fprintf(stderr, "h5spec: share %" PRId64 " of %" PRId64 " of %d stores is empty: nothing to do\n", o.task,
                o.tasks, o.n_inputs);
    o.n_inputs = files.n;
    if (!strcmp(o.device, "auto") && !o.quiet)
        fprintf(stderr, "h5spec: device %s%s%s\n", backend->name, *why ? ": " : "", why);
    struct run r = {.o = &o};
    r.counts.histogram = calloc((size_t)o.params.bins, sizeof(uint64_t));
    if (!r.counts.histogram) {
        say("out of memory");
        return EXIT_PART;
    }
    const double begun = cli_now();
    cli_progress_begin(&r.progress, o.quiet ? CLI_NO : o.progress);
    status = run_stores(&r, backend);
    if (!o.quiet && status != EXIT_STOPPED)
        last_line(&r, cli_now() - begun);
    free(r.counts.histogram);
    return status;
}

/* --- merge, info, verify --- */

static int command_merge(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "o:qh", merge_options, &o);
    if (status >= 0)
        return status;
    if (!o.output) {
        err_set(&e, "-o CORPUS.h5 is missing");
        return usage_error(&e);
    }
    cli_catch_signals();
    if (result_check_target(o.output, &e) ||
        result_merge(o.output, o.inputs, o.n_inputs, o.partial, &e)) {
        say(e.msg);
        return cli_stopped() ? EXIT_STOPPED : EXIT_PART;
    }
    if (!o.quiet)
        fprintf(stderr, "h5spec: %d result%s added up into %s\n", o.n_inputs,
                o.n_inputs == 1 ? "" : "s", o.output);
    return EXIT_DONE;
}

static int command_info(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "h", info_options, &o);
    if (status >= 0)
        return status;
    status = EXIT_DONE;
    const enum info_form form = o.histogram ? INFO_HISTOGRAM : o.json ? INFO_JSON : o.csv ? INFO_CSV : INFO_TEXT;
    if (form == INFO_CSV)
        info_csv_head();
    for (int k = 0; k < o.n_inputs; k++)
        if (info_print(o.inputs[k], form, &e)) {
            fflush(stdout);
            say(e.msg);
            status = EXIT_PART;
        }
    return status;
}

static int verify_one(const char *path, const struct options *o)
{
    struct verify_report r;
    struct err e = {""};
    char size[32];
    if (verify_store(path, (int)o->threads, &r, &e)) {
        say(e.msg);
        return cli_stopped() ? EXIT_STOPPED : EXIT_PART;
    }
    if (r.bad) {
        fprintf(stderr, "h5spec: %s: damaged: %" PRId64 " of %" PRId64 " chunks, the first: %s; "
                "convert the slide again\n", path, r.bad, r.chunks, r.first.msg);
        return EXIT_PART;
    }
    if (!o->quiet)
        printf("%s: sound: %" PRId64 " chunks, %s; tiles missing in the slide %" PRId64
               ", damaged there %" PRId64 ", left out %" PRId64 "\n",
               path, r.chunks, cli_size(size, (double)r.bytes), r.missing, r.damaged, r.left_out);
    return EXIT_DONE;
}

static int command_verify(int argc, char **argv)
{
    struct options o;
    int status = parse(argc, argv, "j:qh", verify_options, &o);
    if (status >= 0)
        return status;
    cli_catch_signals();
    status = EXIT_DONE;
    for (int k = 0; k < o.n_inputs && status != EXIT_STOPPED; k++) {
        int one = verify_one(o.inputs[k], &o);
        status = one > status ? one : status;
    }
    return status;
}

static int command_lookup(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int64_t groups = 0;
    int status = parse(argc, argv, "h", lookup_options, &o);
    if (status >= 0)
        return status;
    lookup_begin();
    for (int k = 0; k < o.n_inputs; k++)
        if (lookup_print(o.inputs[k], &groups, &e)) {
            say(e.msg);
            status = EXIT_PART;
        }
    return status < 0 ? EXIT_DONE : status;
}

static int command_tune(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "j:h", tune_options, &o);
    if (status >= 0)
        return status;
    cli_catch_signals();
    status = EXIT_DONE;
    for (int k = 0; k < o.n_inputs && !cli_stopped(); k++)
        if (tune_print(o.inputs[k], (int)o.threads, &e)) {
            fflush(stdout);
            say(e.msg);
            status = EXIT_PART;
        }
    return cli_stopped() ? EXIT_STOPPED : status;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; int (*run)(int, char **); } commands[] = {
        {"run", command_run}, {"merge", command_merge}, {"info", command_info},
        {"verify", command_verify}, {"lookup", command_lookup},
        {"tune", command_tune}};
    int (*command)(int, char **) = NULL;
    for (size_t k = 0; argc > 1 && k < sizeof commands / sizeof *commands; k++)
        if (!strcmp(argv[1], commands[k].name))
            command = commands[k].run;
    const int status = command ? command(argc - 1, argv + 1) : command_run(argc, argv);
    list_free(&files);
    h5_exit(status);
}
