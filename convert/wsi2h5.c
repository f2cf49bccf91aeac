/*
 * wsi2h5.c - a run of wsi2h5: the loop over its slides, and what it says about them. arguments.h
 * reads the command line, convert.h does the work.
 */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/failed_list.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_library.h"
#include "convert/arguments.h"
#include "convert/convert.h"
#include "convert/crash.h"
#include "convert/inputs.h"
#include "convert/plan.h"
#include "convert/privacy/identifiers.h"
#include "convert/tile/tile.h"

#include <inttypes.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * --- outcomes ---
 *
 * What a run of wsi2h5 says about its slides: messages on stderr, one JSON line per slide on
 * stdout, the counts at the end.
 */

/* One slide in messages and JSON. */
struct outcome {
    const char *path;   /* or its anonymous name */
    const char *target; /* NULL when it is not known */
    size_t below;       /* path + below is its path below the folder that was given */
};

struct outcomes {
    const struct arguments *o;
    double begun;
    const struct codec *kept; /* of the last slide whose tiles were kept; NULL: there is none */
    char *kept_path;          /* its store, and its rows, columns and channels */
    int64_t kept_size[3];
    int64_t stopped, not_begun;   /* slides */
    struct crash_state done;      /* the others, and what a run after a crash takes over */
    struct failed_list *failures; /* NULL: the output is a file */
};

static void put_failure(void *ctx, const char *slide, const char *reason)
{
    const char *folder = strchr(slide, ' ') + 1; /* "BELOW PATH" */
    failed_list_add(ctx, folder, strtoul(slide, NULL, 10), reason);
}

/* `s`: what a run that crashed has done; see crash.h. -1: out of memory. */
static int outcomes_begin(struct outcomes *r, const struct arguments *o,
                          const struct crash_state *s, struct err *e)
{
    *r = (struct outcomes){.o = o, .begun = clock_now() - s->seconds, .done = *s};
    if (inputs_is_file(o->output))
        return 0;
    r->failures = failed_list_create(FAILED_STORES, o->output, o->task, o->tasks, o->anonymous, e);
    if (!r->failures)
        return -1;
    crash_failures(put_failure, r->failures);
    return 0;
}

/* --- JSON --- */

static void json_store(const struct convert_report *p)
{
    const struct store_info *s = &p->info;
    fields_json(store_fields, FIELD_ALL, s);
    json_text("codec", s->codec->name);
    json_int("groups", s->group_count);
    if (p->note[0])
        json_text("note", p->note);
    json_int("store_bytes", p->store_bytes);
    printf(", \"seconds\": %.3f", p->seconds);
}

/* `why` and `p` may be NULL. */
static void json_line(const struct outcome *i, const char *status, const struct convert_report *p,
                      const struct err *why)
{
    json_begin("input", i->path);
    json_text("kind", "slide");
    if (i->target)
        json_text("store", i->target);
    json_text("status", status);
    if (why && p) /* converted, with damage */
        json_text("message", why->msg);
    else if (why)
        json_failure(why);
    if (p)
        json_store(p);
    json_end_line(stdout);
}

/* --- slides --- */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* Writes what is damaged into *e. False when nothing is. */
static bool describe_damage(const struct outcome *i, const struct store_info *s, struct err *e)
{
    const bool problem = s->source_problem[0];
    if (s->tiles_damaged > 0)
        err_set(e,
                "%s: %" PRId64 " damaged tile%s, filled with the background%s%s%s; copy the slide "
                "again",
                i->path, s->tiles_damaged, plural(s->tiles_damaged), problem ? " (" : "",
                s->source_problem, problem ? ")" : "");
    else if (problem)
        err_set(e, "%s: the file is damaged (%s), but its pixels were read; copy the slide again",
                i->path, s->source_problem);
    return s->tiles_damaged > 0 || problem;
}

/* Remarks that are no errors. */
static void remark(const struct outcomes *r, const struct outcome *i,
                   const struct convert_report *p)
{
    char need[32];
    const struct store_info *s = &p->info;
    const int64_t stripe_bytes = s->stripe_rows * s->width * s->channels;
    if (p->was_stale)
        cli_say("%s: replaced, because %s has changed since", i->target, i->path);
    if (s->codec_reason[0] && r->o->convert.codec->keeps)
        cli_say("%s: stored with codec %s, %s", i->path, s->codec->name, s->codec_reason);
    if (p->note[0])
        cli_say("%s: %s", i->path, p->note);
    if (s->colour_conflict[0])
        cli_say("%s: warning: %s; check its colours", i->path, s->colour_conflict);
    if (s->tissue_missing[0])
        cli_say("%s: no tissue map: %s; --tissue-thresholds or --tissue-mask makes one", i->path,
                s->tissue_missing);
    if (s->tissue_doubt[0])
        cli_say("%s: the tissue map shows %s and may be wrong; " STORE_TISSUE_REMEDY
                " makes another",
                i->path, s->tissue_doubt);
    if (s->tiles_missing > 0)
        cli_say("%s: %" PRId64 " tile%s empty in the file (never scanned)", i->path,
                s->tiles_missing, s->tiles_missing == 1 ? " is" : "s are");
    if (r->o->group_bytes_given && r->o->convert.group_bytes < stripe_bytes)
        cli_say(
            "%s: a stripe has %s, which is more than --group-bytes; each group holds one stripe",
            i->path, number_size(need, (double)stripe_bytes));
}

static void note_kept(struct outcomes *r, const char *target, const struct store_info *s)
{
    const int64_t size[] = {s->height, s->width, s->channels};
    r->kept = s->codec;
    memcpy(r->kept_size, size, sizeof size);
    free(r->kept_path);
    r->kept_path = memory_print("%s", target);
}

/* A slide that is converted or skipped; p describes its store. */
static void outcomes_slide(struct outcomes *r, const struct outcome *i,
                           const struct convert_report *p)
{
    struct err e = {0};
    const bool skipped = p->outcome == CONVERT_SKIPPED;
    const bool damaged = describe_damage(i, &p->info, &e);
    if (damaged)
        cli_say("%s", e.msg);
    if (!r->o->quiet)
        remark(r, i, p);
    r->done.damaged += damaged;
    failed_list_done(r->failures, i->path);
    if (skipped)
        r->done.skipped++;
    else {
        r->done.converted++;
        if (p->info.codec->keeps)
            note_kept(r, i->target, &p->info);
        r->done.source_bytes += (double)p->info.source_bytes;
        r->done.store_bytes += (double)p->store_bytes;
        r->done.pixels += (double)p->info.width * (double)p->info.height;
    }
    if (r->o->json)
        json_line(i, skipped ? "skipped" : damaged ? "damaged" : "done", p, damaged ? &e : NULL);
}

/* A slide that has a store already, made with other options, is in no list. */
static void note_failure(struct outcomes *r, const struct outcome *i, const struct err *why)
{
    if (i->target && plan_has_store(i->path, i->target)) {
        failed_list_done(r->failures, i->path);
        return;
    }
    failed_list_add(r->failures, i->path, i->below, why->msg);
    char *row = memory_print("%zu %s", i->below, i->path);
    crash_failure(row, why->msg);
    free(row);
}

/* A slide without a store. The message names it. */
static void outcomes_failure(struct outcomes *r, const struct outcome *i, const struct err *why)
{
    r->done.failed++;
    r->done.trouble += err_is_trouble(why);
    note_failure(r, i, why);
    cli_say("%s", why->msg);
    if (r->o->json)
        json_line(i, "failed", NULL, why);
}

/* A signal: `left` slides are not done, the first of which was begun or not. */
static void outcomes_stop(struct outcomes *r, bool begun, size_t left)
{
    r->stopped = begun;
    r->not_begun = (int64_t)left - begun;
}

/* --- the end --- */

/* How other programs show kept tiles, unless their HDF5 does it by itself. */
static void say_plugin(const struct outcomes *r)
{
    char *command;
    if (!h5_plugin_command(r->kept, r->kept_path, r->kept_size, &command))
        cli_say("%s%s", command ? "other programs need the plug-in: " : "",
                command ? command : h5_plugin_missing(r->kept));
    free(command);
}

/* The last line: counts, rate, time, memory. */
static void outcomes_end(const struct outcomes *r)
{
    char counts[256], rate[128] = "", memory[32], time[32], in[32], out[32];
    const double seconds = clock_now() - r->begun;
    if (r->o->quiet)
        return;
    int n = snprintf(counts, sizeof counts,
                     "%" PRId64 " converted, %" PRId64 " skipped (up to date), %" PRId64
                     " with damaged tiles, %" PRId64 " failed",
                     r->done.converted, r->done.skipped, r->done.damaged, r->done.failed);
    if (r->stopped || r->not_begun)
        snprintf(counts + n, sizeof counts - (size_t)n,
                 ", %" PRId64 " stopped, %" PRId64 " not begun", r->stopped, r->not_begun);
    if (r->done.pixels > 0)
        snprintf(rate, sizeof rate, "%s of slides to %s of stores, %.1f MP/s, ",
                 number_size(in, r->done.source_bytes), number_size(out, r->done.store_bytes),
                 r->done.pixels / 1e6 / (seconds > 0 ? seconds : 1));
    cli_say("%s; %s%s, peak memory %s", counts, rate, clock_text(time, seconds),
            number_size(memory, (double)cli_peak_memory()));
    if (r->kept)
        say_plugin(r);
}

/* The exit status of a run that was not stopped. */
static int outcomes_status(const struct outcomes *r)
{
    return r->done.trouble                               ? EXIT_TROUBLE
           : r->done.failed                              ? EXIT_PART
           : r->done.damaged > 0 && !r->o->accept_damage ? EXIT_DAMAGED
                                                         : EXIT_DONE;
}

/*
 * --- the loop over slides ---
 *
 * A run of wsi2h5: the loop over its slides.
 */

struct batch {
    const struct arguments *o;
    struct inputs in;
    struct outcomes outcomes;
    size_t slides;            /* of all tasks */
    size_t *maker;            /* [slides] by number of the store: 1 + the input that has it, or 0 */
    size_t now;               /* the slide that is converted */
    struct crash_state state; /* state.next: the first slide of this run */
    char name[ANONYMOUS_NAME]; /* its name in messages, with --anonymous */
};

/* --- inputs --- */

static int gather(struct batch *b, char **words, int n, struct err *e)
{
    for (int k = 0; k < n; k++)
        inputs_add(&b->in, words[k]);
    if (b->o->list && inputs_add_list(&b->in, b->o->list, e))
        return -1;
    if (b->in.n == 0)
        return err_set(e, "%s: the list contains no slides", b->o->list);
    inputs_assign(&b->in, b->o->anonymous ? NULL : b->o->output, b->o->keep_tree);
    if (b->in.n == 0)
        return err_set(e, "%s: no slides, only other DICOM files", n > 0 ? words[0] : b->o->list);
    b->slides = b->in.n;
    inputs_share(&b->in, b->o->task, b->o->tasks);
    return 0;
}

/* Neither the store nor the key may be one of the files that are read. */
static int check_outputs(const struct batch *b, struct err *e)
{
    const struct arguments *o = b->o;
    char *const read[] = {(char *)o->list, (char *)o->convert.tissue_mask};
    const char *store = inputs_is_file(o->output) ? o->output : NULL;
    int bad = output_is_no_input("-o", store, read, 2, e) ||
              output_is_no_input("--key", o->key, read, 2, e);
    for (size_t k = 0; k < b->in.n && !bad; k++)
        bad = output_is_no_input("-o", store, &b->in.list[k].path, 1, e) ||
              output_is_no_input("--key", o->key, &b->in.list[k].path, 1, e);
    return bad ? -1 : 0;
}

/* As gather; after a crash what the run before has gathered. */
static int gather_once(struct batch *b, char **words, int n, struct err *e)
{
    const int list = crash_list();
    const int known = list < 0 ? 0 : inputs_load(&b->in, &b->slides, list, e);
    if (known)
        return known < 0 ? -1 : 0;
    if (gather(b, words, n, e))
        return -1;
    return list < 0 ? 0 : inputs_save(&b->in, b->slides, list, e);
}

static void list_skipped(const struct batch *b)
{
    char lost[512];
    if (!b->o->quiet && inputs_name_lost(&b->in, lost, sizeof lost))
        cli_say("%s", lost);
    for (size_t k = 0; k < b->in.n_skipped && b->o->verbose; k++)
        cli_say("%s: skipped: %s", b->in.skipped[k].path, b->in.skipped[k].why);
}

/* For other programs: PATH 0 PROBLEM 0 of each slide, without a problem PATH 0 0; before them, what
 * was left out as 0 TEXT 0. */
static int print_inputs(struct batch *b, char **words, int n)
{
    struct err e = {0};
    if (gather(b, words, n, &e))
        return cli_failed(&e);
    char lost[512];
    if (inputs_name_lost(&b->in, lost, sizeof lost))
        printf("%c%s%c", 0, lost, 0);
    for (size_t k = 0; k < b->in.n; k++) {
        const struct input *i = &b->in.list[k];
        printf("%s%c%s%c", i->path, 0, i->problem ? i->problem : "", 0);
    }
    return EXIT_SUCCESS;
}

/* --- slides --- */

static void show_progress(void *ctx, double fraction, double pixels)
{
    const struct batch *b = ctx;
    progress_show(fraction, (b->outcomes.done.pixels + fraction * pixels) / 1e6);
}

/* Finds the slide's anonymous name, notes it in the key file and makes its target. */
static int take_name(struct batch *b, struct input *i, struct err *e)
{
    const char *folder = b->o->output;
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    char name[ANONYMOUS_NAME];
    if (anonymous_name(i->path, name, e) || anonymous_note(b->o->key, name, i->path, e))
        return -1;
    memcpy(b->name, name, sizeof name);
    i->target = memory_print("%s%s%s.h5", folder, slash, name);
    return 0;
}

static int convert_one(struct batch *b, struct input *i, struct convert *ready,
                       struct convert_report *report, struct err *e)
{
    struct convert_options options = b->o->convert;
    const double n = (double)b->in.n;
    const int crashed = crash_signal((size_t)(i - b->in.list));
    if (crashed)
        return err_set(e,
                       "%s: the program or a library crashed while the slide was read (%s); give "
                       "the run more descriptors and memory, or copy the slide again",
                       i->path, strsignal(crashed));
    if (i->problem) {
        if (i->target)
            publish_clean(i->target); /* with --keep-tree in a folder of its own */
        return err_blame(e, i->problem_kind, "%s", i->problem);
    }
    if (i->target && b->maker[i->store])
        return inputs_clash(i, &b->in.list[b->maker[i->store] - 1], e);
    if (b->o->anonymous) {
        if (take_name(b, i, e))
            return -1;
        options.name = b->name;
    }
    if (b->o->keep_tree && folder_make_for(i->target, e)) {
        convert_free(ready);
        return err_add(e, "%s", i->path);
    }
    progress_item((int64_t)b->now, b->o->anonymous ? b->name : path_base_name(i->path),
                  (double)b->now / n, 1 / n);
    return convert_slide(i->path, i->target, &options, ready,
                         progress_is_on() ? show_progress : NULL, b, report, e);
}

/* More threads are of no use: writing takes a fifth of the time of a small slide. */
enum { MOST_PREPARING = 4 };

/* One slide in the parallel loop. */
struct slot {
    size_t number;
    struct convert *ready; /* NULL: nothing is prepared */
};

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    const struct batch *b = ctx;
    struct slot *s = slot;
    (void)e;
    *s = (struct slot){.number = b->state.next + (size_t)number};
    if (s->number >= b->in.n)
        return PIPE_END;
    return PIPE_ITEM;
}

/* Small slides are decoded and packed one per thread; the others are done in the sink, by all. */
static int work(void *ctx, void *slot, int thread, struct err *e)
{
    const struct batch *b = ctx;
    struct slot *s = slot;
    const struct input *i = &b->in.list[s->number];
    (void)thread, (void)e;
    crash_slide(s->number, false);
    if (b->in.n > 1 && b->o->convert.threads > 1 && i->target && !i->shared && !i->problem &&
        !stop_signal() && !crash_signal(s->number))
        s->ready = convert_prepare(i->path, i->target, &b->o->convert);
    return 0;
}

/* What a run that follows a crash begins with. */
static void note_state(struct batch *b)
{
    struct outcomes *o = &b->outcomes;
    fflush(stdout); /* lines of JSON would be lost */
    o->done.next = b->now + 1;
    o->done.seconds = clock_now() - o->begun;
    crash_note(&o->done);
}

/* -1: a signal stops the run. */
static int sink(void *ctx, void *slot, struct err *e)
{
    struct batch *b = ctx;
    struct slot *s = slot;
    struct input *i = &b->in.list[b->now = s->number];
    struct convert_report report;
    snprintf(b->name, sizeof b->name, "slide %zu of %zu", b->now + 1, b->in.n);
    const bool begun = !stop_check(e);
    crash_slide(s->number, true);
    const int bad = begun ? convert_one(b, i, s->ready, &report, e) : -1;
    const struct outcome o = {b->o->anonymous ? b->name : i->path, i->target,
                              b->o->anonymous ? 0 : i->below};
    if (!bad && !b->o->anonymous)
        b->maker[i->store] = b->now + 1;
    if (!begun)
        convert_free(s->ready);
    s->ready = NULL;
    if (b->o->anonymous)
        anonymous_mask(e, i->path, b->name);
    if (bad && stop_signal()) {
        cli_say("%s", e->msg);
        outcomes_stop(&b->outcomes, begun, b->in.n - b->now);
        return -1;
    }
    if (bad)
        outcomes_failure(&b->outcomes, &o, e);
    else
        outcomes_slide(&b->outcomes, &o, &report);
    note_state(b);
    return 0;
}

/* -1: the run ended before all slides were done. */
static int convert_all(struct batch *b, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int wanted = b->in.n > 1 ? b->o->convert.threads : 1;
    const int threads = wanted < MOST_PREPARING ? wanted : MOST_PREPARING, depth = threads + 2;
    struct slot *slots = memory_need((size_t)depth, sizeof *slots);
    store_init(); /* changes the environment, which only one thread may do */
    const int r = pipe_run(&ops, b, slots, sizeof *slots, depth, threads, e);
    for (int k = 0; k < depth; k++)
        convert_free(slots[k].ready);
    free(slots);
    return r;
}

/* One mask belongs to one slide. */
static int check_mask(const struct batch *b, struct err *e)
{
    struct stat st;
    const char *mask = b->o->convert.tissue_mask;
    if (!mask)
        return 0;
    if (stat(mask, &st))
        return err_sys(e, "--tissue-mask %s", mask);
    if (S_ISDIR(st.st_mode) || b->slides <= 1)
        return 0;
    return err_set(e,
                   "--tissue-mask %s: one file is the mask of one slide, but %zu slides are "
                   "given; name a folder with one file per slide",
                   mask, b->slides);
}

/* What is known of the slides before this one, with which a run begins that follows a crash. */
static void note_earlier(struct batch *b)
{
    b->maker = memory_need(b->slides + 1, sizeof *b->maker);
    for (size_t k = 0; k < b->state.next && k < b->in.n; k++) {
        const struct input *i = &b->in.list[k];
        if (!i->target || !plan_has_store(i->path, i->target))
            continue;
        b->maker[i->store] = k + 1;
        failed_list_done(b->outcomes.failures, i->path);
    }
}

/* However this run ends, and whichever slides it is given: what killed runs have left goes. */
static void clean_output(const char *output, bool is_file)
{
    if (is_file)
        publish_clean(output);
    else
        publish_clean_folder(output);
}

static int run_batch(struct batch *b, char **words, int n)
{
    struct err e = {0};
    const bool to_file = inputs_is_file(b->o->output);
    if (!to_file && folder_make(b->o->output, &e))
        return cli_failed(&e);
    clean_output(b->o->output, to_file);
    if (gather_once(b, words, n, &e))
        return cli_failed(&e);
    list_skipped(b);
    if (to_file && b->in.n > 1) {
        err_set(&e, "-o %s takes one slide; name a folder for several", b->o->output);
        return arguments_usage_error(&e);
    }
    if (check_outputs(b, &e) || check_mask(b, &e))
        return arguments_usage_error(&e);
    progress_begin(b->o->quiet ? PROGRESS_NO : b->o->progress, "slide", (int64_t)b->in.n, "MP/s");
    int bad = outcomes_begin(&b->outcomes, b->o, &b->state, &e);
    note_earlier(b);
    bad = bad || convert_all(b, &e) || failed_list_write(b->outcomes.failures, b->o->quiet, &e);
    progress_end();
    const int failed = bad && !stop_signal() ? cli_failed(&e) : EXIT_STOPPED;
    outcomes_end(&b->outcomes);
    return bad ? failed : outcomes_status(&b->outcomes);
}

/* Converts the slides that the words and --list name. Returns the exit status. */
static int batch_run(const struct arguments *o, int argc, char **argv, int first)
{
    struct batch b = {.o = o};
    stop_catch_signals();
    if (!o->print_inputs && (!o->list || strcmp(o->list, "-") != 0))
        crash_begin(argv, &b.state);
    const int status = (o->print_inputs ? print_inputs : run_batch)(&b, argv + first, argc - first);
    failed_list_free(b.outcomes.failures);
    free(b.outcomes.kept_path);
    inputs_free(&b.in);
    free(b.maker);
    return status;
}

/* --- main --- */

int main(int argc, char **argv)
{
    struct arguments o;
    int first;
    cli_start("wsi2h5");
    tile_silence_library();
    /* The libraries allocate and free areas of some 100 KiB for every tile. Without this the kernel
     * clears their pages anew each time. */
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
    int status = arguments_parse(argc, argv, &o, &first);
    if (status < 0)
        status = batch_run(&o, argc, argv, first);
    h5_exit(cli_finish(status));
}
