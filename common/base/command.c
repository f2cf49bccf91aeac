/* command.c - see command.h. */
#include "common/base/command.h"

#include "common/base/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 80,      /* columns of the help */
    TEXT_COLUMN = 26, /* where the text of an option begins, from 0 */
    MOST_OPTIONS = 64,
    LONG_VALUE = 256, /* getopt returns LONG_VALUE + row for long options, letters for short ones */
};

static void full_name(const struct command *c, char out[64])
{
    snprintf(out, 64, "%s%s%s", c->program, c->word ? " " : "", c->word ? c->word : "");
}

/* --- help --- */

void command_print_wrapped(const char *text, int column)
{
    int at = column;
    for (const char *word = text; *word;) {
        const size_t n = strcspn(word, " \n");
        const bool first = at == column;
        if (!first && at + 1 + (int)n > WIDTH) {
            printf("\n%*s", column, "");
            at = column;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        at += printf("%.*s", (int)n, word);
        word += n;
        if (*word == '\n') {
            printf("\n%*s", word[1] ? column : 0, "");
            at = column;
        }
        word += *word != 0;
    }
    if (at > column)
        putchar('\n');
}

/* Help of an option with its default, in out. */
static void option_text(const struct command *c, const struct command_option *o, char out[512])
{
    char buf[64];
    const char *value = c->value ? c->value(o->id, buf) : NULL;
    const char *place = strstr(o->help, "%s");
    if (place)
        snprintf(out, 512, "%.*s%s%s", (int)(place - o->help), o->help, value ? value : "",
                 place + 2);
    else if (value)
        snprintf(out, 512, "%s (default: %s)", o->help, value);
    else
        snprintf(out, 512, "%s", o->help);
}

static void print_option(const struct command *c, const struct command_option *o)
{
    char text[512], letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int at = printf("  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
                    o->argument ? o->argument : "");
    if (at > TEXT_COLUMN - 2) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", TEXT_COLUMN - at, "");
    option_text(c, o, text);
    command_print_wrapped(text, TEXT_COLUMN);
}

void command_print_statuses(void)
{
    puts("\nExit status: 0 all done; 1 some input failed, the rest was done; 2 wrong usage;\n"
         "3 stopped by a signal, no unfinished file remains.");
}

void command_help(const struct command *c)
{
    char name[64];
    full_name(c, name);
    printf("Usage: %s %s\n\n", name, c->usage);
    if (c->details)
        command_print_wrapped(c->details, 0);
    else
        printf("%s\n", c->summary);
    for (const struct command_option *o = c->options; o->name; o++) {
        if (!o->help)
            continue;
        if (o->section)
            printf("\n%s:\n", o->section);
        print_option(c, o);
    }
    printf("\nExample:\n  %s\n", c->example);
    command_print_statuses();
}

/* --- usage errors --- */

static bool is_no_memory(const struct err *e)
{
    return strstr(e->msg, "out of memory") || strstr(e->msg, strerror(ENOMEM));
}

int command_usage_error(const struct command *c, const struct err *e)
{
    char name[64];
    full_name(c, name);
    cli_say_as(name, "%s", e->msg);
    if (is_no_memory(e)) /* the usage may be right */
        return EXIT_PART;
    fprintf(stderr, "Try '%s --help'.\n", name);
    return EXIT_USAGE;
}

/* --- parsing --- */

/* Fills what getopt_long wants to have; returns the number of options. */
static int make_tables(const struct command_option *options, struct option *table, char *letters)
{
    int n = 0;
    *letters++ = ':'; /* missing arguments are reported as ':', not '?' */
    for (const struct command_option *o = options; o->name && n < MOST_OPTIONS; o++, n++) {
        table[n] = (struct option){o->name, o->argument ? required_argument : no_argument, NULL,
                                   LONG_VALUE + n};
        if (o->letter) {
            *letters++ = o->letter;
            if (o->argument)
                *letters++ = ':';
        }
    }
    *letters = 0;
    table[n] = (struct option){0};
    return n;
}

/* The row of what getopt_long has returned, or NULL. */
static const struct command_option *row_of(const struct command_option *options, int got, int n)
{
    if (got >= LONG_VALUE && got < LONG_VALUE + n)
        return &options[got - LONG_VALUE];
    for (int k = 0; k < n; k++)
        if (got > 0 && options[k].letter == got)
            return &options[k];
    return NULL;
}

/* How many long options begin with the word's name. */
static int count_prefixed(const struct command_option *options, const char *word)
{
    const size_t n = strcspn(word, "=");
    int count = 0;
    for (const struct command_option *o = options; o->name; o++)
        count += o->help && !strncmp(o->name, word, n);
    return count;
}

/* Why getopt_long has refused `word`. */
static void explain(const struct command *c, int got, const char *word,
                    const struct command_option *row, struct err *e)
{
    if (row && got == ':' && !strncmp(word, "--", 2))
        err_set(e, "option '--%s' requires an argument: %s", row->name, row->argument);
    else if (row && got == ':')
        err_set(e, "option '-%c' requires an argument: %s", row->letter, row->argument);
    else if (row)
        err_set(e, "option '--%s' takes no argument", row->name);
    else if (optopt)
        err_set(e, "unrecognized option '-%c'", optopt);
    else if (count_prefixed(c->options, word + 2) > 1)
        err_set(e, "option '%s' is ambiguous; write it in full", word);
    else
        err_set(e, "unrecognized option '%.*s'", (int)strcspn(word, "="), word);
}

int command_parse(const struct command *c, int argc, char **argv, void *ctx, int *first)
{
    struct option table[MOST_OPTIONS + 1];
    char letters[2 * MOST_OPTIONS + 2];
    struct err e = {""};
    const int n = make_tables(c->options, table, letters);
    optind = opterr = 0;
    for (int got; (got = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        const bool bad = got == '?' || got == ':';
        const struct command_option *row = row_of(c->options, bad ? optopt : got, n);
        if (bad) {
            explain(c, got, argv[optind - 1], row, &e);
            return command_usage_error(c, &e);
        }
        if (row->id == COMMAND_HELP)
            command_help(c);
        else if (row->id == COMMAND_VERSION)
            c->version();
        else if (c->set(ctx, row->id, optarg, &e))
            return command_usage_error(c, &e);
        else
            continue;
        return EXIT_DONE;
    }
    *first = optind;
    return -1;
}
