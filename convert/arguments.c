/* arguments.c - see arguments.h. */
#include "convert/arguments.h"

#include "common/base/cli.h"
#include "common/base/command.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5_library.h"
#include "convert/inputs.h"
#include "convert/readers/frame/slide_metadata.h"
#include "convert/tile/tile.h"
#include "wsi_build.h"

#include <stdio.h>
#include <string.h>

#define ARGUMENTS struct arguments

/* --- options that take more than a value --- */

static int set_task(void *ctx, const char *arg, struct err *e)
{
    struct arguments *o = ctx;
    return task_parse(arg, &o->task, &o->tasks, e);
}

/* The words of --codec. keep becomes j2k for some slides (plan.c). */
static const char *codec_words(void)
{
    static char words[160];
    snprintf(words, sizeof words, "keep|%s", codec_names());
    return words;
}

static int set_codec(void *ctx, const char *arg, struct err *e)
{
    struct arguments *o = ctx;
    o->convert.keep = !strcmp(arg, "keep");
    const struct codec *codec = codec_find(o->convert.keep ? "jpeg" : arg);
    o->convert.codec = codec;
    return codec ? 0 : err_set(e, "--codec %s: must be %s in this build", arg, codec_words());
}

/* "H,S" */
static int set_thresholds(void *ctx, const char *arg, struct err *e)
{
    char h[32];
    struct arguments *o = ctx;
    struct tissue_rule *r = &o->convert.tissue;
    const char *comma = strchr(arg, ',');
    const size_t n = comma ? (size_t)(comma - arg) : sizeof h;
    if (n >= sizeof h)
        return err_set(e, "--tissue-thresholds %s: must be H,S, two numbers from 0 to 1", arg);
    memcpy(h, arg, n);
    h[n] = 0;
    r->by = TISSUE_BY_THRESHOLDS;
    return number_real("--tissue-thresholds", h, 0, 1, &r->h, e) ||
                   number_real("--tissue-thresholds", comma + 1, 0, 1, &r->s, e)
               ? -1
               : 0;
}

/* Version 1.0 had it. */
static int refuse_zarr(void *ctx, const char *arg, struct err *e)
{
    (void)ctx, (void)arg;
    return err_set(e, "--zarr is no option any more: `wsi-store zarr STORE.h5` makes the images");
}

/* --- the table --- */

/* clang-format off: a row of words, then what they set */
static const struct command_option table[] = {
    {"Input and output", 'o', "output", "OUTPUT",
     "a folder, which is created if necessary, or a .h5 file for one slide", COMMAND_TEXT(output)},
    {NULL, 0, "list", "FILE", "more slides and folders, one per line; - reads stdin",
     COMMAND_TEXT(list)},
    {NULL, 0, "keep-tree", NULL, "write the stores into the same subfolders as the slides",
     COMMAND_FLAG(keep_tree)},
    {NULL, 0, "task", "I/N|auto",
     "convert only share I of N of the slides; auto: the share of this Slurm or Grid Engine array "
     "task",
     COMMAND_CALL(set_task)},
    {NULL, 0, "force", NULL,
     "replace existing stores; without it, stores that are up to date are skipped",
     COMMAND_FLAG(convert.force)},

    {"What is stored", 0, "level", "N", "level of the slide's pyramid; 0 is the finest",
     COMMAND_INT(convert.level, 0, 100), COMMAND_GIVEN(level_given)},
    {NULL, 0, "mpp", "X",
     "instead of --level: the level that has X um per pixel within 10 %; a slide without such a "
     "level is rejected, nothing is resampled",
     COMMAND_REAL(convert.mpp, 0.001, 1000)},
    {NULL, 0, "gray", NULL, "8-bit gray instead of RGB", COMMAND_FLAG(convert.gray)},
    {NULL, 0, "codec", NULL,
     "compression. keep: the slide's own tiles where possible (codec jpeg, or j2k for JPEG 2000), "
     "else deflate; a message says why. Other programs need an HDF5 plug-in for all but deflate "
     "and none",
     .words = codec_words, .shown = "keep", COMMAND_CALL(set_codec)},
    {NULL, 0, "zarr", NULL, NULL, COMMAND_CALL(refuse_zarr)},
    {NULL, 0, "tissue-only", NULL, "omit tiles without tissue; they read as white",
     COMMAND_FLAG(convert.tissue_only)},
    {NULL, 0, "tissue-mask", "FILE",
     "take the tissue map from a PNG of the whole slide (black: no tissue) or from the polygons of "
     "a GeoJSON file; FILE may be a folder with one file per slide, NAME.png or NAME.geojson",
     COMMAND_TEXT(convert.tissue_mask)},
    {NULL, 0, "anonymous", "FILE.csv",
     "name stores, messages and output by the slide's hash, not by its file name; FILE.csv, the "
     "key, gets a line NAME,PATH for each slide",
     COMMAND_TEXT(key)},
    {NULL, 0, "on-damage", "report|fail",
     "report: fill damaged tiles with the background and end with status 4; fail: reject the slide",
     COMMAND_WORD(convert.refuse_damage)},

    {"How it runs", 'j', "threads", "N", "cores to use, for one slide or for several at once",
     COMMAND_THREADS(convert.threads)},
    {NULL, 0, "json", NULL, "print one JSON line per slide on stdout", COMMAND_FLAG(json)},
    {NULL, 0, "progress", "auto|yes|no", "show progress; auto: on a terminal",
     COMMAND_WORD(progress)},
    {NULL, 'q', "quiet", NULL, "print errors only", COMMAND_FLAG(quiet)},

    {"Advanced", 0, "slides", "N",
     "slides to convert at once, at most; fewer than cores spare a slow disk or memory",
     COMMAND_INT(slides, 1, 1024), .shown = "as many as cores"},
    {NULL, 0, "mpp-override", "X",
     "um per pixel of level 0, from 0.02 to 50, for slides that state none or a wrong one",
     COMMAND_REAL(convert.mpp_override, SLIDE_LEAST_MPP, SLIDE_MOST_MPP)},
    {NULL, 0, "no-bounds", NULL,
     "GeoJSON of --tissue-mask counts from the corner of the slide; without it from that of its "
     "scanned area, if it states one (openslide.bounds-x, -y), as QuPath does",
     COMMAND_FLAG(convert.no_bounds)},
    {NULL, 0, "strict-codec", NULL,
     "reject slides whose tiles --codec keep or jpeg cannot keep; without it, they get deflate",
     COMMAND_FLAG(convert.strict_codec)},
    {NULL, 0, "tissue-thresholds", "H,S",
     "tissue is where hue and saturation (HSV, from 0 to 1) reach H and S; 0,S ignores the hue",
     COMMAND_CALL(set_thresholds)},
    {NULL, 0, "keep-identifiers", NULL,
     "also store properties that identify a person, a time or an operator",
     COMMAND_FLAG(convert.keep_identifiers)},
    {NULL, 0, "stripe-rows", "N", "rows per stripe, rounded to whole tiles",
     COMMAND_INT(convert.stripe_rows, 1, 65536)},
    {NULL, 0, "group-bytes", "SIZE", "uncompressed pixels per group, such as 64M or 2G",
     COMMAND_BYTES(convert.group_bytes, 1, INT64_C(1) << 50), COMMAND_GIVEN(group_bytes_given)},
    {NULL, 0, "accept-damage", NULL, "end with status 0 although tiles are damaged",
     COMMAND_FLAG(accept_damage)},
    {NULL, 0, "print-inputs", NULL,
     "convert nothing: print the path of each slide and what is wrong with it, each ended by a "
     "NUL, and on standard error what folder searches skip, and why",
     COMMAND_FLAG(print_inputs)},
    COMMAND_LAST_ROWS,
};
/* clang-format on */

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx = (struct arguments){.convert = {.codec = codec_find("jpeg"),
                                                              .keep = true,
                                                              .group_bytes = INT64_C(256) << 20,
                                                              .stripe_rows = 1024,
                                                              .threads = pipe_cpus()},
                                                  .task = 1,
                                                  .tasks = 1};
}

static void print_version(void)
{
    char folder[H5_PLUGIN_PATH];
    printf("wsi2h5 " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s, %s, %s\n", h5_library(),
           slide_metadata_library(), tile_libraries(), codec_library());
    if (h5_plugin_folder(folder))
        printf("HDF5 plug-ins: %s\n", folder);
    puts(WSI_BUGS);
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
    .bytes = sizeof(struct arguments),
    .defaults = set_defaults,
    .version = print_version};

int arguments_usage_error(const struct err *e)
{
    return command_usage_error(&command, e);
}

/* --- options that contradict each other --- */

static int check_anonymous(const struct arguments *o, struct err *e)
{
    if (!o->key)
        return 0;
    if (output_check_key(o->key, e))
        return -1;
    const char *shows = o->convert.keep_identifiers ? "keep-identifiers"
                        : o->keep_tree              ? "keep-tree"
                        : o->print_inputs           ? "print-inputs"
                                                    : NULL;
    if (shows)
        return err_set(e, "--anonymous contradicts --%s", shows);
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
    if (output_check(o->output, ".h5", e))
        return -1;
    if (n_words == 0 && !o->list)
        return err_set(e, "no slide given");
    if (c->strict_codec && !c->codec->keeps)
        return err_set(e, "--strict-codec has an effect with --codec keep, jpeg and j2k only");
    if (c->mpp > 0 && o->level_given)
        return err_set(e, "--level and --mpp contradict each other");
    if (c->tissue.by == TISSUE_BY_THRESHOLDS && c->tissue_mask)
        return err_set(e, "--tissue-mask and --tissue-thresholds contradict each other");
    if (o->accept_damage && c->refuse_damage)
        return err_set(e, "--accept-damage and --on-damage fail contradict each other");
    if (o->quiet && o->progress == PROGRESS_YES)
        return err_set(e, "--quiet and --progress yes contradict each other");
    if (inputs_is_file(o->output) && (o->keep_tree || o->tasks > 1))
        return err_set(e, "-o %s is a file; %s needs a folder", o->output,
                       o->keep_tree ? "--keep-tree" : "--task");
    return check_anonymous(o, e);
}

int arguments_parse(int argc, char **argv, struct arguments *o, int *first)
{
    struct err e = {0};
    const int status = command_parse(&command, argc, argv, o, first);
    if (status >= 0)
        return status;
    return check(o, argc - *first, &e) ? arguments_usage_error(&e) : -1;
}
