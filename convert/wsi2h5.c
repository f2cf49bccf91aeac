/*
 * wsi2h5.c - a run of wsi2h5: the loop over its slides, and what it says about them. arguments.h
 * reads the command line, convert.h does the work.
 */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/crew_line.h"
#include "common/base/failed_list.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_library.h"
#include "convert/arguments.h"
#include "convert/convert.h"
#include "convert/inputs.h"
#include "convert/plan.h"
#include "convert/privacy/identifiers.h"
#include "convert/tile/tile_lossless.h"

#include <inttypes.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    const char *output; /* the store below the output folder; "": not known, or another's */
};

struct outcomes {
    const struct arguments *o;
    double begun;
    const struct codec *kept; /* of the last slide whose tiles were kept; NULL: there is none */
    char *kept_path;          /* its store, and its rows, columns and channels */
    int64_t kept_size[3];
    /* slides */
    int64_t converted, skipped, damaged, failed, stopped, not_begun;
    int64_t trouble;                          /* of those failed: err_is_trouble */
    int64_t others;                           /* of those failed: made with other options */
    struct err other, other_message;          /* with which the first of them was made, and that */
    double source_bytes, store_bytes, pixels; /* of converted slides */
    struct failed_list *failures;             /* NULL: the output is a file */
    int64_t memory;                           /* the processes' peaks, bytes */
};

static int outcomes_begin(struct outcomes *r, const struct arguments *o, struct err *e)
{
    *r = (struct outcomes){.o = o, .begun = clock_now()};
    if (inputs_is_file(o->output))
        return 0;
    r->failures = failed_list_create(FAILED_STORES, o->output, o->task, o->tasks, o->key, e);
    return r->failures ? 0 : -1;
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
    if (s->source_problem[0])
        json_text("problem", s->source_problem);
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

/* Writes what is damaged into *e. False when nothing is. A tile that the decoder refuses can be as
 * its scanner wrote it. */
static bool describe_damage(const struct outcome *i, const struct convert_report *p, struct err *e)
{
    const struct store_info *s = &p->info;
    const bool refused = p->refusal[0];
    if (s->tiles_damaged > 0)
        err_set(e,
                "%s: %" PRId64 " damaged tile%s, filled with the background%s%s%s; copy the slide "
                "again%s and convert it with --force",
                i->path, s->tiles_damaged, plural(s->tiles_damaged), refused ? " (" : "",
                p->refusal, refused ? ")" : "", refused ? ", or export it again," : "");
    return s->tiles_damaged > 0;
}

/* Remarks that are no errors. */
static void remark(const struct outcomes *r, const struct outcome *i,
                   const struct convert_report *p)
{
    char need[32];
    const struct store_info *s = &p->info;
    const int64_t stripe_bytes = s->stripe_rows * s->width * s->channels;
    if (p->image)
        cli_say(
            "%s: the OME-Zarr image beside it showed another store%s; `wsi-store zarr` makes it "
            "again",
            i->target, p->image == CONVERT_IMAGE_REMOVED ? " and was removed" : "");
    if (p->was_stale)
        cli_say("%s: replaced, because %s has changed since", i->target, i->path);
    if (s->codec_reason[0] && r->o->convert.codec->keeps)
        cli_say("%s: stored with codec %s, %s", i->path, s->codec->name, s->codec_reason);
    if (p->note[0])
        cli_say("%s: %s", i->path, p->note);
    if (s->interpolated[0])
        cli_say("%s: level %" PRId64 " is interpolated: %s; level 0 has its own pixels", i->path,
                s->level, s->interpolated);
    if (s->source_problem[0])
        cli_say("%s: %s; the pixels do not depend on it", i->path, s->source_problem);
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
    const bool damaged = describe_damage(i, p, &e);
    if (damaged)
        cli_say("%s", e.msg);
    if (!r->o->quiet)
        remark(r, i, p);
    r->damaged += damaged;
    failed_list_done(r->failures, i->path);
    if (skipped)
        r->skipped++;
    else {
        r->converted++;
        if (p->info.codec->keeps)
            note_kept(r, i->target, &p->info);
        r->source_bytes += (double)p->info.source_bytes;
        r->store_bytes += (double)p->store_bytes;
        r->pixels += (double)p->info.width * (double)p->info.height;
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
    failed_list_add(r->failures, i->path, i->below, i->output, why->msg);
}

/* One line says of all slides that their stores were made with other options. */
static void note_other(struct outcomes *r, const struct err *why, const char *how)
{
    if (r->others++ > 0)
        return;
    err_set(&r->other, "%s", how);
    err_copy(&r->other_message, why);
}

static void say_others(const struct outcomes *r, int64_t slides)
{
    if (r->others == 1)
        cli_say("%s", r->other_message.msg);
    else if (r->others > 1)
        cli_say("%s: %" PRId64 " of %" PRId64 " slides have a store made with other options (the "
                "first: %s), which is kept; use another folder, or --force to replace them",
                r->o->output, r->others, slides, r->other.msg);
}

/* A slide without a store. The message names it. */
static void outcomes_failure(struct outcomes *r, const struct outcome *i,
                             const struct convert_report *p, const struct err *why)
{
    r->failed++;
    r->trouble += err_is_trouble(why);
    note_failure(r, i, why);
    if (p->other_options[0])
        note_other(r, why, p->other_options);
    else
        cli_say("%s", why->msg);
    if (r->o->json)
        json_line(i, "failed", NULL, why);
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
                     r->converted, r->skipped, r->damaged, r->failed);
    if (r->stopped || r->not_begun)
        snprintf(counts + n, sizeof counts - (size_t)n,
                 ", %" PRId64 " stopped, %" PRId64 " not begun", r->stopped, r->not_begun);
    if (r->pixels > 0)
        snprintf(rate, sizeof rate, "%s of slides to %s of stores, %.1f MP/s, ",
                 number_size(in, r->source_bytes), number_size(out, r->store_bytes),
                 r->pixels / 1e6 / (seconds > 0 ? seconds : 1));
    cli_say("%s; %s%s, peak memory %s", counts, rate, clock_text(time, seconds),
            number_size(memory, (double)r->memory));
    if (r->kept)
        say_plugin(r);
}

/* The exit status of a run that was not stopped. */
static int outcomes_status(const struct outcomes *r)
{
    return r->trouble                               ? EXIT_TROUBLE
           : r->failed                              ? EXIT_PART
           : r->damaged > 0 && !r->o->accept_damage ? EXIT_DAMAGED
                                                    : EXIT_DONE;
}

/*
 * --- the loop over slides ---
 *
 * Slides are converted at once, each in a process of its own: a crash costs one slide, and HDF5's
 * lock is each one's own. They begin in order, and what there is to say about them is said in order
 * (crew_line.h).
 */

/* More threads make a slide of kept tiles slower: one thread writes. */
enum { MOST_KEEPING = 16 };
/* The report of the process that converts a slide. */
struct answer {
    int bad;
    bool stopped; /* by a signal */
    struct err why;
    struct convert_report report;
    char name[ANONYMOUS_NAME]; /* "": it has none yet */
};

struct batch {
    const struct arguments *o;
    struct inputs in;
    struct outcomes outcomes;
    size_t *maker;  /* [in.n_targets] by target_number: 1 + the input that has it, or 0 */
    int members;    /* processes, at most */
    bool stop_said; /* that a signal ended a slide */
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
    inputs_assign(&b->in, b->o->key ? NULL : b->o->output, b->o->keep_tree);
    if (b->in.n == 0)
        return err_set(e, "%s: no slides, only other DICOM files", n > 0 ? words[0] : b->o->list);
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
              output_is_no_input("--anonymous", o->key, read, 2, e);
    for (size_t k = 0; k < b->in.n && !bad; k++)
        bad = output_is_no_input("-o", store, &b->in.list[k].path, 1, e) ||
              output_is_no_input("--anonymous", o->key, &b->in.list[k].path, 1, e);
    return bad ? -1 : 0;
}

static void say_lost(const struct batch *b)
{
    char lost[600];
    if (!b->o->quiet && inputs_name_lost(&b->in, lost, sizeof lost))
        cli_say("%s", lost);
}

/* For other programs: PATH 0 PROBLEM 0 of each slide, without a problem PATH 0 0; before them, what
 * was left out as 0 TEXT 0. For people, on stderr: what the search skipped. */
static int print_inputs(struct batch *b, char **words, int n)
{
    struct err e = {0};
    if (gather(b, words, n, &e))
        return cli_failed(&e);
    char lost[600];
    if (inputs_name_lost(&b->in, lost, sizeof lost))
        printf("%c%s%c", 0, lost, 0);
    for (size_t k = 0; k < b->in.n; k++) {
        const struct input *i = &b->in.list[k];
        printf("%s%c%s%c", i->path, 0, i->problem ? i->problem : "", 0);
    }
    for (size_t k = 0; k < b->in.n_skipped && !b->o->quiet; k++)
        cli_say("%s: skipped: %s", b->in.skipped[k].path, b->in.skipped[k].why);
    return EXIT_SUCCESS;
}

/* --- a slide, in its process --- */

static void note_progress(void *ctx, double fraction, double pixels)
{
    struct crew_seat *seat = ctx;
    atomic_store(&seat->amount, fraction * pixels);
    atomic_store(&seat->fraction, fraction);
}

/* Threads that the slide may use at most. Of the last slides each gets, as others end, more than
 * its share of now. */
static int threads_for(const struct batch *b, int64_t item, const struct crew_seat *seat)
{
    const int all = b->o->convert.threads, share = atomic_load(&seat->threads);
    const int most = b->o->convert.codec->keeps && all > MOST_KEEPING ? MOST_KEEPING : all;
    return (int64_t)b->in.n - item <= b->members ? most : share;
}

/* Finds the slide's anonymous name, has the parent note it in the key file, and makes its target.
 */
static int take_name(struct batch *b, struct input *i, struct crew_seat *seat, struct answer *a)
{
    const char *folder = b->o->output;
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    if (anonymous_name(i->path, a->name, &a->why)) {
        a->name[0] = 0;
        return -1;
    }
    if (!crew_ask(seat, a))
        return stop_check(&a->why) ? -1 : err_set(&a->why, "given up");
    i->target = memory_print("%s%s%s.h5", folder, slash, a->name);
    return 0;
}

static void convert_one(struct batch *b, struct input *i, int64_t item, struct crew_seat *seat,
                        struct answer *a)
{
    struct convert_options options = b->o->convert;
    options.threads = threads_for(b, item, seat);
    options.threads_now = &seat->threads;
    a->bad = 1;
    if (b->o->key) {
        if (take_name(b, i, seat, a))
            return;
        options.name = a->name;
    }
    if (b->o->keep_tree && folder_make_for(i->target, &a->why)) {
        err_add(&a->why, "%s", i->path);
        return;
    }
    a->bad = convert_slide(i->path, i->target, &options, progress_is_on() ? note_progress : NULL,
                           seat, &a->report, &a->why);
}

static void work(void *ctx, int64_t item, struct crew_seat *seat, void *answer)
{
    struct batch *b = ctx;
    struct answer *a = answer;
    convert_one(b, &b->in.list[item], item, seat, a);
    a->stopped = stop_signal() != 0;
    if (a->bad && a->stopped) /* if somebody stops this process alone, another try may succeed */
        a->why.kind = ERR_TROUBLE;
}

/* --- the slides, in the parent --- */

static void arrive(void *ctx, int64_t k, const void *answer)
{
    struct batch *b = ctx;
    const struct answer *a = answer;
    if (!a->bad && !b->o->key)
        b->maker[b->in.list[k].target_number] = (size_t)k + 1;
}

/* If it had a name, the answer has it. */
static void died(void *ctx, int64_t k, int status, void *answer)
{
    const struct batch *b = ctx;
    const struct input *i = &b->in.list[k];
    struct answer *a = answer;
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    a->bad = 1;
    a->stopped = stop_signal() != 0;
    if (number == SIGKILL || (!number && WEXITSTATUS(status) == EXIT_TROUBLE))
        err_blame(&a->why, ERR_MEMORY,
                  "%s: its process was ended, as happens when memory is short; try again, with "
                  "fewer --slides at once",
                  i->path);
    else
        err_set(&a->why,
                "%s: the program or a library crashed while the slide was read (%s); give "
                "the run more descriptors and memory, or copy the slide again",
                i->path, number ? strsignal(number) : "see above");
}

/* The slide is done without a process: it has a problem, or its store is another's. */
static bool is_decided(struct batch *b, int64_t k, struct answer *a)
{
    struct input *i = &b->in.list[k];
    if (i->problem) {
        if (i->target)
            publish_clean(i->target); /* with --keep-tree in a folder of its own */
        err_blame(&a->why, i->problem_kind, "%s", i->problem);
    } else if (i->target && b->maker[i->target_number])
        inputs_clash(i, &b->in.list[b->maker[i->target_number] - 1], &a->why);
    else
        return false;
    a->bad = 1;
    return true;
}

/* Does a slide before k that is being converted have the same store? */
static bool store_is_busy(const struct batch *b, const struct crew_line *l, int64_t k)
{
    const struct input *i = &b->in.list[k];
    for (int64_t j = crew_line_first(l); j < k; j++) {
        const struct input *other = &b->in.list[j];
        if (crew_line_at_work(l, j) && other->target && i->target &&
            !strcmp(i->target, other->target))
            return true;
    }
    return false;
}

static enum crew_line_word decide(void *ctx, const struct crew_line *l, int64_t k, void *answer)
{
    struct batch *b = ctx;
    if (b->in.list[k].shared && store_is_busy(b, l, k))
        return CREW_LINE_LATER;
    return is_decided(b, k, answer) ? CREW_LINE_NO : CREW_LINE_YES;
}

/* May the slide use its name? In order, so that the key file is. */
static enum crew_line_word allow(void *ctx, const struct crew_line *l, int64_t k, void *answer)
{
    struct batch *b = ctx;
    struct answer *a = answer;
    struct input *i = &b->in.list[k];
    const char *folder = b->o->output;
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    free(i->target);
    i->target = memory_print("%s%s%s.h5", folder, slash, a->name);
    if (store_is_busy(b, l, k))
        return CREW_LINE_LATER;
    if (!anonymous_note(b->o->key, a->name, i->path, &a->why))
        return CREW_LINE_YES;
    a->bad = 1;
    a->stopped = stop_signal() != 0;
    return CREW_LINE_NO;
}

/* --- reports, in order --- */

/* The store of a slide below the output folder, if it is no other slide's. */
static const char *output_of(const struct batch *b, const struct input *i)
{
    const size_t n = strlen(b->o->output);
    const bool below = i->target && i->alone && !strncmp(i->target, b->o->output, n);
    const bool own = below && !plan_has_others_store(i->path, i->target);
    return own ? i->target + n + strspn(i->target + n, "/") : "";
}

static int report(void *ctx, int64_t k, void *answer, struct err *e)
{
    struct batch *b = ctx;
    struct input *i = &b->in.list[k];
    struct answer *a = answer;
    char name[ANONYMOUS_NAME];
    (void)e;
    if (!a) {
        b->outcomes.stopped++;
        return 1;
    }
    snprintf(name, sizeof name, "slide %" PRId64 " of %zu", k + 1, b->in.n);
    const char *shown = !b->o->key ? i->path : a->name[0] ? a->name : name;
    const struct outcome o = {shown, i->target, b->o->key ? 0 : i->below, output_of(b, i)};
    const bool stopped = a->bad && a->stopped && stop_signal();
    if (b->o->key)
        anonymous_mask(&a->why, &(struct anonymous){i->path, b->o->convert.tissue_mask, shown});
    if (stopped) {
        if (!b->stop_said)
            cli_say("%s", a->why.msg);
        b->stop_said = true;
        b->outcomes.stopped++;
    } else if (a->bad)
        outcomes_failure(&b->outcomes, &o, &a->report, &a->why);
    else
        outcomes_slide(&b->outcomes, &o, &a->report);
    fflush(stdout);
    return stopped;
}

/* The first slide at work stands for all of them. */
static void show(void *ctx, const struct crew_line *l)
{
    const struct batch *b = ctx;
    const struct crew_seat *first = NULL, *seat;
    int64_t done = crew_line_first(l), shown = done;
    double parts = 0, pixels = b->outcomes.pixels;
    if (!progress_is_on())
        return;
    for (int64_t k = crew_line_first(l); k < crew_line_end(l); k++) {
        if (!crew_line_at_work(l, k))
            done++;
        else if ((seat = crew_line_seat(l, k))) {
            shown = first ? shown : k;
            first = first ? first : seat;
            parts += seat == first ? 0 : atomic_load(&seat->fraction);
            pixels += atomic_load(&seat->amount);
        }
    }
    if (!first)
        return;
    const double n = (double)b->in.n;
    const char *path = b->in.list[shown].path;
    progress_item(shown, b->o->key ? "" : path_base_name(path), ((double)done + parts) / n, 1 / n);
    progress_show(atomic_load(&first->fraction), pixels / 1e6);
}

/* --- all slides --- */

/* -1: the run ended before all slides were done. */
static int convert_all(struct batch *b, struct err *e)
{
    const int cores = b->o->convert.threads;
    const int at_once = b->o->slides > 0 ? (int)b->o->slides : cores;
    b->members = (size_t)at_once < b->in.n ? at_once : (int)b->in.n;
    const struct crew_line_setup s = {.crew = {.members = b->members > 0 ? b->members : 1,
                                               .cores = cores,
                                               .answer_bytes = sizeof(struct answer),
                                               .work = work,
                                               .leave = h5_exit,
                                               .ctx = b},
                                      .items = (int64_t)b->in.n,
                                      .decide = decide,
                                      .allow = allow,
                                      .died = died,
                                      .arrive = arrive,
                                      .report = report,
                                      .show = show};
    struct crew_line_end end;
    store_init(); /* changes the environment, which only one thread may do */
    const int bad = crew_line_run(&s, &end, e);
    b->outcomes.memory = cli_peak_memory() + end.peak_memory;
    if (bad && end.refused)
        return b->o->key ? -1 : err_add(e, "%s", b->in.list[end.begun].path);
    if (bad && stop_signal()) {
        b->outcomes.not_begun = (int64_t)b->in.n - end.begun;
        if (!b->stop_said)
            cli_say("%s", e->msg);
    }
    return bad;
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
    if (S_ISDIR(st.st_mode) || b->in.n_targets <= 1)
        return 0;
    return err_set(e,
                   "--tissue-mask %s: one file is the mask of one slide, but %zu slides are "
                   "given; name a folder with one file per slide",
                   mask, b->in.n_targets);
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
    if (gather(b, words, n, &e))
        return cli_failed(&e);
    say_lost(b);
    if (to_file && b->in.n > 1) {
        err_set(&e, "-o %s takes one slide; name a folder for several", b->o->output);
        return arguments_usage_error(&e);
    }
    if (check_outputs(b, &e) || check_mask(b, &e))
        return arguments_usage_error(&e);
    progress_begin(b->o->quiet ? PROGRESS_NO : b->o->progress, "slide", (int64_t)b->in.n, "MP/s");
    int bad = outcomes_begin(&b->outcomes, b->o, &e);
    b->maker = memory_need(b->in.n_targets, sizeof *b->maker);
    bad = bad || convert_all(b, &e) || failed_list_write(b->outcomes.failures, b->o->quiet, &e);
    progress_end();
    const int failed = bad && !stop_signal() ? cli_failed(&e) : EXIT_STOPPED;
    say_others(&b->outcomes, (int64_t)b->in.n);
    outcomes_end(&b->outcomes);
    return bad ? failed : outcomes_status(&b->outcomes);
}

/* Converts the slides that the words and --list name. Returns the exit status. */
static int batch_run(const struct arguments *o, int argc, char **argv, int first)
{
    struct batch b = {.o = o};
    stop_catch_signals();
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
    tile_lossless_silence();
    /* The libraries allocate and free areas of some 100 KiB for every tile. Without this the kernel
     * clears their pages anew each time. */
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
    int status = arguments_parse(argc, argv, &o, &first);
    if (status < 0)
        status = batch_run(&o, argc, argv, first);
    h5_exit(cli_finish(status));
}
