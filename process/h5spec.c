/*
 * h5spec.c - the program: its commands and their help.
 */
#include "common/base/cli.h"
#include "common/hdf5/h5_library.h"
#include "process/options/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A command has one of two functions. Both return the exit status. */
struct row {
    const struct command *command;
    int (*main)(struct options *o);          /* gets options that options_parse() has read */
    int (*main_argv)(int argc, char **argv); /* reads its options itself: they are its own */
};

static const struct row commands[] = {
    {&options_run, run_main, NULL},         {&options_merge, merge_main, NULL},
    {&options_info, info_main, NULL},       {&plot_options, NULL, plot_main},
#ifdef HAVE_PNG
    {&map_options, NULL, map_main},
#endif
    {&compare_options, NULL, compare_main}, {&options_verify, verify_main, NULL},
    {&options_lookup, lookup_main, NULL},   {&options_tune, tune_main, NULL},
#ifdef HAVE_PNG
    {&report_options, NULL, report_main},
#endif
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const struct row *find_command(const char *word)
{
    for (int k = 0; k < N_COMMANDS; k++)
        if (!strcmp(word, commands[k].command->word))
            return &commands[k];
    return NULL;
}

static int no_such_command(const char *word)
{
    char list[256] = "";
    for (int k = 0; k < N_COMMANDS; k++) {
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", k ? ", " : "", commands[k].command->word);
    }
#ifndef HAVE_PNG
    if (word && (!strcmp(word, "map") || !strcmp(word, "report")))
        cli_say("%s is not part of this build, because libpng was missing; run "
                "scripts/install-deps and make again",
                word);
    else
#endif
        if (word)
        cli_say("%s: no such command and no such file; the commands are %s", word, list);
    else
        cli_say("no command given; the commands are %s", list);
    fputs("Try 'h5spec --help'.\n", stderr);
    return EXIT_USAGE;
}

static int print_help(void)
{
    fputs("Usage: h5spec COMMAND [options] FILE...\n\n", stdout);
    command_print_wrapped("Computes spectral histograms of whole-slide images from the stores that "
                          "wsi2h5 makes.",
                          0);
    puts("\nCommands:");
    for (int k = 0; k < N_COMMANDS; k++)
        printf("  %-9s %s\n", commands[k].command->word, commands[k].command->summary);
    puts("\n'h5spec COMMAND --help' or 'h5spec help COMMAND' shows the options of a command.\n"
         "'h5spec --version' prints the version and the libraries in use.\n\nExample:");
    for (int k = 0; k < 3; k++)
        printf("  %s\n", commands[k].command->example);
    command_print_statuses();
    return EXIT_DONE;
}

static int help_main(int argc, char **argv)
{
    if (argc < 3)
        return print_help();
    const struct row *row = find_command(argv[2]);
    if (!row)
        return no_such_command(argv[2]);
    return command_help(row->command);
}

static int start(const struct row *row, int argc, char **argv)
{
    struct options o;
    if (row->main_argv)
        return row->main_argv(argc, argv);
    int status = options_parse(row->command, argc, argv, &o);
    if (status < 0)
        status = row->main(&o);
    if (status == EXIT_DONE || status == EXIT_PART)
        status = cli_worst(status, input_files_status(&o.files));
    options_free(&o);
    return status;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return no_such_command(NULL);
    const char *word = argv[1];
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"))
        return help_main(argc, argv);
    if (!strcmp(word, "--version")) {
        options_version();
        return EXIT_DONE;
    }
    const struct row *row = find_command(word);
    if (row)
        return start(row, argc - 1, argv + 1);
    if (*word == '-' || !access(word, F_OK))
        return start(&commands[0], argc, argv); /* the word run may be omitted */
    return no_such_command(word);
}

int main(int argc, char **argv)
{
    cli_start("h5spec");
    h5_exit(cli_finish(dispatch(argc, argv)));
}
