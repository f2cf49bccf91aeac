/* verify_command.c - see verify_command.h. */
#include "process/verify_command.h"

#include "common/cli.h"
#include "common/progress.h"
#include "common/result.h"
#include "process/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct verify_run {
    struct options *o;
    double *bytes; /* [n + 1]: size of the files before file k */
    int k;         /* the file being verified */
};

/* --- progress --- */

static int weigh(struct verify_run *r)
{
    const struct list *files = &r->o->files;
    if (!(r->bytes = calloc((size_t)files->n + 1, sizeof *r->bytes)))
        return -1;
    for (int k = 0; k < files->n; k++) {
        struct stat st;
        const double size = stat(files->paths[k], &st) ? 0 : (double)st.st_size;
        r->bytes[k + 1] = r->bytes[k] + (size > 1 ? size : 1);
    }
    return 0;
}

static void show_progress(void *ctx, double fraction)
{
    const struct verify_run *r = ctx;
    const double before = r->bytes[r->k], share = r->bytes[r->k + 1] - before;
    const double all = r->bytes[r->o->files.n];
    progress_item(r->k, cli_base_name(r->o->files.paths[r->k]), before / all, share / all);
    progress_show(fraction, (before + share * fraction) / 1e6);
}

/* --- one line per file --- */

static void print_json(const char *path, bool result, const struct verify_report *r,
                       const struct err *why)
{
    fputs("{\"file\": ", stdout);
    cli_json_string(stdout, path);
    printf(", \"status\": \"%s\"", *why->msg ? "failed" : "valid");
    if (result)
        fputs(", \"kind\": \"result\"", stdout);
    else if (r->chunks > 0 || !*why->msg)
        printf(", \"kind\": \"store\", \"chunks\": %" PRId64 ", \"bytes\": %" PRId64
               ", \"damaged_chunks\": %" PRId64 ", \"tiles_missing\": %" PRId64
               ", \"tiles_damaged\": %" PRId64 ", \"tiles_left_out\": %" PRId64,
               r->chunks, r->bytes, r->bad, r->missing, r->damaged, r->left_out);
    if (*why->msg) {
        fputs(", \"message\": ", stdout);
        cli_json_string(stdout, why->msg);
    }
    puts("}");
}

static void print_text(const char *path, bool result, const struct verify_report *r)
{
    char size[32];
    cli_print_text(stdout, path);
    if (result)
        puts(": valid result");
    else
        printf(": valid: %" PRId64 " chunks, %s; tiles missing %" PRId64 ", damaged %" PRId64
               ", left out %" PRId64 "\n",
               r->chunks, cli_size(size, (double)r->bytes), r->missing, r->damaged, r->left_out);
}

/* --- the command --- */

static int verify_one(struct verify_run *run, const char *path)
{
    const struct options *o = run->o;
    const struct verify_options how = {.threads = (int)o->threads,
                                       .progress = progress_is_on() ? show_progress : NULL,
                                       .ctx = run};
    struct verify_report r = {0};
    struct err why = {""};
    const bool result = result_is(path);
    if (result)
        result_check(path, &why);
    else if (verify_store(path, &how, &r, &why) == 0 && r.bad)
        err_set(&why, "%s (%" PRId64 " of %" PRId64 " chunks are damaged)", r.first.msg, r.bad,
                r.chunks);
    progress_clear();
    if (cli_stopped()) {
        cli_say("%s", why.msg);
        return EXIT_STOPPED;
    }
    if (o->json)
        print_json(path, result, &r, &why);
    else if (!o->quiet && !*why.msg)
        print_text(path, result, &r);
    fflush(stdout);
    if (*why.msg)
        cli_say("%s", why.msg);
    return *why.msg ? EXIT_PART : EXIT_DONE;
}

int verify_main(struct options *o)
{
    struct verify_run run = {.o = o};
    int status = EXIT_DONE;
    cli_catch_signals();
    if (weigh(&run)) {
        cli_say("out of memory");
        return EXIT_PART;
    }
    progress_begin(o->quiet ? CLI_NO : o->progress, "file", o->files.n, "MB/s");
    for (; run.k < o->files.n && status != EXIT_STOPPED; run.k++) {
        const int one = verify_one(&run, o->files.paths[run.k]);
        status = one > status ? one : status;
    }
    progress_end();
    free(run.bytes);
    return status;
}
