/* verify_command.c - see verify_command.h. */
#include "process/commands/verify_command.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "process/commands/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct job {
    const struct options *o;
    double *bytes; /* [n + 1]: size of the files before file k */
    int k;         /* the file being read */
    int64_t valid, bad;
    int64_t trouble; /* of those that failed: of the machine, not of the file */
};

/* What was found in a file. */
struct finding {
    const char *path;
    bool is_result, valid;
    struct verify_report store;
    int64_t slides, windows; /* of a result */
    struct err why;
};

static void show_progress(void *ctx, double fraction)
{
    const struct job *v = ctx;
    const double before = v->bytes[v->k], size = v->bytes[v->k + 1] - before;
    const double all = v->bytes[v->o->files.n];
    progress_item(v->k, path_base_name(v->o->files.paths[v->k]), before / all, size / all);
    progress_show(fraction, (before + fraction * size) / 1e6);
}

/* --- reports --- */

static void print_text(const struct finding *f)
{
    const struct verify_report *s = &f->store;
    char size[32];
    cli_print_text(stdout, f->path);
    if (f->is_result) {
        printf(": valid result: %" PRId64 " slide%s, %" PRId64 " windows\n", f->slides,
               f->slides == 1 ? "" : "s", f->windows);
        return;
    }
    printf(": valid: %" PRId64 " chunk%s, %s", s->chunks, s->chunks == 1 ? "" : "s",
           number_size(size, (double)s->bytes));
    if (s->missing + s->damaged + s->left_out > 0)
        printf("; tiles of the slide: %" PRId64 " missing, %" PRId64 " damaged, %" PRId64
               " left out",
               s->missing, s->damaged, s->left_out);
    puts("");
}

static void print_json(const struct finding *f)
{
    const struct verify_report *s = &f->store;
    json_begin("input", f->path);
    json_text("kind", f->is_result ? "result" : "store");
    json_text("status", f->valid ? "valid" : "failed");
    if (f->is_result) {
        json_int("slides", f->slides);
        json_int("windows", f->windows);
    } else {
        json_int("chunks", s->chunks);
        json_int("bytes", s->bytes);
        json_int("damaged_chunks", s->bad);
        json_int("tiles_missing", s->missing);
        json_int("tiles_damaged", s->damaged);
        json_int("tiles_left_out", s->left_out);
    }
    if (!f->valid) {
        json_text("message", f->why.msg);
        json_text("cause", err_is_trouble(&f->why) ? "trouble" : "input");
    }
    puts("}");
}

static void report(struct job *v, const struct finding *f)
{
    v->valid += f->valid;
    v->bad += !f->valid;
    v->trouble += !f->valid && err_is_trouble(&f->why);
    progress_clear();
    if (v->o->json)
        print_json(f);
    else if (f->valid && !v->o->quiet)
        print_text(f);
    fflush(stdout);
    if (!f->valid)
        cli_say("%s", f->why.msg);
}

static void last_line(const struct job *v, double bytes, double seconds)
{
    char size[32], memory[32], time[32];
    cli_say("%" PRId64 " valid, %" PRId64 " failed: %s; %s, %.0f MB/s, peak memory %s", v->valid,
            v->bad, number_size(size, bytes), clock_text(time, seconds),
            bytes / 1e6 / (seconds > 0 ? seconds : 1),
            number_size(memory, (double)cli_peak_memory()));
}

/* --- checks --- */

static int check_result(struct finding *f)
{
    struct result *r = result_check(f->path, &f->why) ? NULL : result_open(f->path, &f->why);
    if (!r)
        return -1;
    f->slides = result_slides(r);
    f->windows = result_totals(r)->windows;
    result_close(r);
    return 0;
}

static int check_store(struct job *v, struct finding *f)
{
    const struct verify_options how = {
        .threads = v->o->threads, .quick = v->o->quick, .progress = show_progress, .ctx = v};
    if (verify_store(f->path, &how, &f->store, &f->why))
        return -1;
    if (f->store.bad)
        return err_set(&f->why, "%s (%" PRId64 " of %" PRId64 " chunks are damaged)",
                       f->store.first.msg, f->store.bad, f->store.chunks);
    return 0;
}

/* Is it another file now, or the same with other bytes? */
static bool has_changed(const char *path, const struct stat *before)
{
    struct stat now;
    return stat(path, &now) || now.st_dev != before->st_dev || now.st_ino != before->st_ino ||
           now.st_size != before->st_size || clock_ns(&now.st_mtim) != clock_ns(&before->st_mtim);
}

/* Checks file v->k. -1 when a signal stopped it. */
static int check_file(struct job *v)
{
    const char *path = v->o->files.paths[v->k];
    struct stat before;
    const bool there = !stat(path, &before);
    struct finding f = {.path = path, .is_result = result_is(path)};
    f.valid = (f.is_result ? check_result(&f) : check_store(v, &f)) == 0;
    if (!f.valid && stop_signal()) {
        cli_say("%s", f.why.msg);
        return -1;
    }
    if (!f.valid && there && has_changed(path, &before))
        err_set(&f.why, "%s: changed while it was read; run again", path);
    report(v, &f);
    return 0;
}

int verify_main(struct options *o)
{
    const double begun = clock_now();
    struct job v = {.o = o, .bad = o->files.failed};
    stop_catch_signals();
    v.bytes = list_sizes(&o->files);
    progress_begin(o->quiet ? PROGRESS_NO : o->progress, "file", o->files.n, "MB/s");
    while (v.k < o->files.n && !check_file(&v))
        v.k++;
    progress_end();
    if (!o->quiet)
        last_line(&v, v.bytes[v.k], clock_now() - begun);
    free(v.bytes);
    return v.k < o->files.n ? EXIT_STOPPED
           : v.trouble      ? EXIT_TROUBLE
           : v.bad          ? EXIT_PART
                            : EXIT_DONE;
}
