/* batch.c - see batch.h. */
#include "convert/batch.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/pipe.h"
#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "convert/crash.h"
#include "convert/inputs.h"
#include "convert/outcomes.h"
#include "convert/plan.h"
#include "convert/privacy/anonymous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    for (size_t k = 0; k < b->in.n_skipped && b->o->verbose; k++)
        cli_say("%s: skipped: %s", b->in.skipped[k].path, b->in.skipped[k].why);
}

/* For other programs: PATH 0 PROBLEM 0 of each slide, without a problem PATH 0 0. */
static int print_inputs(struct batch *b, char **words, int n)
{
    struct err e = {""};
    if (gather(b, words, n, &e))
        return cli_failed(&e);
    for (size_t k = 0; k < b->in.n; k++) {
        const struct input *i = &b->in.list[k];
        printf("%s%c%s%c", i->path, 0, i->problem ? i->problem : "", 0);
    }
    return EXIT_SUCCESS;
}

/* --- slides --- */

static void show_progress(void *ctx, double fraction, double pixels)
{
    struct batch *b = ctx;
    const double n = (double)b->in.n;
    const char *name = b->o->anonymous ? b->name : path_base_name(b->in.list[b->now].path);
    progress_item((int64_t)b->now, name, (double)b->now / n, 1 / n);
    progress_show(fraction, (b->outcomes.pixels + fraction * pixels) / 1e6);
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
    const int crashed = crash_signal((size_t)(i - b->in.list));
    if (crashed)
        return err_set(e,
                       "%s: the program or a library crashed while the slide was read (%s); give "
                       "the run more descriptors and memory, or copy the slide again",
                       i->path, strsignal(crashed));
    if (i->problem) {
        if (i->target)
            publish_clean(i->target); /* with --keep-tree in a folder of its own */
        return err_set(e, "%s", i->problem);
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
    return convert_slide(i->path, i->target, &options, ready, show_progress, b, report, e);
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
static void note_state(const struct batch *b)
{
    const struct outcomes *o = &b->outcomes;
    fflush(stdout); /* lines of JSON would be lost */
    crash_note(&(struct crash_state){.next = b->now + 1,
                                     .converted = o->converted,
                                     .skipped = o->skipped,
                                     .damaged = o->damaged,
                                     .failed = o->failed,
                                     .trouble = o->trouble,
                                     .source_bytes = o->source_bytes,
                                     .store_bytes = o->store_bytes,
                                     .pixels = o->pixels,
                                     .seconds = clock_now() - o->begun});
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
    struct err e = {""};
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
    bad = bad || convert_all(b, &e) || outcomes_list_failures(&b->outcomes, &e);
    progress_end();
    const int failed = bad && !stop_signal() ? cli_failed(&e) : EXIT_STOPPED;
    outcomes_end(&b->outcomes);
    return bad ? failed : outcomes_status(&b->outcomes);
}

int batch_run(const struct arguments *o, int argc, char **argv, int first)
{
    struct batch b = {.o = o};
    stop_catch_signals();
    if (!o->print_inputs && (!o->list || strcmp(o->list, "-") != 0))
        crash_begin(argv, &b.state);
    const int status = (o->print_inputs ? print_inputs : run_batch)(&b, argv + first, argc - first);
    outcomes_free(&b.outcomes);
    inputs_free(&b.in);
    free(b.maker);
    return status;
}
