/* run.c - `h5spec run`: from stores to results. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/stop.h"
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"
#include "common/store/store_read.h"
#include "process/options/commands.h"
#include "process/run/at_once.h"
#include "process/run/live.h"
#include "process/run/run_output.h"
#include "process/spectrum/spectrum.h"
#include "process/spectrum/spectrum_open.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * --- remarks ---
 *
 * What `h5spec run` says about a slide that is done: which windows do not count, or count with
 * less than the slide's own pixels, and why. None of this is an error.
 */

/* Windows over pixels that the slide does not have. Left-out tiles were left out on request. */
static void report_filled(const char *path, const struct result_counts *c)
{
    if (c->touching[RESULT_DAMAGED])
        cli_say("%s: %" PRId64 " of %" PRId64 " windows touch damaged tiles (--skip-damaged leaves "
                "them out)",
                path, c->touching[RESULT_DAMAGED], c->windows);
    if (c->touching[RESULT_SKIPPED])
        cli_say("%s: %" PRId64 " windows that touch damaged tiles are not counted", path,
                c->touching[RESULT_SKIPPED]);
    if (c->touching[RESULT_MISSING])
        cli_say("%s: %" PRId64 " of %" PRId64 " windows touch tiles that are missing in the slide",
                path, c->touching[RESULT_MISSING], c->windows);
}

#define TISSUE_REMEDY "if that is wrong, convert the slide with " STORE_TISSUE_REMEDY

/* With tissue_only: a map that is probably wrong, or by which no window counts. */
static void report_tissue(const char *path, const struct result_params *p,
                          const struct result_slide *s)
{
    char shows[64];
    const double fraction = s->origin.tissue_fraction;
    const bool none = s->counts.windows == 0 && !p->roi;
    const bool doubtful = store_doubts_tissue(fraction, shows, sizeof shows);
    if (!doubtful)
        snprintf(shows, sizeof shows, "%.2g %% tissue", 100 * fraction);
    if (none)
        cli_say("%s: no window counts: none has %g %% of its area in tissue, and the tissue map "
                "shows %s; " TISSUE_REMEDY,
                path, 100 * p->min_tissue, shows);
    else if (doubtful)
        cli_say("%s: the tissue map shows %s; " TISSUE_REMEDY, path, shows);
}

/* More than a tenth of the slide's tiles: the run is slower than it could be. */
static void report_left(const char *path, const struct result_slide *s)
{
    int most = 0;
    for (int k = 0; k < HOST_DECODED_REASONS; k++)
        most = s->host_decoded[k] > s->host_decoded[most] ? k : most;
    if (s->tiles_on_host * 10 > s->origin.tiles)
        cli_say("%s: the host decoded %" PRId64 " of %" PRId64 " JPEG tiles: %s (%" PRId64 ")",
                path, s->tiles_on_host, s->origin.tiles, host_decoded_words(most),
                s->host_decoded[most]);
}

/* `path` is that of the store. */
static void run_remarks(const char *path, const struct result_params *p,
                        const struct regions_choice *regions, const struct result_slide *s)
{
    const struct result_origin *o = &s->origin;
    if (p->roi && !regions->no_bounds && (o->bounds_x || o->bounds_y))
        cli_say("%s: places of --roi count from %" PRId64 ", %" PRId64 " " GEOJSON_BOUNDS, path,
                o->bounds_x, o->bounds_y);
    if (s->nx * s->ny == 0) {
        cli_say("%s: %" PRId64 " x %" PRId64 " px: smaller than one window of %" PRId64
                " px, nothing to compute",
                path, s->width, s->height, p->window);
        return;
    }
    if (p->roi && s->counts.windows == 0)
        cli_say("%s: no window counts: none has %g %% of its area inside the regions%s", path,
                100 * p->min_roi, p->tissue_only ? " and enough tissue" : "");
    if (p->tissue_only)
        report_tissue(path, p, s);
    report_filled(path, &s->counts);
    report_left(path, s);
}

/* A slide of the one file, for its JSON line: numbers and short texts, no maps. */
struct done {
    char *path; /* of the store; owned */
    struct result_slide slide;
    double mean, std;
};

struct run {
    struct options *o;
    struct run_output *out;
    int64_t inputs, done, skipped, failed;
    int64_t copies;               /* neither: the same slide as one of these */
    int64_t taken, taken_windows; /* of those done: from a partial result */
    int64_t trouble;              /* of those failed: err_is_trouble */
    int64_t damaged;              /* of those done or skipped: tiles of the slide are damaged */
    int64_t empty;                /* of those done: no window counts, although some fit */
    bool ended_early;             /* by a signal or an error; a single result was not written */
    bool kept;                    /* then: its slides are in a partial result */
    int64_t computed;             /* windows, also of slides that were rejected */
    struct result_counts counts;
    int64_t others; /* of those failed: with a result of other parameters, the first one's: */
    struct err other, other_message;
    void *seen; /* set of quickhashes of this run's slides, with their stores (memory_note) */
    struct same_resolution resolution;
    bool mixes;    /* slides of another resolution are accepted */
    double *bytes; /* [n + 1]: size of the stores before store k; NULL if nothing shows progress */
    struct live *live;               /* NULL without --live */
    bool at_once;                    /* processes of their own write results (at_once.h) */
    struct at_once_writers *writers; /* these, where this one computes; or NULL */
    bool has_had_devices;            /* this process has opened some */
    int64_t memory;                  /* peaks of other processes, bytes */
    struct done *written;            /* [n_written]: slides of the one file, with --json; owned */
    int64_t n_written;
    struct failed_list *failures; /* NULL: none is written */
};

/* --- one slide, one store --- */

/* Notes the slide of a store. -1 when another store of this run has the same slide, and stores
 * without a quickhash are never the same. */
static int check_duplicate(struct run *r, const char *path, const char *quickhash, struct err *e)
{
    if (r->o->duplicates == DUPLICATES_COUNT || !*quickhash)
        return 0;
    const char *first = memory_note(&r->seen, quickhash, path);
    return first ? at_once_same(path, first, e) : 0;
}

/* --- reports --- */

/* Why tiles were left to the host: the reasons that occur. */
static void json_left(const struct result_slide *s)
{
    char name[64];
    for (int k = 0; k < HOST_DECODED_REASONS; k++) {
        snprintf(name, sizeof name, "tiles_on_host_%s", host_decoded_name(k));
        if (s->host_decoded[k])
            json_int(name, s->host_decoded[k]);
    }
}

static void json_slide(const struct result_params *p, const struct result_slide *s, double mean,
                       double std)
{
    json_int("windows", s->counts.windows);
    json_real("mean_db", mean);
    json_real("std_db", std);
    fields_json(result_counts_fields, (RESULT_OF_TOUCHING | RESULT_REGIONS) & RESULT_SETS(p),
                &s->counts);
    printf(", \"seconds\": %.3f", s->seconds);
    json_text("backend", s->backend);
    json_text("device", s->device);
    json_text("kernel", s->kernel);
    json_text("io", s->io);
    json_int("tiles_on_host", s->tiles_on_host);
    json_left(s);
    for (int k = 0; k < RESULT_STAGES; k++)
        printf(", \"%s_seconds\": %.3f", result_stage_name(k), s->stages[k]);
}

/* A JSON line: a copy or failed, with a reason, else skipped. */
static void json_store(const struct run *r, const char *path, const struct err *why)
{
    if (!r->o->json)
        return;
    json_begin("input", path);
    json_text("kind", "store");
    json_text("status", !why ? "skipped" : why->kind == ERR_COPY ? "copy" : "failed");
    if (why && why->kind == ERR_COPY)
        json_text("message", why->msg);
    else if (why)
        json_failure(why);
    json_end_line(stdout);
}

static void json_damage(int64_t tiles)
{
    char text[128];
    snprintf(text, sizeof text,
             "%" PRId64 " tile%s of the slide %s damaged; copy the slide again and convert it "
             "with --force",
             tiles, tiles == 1 ? "" : "s", tiles == 1 ? "is" : "are");
    json_text("message", text);
}

static void json_done(const struct run *r, const struct done *d)
{
    const int64_t damaged = d->slide.origin.tiles_damaged;
    json_begin("input", d->path);
    json_text("kind", "store");
    json_text("status", damaged > 0 ? "damaged" : "done");
    if (damaged > 0)
        json_damage(damaged);
    json_slide(&r->o->params, &d->slide, d->mean, d->std);
    json_end_line(stdout);
}

/* A slide's result is written. Its line comes when the file has its name: of one file for all, at
 * the end of the run. */
static void note_done(struct run *r, const char *path, const struct result_slide *s)
{
    struct done d = {.slide = *s, .path = (char *)path};
    failed_list_done(r->failures, path);
    if (!r->o->json)
        return;
    result_moments(&r->o->params, s->counts.histogram, &d.mean, &d.std);
    if (output_is_folder(r->o->output, RESULT_ENDING)) {
        json_done(r, &d);
        return;
    }
    d.path = memory_copy(path);
    r->written = memory_grow(r->written, r->n_written, sizeof *r->written);
    r->written[r->n_written++] = d;
}

/* The one file has its name, or, with a reason, has not. After a signal there is nothing to say. */
static void report_written(struct run *r, const struct err *why)
{
    for (int64_t k = 0; k < r->n_written; k++) {
        if (!why)
            json_done(r, &r->written[k]);
        else if (!stop_signal())
            json_store(r, r->written[k].path, why);
        free(r->written[k].path);
    }
    free(r->written);
    r->written = NULL;
    r->n_written = 0;
}

/* A store without a result. A copy of a slide is no failure. */
static void report_failure(struct run *r, const char *path, const struct err *why)
{
    const bool copy = why->kind == ERR_COPY;
    r->copies += copy;
    r->failed += !copy;
    r->trouble += err_is_trouble(why);
    failures_add(r->failures, r->o, path, why->msg);
    json_store(r, path, why);
    if (!copy || !r->o->quiet)
        cli_say("%s", why->msg);
}

/* A store whose result exists and is kept, but is not what was asked for. So it is in no list of
 * those without one. */
static void report_kept(struct run *r, const char *path, const struct run_output_found *found,
                        const struct err *why)
{
    r->failed++;
    json_store(r, path, why);
    if (!*found->other.msg)
        cli_say("%s", why->msg);
    else if (r->others++ == 0) {
        r->other = found->other;
        r->other_message = *why;
    }
}

/* All results of other parameters in one message. */
static void report_others(const struct run *r)
{
    if (r->others == 1)
        cli_say("%s", r->other_message.msg);
    else if (r->others > 1)
        cli_say("%s: %" PRId64 " of %" PRId64 " stores have a result with other parameters "
                "(existing and new: %s), which is kept; name another folder, or replace them with "
                "--force",
                r->o->output, r->others, r->inputs, r->other.msg);
}

/* --- the live page, which needs libpng --- */

#ifdef HAVE_PNG

static int open_live(struct run *r, struct err *e)
{
    const struct options *o = r->o;
    const int64_t before = r->skipped + r->copies + r->failed + r->taken;
    if (!o->live)
        return 0;
    r->live = live_open(o->live, before + o->files.n, before, &o->params, e);
    return r->live ? 0 : -1;
}

static void show_live(void *ctx, int64_t k, const struct result_slide *s, int64_t rows)
{
    struct run *r = ctx;
    const double share = s->ny > 0 ? (double)rows / (double)s->ny : 0;
    const double before = r->bytes[k], all = r->bytes[r->o->files.n];
    live_progress(r->live, k, s, rows, (before + share * (r->bytes[k + 1] - before)) / all);
}

static void report_live(struct run *r, int64_t k, const struct result_slide *s,
                        const struct err *why)
{
    if (r->live)
        live_slide(r->live, k, r->o->files.paths[k], s,
                   why && why->kind != ERR_COPY ? why->msg : "",
                   r->bytes[k + 1] / r->bytes[r->o->files.n]);
}

static void show_working(const struct run *r, int64_t k, double windows, double done)
{
    if (r->live)
        live_working(r->live, k, (int64_t)windows, done);
}

static void close_live(struct run *r, int status)
{
    live_close(r->live, status == EXIT_STOPPED ? LIVE_STOPPED
                        : status < 0           ? LIVE_BROKEN
                                               : LIVE_COMPLETE);
    r->live = NULL;
}

#else

static int open_live(struct run *r, struct err *e)
{
    return r->o->live ? err_set(e, "--live: h5spec is built without libpng") : 0;
}

static void show_live(void *ctx, int64_t k, const struct result_slide *s, int64_t rows)
{
    (void)ctx;
    (void)k;
    (void)s;
    (void)rows;
}

static void report_live(struct run *r, int64_t k, const struct result_slide *s,
                        const struct err *why)
{
    (void)r;
    (void)k;
    (void)s;
    (void)why;
}

static void show_working(const struct run *r, int64_t k, double windows, double done)
{
    (void)r, (void)k, (void)windows, (void)done;
}

static void close_live(struct run *r, int status)
{
    (void)r;
    (void)status;
}

#endif

/* May the slide be counted with the others? */
static int check_slide(struct run *r, const char *path, const struct result_slide *s, struct err *e)
{
    struct err other = {0};
    if (same_resolution_check(&r->resolution, path, same_resolution_um(&s->origin),
                              s->origin.downsample, &other) &&
        !r->mixes) {
        err_copy(e, &other);
        return err_add(e, "%s", path);
    }
    return check_duplicate(r, path, s->quickhash, e);
}

/* Puts a slide that may be counted into the output. */
static int put_slide(struct run *r, const char *path, const struct result_slide *s, struct err *e)
{
    if (!r->o->quiet)
        run_remarks(path, &r->o->params, &r->o->regions, s);
    if (!r->at_once && run_output_put(r->out, s, e)) {
        json_store(r, path, e);
        return -1;
    }
    note_done(r, path, s);
    r->damaged += s->origin.tiles_damaged > 0;
    r->done++;
    r->empty += s->nx * s->ny > 0 && s->counts.windows == 0;
    result_add_counts(&r->counts, &s->counts, r->o->params.bins);
    return 0;
}

static int report_store(void *ctx, int64_t k, const struct result_slide *s, const struct err *why,
                        struct err *e)
{
    struct run *r = ctx;
    struct err rejected = {0};
    const char *path = r->o->files.paths[k];
    r->computed += s ? s->nx * s->ny : 0;
    if (s && check_slide(r, path, s, &rejected)) {
        s = NULL;
        why = &rejected;
    }
    report_live(r, k, s, why);
    if (!s) {
        report_failure(r, path, why);
        return 0;
    }
    return put_slide(r, path, s, e);
}

static void note_store(void *ctx, int64_t k, const char *text)
{
    struct run *r = ctx;
    cli_say("%s: %s", r->o->files.paths[k], text);
}

/* What a run that ended early leaves undone: ", 2 not computed, nothing written". */
static void put_left(const struct run *r, char *out, size_t size)
{
    const int64_t n = r->inputs - r->done - r->skipped - r->copies - r->failed;
    char left[64] = "";
    if (n > 0)
        snprintf(left, sizeof left, ", %" PRId64 " not computed", n);
    if (output_is_folder(r->o->output, RESULT_ENDING))
        snprintf(out, size, "%s", left);
    else if (r->kept)
        snprintf(out, size,
                 "%s; those done are kept in %s" RUN_OUTPUT_PARTIAL
                 ", and this command%s goes on from there",
                 left, r->o->output, r->o->force ? " without --force" : "");
    else
        snprintf(out, size, "%s, nothing written", left);
}

/* Mean and std of everything. Results of several files are not pooled over resolutions. */
static void put_moments(const struct run *r, char *out, size_t size)
{
    double mean, std;
    const bool several = r->mixes && r->resolution.others > 0;
    result_moments(&r->o->params, r->counts.histogram, &mean, &std);
    if (isnan(mean))
        out[0] = 0;
    else if (several && output_is_folder(r->o->output, RESULT_ENDING))
        snprintf(out, size, " of several resolutions, not pooled");
    else
        snprintf(out, size, ", mean %.3f dB, std %.3f dB%s", mean, std,
                 several ? " over several resolutions" : "");
}

static void last_line(const struct run *r, double seconds)
{
    char memory[32], time[32], moments[80];
    char skipped[64] = "", copies[96] = "", empty[64] = "", other[64] = "", rate[32] = "",
         taken[64] = "";
    char left[PATH_MAX + 128] = "";
    put_moments(r, moments, sizeof moments);
    if (r->taken)
        snprintf(taken, sizeof taken, " (%" PRId64 " by an earlier run)", r->taken);
    if (r->skipped)
        snprintf(skipped, sizeof skipped, "%" PRId64 " skipped (up to date), ", r->skipped);
    if (r->copies)
        snprintf(copies, sizeof copies,
                 ", %" PRId64 " %s not computed (--duplicates count computes copies, too)",
                 r->copies, r->copies == 1 ? "copy" : "copies");
    if (r->empty)
        snprintf(empty, sizeof empty, " (%" PRId64 " without a window that counts)", r->empty);
    if (r->resolution.others && !r->mixes)
        snprintf(other, sizeof other, " (%" PRId64 " left out: another resolution)",
                 r->resolution.others);
    if (r->ended_early) /* work on the slide at hand is not counted */
        put_left(r, left, sizeof left);
    else
        snprintf(rate, sizeof rate, ", %.0f windows/s",
                 (double)(r->counts.windows - r->taken_windows) / (seconds > 0 ? seconds : 1));
    cli_say("%" PRId64 " done%s%s, %s%" PRId64 " failed%s%s%s: %" PRId64 " windows%s; %s%s, "
            "peak memory %s",
            r->done, taken, empty, skipped, r->failed, other, copies, left, r->counts.windows,
            moments, clock_text(time, seconds), rate,
            number_size(memory, (double)(cli_peak_memory() + r->memory)));
    if (r->o->live && r->skipped > 0 && r->skipped == r->inputs)
        cli_say("%s: the page shows no slide, because all results are up to date; h5spec report "
                "draws a page of results, and --force computes them again",
                r->o->live);
}

/* --- progress --- */

static void show_progress(void *ctx, int64_t k, double fraction, int64_t windows)
{
    struct run *r = ctx;
    const double before = r->bytes[k], share = r->bytes[k + 1] - before;
    const double all = r->bytes[r->o->files.n];
    progress_item(k, path_base_name(r->o->files.paths[k]), before / all, share / all);
    progress_show(fraction, (double)r->computed + fraction * (double)windows);
}

/* --- several stores at once --- */

static int report_unwritten(void *ctx, int64_t k, const struct err *why, struct err *e)
{
    const struct run *r = ctx;
    json_store(r, r->o->files.paths[k], why);
    return err_copy(e, why);
}

static const char *reported_with(void *ctx, const char *quickhash)
{
    const struct run *r = ctx;
    return memory_noted(&r->seen, quickhash);
}

static void show_at_once(void *ctx, int64_t k, double fraction, double done, double share,
                         double windows)
{
    const struct run *r = ctx;
    progress_item(k, path_base_name(r->o->files.paths[k]), done, share);
    progress_show(fraction, (double)r->computed + windows);
    show_working(r, k, windows, done + fraction * share);
}

static void begin_progress(struct run *r)
{
    const struct options *o = r->o;
    progress_begin(o->quiet ? PROGRESS_NO : o->progress, "slide", o->files.n, "windows/s");
    if (progress_is_on() || r->live)
        r->bytes = input_files_sizes(&o->files);
}

static struct at_once terms_of(struct run *r)
{
    return (struct at_once){.o = r->o,
                            .out = r->out,
                            .live = r->live,
                            .bytes = r->bytes,
                            .ctx = r,
                            .report = report_store,
                            .unwritten = report_unwritten,
                            .reported = reported_with,
                            .progress = show_at_once};
}

static int compute_at_once(struct run *r, struct err *e)
{
    begin_progress(r);
    const struct at_once a = terms_of(r);
    int64_t memory = 0;
    r->at_once = true;
    const int bad = at_once_run(&a, &memory, e);
    r->at_once = false;
    r->memory = memory > r->memory ? memory : r->memory;
    progress_end();
    return bad;
}

/* Before this process opens GPUs: what is forked later cannot rely on it. */
static void open_writers(struct run *r)
{
    const struct at_once a = terms_of(r);
    r->writers = r->has_had_devices ? NULL : at_once_open_writers(&a);
    r->at_once = r->writers != NULL;
}

static int close_writers(struct run *r, bool failed, struct err *e)
{
    int64_t memory = 0;
    const int bad = at_once_close_writers(r->writers, failed, &memory, e);
    r->at_once = false;
    r->writers = NULL;
    r->memory = memory > r->memory ? memory : r->memory;
    return bad;
}

static int report_or_put(void *ctx, int64_t k, const struct result_slide *s, const struct err *why,
                         struct err *e)
{
    struct run *r = ctx;
    return r->writers ? at_once_put(r->writers, k, s, why, e) : report_store(r, k, s, why, e);
}

/* --- the list of stores --- */

static int by_stem(const void *a, const void *b)
{
    size_t n, m;
    const char *x = path_stem(*(char *const *)a, &n), *y = path_stem(*(char *const *)b, &m);
    const int order = memcmp(x, y, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

/* The store in the sorted list whose parts may be named as this store's result; or NULL. */
static const char *find_whole(char **sorted, size_t n, const char *store)
{
    size_t length;
    const char *stem = path_stem(store, &length);
    const size_t part = result_part_of(stem, length);
    if (!part)
        return NULL;
    char *name = memory_print("%.*s" RESULT_ENDING, (int)part, stem);
    char *const *found = bsearch(&name, sorted, n, sizeof *sorted, by_stem);
    free(name);
    return found ? *found : NULL;
}

/* A slide's name in a result is its store's stem: no two may have the same. Of shares of groups no
 * part may have the name of another slide's result. */
static int check_names(const struct input_files *files, bool parts, struct err *e)
{
    const size_t n = (size_t)files->n;
    char **sorted = memory_need(n, sizeof *sorted);
    const char *whole = NULL;
    int r = 0;
    memcpy(sorted, files->paths, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_stem);
    for (size_t k = 0; k < n && r == 0; k++) {
        const char *base = path_base_name(sorted[k]);
        if (!*base || !strcmp(base, ".") || !strcmp(base, "..h5"))
            r = err_set(e, "%s: its name cannot be the name of a slide in a result; rename it",
                        sorted[k]);
        else if (k > 0 && !by_stem(&sorted[k - 1], &sorted[k]))
            r = err_set(e, "%s and %s: two stores have the same name; write them to two results",
                        sorted[k - 1], sorted[k]);
        else if (parts && (whole = find_whole(sorted, n, sorted[k])))
            r = err_set(e,
                        "%s and %s: a part of the first (--by group) may get the name of the "
                        "result of the second; write them to two folders",
                        whole, sorted[k]);
    }
    free(sorted);
    return r;
}

/* Is there an up-to-date result of the store, or another reason not to compute it? */
static bool is_finished(struct run *r, const char *path)
{
    struct err e = {0};
    struct run_output_found found = {.kept = false};
    int have = run_output_have(r->out, path, &found, &e);
    if (have == 0 && *e.msg && !r->o->quiet)
        cli_say("%s", e.msg);
    if (have > 0 && check_duplicate(r, path, found.quickhash, &e)) {
        found.kept = false;
        have = -1;
    }
    if (have < 0 && found.kept)
        report_kept(r, path, &found, &e);
    else if (have < 0)
        report_failure(r, path, &e);
    if (have > 0) {
        r->skipped++;
        r->damaged += found.damaged > 0;
        json_store(r, path, NULL);
    }
    return have != 0;
}

/* Whatever --force replaces, it is not the result of another slide. */
static bool is_others(struct run *r, const char *path)
{
    struct err e = {0};
    const bool is = run_output_is_others(r->out, path, &e);
    if (is)
        report_failure(r, path, &e);
    return is;
}

/* 1: the slide of the store is in the partial result, and goes into the output, or is rejected as
 * it would be now. 0: it is to be computed. -1: the output cannot be written. */
static int take_slide(struct run *r, const char *path, struct err *e)
{
    struct err why = {0};
    struct result_slide s;
    if (run_output_take(r->out, path, &s, &why) <= 0) {
        if (*why.msg && !r->o->quiet)
            cli_say("%s", why.msg);
        return 0;
    }
    int taken = 1;
    if (check_slide(r, path, &s, &why)) {
        report_failure(r, path, &why);
    } else if (put_slide(r, path, &s, e)) {
        taken = -1;
    } else {
        r->taken++;
        r->taken_windows += s.counts.windows;
    }
    result_slide_free(&s);
    return taken;
}

/* Drops the stores of the list that need not or cannot be computed. */
static int drop_finished(struct run *r, struct err *e)
{
    struct input_files *files = &r->o->files;
    int kept = 0, taken = 0;
    for (int k = 0; k < files->n; k++) {
        if (stop_signal() || taken < 0 || (r->o->force && !is_others(r, files->paths[k])) ||
            (!r->o->force && !is_finished(r, files->paths[k]) &&
             (taken = take_slide(r, files->paths[k], e)) <= 0)) {
            files->paths[kept++] = files->paths[k];
            continue;
        }
        failed_list_done(r->failures, files->paths[k]);
        free(files->paths[k]);
    }
    files->n = kept;
    report_others(r);
    if (r->taken && !r->o->quiet)
        cli_say("%s" RUN_OUTPUT_PARTIAL ": %" PRId64 " of %" PRId64 " slides are taken from there",
                r->o->output, r->taken, r->inputs);
    return taken < 0 ? -1 : 0;
}

/* --- the run --- */

static int stream(struct run *r, const struct spectrum_use *use, struct err *e)
{
    const struct options *o = r->o;
    begin_progress(r);
    const struct stream_setup setup = {.use = use,
                                       .io = o->io,
                                       .params = o->params,
                                       .paths = o->files.paths,
                                       .n_paths = o->files.n,
                                       .memory = o->memory,
                                       .first_group = o->first_group,
                                       .last_group = o->last_group,
                                       .regions = &o->regions,
                                       .reject_damaged = o->reject_damaged,
                                       .ctx = r,
                                       .report = report_or_put,
                                       .note = note_store,
                                       .progress = progress_is_on() ? show_progress : NULL,
                                       .live = r->live ? show_live : NULL};
    const int bad = close_writers(r, stream_run(&setup, e) != 0, e);
    progress_end();
    return bad;
}

static int open_and_stream(struct run *r, struct err *e)
{
    const struct options *o = r->o;
    const struct spectrum_setup want = {.choice = o->choice,
                                        .params = o->params,
                                        .threads = o->threads,
                                        .memory = o->memory,
                                        .gds = o->io == STREAM_GDS};
    struct spectrum_use use;
    struct err note;
    int bad = spectrum_open(&use, &want, &note, e);
    r->has_had_devices = o->choice.kind != SPECTRUM_CPU;
    if (bad)
        err_add(e, "--device %s", o->device);
    else if (*note.msg && !o->quiet)
        cli_say("%s", note.msg);
    bad = bad ? close_writers(r, true, e) : stream(r, &use, e);
    spectrum_close(&use);
    return bad ? -1 : 0;
}

static int compute(struct run *r, struct err *e)
{
    struct err note;
    open_writers(r); /* before anybody asks for GPUs */
    if (!at_once_serves(r->o, &note))
        return open_and_stream(r, e);
    close_writers(r, true, &(struct err){0});
    if (*note.msg && !r->o->quiet)
        cli_say("%s", note.msg);
    return compute_at_once(r, e);
}

/* Keeps what this run has computed of the one file. */
static void end_early(struct run *r)
{
    struct err e = {0};
    if (output_is_folder(r->o->output, RESULT_ENDING) || r->done == r->taken)
        run_output_abort(r->out);
    else if (!(r->kept = run_output_keep(r->out, &e) > 0))
        cli_say("%s", e.msg);
}

static int run_stores(struct run *r)
{
    struct err e = {0};
    r->out = run_output_open(r->o, &e);
    int bad = !r->out || failures_begin(&r->failures, r->o, &e);
    bad = bad || drop_finished(r, &e) || open_live(r, &e);
    if (!bad && r->o->files.n > 0)
        bad = compute(r, &e);
    if (bad)
        end_early(r);
    else
        bad = run_output_commit(r->out, &e);
    report_written(r, bad ? &e : NULL);
    bad = bad || failed_list_write(r->failures, r->o->quiet, &e);
    const int status = bad                                  ? cli_failed(&e)
                       : r->trouble                         ? EXIT_TROUBLE
                       : r->failed                          ? EXIT_PART
                       : r->damaged && !r->o->accept_damage ? EXIT_DAMAGED
                                                            : EXIT_DONE;
    r->ended_early = bad;
    close_live(r, status == EXIT_STOPPED ? EXIT_STOPPED : bad ? -1 : 0);
    return status;
}

/* All stores, or the task's share of them. */
static int run_list(struct run *r)
{
    struct options *o = r->o;
    const int all = o->files.n;
    if (o->tasks)
        input_files_share(&o->files, o->task, o->tasks);
    if (o->tasks && o->files.n == 0 && !o->quiet)
        cli_say("share %" PRId64 " of %" PRId64 " of %d stores is empty: nothing to do", o->task,
                o->tasks, all);
    r->inputs += o->files.n;
    return run_stores(r);
}

/* --- shares of groups --- */

/* Stores k .. k + n - 1 of the list: of one store groups first .. last, else 0, 0 for all. */
struct piece {
    int k, n;
    int64_t first, last;
};

/* What a task computes: the end of a store, whole stores, the beginning of another one. */
enum { MOST_PIECES = 3 };

/* [n + 1]: groups of the stores before store k. NULL: a store cannot be read, and nothing is
 * computed, because another task might count its groups. */
static int64_t *sum_groups(const struct input_files *files, struct err *e)
{
    int64_t *sum = memory_need((size_t)files->n + 1, sizeof *sum);
    for (int k = 0; k < files->n; k++) {
        struct store *s = store_open(files->paths[k], e);
        if (!s) {
            err_add(e, "--by group numbers the groups of all stores");
            free(sum);
            return NULL;
        }
        sum[k + 1] = sum[k] + store_info(s)->group_count;
        store_close(s);
    }
    return sum;
}

/* Groups first .. last of all stores, numbered from 1, as pieces. */
static int find_pieces(const int64_t *sum, int n, int64_t first, int64_t last,
                       struct piece pieces[MOST_PIECES])
{
    int found = 0;
    for (int k = 0; k < n; k++) {
        const int64_t a = first > sum[k] ? first - sum[k] : 1;
        const int64_t b = (last < sum[k + 1] ? last : sum[k + 1]) - sum[k];
        const bool whole = a == 1 && b == sum[k + 1] - sum[k];
        if (b < a)
            continue;
        if (whole && found > 0 && !pieces[found - 1].first)
            pieces[found - 1].n++;
        else
            pieces[found++] = (struct piece){k, 1, whole ? 0 : a, whole ? 0 : b};
    }
    return found;
}

/* run_stores() with the stores of a piece as the list. */
static int run_piece(struct run *r, const struct input_files *all, const struct piece *p)
{
    struct options *o = r->o;
    struct input_files *files = &o->files;
    files->paths = all->paths + p->k;
    files->n = p->n;
    o->first_group = p->first;
    o->last_group = p->last;
    const int status = run_stores(r);
    for (int k = 0; k < files->n; k++) /* drop_finished() has freed the others */
        free(files->paths[k]);
    memset(files->paths, 0, (size_t)p->n * sizeof *files->paths);
    failed_list_free(r->failures);
    free(r->bytes);
    r->failures = NULL;
    r->bytes = NULL;
    r->others = 0;
    return status;
}

/* The task's pieces; -1: they cannot be known. */
static int share_groups(const struct options *o, struct piece pieces[MOST_PIECES], struct err *e)
{
    int64_t *sum = sum_groups(&o->files, e);
    if (!sum)
        return -1;
    const int64_t n = sum[o->files.n], each = n / o->tasks, more = n % o->tasks;
    const int64_t before = each * (o->task - 1) + (o->task - 1 < more ? o->task - 1 : more);
    const int64_t last = before + each + (o->task <= more); /* the first tasks have one more */
    const int found = find_pieces(sum, o->files.n, before + 1, last, pieces);
    if (found == 0 && !o->quiet)
        cli_say("share %" PRId64 " of %" PRId64 " of %" PRId64 " groups is empty: nothing to do",
                o->task, o->tasks, n);
    free(sum);
    return found;
}

/* The task's share of the groups of all stores. */
static int run_groups(struct run *r)
{
    struct err e = {0};
    struct piece pieces[MOST_PIECES];
    const struct input_files all = r->o->files;
    const int n = share_groups(r->o, pieces, &e);
    int status = n < 0 ? cli_failed(&e) : input_files_status(&all);
    r->ended_early = n < 0;
    for (int k = 0; k < n; k++)
        r->inputs += pieces[k].n;
    for (int k = 0; k < n && !r->ended_early; k++)
        status = run_piece(r, &all, &pieces[k]);
    if (n == 0) /* only the list of slides without a result is written */
        status = run_piece(r, &all, &(struct piece){0});
    r->o->files.paths = all.paths;
    r->o->files.n = all.n;
    return status;
}

static int run_share(struct options *o)
{
    const bool folder = output_is_folder(o->output, RESULT_ENDING);
    struct run r = {.o = o,
                    .failed = o->files.failed,
                    .trouble = o->files.trouble,
                    .mixes = folder || o->mix_mpp};
    r.inputs = o->files.failed;
    r.counts.histogram = memory_need((size_t)o->params.bins, sizeof(uint64_t));
    const double begun = clock_now();
    const int status = o->by_group && o->tasks ? run_groups(&r) : run_list(&r);
    if (!o->quiet)
        last_line(&r, clock_now() - begun);
    memory_forget(&r.seen);
    failed_list_free(r.failures);
    free(r.bytes);
    free(r.counts.histogram);
    return status;
}

static bool has_store(const void *ctx, const char *slide)
{
    const struct input_files *files = ctx;
    size_t n;
    for (int k = 0; k < files->n; k++) {
        const char *stem = path_stem(files->paths[k], &n);
        if (!strncmp(stem, slide, n) && !slide[n])
            return true;
    }
    return false;
}

/* One file: it must not be an input, nor have other slides. In a folder, each file is judged by
 * itself (run_output.h), but the folder must not be that of the stores. */
static int check_target(const struct options *o, struct err *e)
{
    char *const regions[] = {(char *)o->regions.path};
    if (output_is_folder(o->output, RESULT_ENDING)) {
        for (int k = 0; k < o->files.n && !o->first_group; k++) {
            char *path = folder_join(o->output, path_base_name(o->files.paths[k]));
            const int bad = output_is_no_input("-o", path, &o->files.paths[k], 1, e);
            free(path);
            if (bad)
                return -1;
        }
        return 0;
    }
    if (output_is_no_input("-o", o->output, o->files.paths, o->files.n, e) ||
        output_is_no_input("-o", o->output, regions, 1, e))
        return -1;
    char *partial = memory_print("%s" RUN_OUTPUT_PARTIAL, o->output);
    const int bad = !o->force && (result_check_replaced(o->output, has_store, &o->files, e) ||
                                  result_check_replaced(partial, has_store, &o->files, e));
    free(partial);
    struct err why = *e;
    return bad ? err_set(e, "%s; name another file, or replace it with --force", why.msg) : 0;
}

int run_main(struct options *o)
{
    struct err e = {0};
    if (o->first_group && o->files.n > 1)
        err_set(&e, "--groups takes one store at a time");
    else if (o->choice.kind == SPECTRUM_CUDA && spectrum_check_build(&e))
        err_add(&e, "--device %s", o->device); /* no other input or try changes that */
    if (*e.msg || check_names(&o->files, o->by_group && o->tasks, &e) || check_target(o, &e))
        return command_usage_error(o->command, &e);
    if (!output_is_folder(o->output, RESULT_ENDING) &&
        o->files.n > 0) /* the order of names, as in merge */
        qsort(o->files.paths, (size_t)o->files.n, sizeof *o->files.paths, by_stem);
    stop_catch_signals();
    return run_share(o);
}
