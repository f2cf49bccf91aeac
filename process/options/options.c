/* options.c - see options.h. */
#include "process/options/options.h"

#include "common/base/cli.h"
#include "common/base/folder.h"
#include "common/base/number.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/base/task.h"
#include "common/codec/codec.h"
#include "common/codec/jpeg_decoder.h"
#include "common/hdf5/h5_exit.h"
#include "process/spectrum/spectrum.h"
#include "process/spectrum/spectrum_open.h"
#include "wsi_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- tables --- */

enum {
    OPT_OUTPUT = COMMAND_OWN, OPT_THREADS, OPT_QUIET, OPT_DEVICE, OPT_WINDOW, OPT_STRIDE, OPT_SIGMA,
    OPT_TAPER, OPT_BINS, OPT_RANGE, OPT_GROUPS, OPT_TISSUE_ONLY, OPT_MIN_TISSUE,
    OPT_SKIP_DAMAGED, OPT_ROI, OPT_ROI_CLASS, OPT_MIN_ROI, OPT_FEATURES, OPT_ON_DAMAGE,
    OPT_MEMORY, OPT_IO,
    OPT_JSON, OPT_PROGRESS, OPT_PARTIAL, OPT_HISTOGRAM, OPT_CSV, OPT_LIST, OPT_TASK, OPT_FORCE,
    OPT_DUPLICATES, OPT_MIX_MPP, OPT_QUICK, OPT_LIVE, OPT_LIVE_EVERY,
};

#define LIST {"Input", 0, "list", "FILE", OPT_LIST, \
              "read more inputs from FILE, one per line; - reads standard input"}
#define DUPLICATES {NULL, 0, "allow-duplicates", NULL, OPT_DUPLICATES, \
                    "accept several stores of one slide; each is counted"}
#define MIX_MPP {NULL, 0, "mix-mpp", NULL, OPT_MIX_MPP, \
                 "accept slides of different resolution in one result; without it, those that " \
                 "differ by more than 10 % from the first one by name are left out, with status 1"}
#define THREADS {"Computing", 'j', "threads", "N", OPT_THREADS, "number of threads"}
#define PROGRESS {NULL, 0, "progress", "WHEN", OPT_PROGRESS, \
                  "show progress: auto (on a terminal), yes or no"}
#define QUIET {NULL, 'q', "quiet", NULL, OPT_QUIET, "print errors only"}

static const struct command_option run_rows[] = {
    {"Output", 'o', "output", "RESULT", OPT_OUTPUT,
     "file for the result of all stores; or a folder (an existing one, or a name that ends with a "
     "slash, which is created) for one file NAME.h5 per store: existing results are kept and "
     "skipped"},
    {NULL, 0, "force", NULL, OPT_FORCE, "replace existing results in the folder"},
    {NULL, 0, "live", "DIR", OPT_LIVE,
     "keep a page DIR/index.html that shows the run while it continues; open it from the disk; "
     "each run needs a folder of its own"},
    {NULL, 0, "live-every", "SECONDS", OPT_LIVE_EVERY, "seconds between updates of the live page"},
    LIST,
    {NULL, 0, "groups", "A-B", OPT_GROUPS, "compute only groups A to B of one store, from 1"},
    {NULL, 0, "task", "I/N", OPT_TASK,
     "compute only share I of N of the stores, into a folder; auto: the share of this task of a "
     "Slurm or Grid Engine array job"},
    DUPLICATES,
    MIX_MPP,
    {"Parameters", 0, "window", "N", OPT_WINDOW,
     "windows of N x N px, a power of two from 64 to 1024"},
    {NULL, 0, "stride", "S", OPT_STRIDE, "px from one window to the next"},
    {NULL, 0, "sigma", "PX", OPT_SIGMA, "Gaussian smoothing before windows are cut, 0 for none"},
    {NULL, 0, "taper", "NAME", OPT_TAPER, "taper of the windows: rectangular or hann"},
    {NULL, 0, "bins", "N", OPT_BINS, "bins of the histogram"},
    {NULL, 0, "range", "LOW:HIGH", OPT_RANGE, "range of the histogram in dB"},
    {NULL, 0, "tissue-only", NULL, OPT_TISSUE_ONLY, "count only windows with enough tissue"},
    {NULL, 0, "min-tissue", "F", OPT_MIN_TISSUE,
     "tissue share of a window's area that is enough, from 0 to 1"},
    {NULL, 0, "skip-damaged", NULL, OPT_SKIP_DAMAGED,
     "do not count windows that touch tiles damaged in the slide"},
    {NULL, 0, "roi", "FILE", OPT_ROI,
     "count only windows inside the polygons of a GeoJSON file, such as QuPath exports (level-0 "
     "px); FILE may be a folder with one file per slide, NAME.geojson"},
    {NULL, 0, "roi-class", "NAME", OPT_ROI_CLASS,
     "of these, only polygons of this class; may be repeated"},
    {NULL, 0, "min-roi", "F", OPT_MIN_ROI,
     "share of a window's area that must lie inside, from 0 to 1"},
    {NULL, 0, "features", "WHICH", OPT_FEATURES,
     "what is computed besides the histogram: basic (maps of mean and std) or spectral (also maps "
     "of level and focus, flags, the profile of octaves, and spectra of tissue and glass)"},
    {NULL, 0, "on-damage", "WHAT", OPT_ON_DAMAGE,
     "stores with damaged tiles: report (the windows they touch count, unless --skip-damaged, and "
     "are reported) or fail (the store is rejected)"},
    {"Computing", 0, "device", "WHERE", OPT_DEVICE, "auto, cpu, cuda or cuda:0,1,..."},
    {NULL, 'j', "threads", "N", OPT_THREADS, "number of threads"},
    {NULL, 0, "memory", "BYTES", OPT_MEMORY,
     "memory for pixels in flight, such as 512M (default: what serves the device best)"},
    {NULL, 0, "io", "HOW", OPT_IO,
     "how stores are read: auto, direct (past the page cache), buffered, or gds (by the GPU "
     "itself, through GPUDirect Storage; codecs jpeg and none)"},
    {"Messages", 0, "json", NULL, OPT_JSON, "print one JSON line per store on standard output"},
    PROGRESS, QUIET, COMMAND_LAST_ROWS};

static const struct command_option merge_rows[] = {
    {"Output", 'o', "output", "CORPUS.h5", OPT_OUTPUT, "file for the merged result"},
    LIST,
    {NULL, 0, "partial", NULL, OPT_PARTIAL,
     "merge even if groups are missing; the output lists them"},
    DUPLICATES,
    MIX_MPP,
    {"Messages", 0, "json", NULL, OPT_JSON, "print a JSON line about the output"},
    PROGRESS, QUIET, COMMAND_LAST_ROWS};

static const struct command_option info_rows[] = {
    LIST,
    {"Output", 0, "json", NULL, OPT_JSON, "print one JSON line per file"},
    {NULL, 0, "csv", NULL, OPT_CSV,
     "print a table of results: one row per slide and one row per file"},
    {NULL, 0, "histogram", NULL, OPT_HISTOGRAM, "print the histogram of a result, one row per bin"},
    COMMAND_LAST_ROWS};

static const struct command_option verify_rows[] = {
    LIST, THREADS,
    {NULL, 0, "quick", NULL, OPT_QUICK, "compute the checksums of chunks only; do not unpack them"},
    {"Messages", 0, "json", NULL, OPT_JSON, "print one JSON line per file"},
    PROGRESS, QUIET, COMMAND_LAST_ROWS};

static const struct command_option lookup_rows[] = {
    LIST,
    {"Output", 0, "json", NULL, OPT_JSON, "print one JSON line per store instead of the table"},
    COMMAND_LAST_ROWS};

static const struct command_option tune_rows[] = {
    LIST,
    {"Computing", 'j', "threads", "N", OPT_THREADS, "most threads to try"},
    {"Output", 0, "json", NULL, OPT_JSON, "print one JSON line per store instead of the table"},
    COMMAND_LAST_ROWS};

/* --- live defaults --- */

static const char *parameter_value(int id, char buf[64])
{
    const struct result_params p = spectrum_defaults();
    switch (id) {
    case OPT_WINDOW: snprintf(buf, 64, "%" PRId64, p.window); break;
    case OPT_STRIDE: snprintf(buf, 64, "%" PRId64, p.stride); break;
    case OPT_SIGMA: snprintf(buf, 64, "%g", p.sigma); break;
    case OPT_TAPER: snprintf(buf, 64, "%s", p.taper); break;
    case OPT_FEATURES: snprintf(buf, 64, "%s", p.features); break;
    case OPT_BINS: snprintf(buf, 64, "%" PRId64, p.bins); break;
    case OPT_RANGE: snprintf(buf, 64, "%g:%g", p.low_db, p.high_db); break;
    case OPT_MIN_TISSUE: snprintf(buf, 64, "%g", p.min_tissue); break;
    case OPT_MIN_ROI: snprintf(buf, 64, "%g", p.min_roi); break;
    default: return NULL;
    }
    return buf;
}

static const char *value(int id, char buf[64])
{
    switch (id) {
    case OPT_THREADS:
        snprintf(buf, 64, "%d, all processors", pipe_cpus());
        return buf;
    case OPT_DEVICE:
    case OPT_IO:
    case OPT_PROGRESS: return "auto";
    case OPT_ON_DAMAGE: return "report";
    case OPT_LIVE_EVERY: return "2";
    default: return parameter_value(id, buf);
    }
}

void options_version(void)
{
    struct err no = {""};
    printf("h5spec " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s, %s\n", h5_library(),
           codec_library(), jpeg_library());
    printf("backends: %s; CPU vectors: %s\n", spectrum_backends(), spectrum_cpu_vectors());
    if (!spectrum_has_cuda(&no))
        printf("no cuda: %s\n", no.msg);
    puts(WSI_BUGS);
}

/* --- parsing --- */

static int parse_io(const char *text, enum stream_io *io, struct err *e)
{
    static const char *const words[] = {[STREAM_AUTO] = "auto", [STREAM_DIRECT] = "direct",
                                        [STREAM_BUFFERED] = "buffered", [STREAM_GDS] = "gds"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(text, words[k])) {
            *io = (enum stream_io)k;
            return 0;
        }
    return err_set(e, "--io %s: must be auto, direct, buffered or gds", text);
}

static int parse_on_damage(const char *text, bool *reject, struct err *e)
{
    *reject = !strcmp(text, "fail");
    return *reject || !strcmp(text, "report") || !strcmp(text, "count") /* its earlier name */
               ? 0 : err_set(e, "--on-damage %s: must be report or fail", text);
}

static int set_parameter(struct result_params *p, int id, const char *arg, struct err *e)
{
    switch (id) {
    case OPT_WINDOW: return number_int("--window", arg, 64, 1024, &p->window, e);
    case OPT_STRIDE: return number_int("--stride", arg, 1, 1024, &p->stride, e);
    case OPT_SIGMA: return number_real("--sigma", arg, 0, 10, &p->sigma, e);
    case OPT_TAPER: snprintf(p->taper, sizeof p->taper, "%s", arg); return 0;
    case OPT_FEATURES: snprintf(p->features, sizeof p->features, "%s", arg); return 0;
    case OPT_BINS: return number_int("--bins", arg, 1, 65536, &p->bins, e);
    case OPT_RANGE: return number_span("--range", arg, -1000, 1000, &p->low_db, &p->high_db, e);
    case OPT_TISSUE_ONLY: p->tissue_only = true; return 0;
    case OPT_SKIP_DAMAGED: p->skip_damaged = true; return 0;
    case OPT_MIN_TISSUE: return number_real("--min-tissue", arg, 0, 1, &p->min_tissue, e);
    case OPT_MIN_ROI: return number_real("--min-roi", arg, 0, 1, &p->min_roi, e);
    default: return err_set(e, "unknown option");
    }
}

static int set_regions(struct options *o, const char *path, struct err *e)
{
    if (!geojson_works())
        return err_set(e, "--roi: this build reads no GeoJSON, because Jansson was missing; "
                       "install it (libjansson-dev) and build again");
    if (o->params.roi)
        return err_set(e, "--roi can be given once; FILE may be a folder with one file per slide");
    o->params.roi = true;
    o->regions.path = path;
    return 0;
}

/* Keeps the names sorted, each once. */
static int add_class(struct geojson_classes *c, const char *name, struct err *e)
{
    int at = 0;
    const char **more = realloc(c->names, (size_t)(c->n + 1) * sizeof *more);
    if (!more)
        return err_set(e, "out of memory");
    c->names = more;
    while (at < c->n && strcmp(more[at], name) < 0)
        at++;
    if (!*name || (at < c->n && !strcmp(more[at], name)))
        return *name ? 0 : err_set(e, "--roi-class: the name is empty");
    memmove(more + at + 1, more + at, (size_t)(c->n - at) * sizeof *more);
    more[at] = name;
    c->n++;
    return 0;
}

static int set(void *ctx, int id, const char *arg, struct err *e)
{
    struct options *o = ctx;
    o->min_tissue |= id == OPT_MIN_TISSUE;
    o->min_roi |= id == OPT_MIN_ROI;
    switch (id) {
    case OPT_OUTPUT: o->output = arg; return 0;
    case OPT_QUIET: o->quiet = true; return 0;
    case OPT_THREADS: return number_int("--threads", arg, 1, 1024, &o->threads, e);
    case OPT_DEVICE: o->device = arg; return spectrum_parse_choice(arg, &o->choice, e);
    case OPT_GROUPS: return number_range("--groups", arg, &o->first_group, &o->last_group, e);
    case OPT_MEMORY: return number_bytes("--memory", arg, 1 << 20, INT64_C(1) << 50, &o->memory, e);
    case OPT_IO: return parse_io(arg, &o->io, e);
    case OPT_ON_DAMAGE: return parse_on_damage(arg, &o->reject_damaged, e);
    case OPT_JSON: o->json = true; return 0;
    case OPT_PROGRESS: return progress_when("--progress", arg, &o->progress, e);
    case OPT_PARTIAL: o->partial = true; return 0;
    case OPT_HISTOGRAM: o->histogram = true; return 0;
    case OPT_QUICK: o->quick = true; return 0;
    case OPT_CSV: o->csv = true; return 0;
    case OPT_LIST: return list_add_file(&o->files, arg, e);
    case OPT_TASK: return task_parse("--task", arg, &o->task, &o->tasks, e);
    case OPT_FORCE: o->force = true; return 0;
    case OPT_DUPLICATES: o->allow_duplicates = true; return 0;
    case OPT_MIX_MPP: o->mix_mpp = true; return 0;
    case OPT_LIVE: o->live = arg; return 0;
    case OPT_ROI: return set_regions(o, arg, e);
    case OPT_ROI_CLASS: return add_class(&o->regions.classes, arg, e);
    case OPT_LIVE_EVERY: return number_real("--live-every", arg, 0.1, 3600, &o->live_every, e);
    default: return set_parameter(&o->params, id, arg, e);
    }
}

/* --- checks: options that contradict each other or have no effect are errors --- */

static int check_output(const struct options *o, const char *what, struct err *e)
{
    if (!o->output)
        return err_set(e, "-o %s is missing", what);
    if (!*o->output)
        return err_set(e, "-o: the name is empty; name a file");
    if (!strcmp(o->output, "-"))
        return err_set(e, "-o -: HDF5 cannot be written to standard output; name a file");
    return 0;
}

/* Checks the options about regions, and records the classes among the parameters. */
static int check_regions(struct options *o, struct err *e)
{
    struct stat st;
    struct result_params *p = &o->params;
    const struct geojson_classes *c = &o->regions.classes;
    size_t used = 0;
    if (!p->roi && (c->n > 0 || o->min_roi))
        return err_set(e, "%s has no effect without --roi; add it",
                       o->min_roi ? "--min-roi" : "--roi-class");
    for (int k = 0; k < c->n && used < sizeof p->roi_class; k++)
        used += (size_t)snprintf(p->roi_class + used, sizeof p->roi_class - used, "%s%s",
                                 k ? ", " : "", c->names[k]);
    if (used >= sizeof p->roi_class)
        return err_set(e, "--roi-class: all names together are longer than %zu bytes",
                       sizeof p->roi_class - 1);
    if (p->roi && stat(o->regions.path, &st))
        return err_sys(e, "--roi %s", o->regions.path);
    if (p->roi && !S_ISDIR(st.st_mode) && o->files.n > 1)
        return err_set(e, "--roi %s: one file has the regions of one slide, but %d stores are "
                       "given; name a folder with one file per slide", o->regions.path,
                       o->files.n);
    return 0;
}

static int check_run(const struct options *o, struct err *e)
{
    const bool folder = o->output && folder_is_meant(o->output);
    if (check_output(o, "RESULT.h5", e))
        return -1;
    if (o->tasks && !folder)
        return err_set(e, "-o %s: --task needs a folder; name an existing one, or end the name "
                       "with a slash", o->output);
    if (o->force && !folder)
        return err_set(e, "--force has no effect here: -o %s is a single file, which is always "
                       "replaced", o->output);
    if (o->params.skip_damaged && o->reject_damaged)
        return err_set(e, "--skip-damaged and --on-damage fail contradict each other; choose one");
    if (o->live && !*o->live)
        return err_set(e, "--live: the name is empty; name a folder");
    if (o->live_every > 0 && !o->live)
        return err_set(e, "--live-every has no effect without --live");
    if (o->io == STREAM_GDS && o->choice.kind == SPECTRUM_CPU)
        return err_set(e, "--io gds and --device cpu contradict each other: only a GPU reads files "
                       "itself; choose --io direct");
    if (o->min_tissue && !o->params.tissue_only)
        return err_set(e, "--min-tissue has no effect without --tissue-only; add it");
    return result_check_params(&o->params, e);
}

static int check(const struct options *o, struct err *e)
{
    if (o->command == &options_run && check_run(o, e))
        return -1;
    if (o->command == &options_merge && check_output(o, "CORPUS.h5", e))
        return -1;
    if (o->json + o->csv + o->histogram > 1)
        return err_set(e, "--json, --csv and --histogram exclude each other; choose one");
    if (o->quiet && o->progress == PROGRESS_YES)
        return err_set(e, "--quiet and --progress yes contradict each other; choose one");
    return o->files.n > 0 ? 0 : err_set(e, "no input file given");
}

/* What the folders among the inputs of a command are searched for. */
static enum list_kind input_kind(const struct command *c)
{
    if (c == &options_merge)
        return LIST_RESULTS;
    return c == &options_info || c == &options_verify ? LIST_BOTH : LIST_STORES;
}

int options_parse(const struct command *c, int argc, char **argv, struct options *o)
{
    struct err e = {""};
    int first;
    *o = (struct options){.command = c, .device = "auto", .params = spectrum_defaults(),
                          .threads = pipe_cpus()};
    const int status = command_parse(c, argc, argv, o, &first);
    if (status >= 0)
        return status;
    o->params.radius = spectrum_radius(o->params.sigma);
    int bad = list_add_words(&o->files, argv + first, argc - first, &e);
    if (!bad && check(o, &e))
        return command_usage_error(c, &e);
    bad = bad || list_expand(&o->files, input_kind(c), &e);
    if (!bad && c == &options_run && check_regions(o, &e))
        return command_usage_error(c, &e);
    if (bad)
        cli_say("%s", e.msg);
    return bad || o->files.n == 0 ? EXIT_PART : -1;
}

void options_free(struct options *o)
{
    list_free(&o->files);
    free(o->regions.classes.names);
}

/* --- commands --- */

#define COMMAND(word_, rows) .program = "h5spec", .word = word_, .options = rows, .set = set, \
                             .value = value, .version = options_version

const struct command options_run = {
    COMMAND("run", run_rows),
    .usage = "[options] -o RESULT.h5 STORE...\n       h5spec run [options] -o FOLDER/ STORE...",
    .summary = "compute the spectral histogram of stores",
    .details = "Computes the spectral histogram of each slide from its store. Every window of the "
               "slide is Fourier transformed; the log magnitudes of all windows make the "
               "histogram. A STORE is a file made by wsi2h5, or a folder that is searched for "
               "stores. The word run may be omitted.",
    .example = "h5spec run -o results/ stores/"};
const struct command options_merge = {
    COMMAND("merge", merge_rows),
    .usage = "[options] -o CORPUS.h5 RESULT...",
    .summary = "add results up into one file",
    .details = "Adds results up into one file. Their order makes no difference. A RESULT is a file "
               "made by h5spec run or merge, or a folder that is searched for results.",
    .example = "h5spec merge -o corpus.h5 results/"};
const struct command options_info = {
    COMMAND("info", info_rows),
    .usage = "[options] FILE...",
    .summary = "show what stores and results contain",
    .details = "Shows what stores and results contain. A FILE may be a folder that is searched for "
               "both. In tables (--csv) a text that a spreadsheet would compute, because it begins "
               "with = + - or @, has an apostrophe in front; drop it to get the name.",
    .example = "h5spec info --csv corpus.h5"};
const struct command options_verify = {
    COMMAND("verify", verify_rows),
    .usage = "[options] FILE...",
    .summary = "check every checksum of stores and results",
    .details = "Reads stores and results completely and checks every checksum. A FILE may be a "
               "folder that is searched for both. The exit status is 1 if any file is damaged.",
    .example = "h5spec verify stores/ corpus.h5"};
const struct command options_lookup = {
    COMMAND("lookup", lookup_rows),
    .usage = "[options] STORE...",
    .summary = "number the groups of stores for array jobs",
    .details = "Prints a table that numbers all groups of all stores from 1, for array jobs with "
               "one task per group. Its columns are the first group, the last group and the name "
               "of each store.",
    .example = "h5spec lookup stores/ >lookup.txt"};
const struct command options_tune = {
    COMMAND("tune", tune_rows),
    .usage = "[options] STORE...",
    .summary = "measure which group size is read fastest",
    .details = "Reads groups of various sizes from a store, with various numbers of threads, and "
               "prints how fast each is read here and the best --group-bytes for wsi2h5.",
    .example = "h5spec tune stores/slide.h5"};
