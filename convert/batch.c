/* batch.c - see batch.h. */
#include "convert/batch.h"

#include "common/cli.h"
#include "common/folder.h"
#include "common/progress.h"
#include "common/stop.h"
#include "convert/inputs.h"
#include "convert/outcomes.h"

#include <stdio.h>
#include <string.h>

struct batch {
    const struct arguments *o;
    struct inputs in;
    struct outcomes outcomes;
    size_t now; /* the slide that is converted */
};

/* --- inputs --- */

static int gather(struct batch *b, char **words, int n, struct err *e)
{
    for (int k = 0; k < n; k++)
        if (inputs_add(&b->in, words[k], e))
            return -1;
    if (b->o->list && inputs_add_list(&b->in, b->o->list, e))
        return -1;
    if (b->in.n == 0)
        return err_set(e, "%s: names no slide", b->o->list);
    if (inputs_assign(&b->in, b->o->output, b->o->keep_tree, e))
        return -1;
    inputs_share(&b->in, b->o->task, b->o->tasks);
    return 0;
}

static void list_skipped(const struct batch *b)
{
    for (size_t k = 0; k < b->in.n_skipped && b->o->verbose; k++)
        cli_say("%s: skipped: %s", b->in.skipped[k].path, b->in.skipped[k].why);
}

/* --- slides --- */

static void show_progress(void *ctx, double fraction, double pixels)
{
    struct batch *b = ctx;
    const double n = (double)b->in.n;
    progress_item((int64_t)b->now, cli_base_name(b->in.list[b->now].path), (double)b->now / n,
                  1 / n);
    progress_show(fraction, (b->outcomes.pixels + fraction * pixels) / 1e6);
}

static int convert_one(struct batch *b, const struct input *i, struct convert_report *report,
                       struct err *e)
{
    if (i->problem)
        return err_set(e, "%s", i->problem);
    if (b->o->keep_tree && folder_make_for(i->target, e))
        return err_add(e, "%s", i->path);
    return convert_slide(i->path, i->target, &b->o->convert, show_progress, b, report, e);
}

/* -1: a signal stopped the run before all slides were done. */
static int convert_all(struct batch *b)
{
    struct err e = {""};
    for (b->now = 0; b->now < b->in.n; b->now++) {
        const struct input *i = &b->in.list[b->now];
        struct convert_report report;
        const bool begun = !stop_check(&e);
        const int bad = begun ? convert_one(b, i, &report, &e) : -1;
        if (bad && stop_signal()) {
            cli_say("%s", e.msg);
            outcomes_stop(&b->outcomes, begun, b->in.n - b->now);
            return -1;
        }
        if (bad)
            outcomes_failure(&b->outcomes, i, e.msg);
        else
            outcomes_slide(&b->outcomes, i, &report);
    }
    return 0;
}

static int run_batch(struct batch *b, char **words, int n)
{
    struct err e = {""};
    const bool to_file = inputs_is_file(b->o->output);
    if (!to_file && folder_make(b->o->output, &e)) {
        cli_say("%s", e.msg);
        return EXIT_PART;
    }
    if (gather(b, words, n, &e)) {
        cli_say("%s", e.msg);
        return EXIT_PART;
    }
    list_skipped(b);
    if (to_file && b->in.n > 1) {
        err_set(&e, "-o %s takes one slide; name a folder for several", b->o->output);
        return arguments_usage_error(&e);
    }
    progress_begin(b->o->quiet ? CLI_NO : b->o->progress, "slide", (int64_t)b->in.n, "MP/s");
    outcomes_begin(&b->outcomes, b->o);
    const int stopped = convert_all(b);
    progress_end();
    outcomes_end(&b->outcomes);
    return stopped ? EXIT_STOPPED : outcomes_status(&b->outcomes);
}

int batch_run(const struct arguments *o, char **words, int n)
{
    struct batch b = {.o = o};
    stop_catch_signals();
    const int status = run_batch(&b, words, n);
    inputs_free(&b.in);
    return status;
}
