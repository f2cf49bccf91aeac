/* merge.c - h5spec merge: results added up into one file. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/result/result_merge.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"
#include "process/options/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct merging {
    struct options *o;
    struct same_resolution resolution;
    int64_t duplicates; /* slides that --skip-duplicates left out */
    int64_t kept;       /* slides whose rows the table had already */
    bool left_out;      /* the output was found among the inputs */
    bool refused;       /* the output has slides that would be lost */
};

static void show_progress(void *ctx, int64_t done, int64_t slides)
{
    progress_item(0, path_base_name(((const struct merging *)ctx)->o->output), 0, 1);
    progress_show((double)done / (double)slides, (double)done);
}

static void print_json(const struct merging *m, const struct result *r, double seconds)
{
    const struct options *o = m->o;
    const struct result_counts *c = result_totals(r);
    double mean, std;
    result_moments(result_params(r), c->histogram, &mean, &std);
    json_begin("output", o->output);
    json_text("kind", "result");
    json_int("results", o->files.n);
    json_int("slides", result_slides(r));
    json_int("left_out", m->resolution.others);
    json_int("duplicates", m->duplicates);
    json_int("unchanged", m->kept);
    json_int("windows", c->windows);
    json_real("mean_db", mean);
    json_real("std_db", std);
    printf(", \"seconds\": %.3f}\n", seconds);
}

static void last_line(const struct merging *m, const struct result *r, double seconds)
{
    const int64_t slides = result_slides(r);
    const struct options *o = m->o;
    char memory[32], time[32], left_out[64] = "", kept[64] = "";
    if (m->resolution.others)
        snprintf(left_out, sizeof left_out, ", %" PRId64 " left out (another resolution)",
                 m->resolution.others);
    if (m->kept)
        snprintf(kept, sizeof kept, " (%" PRId64 " unchanged)", m->kept);
    cli_say("merged %d result%s into %s%s: %" PRId64 " slide%s%s%s, "
            "%" PRId64 " windows; %s, %.0f slides/s, peak memory %s",
            o->files.n, o->files.n == 1 ? "" : "s", o->output,
            result_parts_here(r) ? "" : ", a table that refers to them", slides,
            slides == 1 ? "" : "s", kept, left_out, result_totals(r)->windows,
            clock_text(time, seconds), (double)slides / (seconds > 0 ? seconds : 1),
            number_size(memory, (double)cli_peak_memory()));
}

static bool has_same_resolution(void *ctx, const char *path, const struct result_slide *s)
{
    struct merging *m = ctx;
    struct err e = {0};
    if (!same_resolution_check(&m->resolution, s->name, &s->origin, &e))
        return true;
    cli_say("%s: slide %s: %s", path, s->name, e.msg);
    return false;
}

static void skip_duplicate(void *ctx, const struct err *why)
{
    struct merging *m = ctx;
    m->duplicates++;
    cli_say("%s; the second is left out", why->msg);
}

static void say_copies(void *ctx, const struct err *why)
{
    const struct merging *m = ctx;
    if (!m->o->quiet)
        cli_say("%s: slides are copied into it: %s", m->o->output, why->msg);
}

/* The output has slides that the inputs lack. */
static int refuse(void *ctx, struct err *e)
{
    struct merging *m = ctx;
    char why[sizeof e->msg];
    snprintf(why, sizeof why, "%s", e->msg);
    m->refused = true;
    return m->left_out ? err_set(e, "%s: is one of the inputs; name another file", m->o->output)
                       : err_set(e, "%s; name another file, or replace it with --force", why);
}

/* The result of an earlier merge lies in the folder that is merged. */
static void leave_out_output(struct merging *m)
{
    struct list *files = &m->o->files;
    int kept = 0;
    for (int k = 0; k < files->n; k++) {
        if (m->o->extends || !output_is_same(m->o->output, files->paths[k])) {
            files->paths[kept++] = files->paths[k];
            continue;
        }
        free(files->paths[k]);
        m->left_out = true;
    }
    files->n = kept;
    if (m->left_out && !m->o->quiet)
        cli_say("%s: left out of the inputs, because it is the output", m->o->output);
}

static int merge(struct merging *m, struct err *e)
{
    const struct options *o = m->o;
    const struct result_merge_options how = {.partial = o->partial,
                                             .loses = o->force && !m->left_out ? NULL : refuse,
                                             .table_from = o->table_from,
                                             .extends = o->extends,
                                             .copies = say_copies,
                                             .allow_duplicates = o->allow_duplicates,
                                             .duplicate =
                                                 o->skip_duplicates ? skip_duplicate : NULL,
                                             .progress = show_progress,
                                             .accepts = o->mix_mpp ? NULL : has_same_resolution,
                                             .ctx = m,
                                             .kept = &m->kept};
    if (result_check_target(o->output, e))
        return -1;
    progress_begin(o->quiet ? PROGRESS_NO : o->progress, "slide", 1, "slides/s");
    const int bad = result_merge(o->output, o->files.paths, o->files.n, &how, e);
    progress_end();
    return bad;
}

static int merge_and_report(struct merging *m)
{
    const struct options *o = m->o;
    const double begun = clock_now();
    struct err e = {0};
    struct result *r = merge(m, &e) ? NULL : result_open(o->output, &e);
    if (!r)
        return m->refused ? command_usage_error(o->command, &e) : cli_failed(&e);
    const double seconds = clock_now() - begun;
    if (o->json)
        print_json(m, r, seconds);
    if (!o->quiet)
        last_line(m, r, seconds);
    result_close(r);
    return m->resolution.others ? EXIT_PART : EXIT_DONE;
}

int merge_main(struct options *o)
{
    struct merging m = {.o = o};
    stop_catch_signals();
    publish_clean(o->output); /* however this run ends */
    if (o->files.failed) {
        cli_say("nothing was merged, because inputs are missing");
        return list_status(&o->files);
    }
    leave_out_output(&m);
    if (o->files.n == 0) {
        struct err e;
        err_set(&e, "-o %s: is the only input; name another file", o->output);
        return command_usage_error(o->command, &e);
    }
    return merge_and_report(&m);
}
