/* outcomes.c - see outcomes.h. */
#include "convert/outcomes.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/hdf5/h5_plugin.h"
#include "convert/inputs.h"
#include "convert/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_failure(void *ctx, const char *slide, const char *reason)
{
    const char *folder = strchr(slide, ' ') + 1; /* "BELOW PATH" */
    failed_list_add(ctx, folder, strtoul(slide, NULL, 10), reason);
}

int outcomes_begin(struct outcomes *r, const struct arguments *o, const struct crash_state *s,
                   struct err *e)
{
    *r = (struct outcomes){.o = o,
                           .begun = clock_now() - s->seconds,
                           .converted = s->converted,
                           .skipped = s->skipped,
                           .damaged = s->damaged,
                           .failed = s->failed,
                           .trouble = s->trouble,
                           .source_bytes = s->source_bytes,
                           .store_bytes = s->store_bytes,
                           .pixels = s->pixels};
    if (inputs_is_file(o->output))
        return 0;
    r->failures = failed_list_create(FAILED_STORES, o->output, o->task, o->tasks, o->anonymous, e);
    if (!r->failures)
        return -1;
    crash_failures(put_failure, r->failures);
    return 0;
}

void outcomes_free(struct outcomes *r)
{
    failed_list_free(r->failures);
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
    if (why)
        json_text("message", why->msg);
    if (why && !p)
        json_text("cause", err_is_trouble(why) ? "trouble" : "input");
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
    if (s->codec_reason[0] && codec_keeps(r->o->convert.codec))
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

void outcomes_slide(struct outcomes *r, const struct outcome *i, const struct convert_report *p)
{
    struct err e = {""};
    const bool skipped = p->outcome == CONVERT_SKIPPED;
    const bool damaged = describe_damage(i, &p->info, &e);
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
        r->kept = codec_keeps(p->info.codec) ? p->info.codec : r->kept;
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
    failed_list_add(r->failures, i->path, i->below, why->msg);
    char *row = memory_print("%zu %s", i->below, i->path);
    crash_failure(row, why->msg);
    free(row);
}

void outcomes_failure(struct outcomes *r, const struct outcome *i, const struct err *why)
{
    r->failed++;
    r->trouble += err_is_trouble(why);
    note_failure(r, i, why);
    cli_say("%s", why->msg);
    if (r->o->json)
        json_line(i, "failed", NULL, why);
}

void outcomes_stop(struct outcomes *r, bool begun, size_t left)
{
    r->stopped = begun;
    r->not_begun = (int64_t)left - begun;
}

/* --- the end --- */

int outcomes_list_failures(struct outcomes *r, struct err *e)
{
    if (!r->failures)
        return 0;
    const int64_t n = failed_list_count(r->failures);
    if (failed_list_write(r->failures, e))
        return -1;
    if (n > 0 && !r->o->quiet)
        cli_say("%s lists %" PRId64 " slide%s without a store, for h5spec report --failed",
                failed_list_path(r->failures), n, plural(n));
    return 0;
}

void outcomes_end(const struct outcomes *r)
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
            number_size(memory, (double)cli_peak_memory()));
    const char *advice = r->kept ? h5_plugin_advice(r->kept) : "";
    if (*advice)
        cli_say("other programs read stores of codec %s after: %s", r->kept->name, advice);
}

int outcomes_status(const struct outcomes *r)
{
    return r->trouble                               ? EXIT_TROUBLE
           : r->failed                              ? EXIT_PART
           : r->damaged > 0 && !r->o->accept_damage ? EXIT_DAMAGED
                                                    : EXIT_DONE;
}
