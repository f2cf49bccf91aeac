/*
 * command.h - one command line: a table of options drives parsing, --help and usage errors.
 *
 * A command is a const struct. command_parse() reads a command line with it, prints --help and
 * --version to stdout, and reports usage errors on stderr as
 *
 *     h5spec verify: unrecognized option '--jsn'
 *     Try 'h5spec verify --help'.
 *
 * The help has one layout, which man pages and completions are tested against: each option begins
 * a line with "  -x, --name ARG" or "      --name ARG", and its text begins in column 27.
 */
#ifndef WSI_COMMAND_H
#define WSI_COMMAND_H

#include "common/base/err.h"

struct command_option {
    const char *section;  /* heading in the help; NULL: the section of the row above */
    char letter;          /* 'o' for -o, or 0 */
    const char *name;     /* "output" for --output; NULL ends the table */
    const char *argument; /* "FILE" in the help; NULL: the option takes no argument */
    int id;               /* what set() gets; unique in the table and > 0 */
    const char *help;     /* %s becomes the default; without %s, " (default: ...)" is added.
                             NULL: an earlier name, which works and is not shown */
};

/* Ids of the options that command_parse() handles itself; ids of a command begin at COMMAND_OWN. */
enum { COMMAND_HELP = 1, COMMAND_VERSION, COMMAND_OWN = 16 };

/* The last rows of every table. */
#define COMMAND_LAST_ROWS \
    {"Other", 'h', "help", NULL, COMMAND_HELP, "print this help and exit"}, \
    {NULL, 0, "version", NULL, COMMAND_VERSION, \
     "print the version and the libraries in use, and exit"}, \
    {NULL, 0, NULL, NULL, 0, NULL}

struct command {
    const char *program; /* "h5spec" */
    const char *word;    /* "verify"; NULL for a program without subcommands */
    const char *usage;   /* what follows the name: "[options] -o OUTPUT SLIDE..." */
    const char *summary; /* one line, lower case, without a full stop: for lists of commands */
    const char *details; /* paragraph for the help; NULL: none */
    const char *example; /* one command line */
    const struct command_option *options;

    /* Takes an option; arg is NULL when it has no argument. -1 is a usage error. */
    int (*set)(void *ctx, int id, const char *arg, struct err *e);
    /* Text of the default of an option, in buf or static; NULL when it has none. May be NULL. */
    const char *(*value)(int id, char buf[64]);
    void (*version)(void); /* prints the answer to --version */
};

/* Reads the options of a command line; argv[0] is not looked at. Returns -1 to go on, with the
 * words that are no options in argv[*first] to argv[argc - 1], or the program's exit status. */
int command_parse(const struct command *c, int argc, char **argv, void *ctx, int *first);
/* Reports a usage error; returns its exit status, which for a lack of memory is EXIT_PART. */
int command_usage_error(const struct command *c, const struct err *e);
/* Prints the help to stdout. */
void command_help(const struct command *c);

/* Prints text in lines of at most 80 columns, all but the first indented by `column`, where the
 * first begins, too. '\n' begins a new line. Ends with a newline. */
void command_print_wrapped(const char *text, int column);
/* What the exit status of both programs means; the last lines of every help. */
void command_print_statuses(void);

#endif
