/*
 * command.h - one command line: a table of options drives parsing, --help and usage errors.
 *
 * A command is a const struct, and an option is one row of its table. The row says what the user
 * may write, what the help says, and which field of the command's own struct gets the value.
 * Manual pages (scripts/man-options) and completions (scripts/completion) come from the help.
 *
 * command_parse() reads a command line, prints --help and --version to stdout, and reports usage
 * errors on stderr as
 *
 *     h5spec verify: unrecognized option '--jsn'
 *     Try 'h5spec verify --help'.
 *
 * The help has one layout: each option begins a line with "  -x, --name ARG" or
 * "      --name ARG", and its text begins in column 27. ARG is one word. Its parts between '|' that
 * begin with a small letter are words to be typed; FILE, FILE.csv, DIR and the argument of --output
 * are paths; all else is for the user to fill in.
 *
 * Options that few people need have the section "Advanced", the last one before "Other".
 */
#ifndef WSI_COMMAND_H
#define WSI_COMMAND_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option does. */
enum command_kind {
    COMMAND_IS_CALL,    /* set() reads the argument */
    COMMAND_IS_FLAG,    /* bool: true */
    COMMAND_IS_TEXT,    /* const char *: the argument itself */
    COMMAND_IS_COPY,    /* char[]: a copy of the argument, which is one of its words */
    COMMAND_IS_WORD,    /* bool or enum: the number of the argument among its words, from 0 */
    COMMAND_IS_INT,     /* int64_t: a whole number from low to high */
    COMMAND_IS_REAL,    /* double: from low to high */
    COMMAND_IS_BYTES,   /* int64_t: a size from low to high */
    COMMAND_IS_SPAN,    /* two doubles, one after the other: LOW:HIGH, both from low to high */
    COMMAND_IS_THREADS, /* int: a number of threads */
    COMMAND_IS_HELP,    /* prints the help */
    COMMAND_IS_VERSION, /* prints the version */
};

struct command_option {
    const char *section;  /* heading in the help; NULL: the section of the row above */
    char letter;          /* 'o' for -o, or 0 */
    const char *name;     /* "output" for --output; NULL ends the table */
    const char *argument; /* "FILE", "auto|yes|no"; NULL: the option takes no argument */
    /* %s becomes the default; without %s, " (default: ...)" is added if there is one. NULL: an
     * option of an older version, which set() refuses. */
    const char *help;

    /* The rest is written with the macros below. */
    enum command_kind kind;
    size_t at, bytes;           /* of the field in ARGUMENTS */
    double low, high;           /* the default is shown if it is between them */
    size_t given;               /* of a bool that becomes true; 0: none */
    const char *shown;          /* the default of an option that has its own set() */
    const char *(*words)(void); /* takes the place of `argument` */
    /* Gets the field at `at`, or with 0 all of ARGUMENTS. -1 is a usage error. */
    int (*set)(void *field, const char *arg, struct err *e);
};

/* A file with a table defines ARGUMENTS, the struct whose fields its options set. */
#define COMMAND_OF(field, type)                                                                    \
    .at = _Generic(((ARGUMENTS *)0)->field, type : offsetof(ARGUMENTS, field))
#define COMMAND_ANY(field) .at = offsetof(ARGUMENTS, field), .bytes = sizeof((ARGUMENTS *)0)->field
#define COMMAND_RANGE(low_, high_) .low = (double)(low_), .high = (double)(high_)

#define COMMAND_FLAG(field) .kind = COMMAND_IS_FLAG, COMMAND_OF(field, bool)
#define COMMAND_TEXT(field) .kind = COMMAND_IS_TEXT, COMMAND_OF(field, const char *)
#define COMMAND_COPY(field) .kind = COMMAND_IS_COPY, COMMAND_ANY(field)
#define COMMAND_WORD(field) .kind = COMMAND_IS_WORD, COMMAND_ANY(field)
#define COMMAND_INT(field, least, most)                                                            \
    .kind = COMMAND_IS_INT, COMMAND_OF(field, int64_t), COMMAND_RANGE(least, most)
#define COMMAND_REAL(field, least, most)                                                           \
    .kind = COMMAND_IS_REAL, COMMAND_OF(field, double), COMMAND_RANGE(least, most)
#define COMMAND_BYTES(field, least, most)                                                          \
    .kind = COMMAND_IS_BYTES, COMMAND_OF(field, int64_t), COMMAND_RANGE(least, most)
#define COMMAND_SPAN(field, least, most) /* `field` is the first of the two */                     \
    .kind = COMMAND_IS_SPAN, COMMAND_OF(field, double), COMMAND_RANGE(least, most)
#define COMMAND_THREADS(field)                                                                     \
    .kind = COMMAND_IS_THREADS, COMMAND_OF(field, int), COMMAND_RANGE(1, 1024)
#define COMMAND_CALL(function) .kind = COMMAND_IS_CALL, .set = function /* of ARGUMENTS */
#define COMMAND_SET(field, function) COMMAND_CALL(function), COMMAND_ANY(field)
#define COMMAND_GIVEN(field) .given = offsetof(ARGUMENTS, field)

/* The last rows of every table. */
/* clang-format off */
#define COMMAND_LAST_ROWS                                                                          \
    {"Other", 'h', "help", NULL, "print this help and exit", .kind = COMMAND_IS_HELP},             \
    {NULL, 0, "version", NULL, "print the version and the libraries in use, and exit",             \
     .kind = COMMAND_IS_VERSION},                                                                  \
    {.name = NULL}
/* clang-format on */

struct command {
    const char *program; /* "h5spec" */
    const char *word;    /* "verify"; NULL for a program without subcommands */
    const char *usage;   /* what follows the name: "[options] -o OUTPUT SLIDE..." */
    const char *summary; /* one line, lower case, without a full stop: for lists of commands */
    const char *details; /* paragraph for the help; NULL: none */
    const char *example; /* one command line */
    const struct command_option *options;
    size_t bytes;                /* of ARGUMENTS */
    void (*defaults)(void *ctx); /* fills ARGUMENTS, which is zero before; NULL: zero it stays */
    void (*version)(void);       /* prints the answer to --version */
};

/* Reads the options of a command line into ctx, an ARGUMENTS that it first sets to the defaults;
 * argv[0] is not looked at. Returns -1 to go on, with the words that are no options in
 * argv[*first] to argv[argc - 1], or the program's exit status. */
int command_parse(const struct command *c, int argc, char **argv, void *ctx, int *first);
/* Reports a usage error; returns its exit status, EXIT_TROUBLE if the machine is to blame. */
int command_usage_error(const struct command *c, const struct err *e);
/* Prints the help to stdout. Returns the exit status. */
int command_help(const struct command *c);

/* Prints text in lines of at most 80 columns, all but the first indented by `column`, where the
 * first begins, too. '\n' begins a new line. Ends with a newline. */
void command_print_wrapped(const char *text, int column);
/* What the exit status of both programs means; the last lines of every help. */
void command_print_statuses(void);

#endif
