/* options.c - see options.h. */
#include "process/options/options.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/codec/codec.h"
#include "common/codec/jpeg_decoder.h"
#include "common/hdf5/h5_library.h"
#include "common/result/result_merge.h"
#include "process/spectrum/spectrum.h"
#include "process/spectrum/spectrum_open.h"
#include "wsi_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- options that take more than a value --- */

#define ARGUMENTS struct options

static int set_device(void *ctx, const char *arg, struct err *e)
{
    struct options *o = ctx;
    o->device = arg;
    return spectrum_parse_choice(arg, &o->choice, e);
}

static int set_groups(void *ctx, const char *arg, struct err *e)
{
    struct options *o = ctx;
    return number_range("--groups", arg, &o->first_group, &o->last_group, e);
}

static int set_task(void *ctx, const char *arg, struct err *e)
{
    struct options *o = ctx;
    return task_parse(arg, &o->task, &o->tasks, e);
}

static int set_regions(void *ctx, const char *path, struct err *e)
{
    struct options *o = ctx;
    if (!geojson_works())
        return err_set(e, "--roi: this build cannot read GeoJSON: Jansson was missing; "
                          "install it (libjansson-dev) and build again");
    if (o->params.roi)
        return err_set(e, "--roi can be given once; FILE may be a folder with one file per slide");
    o->params.roi = true;
    o->regions.path = path;
    return 0;
}

/* Keeps the names sorted, each once. */
static int add_class(void *ctx, const char *name, struct err *e)
{
    struct options *o = ctx;
    struct geojson_classes *c = &o->regions.classes;
    int at = 0;
    while (at < c->n && strcmp(c->names[at], name) < 0)
        at++;
    if (!*name || (at < c->n && !strcmp(c->names[at], name)))
        return *name ? 0 : err_set(e, "--roi-class: the name is empty");
    c->names = memory_grow(c->names, c->n, sizeof *c->names);
    memmove(c->names + at + 1, c->names + at, (size_t)(c->n - at) * sizeof *c->names);
    c->names[at] = name;
    c->n++;
    return 0;
}

/* --- tables --- */
/* clang-format off */

#define LIST OPTIONS_LIST("Input")
#define JSON(section, text) {section, 0, "json", NULL, text, COMMAND_FLAG(json)}
#define DUPLICATES(words, text) {"Advanced", 0, "duplicates", words, text, COMMAND_WORD(duplicates)}
#define MIX_MPP {NULL, 0, "mix-mpp", NULL, \
                 "accept slides of different resolution in one result; without it, those that " \
                 "differ by more than 10 % from the alphabetically first are left out, with " \
                 "status 1", \
                 COMMAND_FLAG(mix_mpp)}

static const struct command_option run_rows[] = {
    {"Output", 'o', "output", "RESULT",
     "a folder, which is created if necessary, for one file NAME.h5 per store: existing results "
     "are kept and skipped; or a .h5 file for the result of all stores: it is written at the end. "
     "A run that ends early keeps its slides in RESULT.partial; the same command takes them from "
     "there", COMMAND_TEXT(output)},
    {NULL, 0, "force", NULL,
     "replace existing results; without it, those in the folder are kept, and a file with other "
     "slides is an error; nothing is taken from RESULT.partial", COMMAND_FLAG(force)},
    {NULL, 0, "live", "DIR",
     "keep a page DIR/index.html that shows the run while it continues; open it from the disk; "
     "each run needs a folder of its own", COMMAND_TEXT(live)},
    LIST,
    {NULL, 0, "task", "I/N|auto",
     "compute share I of N of the stores; -o must be a folder; auto: the share of this task of a "
     "Slurm or Grid Engine array job", COMMAND_CALL(set_task)},
    {NULL, 0, "by", "store|group",
     "what --task shares out; group: the groups of all stores, in the order of h5spec lookup, so "
     "that several nodes compute one slide: a part of a store gives NAME.A-B.h5, and h5spec merge "
     "joins the parts", COMMAND_WORD(by_group)},
    {"Which windows count", 0, "tissue-only", NULL, "only windows with enough tissue",
     COMMAND_FLAG(params.tissue_only)},
    {NULL, 0, "min-tissue", "F", "share of a window's area that must be tissue, from 0 to 1",
     COMMAND_REAL(params.min_tissue, 0, 1), COMMAND_GIVEN(min_tissue)},
    {NULL, 0, "skip-damaged", NULL, "leave out windows that touch damaged tiles of the slide",
     COMMAND_FLAG(params.skip_damaged)},
    {NULL, 0, "roi", "FILE",
     "only windows inside the polygons of a GeoJSON file, such as QuPath exports (level-0 px); "
     "FILE may be a folder with one file per slide, NAME.geojson", COMMAND_CALL(set_regions)},
    {NULL, 0, "roi-class", "NAME", "of these, only polygons of this class; may be repeated",
     COMMAND_CALL(add_class)},
    {NULL, 0, "no-bounds", NULL,
     "the polygons count from the corner of the slide; without it from that of its scanned area, "
     "if it states one (openslide.bounds-x, -y), as QuPath does",
     COMMAND_FLAG(regions.no_bounds)},
    {NULL, 0, "min-roi", "F", "share of a window's area that must lie inside the polygons, from 0 "
     "to 1",
     COMMAND_REAL(params.min_roi, 0, 1), COMMAND_GIVEN(min_roi)},
    {"Computing", 0, "window", "N", "windows of N x N px, a power of two from 64 to 1024",
     COMMAND_INT(params.window, 64, 1024)},
    {NULL, 0, "stride", "S", "px from one window to the next", COMMAND_INT(params.stride, 1, 1024)},
    {NULL, 0, "device", "auto|cpu|cuda[:N,...]",
     "where to compute; cuda:0,1 names GPUs, and auto takes those that work", .shown = "auto",
     COMMAND_CALL(set_device)},
    {NULL, 'j', "threads", "N",
     "number of threads; if -o is a folder, several stores are computed at once on a CPU, each in "
     "a process of its own, and beside GPUs up to 8 processes write results",
     COMMAND_THREADS(threads)},
    JSON("Messages", "print one JSON line per store on standard output"), 
    {NULL, 0, "progress", "auto|yes|no", "show progress; auto: on a terminal",
     COMMAND_WORD(progress)}, OPTIONS_QUIET,
    DUPLICATES("skip|count", "of several stores of one slide. skip: compute only the first by name, "
               "and call the others copies; count: compute each"), MIX_MPP,
    {NULL, 0, "groups", "A-B", "compute only groups A to B of one store, from 1",
     COMMAND_CALL(set_groups)},
    {NULL, 0, "sigma", "PX", "Gaussian smoothing before windows are cut, 0 for none",
     COMMAND_REAL(params.sigma, 0, 10)},
    {NULL, 0, "taper", "rectangular|hann", "taper of the windows", COMMAND_COPY(params.taper)},
    {NULL, 0, "bins", "N", "bins of the histogram", COMMAND_INT(params.bins, 1, 65536)},
    {NULL, 0, "range", "LOW:HIGH", "range of the histogram in dB",
     COMMAND_SPAN(params.low_db, -1000, 1000)},
    {NULL, 0, "accept-damage", NULL,
     "end with status 0 although tiles of slides are damaged; without it, 4",
     COMMAND_FLAG(accept_damage)},
    {NULL, 0, "on-damage", "report|fail",
     "if tiles are damaged. report: count and report the windows that touch them, unless "
     "--skip-damaged is given; fail: reject the store", COMMAND_WORD(reject_damaged)},
    {NULL, 0, "memory", "BYTES",
     "memory for pixels that are loaded but not yet computed (default: 128M per thread and at "
     "most 512M per store on a CPU; 1536M per GPU, or 2304M if it decodes tiles); with it, a CPU "
     "computes one store after the other",
     COMMAND_BYTES(memory, 1 << 20, INT64_C(1) << 50)},
    {NULL, 0, "io", "auto|direct|buffered|gds",
     "how stores are read: direct (past the page cache), buffered, or gds (by the GPU itself, "
     "through GPUDirect Storage; codecs jpeg and none)", COMMAND_WORD(io)},
    COMMAND_LAST_ROWS};

static const struct command_option merge_rows[] = {
    {"Output", 'o', "output", "CORPUS.h5",
     "file for the merged result, or a folder for one file per resolution", COMMAND_TEXT(output)},
    LIST,
    {NULL, 0, "force", NULL, "replace a result that has slides which the inputs lack",
     COMMAND_FLAG(force)},
    {NULL, 0, "partial", NULL, "merge even if groups are missing; the output lists them",
     COMMAND_FLAG(partial)},
    {NULL, 0, "table", NULL,
     "make a table also of fewer than 1,000 slides: one row of numbers per slide, which refers to "
     "the results for maps, spectra and thumbnails",
     COMMAND_FLAG(table)},
    JSON("Messages", "print a JSON line about each output, with what "
     "became of each input"), OPTIONS_QUIET,
    DUPLICATES("skip|count|fail", "of several results of one slide. skip: merge only the first "
               "by name; count: merge each; fail: they are an error"), MIX_MPP,
    COMMAND_LAST_ROWS};

static const struct command_option info_rows[] = {
    LIST, JSON("Output", "print one JSON line per file"),
    {NULL, 0, "csv", NULL, "print a table: one row per slide of results, or one row per store",
     COMMAND_FLAG(csv)},
    {NULL, 0, "histogram", NULL, "print the histogram of a result, one row per bin",
     COMMAND_FLAG(histogram)},
    COMMAND_LAST_ROWS};

static const struct command_option verify_rows[] = {
    LIST, {"Computing", 'j', "threads", "N", "number of threads", COMMAND_THREADS(threads)},
    {NULL, 0, "quick", NULL, "compute the checksums of chunks only; do not unpack them",
     COMMAND_FLAG(quick)},
    JSON("Messages", "print one JSON line per file"), OPTIONS_QUIET, COMMAND_LAST_ROWS};

static const struct command_option lookup_rows[] = {
    LIST, JSON("Output", "print one JSON line per store instead of the table"), COMMAND_LAST_ROWS};

static const struct command_option tune_rows[] = {COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    *(struct options *)ctx = (struct options){
        .device = "auto", .params = spectrum_defaults(), .threads = pipe_cpus()};
}

void options_version(void)
{
    struct err no = {0};
    printf("h5spec " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s, %s\n", h5_library(),
           codec_library(), jpeg_library());
    printf("backends: %s%s; CPU vectors: %s\n", spectrum_backends(),
           *WSI_CUDA_ARCHS ? " (" WSI_CUDA_ARCHS ")" : "", spectrum_cpu_vectors());
    if (!spectrum_has_cuda(&no))
        printf("no cuda: %s\n", no.msg);
    puts(WSI_BUGS);
}

/* clang-format on */

/* --- checks: options that contradict each other or have no effect are errors --- */

static int check_output(const struct options *o, const char *what, struct err *e)
{
    if (!o->output)
        return input_files_lacks_output(&o->files, what, e);
    if (!*o->output)
        return err_set(e, "-o: the name is empty; name a file");
    if (!strcmp(o->output, "-"))
        return err_set(e, "-o -: HDF5 cannot be written to standard output; name a file");
    return output_check(o->output, RESULT_ENDING, e);
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
        return err_set(e,
                       "--roi %s: one file has the regions of one slide, but %d stores are "
                       "given; name a folder with one file per slide",
                       o->regions.path, o->files.n);
    return 0;
}

static int check_run(const struct options *o, struct err *e)
{
    const bool folder = o->output && output_is_folder(o->output, RESULT_ENDING);
    if (check_output(o, "RESULT.h5", e))
        return -1;
    if (o->tasks && !folder)
        return err_set(e, "-o %s: --task needs a folder; leave out the .h5", o->output);
    if (o->by_group && o->tasks && (o->first_group || o->live))
        return err_set(e, "--by group and %s contradict each other; leave one out",
                       o->live ? "--live" : "--groups");
    if (o->params.skip_damaged && o->reject_damaged)
        return err_set(e, "--skip-damaged and --on-damage fail contradict each other; choose one");
    if (o->accept_damage && o->reject_damaged)
        return err_set(e, "--accept-damage and --on-damage fail contradict each other");
    if (o->live && !*o->live)
        return err_set(e, "--live: the name is empty; name a folder");
    if (o->io == STREAM_GDS && o->choice.kind == SPECTRUM_CPU)
        return err_set(e, "--io gds and --device cpu contradict each other: only a GPU reads files "
                          "itself; choose --io direct");
    if (o->min_tissue && !o->params.tissue_only)
        return err_set(e, "--min-tissue has no effect without --tissue-only; add it");
    return result_check_params(&o->params, e);
}

/* A table may be extended: it is then both input and output. */
static bool is_extended(const struct options *o)
{
    return o->output && output_is_no_input("-o", o->output, o->files.paths, o->files.n, NULL) &&
           result_merge_extends(o->output);
}

static int check_merge(const struct options *o, struct err *e)
{
    if (check_output(o, "CORPUS.h5", e))
        return -1;
    if (o->table && o->partial)
        return err_set(e, "--table and --partial contradict each other: a table has whole slides "
                          "only; choose one");
    return o->extends || output_is_folder(o->output, RESULT_ENDING)
               ? 0
               : output_is_no_input("-o", o->output, o->files.paths, o->files.n, e);
}

static int check(const struct options *o, struct err *e)
{
    if (o->command == &options_run && check_run(o, e))
        return -1;
    if (o->command == &options_merge && check_merge(o, e))
        return -1;
    if (o->json + o->csv + o->histogram > 1)
        return err_set(e, "--json, --csv and --histogram exclude each other; choose one");
    if (o->quiet && o->progress == PROGRESS_YES)
        return err_set(e, "--quiet and --progress yes contradict each other; choose one");
    return o->files.n > 0 ? 0 : err_set(e, "no input file given");
}

/* The kinds of files that the folders among the inputs of a command are searched for. */
static enum input_files_kind input_kind(const struct command *c)
{
    if (c == &options_merge)
        return INPUT_RESULTS;
    return c == &options_info || c == &options_verify ? INPUT_BOTH : INPUT_STORES;
}

int options_parse(const struct command *c, int argc, char **argv, struct options *o)
{
    struct err e = {0};
    int first;
    const int status = command_parse(c, argc, argv, o, &first);
    o->command = c;
    if (status >= 0)
        return status;
    o->params.radius = spectrum_radius(o->params.sigma);
    o->words = argv + first;
    o->n_words = o->files.n ? 0 : argc - first;
    input_files_add_words(&o->files, argv + first, argc - first);
    o->extends = is_extended(o);
    if (check(o, &e))
        return command_usage_error(c, &e);
    input_files_expand(&o->files, input_kind(c));
    if (c == &options_run && check_regions(o, &e))
        return command_usage_error(c, &e);
    return o->files.n == 0 ? EXIT_PART : -1;
}

void options_free(struct options *o)
{
    input_files_free(&o->files);
    free(o->regions.classes.names);
}

/* --- commands --- */

#define COMMAND(word, rows) OPTIONS_COMMAND(word, rows, set_defaults)

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
    .usage = "[options] -o CORPUS.h5 RESULT...\n       h5spec merge [options] -o FOLDER/ RESULT...",
    .summary = "add results up into one file",
    .details = "Adds results up into one file. Their order makes no difference. A RESULT is a file "
               "made by h5spec run or merge, or a folder that is searched for results. "
               "Slides of different resolution are not pooled: FOLDER/ gets corpus.h5 or, if "
               "there are several, a file for each, such as corpus-0.25um.h5; CORPUS.h5 gets the "
               "resolution of the first slide by name. Up to "
               "999 slides are copied. From 1,000 on, or with --table, the file is a small table "
               "that refers to the "
               "results for maps, spectra and thumbnails: keep these, in its folder or below. "
               "Results elsewhere, parts of slides and --partial make it copy all the same; a "
               "message says so. A table that is also an input stays a table. Rows of unchanged "
               "results are taken from the table that is replaced.",
    .example = "h5spec merge -o corpus.h5 results/"};
const struct command options_info = {
    COMMAND("info", info_rows), .usage = "[options] FILE...",
    .summary = "show what stores and results contain",
    .details = "Shows what stores and results contain. A FILE may be a folder that is searched for "
               "both. In tables (--csv) a text that a spreadsheet would compute, because it begins "
               "with = + - or @, has an apostrophe in front; drop it to get the name.",
    .example = "h5spec info --csv corpus.h5"};
const struct command options_verify = {
    COMMAND("verify", verify_rows), .usage = "[options] FILE...",
    .summary = "check every checksum of stores and results",
    .details = "Reads stores and results completely and checks every checksum. A FILE may be a "
               "folder that is searched for both. The exit status is 1 if any file is damaged.",
    .example = "h5spec verify stores/ corpus.h5"};
const struct command options_lookup = {
    COMMAND("lookup", lookup_rows), .usage = "[options] STORE...",
    .summary = "number the groups of stores for array jobs",
    .details = "Prints a table that numbers all groups of all stores from 1, for array jobs with "
               "one task per group. Its columns are the first group, the last group and the name "
               "of each store.",
    .example = "h5spec lookup stores/ >lookup.txt"};
const struct command options_tune = {
    COMMAND("tune", tune_rows), .usage = "[options] STORE...",
    .summary = "measure which group size is read fastest",
    .details = "Reads groups of various sizes from a store, with various numbers of threads, and "
               "prints how fast each is read here and the best --group-bytes for wsi2h5.",
    .example = "h5spec tune stores/slide.h5"};
