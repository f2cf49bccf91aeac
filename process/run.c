/* run.c - see run.h. */
#include "process/run.h"

#include "process/options.h"
#include "process/results.h"
#include "process/spectrum.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const char *path = r->o->files.paths[k];
    cli_progress_clear(&r->progress);
    if (r->o->json)
        json_store(path, &r->o->params, s, why);
    if (!s) {
        r->failed++;
        cli_say("%s", why->msg);
        return 0;
    }
    if (s->nx * s->ny == 0 && !r->o->quiet)
        cli_say("%s: %" PRId64 " x %" PRId64 " px: smaller than one window of %" PRId64
                " px, nothing to compute", path, s->width, s->height, r->o->params.window);
    r->stores++;
    result_add_counts(&r->counts, &s->counts, r->o->params.bins);
    return results_put(r->out, s, e);
}

static void note_store(void *ctx, int64_t k, const char *text)
{
    struct run *r = ctx;
    cli_progress_clear(&r->progress);
    cli_say("%s: %s", r->o->files.paths[k], text);
}

static void show_progress(void *ctx, int64_t k, double fraction)
{
    struct run *r = ctx;
    cli_progress_show(&r->progress, cli_base_name(r->o->files.paths[k]), (double)k + fraction,
                      r->o->files.n);
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
    const size_t n = (size_t)o->files.n;
    char **sorted = malloc(n * sizeof *sorted);
    int r = 0;
    if (!sorted)
        return err_set(e, "out of memory");
    memcpy(sorted, o->files.paths, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t k = 0; k < n && r == 0; k++) {
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

/* Takes out the stores that have a result already, or another store's result in its place. */
static void leave_out_finished(struct run *r)
{
    struct list *files = &r->o->files;
    int kept = 0;
    for (int k = 0; k < files->n; k++) {
        struct err e = {""};
        char *path = files->paths[k];
        const int have = r->o->force || cli_stopped() ? 0 : results_have(r->out, path, &e);
        if (have == 0) {
            files->paths[kept++] = path;
            continue;
        }
        r->skipped += have > 0;
        r->failed += have < 0;
        if (have < 0)
            cli_say("%s", e.msg);
        if (r->o->json)
            json_store(path, &r->o->params, NULL, have < 0 ? &e : NULL);
        free(path);
    }
    files->n = kept;
}

static int run_stores(struct run *r, const struct spectrum_backend *backend)
{
    struct err e = {""};
    r->out = results_open(r->o->output, &r->o->params, r->o->first_group, r->o->last_group, &e);
    if (r->out)
        leave_out_finished(r);
    const struct stream_setup setup = {
        .backend = backend, .devices = spectrum_device_numbers(r->o->device), .io = r->o->io,
        .params = r->o->params, .paths = r->o->files.paths,
        .n_paths = r->o->files.n, .threads = (int)r->o->threads, .memory = r->o->memory,
        .first_group = r->o->first_group, .last_group = r->o->last_group, .ctx = r,
        .report = report_store, .note = note_store, .progress = r->progress.on ? show_progress : NULL};
    int bad = !r->out || (setup.n_paths > 0 && stream_run(&setup, &e));
    cli_progress_clear(&r->progress);
    if (bad)
        results_abort(r->out);
    else
        bad = results_commit(r->out, &e);
    if (bad)
        cli_say("%s", e.msg);
    if (bad && cli_stopped())
        return EXIT_STOPPED;
    return bad || r->failed ? EXIT_PART : EXIT_DONE;
}

static int run_share(struct options *o, const struct spectrum_backend *backend)
{
    struct run r = {.o = o};
    const int all = o->files.n;
    if (o->tasks)
        list_share(&o->files, o->task, o->tasks);
    if (o->files.n == 0 && !o->quiet)
        cli_say("share %" PRId64 " of %" PRId64 " of %d stores is empty: nothing to do", o->task,
                o->tasks, all);
    r.counts.histogram = calloc((size_t)o->params.bins, sizeof(uint64_t));
    if (!r.counts.histogram) {
        cli_say("out of memory");
        return EXIT_PART;
    }
    const double begun = cli_now();
    cli_progress_begin(&r.progress, o->quiet ? CLI_NO : o->progress);
    const int status = run_stores(&r, backend);
    if (!o->quiet && status != EXIT_STOPPED)
        last_line(&r, cli_now() - begun);
    free(r.counts.histogram);
    return status;
}

int run_main(struct options *o)
{
    struct err e = {""};
    char why[256];
    if (o->first_group && o->files.n > 1)
        err_set(&e, "--groups takes one store at a time");
    else
        check_names(o, &e);
    if (*e.msg)
        return command_usage_error(o->command, &e);
    cli_catch_signals();
    const struct spectrum_backend *backend = spectrum_find(o->device, why, &e);
    if (!backend) {
        err_add(&e, "--device %s", o->device);
        cli_say("%s", e.msg);
        return EXIT_PART;
    }
    if (!strcmp(o->device, "auto") && !o->quiet)
        cli_say("device %s%s%s", backend->name, *why ? ": " : "", why);
    return run_share(o, backend);
}
