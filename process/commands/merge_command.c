/* merge_command.c - see merge_command.h. */
#include "process/commands/merge_command.h"

#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/result/same_resolution.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct merging {
    const struct options *o;
    struct resolution_range resolution;
};

static void show_progress(void *ctx, int64_t done, int64_t slides)
{
    progress_item(0, cli_base_name(((const struct merging *)ctx)->o->output), 0, 1);
    progress_show((double)done / (double)slides, (double)done);
}

static void print_json(const struct options *o, const struct result *r, double seconds)
{
    const struct result_counts *c = result_totals(r);
    double mean, std;
    result_moments(result_params(r), c->histogram, &mean, &std);
    fputs("{\"output\": ", stdout);
    cli_json_string(stdout, o->output);
    printf(", \"results\": %d, \"slides\": %" PRId64 ", \"windows\": %" PRId64 ", \"mean_db\": ",
           o->files.n, result_slides(r), c->windows);
    cli_json_number(stdout, mean);
    fputs(", \"std_db\": ", stdout);
    cli_json_number(stdout, std);
    printf(", \"seconds\": %.3f}\n", seconds);
}

static void last_line(const struct options *o, const struct result *r, double seconds)
{
    const int64_t slides = result_slides(r);
    char memory[32], time[32];
    cli_say("merged %d result%s into %s: %" PRId64 " slide%s, %" PRId64
            " windows; %s, %.0f slides/s, peak memory %s", o->files.n,
            o->files.n == 1 ? "" : "s", o->output, slides, slides == 1 ? "" : "s",
            result_totals(r)->windows, cli_time(time, seconds),
            (double)slides / (seconds > 0 ? seconds : 1),
            cli_size(memory, (double)cli_peak_memory()));
}

static void note_slide(void *ctx, const struct result_slide *s)
{
    resolution_range_add(&((struct merging *)ctx)->resolution, &s->origin);
}

static int merge(struct options *o, struct err *e)
{
    struct merging m = {.o = o};
    const struct result_merge_options how = {
        .partial = o->partial, .allow_duplicates = o->allow_duplicates,
        .progress = show_progress, .slide = note_slide, .ctx = &m};
    if (result_check_target(o->output, e))
        return -1;
    progress_begin(o->quiet ? CLI_NO : o->progress, "slide", 1, "slides/s");
    const int bad = result_merge(o->output, o->files.paths, o->files.n, &how, e);
    progress_end();
    if (!bad && !o->quiet && resolution_range_mixes(&m.resolution))
        cli_say("%s: slides of %.4g to %.4g um/px share one histogram, whose frequencies are per "
                "pixel; merge each resolution by itself to compare them", o->output,
                m.resolution.low, m.resolution.high);
    return bad;
}

int merge_main(struct options *o)
{
    const double begun = cli_now();
    struct err e = {""};
    stop_catch_signals();
    publish_clean(o->output); /* however this run ends */
    if (o->files.failed) {
        cli_say("nothing was merged, because inputs are missing");
        return EXIT_PART;
    }
    struct result *r = merge(o, &e) ? NULL : result_open(o->output, &e);
    if (!r) {
        cli_say("%s", e.msg);
        return stop_signal() ? EXIT_STOPPED : EXIT_PART;
    }
    const double seconds = cli_now() - begun;
    if (o->json)
        print_json(o, r, seconds);
    if (!o->quiet)
        last_line(o, r, seconds);
    result_close(r);
    return EXIT_DONE;
}
