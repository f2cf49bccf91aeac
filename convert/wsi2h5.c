/*
 * wsi2h5.c - the command: options, the loop over slides, messages, exit status.
 */
#include "common/cli.h"
#include "common/codec.h"
#include "common/h5_exit.h"
#include "common/pipe.h"
#include "common/store.h"
#include "convert/convert.h"
#include "convert/inputs.h"
#include "convert/slide_metadata.h"
#include "convert/tile.h"
#include "wsi_build.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct options {
    struct convert_options convert;
    const char *output, *list;
    int64_t task, tasks; /* our share of the list */
    bool json, quiet;
    enum cli_when progress;
};

struct run {
    struct options o;
    struct inputs in;
    struct cli_progress progress;
    size_t now;             /* the slide under way */
    int64_t done, skipped, damaged, failed;
    double source_bytes, store_bytes, pixels;
};

static const struct convert_options defaults = {
    .group_bytes = INT64_C(256) << 20, .stripe_rows = 1024};

static void say(const char *message)
{
    fprintf(stderr, "wsi2h5: %s\n", message);
}

static int usage_error(const char *message)
{
    say(message);
    fputs("Try 'wsi2h5 --help'.\n", stderr);
    return EXIT_USAGE;
}

/* --- help --- */

static void print_help(void)
{
    char group[32];
    printf("Usage: wsi2h5 [options] -o OUTPUT SLIDE...\n"
           "\n"
           "Decodes each slide once into an HDF5 patch store, for h5spec and for people.\n"
           "SLIDE is a slide or a folder, which is searched for slides; OUTPUT is a folder (a store is\n"
           "called NAME.h5 after its slide), or a .h5 file for one slide.\n"
           "\n"
           "What is stored\n"
           "      --level N          level of the slide's pyramid, 0 the finest (%d)\n"
           "      --gray             one byte of gray a pixel instead of RGB\n"
           "      --codec NAME       %s (deflate, level %u);\n"
           "                         HDF5 needs a plug-in for lz4 and zstd, h5spec does not\n"
           "      --stripe-rows N    rows of a stripe, made whole tiles (%" PRId64 ")\n"
           "      --group-bytes N    pixels of a group, such as 64M or 2G (%s)\n"
           "      --tissue-only      leave tiles without tissue out; they read as white\n"
           "      --no-tissue        no map of the tissue\n"
           "      --keep-identifiers properties that name a person, a time or an operator, too\n"
           "      --on-damage WHAT   fill: fill bad tiles with the background, say so, end with\n"
           "                         status 1; fail: refuse the slide (fill)\n"
           "\n"
           "How\n"
           "  -o, --output OUTPUT    folder or .h5 file\n"
           "      --list FILE        slides or folders, one a line, besides those given\n"
           "      --task I/N         only share I of N of the slides; auto: that of this task of an array\n"
           "                         job of Slurm or Grid Engine\n"
           "  -j, --threads N        threads that decode and pack (%d, the processors here)\n"
           "      --force            replace finished stores; else those of the same slide are left\n"
           "                         alone and counted as done\n"
           "      --json             a line of JSON a slide on stdout\n"
           "      --progress WHEN    auto, yes or no (auto: on a terminal)\n"
           "  -q, --quiet            only what went wrong\n"
           "  -h, --help             this text\n"
           "      --version          version and libraries\n"
           "\n"
           "Exit status: 0 all done, 1 some input failed and the rest was done, 2 wrong usage,\n"
           "3 stopped by a signal with nothing half-done left.\n",
           0, codec_names(), codec_find("deflate")->level, defaults.stripe_rows,
           cli_size(group, (double)defaults.group_bytes), pipe_cpus());
}

/* --- options --- */

enum {
    OPT_LEVEL = 256, OPT_GRAY, OPT_TISSUE_ONLY, OPT_NO_TISSUE, OPT_CODEC, OPT_STRIPE_ROWS, OPT_GROUP_BYTES, OPT_KEEP, OPT_DAMAGE,
    OPT_LIST, OPT_TASK, OPT_FORCE, OPT_JSON, OPT_PROGRESS, OPT_VERSION,
};

static const struct option table[] = {
    {"level", required_argument, NULL, OPT_LEVEL}, {"gray", no_argument, NULL, OPT_GRAY},
    {"codec", required_argument, NULL, OPT_CODEC}, {"tissue-only", no_argument, NULL, OPT_TISSUE_ONLY},
    {"no-tissue", no_argument, NULL, OPT_NO_TISSUE},
    {"stripe-rows", required_argument, NULL, OPT_STRIPE_ROWS},
    {"group-bytes", required_argument, NULL, OPT_GROUP_BYTES},
    {"keep-identifiers", no_argument, NULL, OPT_KEEP},
    {"on-damage", required_argument, NULL, OPT_DAMAGE}, {"output", required_argument, NULL, 'o'},
    {"list", required_argument, NULL, OPT_LIST}, {"task", required_argument, NULL, OPT_TASK}, {"threads", required_argument, NULL, 'j'},
    {"force", no_argument, NULL, OPT_FORCE}, {"json", no_argument, NULL, OPT_JSON},
    {"progress", required_argument, NULL, OPT_PROGRESS}, {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0}};

static int parse_threads(const char *arg, int *threads, struct err *e)
{
    int64_t v;
    if (cli_int("-j", arg, 1, 1024, &v, e))
        return -1;
    *threads = (int)v;
    return 0;
}

static int parse_damage(const char *arg, bool *refuse, struct err *e)
{
    *refuse = !strcmp(arg, "fail");
    return *refuse || !strcmp(arg, "fill") ? 0 : err_set(e, "--on-damage %s: must be fill or fail", arg);
}

static int parse_one(int option, const char *arg, struct options *o, struct err *e)
{
    struct convert_options *c = &o->convert;
    switch (option) {
    case OPT_LEVEL: return cli_int("--level", arg, 0, 100, &c->level, e);
    case OPT_GRAY: c->gray = true; return 0;
    case OPT_TISSUE_ONLY: c->tissue_only = true; return 0;
    case OPT_NO_TISSUE: c->no_tissue = true; return 0;
    case OPT_CODEC:
        c->codec = codec_find(arg);
        return c->codec ? 0 : err_set(e, "--codec %s: must be %s in this build", arg, codec_names());
    case OPT_STRIPE_ROWS: return cli_int("--stripe-rows", arg, 1, 65536, &c->stripe_rows, e);
    case OPT_GROUP_BYTES:
        return cli_bytes("--group-bytes", arg, 1, INT64_C(1) << 50, &c->group_bytes, e);
    case OPT_KEEP: c->keep_identifiers = true; return 0;
    case OPT_DAMAGE: return parse_damage(arg, &c->refuse_damage, e);
    case OPT_LIST: o->list = arg; return 0;
    case OPT_TASK: return cli_task("--task", arg, &o->task, &o->tasks, e);
    case OPT_FORCE: c->force = true; return 0;
    case OPT_JSON: o->json = true; return 0;
    case OPT_PROGRESS: return cli_when("--progress", arg, &o->progress, e);
    case 'o': o->output = arg; return 0;
    case 'j': return parse_threads(arg, &c->threads, e);
    case 'q': o->quiet = true; return 0;
    default: return err_set(e, "unknown option");
    }
}

/* Returns -1 to go on, or the exit status. */
static int parse(int argc, char **argv, struct options *o)
{
    struct err e = {""};
    int option;
    *o = (struct options){.convert = defaults, .task = 1, .tasks = 1};
    o->convert.codec = codec_find("deflate");
    o->convert.threads = pipe_cpus();
    while ((option = getopt_long(argc, argv, "o:j:qh", table, NULL)) != -1) {
        if (option == 'h') {
            print_help();
            return EXIT_DONE;
        }
        if (option == OPT_VERSION) {
            printf("wsi2h5 " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n%s, %s, %s, %s\n" WSI_BUGS "\n",
                   h5_library(), slide_metadata_library(), tile_libraries(), codec_library());
            return EXIT_DONE;
        }
        if (option == '?') { /* getopt has said what */
            fputs("Try 'wsi2h5 --help'.\n", stderr);
            return EXIT_USAGE;
        }
        if (parse_one(option, optarg, o, &e))
            return usage_error(e.msg);
    }
    if (!o->output || !*o->output)
        return usage_error("-o OUTPUT is missing");
    if (o->convert.tissue_only && o->convert.no_tissue)
        return usage_error("--tissue-only needs the map that --no-tissue leaves out");
    if (optind == argc && !o->list)
        return usage_error("no slide given");
    return -1;
}

/* --- slides --- */

static void json_line(const struct input *i, const char *status, const struct convert_report *r,
                      const char *message)
{
    fputs("{\"slide\": ", stdout);
    cli_json_string(stdout, i->path);
    fputs(", \"store\": ", stdout);
    cli_json_string(stdout, i->target);
    printf(", \"status\": \"%s\"", status);
    if (message) {
        fputs(", \"message\": ", stdout);
        cli_json_string(stdout, message);
    }
    if (r) {
        const struct store_info *s = &r->info;
        fputs(", \"reader\": ", stdout);
        cli_json_string(stdout, s->reader);
        fputs(", \"vendor\": ", stdout);
        cli_json_string(stdout, s->vendor);
        printf(", \"level\": %" PRId64 ", \"width\": %" PRId64 ", \"height\": %" PRId64
               ", \"channels\": %" PRId64 ", \"codec\": \"%s\", \"groups\": %" PRId64
               ", \"tiles_missing\": %" PRId64 ", \"tiles_damaged\": %" PRId64
               ", \"source_bytes\": %" PRId64 ", \"store_bytes\": %" PRId64 ", \"seconds\": %.3f",
               s->level, s->width, s->height, s->channels, s->codec->name, s->group_count,
               s->tiles_missing, s->tiles_damaged, s->source_bytes, r->store_bytes, r->seconds);
    }
    puts("}");
    fflush(stdout);
}

static void show_progress(void *ctx, double fraction)
{
    struct run *r = ctx;
    cli_progress_show(&r->progress, cli_base_name(r->in.list[r->now].path),
                      (double)r->now + fraction, (double)r->in.n);
}

static void report_failure(struct run *r, const struct input *i, const char *message)
{
    r->failed++;
    say(message);
    if (r->o.json)
        json_line(i, "failed", NULL, message);
}

static void report_done(struct run *r, const struct input *i, const struct convert_report *p)
{
    const struct store_info *s = &p->info;
    const bool bad_tiles = s->tiles_missing + s->tiles_damaged > 0;
    const bool damaged = bad_tiles || s->source_problem[0];
    const bool skipped = p->outcome == CONVERT_SKIPPED;
    struct err e = {""};
    if (damaged && !bad_tiles)
        err_set(&e, "%s: the file is damaged (%s), though none of its pixels is; copy the slide again",
                i->path, s->source_problem);
    if (bad_tiles)
        err_set(&e, "%s: %" PRId64 " tiles missing and %" PRId64 " damaged in the slide, filled with "
                "the background and marked in the store; copy the slide again if that is unexpected",
                i->path, s->tiles_missing, s->tiles_damaged);
    if (damaged && (!skipped || !r->o.quiet))
        say(e.msg);
    if (p->was_stale && !r->o.quiet)
        fprintf(stderr, "wsi2h5: %s: held the pixels of %s as it was before it changed; made again\n",
                i->target, i->path);
    r->skipped += skipped;
    r->done += !skipped && !damaged;
    r->damaged += !skipped && damaged;
    if (!skipped) {
        r->source_bytes += (double)s->source_bytes;
        r->store_bytes += (double)p->store_bytes;
        r->pixels += (double)s->width * (double)s->height;
    }
    if (r->o.json)
        json_line(i, skipped ? "skipped" : damaged ? "damaged" : "done", p, damaged ? e.msg : NULL);
}

/* -1 when a signal stopped it before all were done. */
static int convert_all(struct run *r)
{
    struct err e = {""};
    for (r->now = 0; r->now < r->in.n; r->now++) {
        const struct input *i = &r->in.list[r->now];
        struct convert_report report;
        if (cli_check_stop(&e)) {
            say(e.msg);
            return -1;
        }
        int bad = i->problem ? err_set(&e, "%s", i->problem)
                             : convert_slide(i->path, i->target, &r->o.convert, show_progress, r,
                                             &report, &e);
        cli_progress_clear(&r->progress);
        if (bad && cli_stopped()) {
            say(e.msg);
            return -1;
        }
        if (bad)
            report_failure(r, i, e.msg);
        else
            report_done(r, i, &report);
    }
    return 0;
}

static void last_line(const struct run *r, double seconds)
{
    char memory[32], time[32], in[32], out[32];
    fprintf(stderr, "wsi2h5: %" PRId64 " converted, %" PRId64 " damaged, %" PRId64
            " were there already, %" PRId64 " failed; ", r->done, r->damaged, r->skipped, r->failed);
    if (r->pixels > 0)
        fprintf(stderr, "%s of slides to %s of stores, %.1f MP/s, ", cli_size(in, r->source_bytes),
                cli_size(out, r->store_bytes), r->pixels / 1e6 / (seconds > 0 ? seconds : 1));
    fprintf(stderr, "%s, peak memory %s\n", cli_time(time, seconds),
            cli_size(memory, (double)cli_peak_memory()));
}

/* The folder must be there: a store in the wrong place is worse than a message. */
static int check_output(const struct run *r, struct err *e)
{
    struct stat st;
    if (inputs_is_file(r->o.output))
        return 0;
    if (stat(r->o.output, &st))
        return err_sys(e, "%s: no such output folder; create it first", r->o.output);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, "%s: is neither a folder nor a .h5 file", r->o.output);
    return 0;
}

static int gather(struct run *r, int argc, char **argv, struct err *e)
{
    for (int k = optind; k < argc; k++)
        if (inputs_add(&r->in, argv[k], e))
            return -1;
    if (r->o.list && inputs_add_list(&r->in, r->o.list, e))
        return -1;
    if (r->in.n == 0)
        return err_set(e, "%s: names no slide", r->o.list);
    if (inputs_assign(&r->in, r->o.output, e))
        return -1;
    inputs_share(&r->in, r->o.task, r->o.tasks);
    return 0;
}

static int run(struct run *r, int argc, char **argv)
{
    struct err e = {""};
    const double begun = cli_now();
    cli_catch_signals();
    if (check_output(r, &e) || gather(r, argc, argv, &e)) {
        say(e.msg);
        return EXIT_PART;
    }
    if (inputs_is_file(r->o.output) && (r->in.n > 1 || r->o.tasks > 1))
        return usage_error("-o FILE.h5 takes one slide; name a folder for several");
    cli_progress_begin(&r->progress, r->o.quiet ? CLI_NO : r->o.progress);
    const int stopped = convert_all(r);
    if (!r->o.quiet)
        last_line(r, cli_now() - begun);
    if (stopped)
        return EXIT_STOPPED;
    return r->failed || r->damaged ? EXIT_PART : EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct run r = {0};
    /* The libraries take and give back areas of some 100 KiB for every tile: keep them, or the kernel clears
     * their pages anew each time. */
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
    int status = parse(argc, argv, &r.o);
    if (status < 0)
        status = run(&r, argc, argv);
    inputs_free(&r.in);
    h5_exit(status);
}
