/* options.c - see options.h. */
#include "process/options.h"

#include "common/codec.h"
#include "common/h5_exit.h"
#include "common/pipe.h"
#include "common/store.h"
#include "process/spectrum.h"
#include "wsi_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void say(const char *message)
{
    fprintf(stderr, "h5spec: %s\n", message);
}

int usage_error(const struct err *e)
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

struct list files;

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

const struct option run_options[] = {
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
const struct option merge_options[] = {
    COMMON, OUTPUT, QUIET, {"partial", no_argument, NULL, OPT_PARTIAL}, {NULL, 0, NULL, 0}};
const struct option info_options[] = {
    COMMON, {"json", no_argument, NULL, OPT_JSON}, {"histogram", no_argument, NULL, OPT_HISTOGRAM},
    {"csv", no_argument, NULL, OPT_CSV}, {NULL, 0, NULL, 0}};
const struct option verify_options[] = {COMMON, THREADS, QUIET, {NULL, 0, NULL, 0}};
const struct option tune_options[] = {COMMON, THREADS, {NULL, 0, NULL, 0}};
const struct option lookup_options[] = {COMMON, {NULL, 0, NULL, 0}};

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

int parse(int argc, char **argv, const char *letters, const struct option *table,
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
