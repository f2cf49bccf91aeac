/*
 * h5spec.c - the command: subcommands, messages, exit status.
 */
#include "common/cli.h"
#include "common/h5_exit.h"
#include "common/result.h"
#include "common/store.h"
#include "process/info.h"
#include "process/list.h"
#include "process/lookup.h"
#include "process/options.h"
#include "process/run.h"
#include "process/tune.h"
#include "process/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- merge, info, verify --- */

static int command_merge(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "o:qh", merge_options, &o);
    if (status >= 0)
        return status;
    if (!o.output) {
        err_set(&e, "-o CORPUS.h5 is missing");
        return usage_error(&e);
    }
    cli_catch_signals();
    if (result_check_target(o.output, &e) ||
        result_merge(o.output, o.inputs, o.n_inputs, o.partial, &e)) {
        say(e.msg);
        return cli_stopped() ? EXIT_STOPPED : EXIT_PART;
    }
    if (!o.quiet)
        fprintf(stderr, "h5spec: %d result%s added up into %s\n", o.n_inputs,
                o.n_inputs == 1 ? "" : "s", o.output);
    return EXIT_DONE;
}

static int command_info(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "h", info_options, &o);
    if (status >= 0)
        return status;
    status = EXIT_DONE;
    const enum info_form form = o.histogram ? INFO_HISTOGRAM : o.json ? INFO_JSON : o.csv ? INFO_CSV : INFO_TEXT;
    if (form == INFO_CSV)
        info_csv_head();
    for (int k = 0; k < o.n_inputs; k++)
        if (info_print(o.inputs[k], form, &e)) {
            fflush(stdout);
            say(e.msg);
            status = EXIT_PART;
        }
    return status;
}

static int verify_one(const char *path, const struct options *o)
{
    struct verify_report r;
    struct err e = {""};
    char size[32];
    if (verify_store(path, (int)o->threads, &r, &e)) {
        say(e.msg);
        return cli_stopped() ? EXIT_STOPPED : EXIT_PART;
    }
    if (r.bad) {
        fprintf(stderr, "h5spec: %s: damaged: %" PRId64 " of %" PRId64 " chunks, the first: %s; "
                "convert the slide again\n", path, r.bad, r.chunks, r.first.msg);
        return EXIT_PART;
    }
    if (!o->quiet)
        printf("%s: sound: %" PRId64 " chunks, %s; tiles missing in the slide %" PRId64
               ", damaged there %" PRId64 ", left out %" PRId64 "\n",
               path, r.chunks, cli_size(size, (double)r.bytes), r.missing, r.damaged, r.left_out);
    return EXIT_DONE;
}

static int command_verify(int argc, char **argv)
{
    struct options o;
    int status = parse(argc, argv, "j:qh", verify_options, &o);
    if (status >= 0)
        return status;
    cli_catch_signals();
    status = EXIT_DONE;
    for (int k = 0; k < o.n_inputs && status != EXIT_STOPPED; k++) {
        int one = verify_one(o.inputs[k], &o);
        status = one > status ? one : status;
    }
    return status;
}

static int command_lookup(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int64_t groups = 0;
    int status = parse(argc, argv, "h", lookup_options, &o);
    if (status >= 0)
        return status;
    lookup_begin();
    for (int k = 0; k < o.n_inputs; k++)
        if (lookup_print(o.inputs[k], &groups, &e)) {
            say(e.msg);
            status = EXIT_PART;
        }
    return status < 0 ? EXIT_DONE : status;
}

static int command_tune(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int status = parse(argc, argv, "j:h", tune_options, &o);
    if (status >= 0)
        return status;
    cli_catch_signals();
    status = EXIT_DONE;
    for (int k = 0; k < o.n_inputs && !cli_stopped(); k++)
        if (tune_print(o.inputs[k], (int)o.threads, &e)) {
            fflush(stdout);
            say(e.msg);
            status = EXIT_PART;
        }
    return cli_stopped() ? EXIT_STOPPED : status;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; int (*run)(int, char **); } commands[] = {
        {"run", command_run}, {"merge", command_merge}, {"info", command_info},
        {"verify", command_verify}, {"lookup", command_lookup},
        {"tune", command_tune}};
    int (*command)(int, char **) = NULL;
    for (size_t k = 0; argc > 1 && k < sizeof commands / sizeof *commands; k++)
        if (!strcmp(argv[1], commands[k].name))
            command = commands[k].run;
    const int status = command ? command(argc - 1, argv + 1) : command_run(argc, argv);
    list_free(&files);
    h5_exit(status);
}
