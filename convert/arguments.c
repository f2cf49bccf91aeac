/* arguments.c - see arguments.h. */
#include "convert/arguments.h"

#include "common/base/cli.h"
#include "common/base/command.h"
#include "common/base/number.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/base/task.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5_exit.h"
#include "convert/inputs.h"
#include "convert/readers/slide_metadata.h"
#include "convert/tile/tile.h"
#include "wsi_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct convert_options defaults = {.group_bytes = INT64_C(256) << 20,
                                                .stripe_rows = 1024,
                                                .mpp_tolerance = 0.1};

enum {
    OPT_OUTPUT = COMMAND_OWN,
    OPT_LIST,
    OPT_KEEP_TREE,
    OPT_TASK,
    OPT_FORCE,
    OPT_LEVEL,
    OPT_MPP,
    OPT_MPP_TOLERANCE,
    OPT_MPP_OVERRIDE,
    OPT_GRAY,
    OPT_CODEC,
    OPT_STRICT_CODEC,
    OPT_TISSUE_ONLY,
    OPT_NO_TISSUE,
    OPT_TISSUE_THRESHOLDS,
    OPT_TISSUE_MIN_AREA,
    OPT_TISSUE_MASK,
    OPT_KEEP_IDENTIFIERS,
    OPT_ANONYMOUS,
    OPT_KEY,
    OPT_STRIPE_ROWS,
    OPT_GROUP_BYTES,
    OPT_ON_DAMAGE,
    OPT_ACCEPT_DAMAGE,
    OPT_THREADS,
    OPT_JSON,
    OPT_PROGRESS,
    OPT_QUIET,
    OPT_VERBOSE,
};

static const struct command_option table[] = {
    {"Input and output", 'o', "output", "OUTPUT", OPT_OUTPUT,
     "a folder, which is created if necessary, or a .h5 file for one slide"},
    {NULL, 0, "list", "FILE", OPT_LIST, "more slides and folders, one per line; - reads stdin"},
    {NULL, 0, "keep-tree", NULL, OPT_KEEP_TREE,
     "write the stores into the same subfolders as the slides"},
    {NULL, 0, "task", "I/N", OPT_TASK,
     "convert only share I of N of the slides; auto: the share of this Slurm or Grid Engine array "
     "task"},
    {NULL, 0, "force", NULL, OPT_FORCE,
     "replace existing stores; without it, stores that are up to date are skipped"},

    {"What is stored", 0, "level", "N", OPT_LEVEL, "level of the slide's pyramid; 0 is the finest"},
    {NULL, 0, "mpp", "X", OPT_MPP,
     "instead of --level: the level that has X um per pixel; a slide without such a level is "
     "rejected, nothing is resampled"},
    {NULL, 0, "mpp-tolerance", "F", OPT_MPP_TOLERANCE,
     "with --mpp: how far the level's resolution may differ, relative to X"},
    {NULL, 0, "mpp-override", "X", OPT_MPP_OVERRIDE,
     "um per pixel of level 0, for slides that state none or a wrong one"},
    {NULL, 0, "gray", NULL, OPT_GRAY, "8-bit gray instead of RGB"},
    {NULL, 0, "codec", "NAME", OPT_CODEC,
     "compression: %s. jpeg keeps the slide's own JPEG tiles. Other programs need an HDF5 plug-in "
     "for lz4, zstd and jpeg"},
    {NULL, 0, "strict-codec", NULL, OPT_STRICT_CODEC,
     "reject slides whose tiles --codec jpeg cannot keep; without it, they get the default codec"},
    {NULL, 0, "tissue-only", NULL, OPT_TISSUE_ONLY,
     "omit tiles without tissue; they read as white"},
    {NULL, 0, "no-tissue", NULL, OPT_NO_TISSUE, "do not compute the tissue map"},
    {NULL, 0, "tissue-thresholds", "H,S", OPT_TISSUE_THRESHOLDS,
     "tissue is where hue and saturation (HSV, from 0 to 1) reach H and S; without it, Otsu's "
     "method chooses both. 0,S ignores the hue, which finds brown and blue stains alike"},
    {NULL, 0, "tissue-min-area", "PX", OPT_TISSUE_MIN_AREA,
     "remove pieces of tissue of fewer px of the stored level, in cells of 32 x 32 px"},
    {NULL, 0, "tissue-mask", "FILE", OPT_TISSUE_MASK,
     "take the tissue map from a PNG of the whole slide (black: no tissue) or from the polygons of "
     "a GeoJSON file; FILE may be a folder with one file per slide, NAME.png or NAME.geojson"},
    {NULL, 0, "keep-identifiers", NULL, OPT_KEEP_IDENTIFIERS,
     "also store properties that identify a person, a time or an operator"},
    {NULL, 0, "anonymous", NULL, OPT_ANONYMOUS,
     "name stores, messages and output by the slide's hash, not by its file name; needs --key"},
    {NULL, 0, "key", "FILE", OPT_KEY,
     "with --anonymous: add a line NAME,PATH for each slide to this file"},
    {NULL, 0, "stripe-rows", "N", OPT_STRIPE_ROWS, "rows per stripe, rounded to whole tiles"},
    {NULL, 0, "group-bytes", "SIZE", OPT_GROUP_BYTES,
     "uncompressed pixels per group, such as 64M or 2G"},

    {"Damage", 0, "on-damage", "WHAT", OPT_ON_DAMAGE,
     "report: fill damaged tiles with the background and "
     "end with status 1; fail: reject the slide"},
    {NULL, 0, "accept-damage", NULL, OPT_ACCEPT_DAMAGE,
     "end with status 0 although tiles are damaged"},

    {"How it runs", 'j', "threads", "N", OPT_THREADS, "threads that decode and compress"},
    {NULL, 0, "json", NULL, OPT_JSON, "print one JSON line per slide on stdout"},
    {NULL, 0, "progress", "WHEN", OPT_PROGRESS, "auto (on a terminal), yes or no"},
    {NULL, 'q', "quiet", NULL, OPT_QUIET, "print errors only"},
    {NULL, 0, "verbose", NULL, OPT_VERBOSE, "list what folder searches skip, and why"},
    COMMAND_LAST_ROWS,
};

/* --- help --- */

static const char *default_of(int id, char buf[64])
{
    switch (id) {
    case OPT_LEVEL: return "0";
    case OPT_MPP_TOLERANCE: snprintf(buf, 64, "%g", defaults.mpp_tolerance); return buf;
    case OPT_CODEC: snprintf(buf, 64, "%.40s (default: deflate)", codec_names()); return buf;
    case OPT_STRIPE_ROWS: snprintf(buf, 64, "%" PRId64, defaults.stripe_rows); return buf;
    case OPT_GROUP_BYTES: return number_size(buf, (double)defaults.group_bytes);
    case OPT_ON_DAMAGE: return "report";
    case OPT_THREADS: snprintf(buf, 64, "%d, all processors", pipe_cpus()); return buf;
    case OPT_PROGRESS: return "auto";
    default: return NULL;
    }
}

static void print_version(void)
{
    printf("wsi2h5 " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s, %s, %s\n" WSI_BUGS "\n",
           h5_library(), slide_metadata_library(), tile_libraries(), codec_library());
}

/* --- parsing --- */

/* More threads than this only cost memory. */
static int most_threads(void)
{
    return pipe_cpus() * 4 > 64 ? pipe_cpus() * 4 : 64;
}

static int set_threads(const char *arg, int *threads, struct err *e)
{
    int64_t v;
    if (number_int("--threads", arg, 1, most_threads(), &v, e))
        return -1;
    *threads = (int)v;
    return 0;
}

static int set_damage(const char *arg, bool *refuse, struct err *e)
{
    *refuse = !strcmp(arg, "fail");
    if (*refuse || !strcmp(arg, "report") || !strcmp(arg, "fill")) /* its earlier name */
        return 0;
    return err_set(e, "--on-damage %s: must be report or fail", arg);
}

static int set_codec(const char *arg, const struct codec **codec, struct err *e)
{
    *codec = codec_find(arg);
    return *codec ? 0 : err_set(e, "--codec %s: must be %s in this build", arg, codec_names());
}

/* "H,S" */
static int set_thresholds(const char *arg, struct tissue_rule *r, struct err *e)
{
    char h[32];
    const char *comma = strchr(arg, ',');
    const size_t n = comma ? (size_t)(comma - arg) : sizeof h;
    if (n >= sizeof h)
        return err_set(e, "--tissue-thresholds %s: must be H,S, two numbers from 0 to 1", arg);
    memcpy(h, arg, n);
    h[n] = 0;
    r->given = true;
    return number_real("--tissue-thresholds", h, 0, 1, &r->h, e) ||
                   number_real("--tissue-thresholds", comma + 1, 0, 1, &r->s, e)
               ? -1
               : 0;
}

/* Options that take a value. */
static int set_value(int id, const char *arg, struct arguments *o, struct err *e)
{
    struct convert_options *c = &o->convert;
    switch (id) {
    case OPT_OUTPUT: o->output = arg; return 0;
    case OPT_LIST: o->list = arg; return 0;
    case OPT_KEY: o->key = arg; return 0;
    case OPT_TASK: return task_parse("--task", arg, &o->task, &o->tasks, e);
    case OPT_LEVEL: o->level_given = true; return number_int("--level", arg, 0, 100, &c->level, e);
    case OPT_MPP: return number_real("--mpp", arg, 0.001, 1000, &c->mpp, e);
    case OPT_MPP_TOLERANCE:
        o->tolerance_given = true;
        return number_real("--mpp-tolerance", arg, 0, 0.9, &c->mpp_tolerance, e);
    case OPT_MPP_OVERRIDE:
        return number_real("--mpp-override", arg, 0.001, 1000, &c->mpp_override, e);
    case OPT_TISSUE_THRESHOLDS: return set_thresholds(arg, &c->tissue, e);
    case OPT_TISSUE_MIN_AREA:
        return number_int("--tissue-min-area", arg, 1, INT64_C(1) << 50, &c->tissue.min_area, e);
    case OPT_TISSUE_MASK: c->tissue_mask = arg; return 0;
    case OPT_CODEC: return set_codec(arg, &c->codec, e);
    case OPT_STRIPE_ROWS: return number_int("--stripe-rows", arg, 1, 65536, &c->stripe_rows, e);
    case OPT_GROUP_BYTES:
        o->group_bytes_given = true;
        return number_bytes("--group-bytes", arg, 1, INT64_C(1) << 50, &c->group_bytes, e);
    case OPT_ON_DAMAGE: return set_damage(arg, &c->refuse_damage, e);
    case OPT_THREADS: return set_threads(arg, &c->threads, e);
    case OPT_PROGRESS: return progress_when("--progress", arg, &o->progress, e);
    default: return err_set(e, "unknown option");
    }
}

/* The flag of an option without a value, or NULL. */
static bool *flag_of(int id, struct arguments *o)
{
    switch (id) {
    case OPT_KEEP_TREE: return &o->keep_tree;
    case OPT_FORCE: return &o->convert.force;
    case OPT_GRAY: return &o->convert.gray;
    case OPT_STRICT_CODEC: return &o->convert.strict_codec;
    case OPT_TISSUE_ONLY: return &o->convert.tissue_only;
    case OPT_NO_TISSUE: return &o->convert.no_tissue;
    case OPT_ANONYMOUS: return &o->anonymous;
    case OPT_KEEP_IDENTIFIERS: return &o->convert.keep_identifiers;
    case OPT_ACCEPT_DAMAGE: return &o->accept_damage;
    case OPT_JSON: return &o->json;
    case OPT_QUIET: return &o->quiet;
    case OPT_VERBOSE: return &o->verbose;
    default: return NULL;
    }
}

static int set(void *ctx, int id, const char *arg, struct err *e)
{
    bool *flag = flag_of(id, ctx);
    if (!flag)
        return set_value(id, arg, ctx, e);
    *flag = true;
    return 0;
}

static const struct command command = {
    .program = "wsi2h5",
    .usage = "[options] -o OUTPUT SLIDE...",
    .summary = "converts whole-slide images into HDF5 patch stores",
    .details =
        "Decodes each whole-slide image once into an HDF5 patch store NAME.h5, for h5spec and "
        "for any program that reads HDF5.\n"
        "SLIDE is a slide or a folder. A folder is searched for files that end like a slide, "
        "also in its subfolders and through links; each folder is searched once. The files of "
        "a DICOM series, and a MIRAX slide with its folder, are one slide.",
    .example = "wsi2h5 -o stores/ slides/",
    .options = table,
    .set = set,
    .value = default_of,
    .version = print_version};

int arguments_usage_error(const struct err *e)
{
    return command_usage_error(&command, e);
}

/* --- options that contradict each other --- */

static int check_anonymous(const struct arguments *o, struct err *e)
{
    if (o->anonymous != (o->key && *o->key))
        return err_set(e, "--anonymous and --key FILE need each other");
    if (!o->anonymous)
        return 0;
    if (o->convert.keep_identifiers || o->keep_tree || o->verbose)
        return err_set(e, "--anonymous contradicts --%s",
                       o->convert.keep_identifiers ? "keep-identifiers"
                       : o->keep_tree              ? "keep-tree"
                                                   : "verbose");
    if (inputs_is_file(o->output))
        return err_set(e, "-o %s is a file; --anonymous needs a folder", o->output);
    return 0;
}

/* Rejects options that contradict each other or would have no effect. */
static int check(const struct arguments *o, int n_words, struct err *e)
{
    const struct convert_options *c = &o->convert;
    if (!o->output || !*o->output)
        return err_set(e, "-o OUTPUT is missing");
    if (!strcmp(o->output, "-"))
        return err_set(e, "-o -: HDF5 cannot be written to standard output; name a file");
    if (n_words == 0 && !o->list)
        return err_set(e, "no slide given");
    if (c->strict_codec && c->codec->id != CODEC_JPEG)
        return err_set(e, "--strict-codec has an effect with --codec jpeg only");
    if (c->mpp > 0 && o->level_given)
        return err_set(e, "--level and --mpp contradict each other");
    if (o->tolerance_given && !(c->mpp > 0))
        return err_set(e, "--mpp-tolerance has an effect with --mpp only");
    if (c->tissue_only && c->no_tissue)
        return err_set(e, "--tissue-only needs the map that --no-tissue leaves out");
    const char *rule = c->tissue.given ? "thresholds" : c->tissue.min_area ? "min-area" : NULL;
    if (rule && (c->no_tissue || c->tissue_mask))
        return err_set(e, "--%s and --tissue-%s contradict each other",
                       c->no_tissue ? "no-tissue" : "tissue-mask", rule);
    if (c->no_tissue && c->tissue_mask)
        return err_set(e, "--no-tissue and --tissue-mask contradict each other");
    if (o->accept_damage && c->refuse_damage)
        return err_set(e, "--accept-damage and --on-damage fail contradict each other");
    if (o->quiet && o->verbose)
        return err_set(e, "--quiet and --verbose contradict each other");
    if (o->quiet && o->progress == PROGRESS_YES)
        return err_set(e, "--quiet and --progress yes contradict each other");
    if (inputs_is_file(o->output) && (o->keep_tree || o->tasks > 1))
        return err_set(e, "-o %s is a file; %s needs a folder", o->output,
                       o->keep_tree ? "--keep-tree" : "--task");
    return check_anonymous(o, e);
}

int arguments_parse(int argc, char **argv, struct arguments *o, int *first)
{
    struct err e = {""};
    *o = (struct arguments){.convert = defaults, .task = 1, .tasks = 1};
    o->convert.codec = codec_find("deflate");
    o->convert.threads = pipe_cpus();
    const int status = command_parse(&command, argc, argv, o, first);
    if (status >= 0)
        return status;
    return check(o, argc - *first, &e) ? arguments_usage_error(&e) : -1;
}
