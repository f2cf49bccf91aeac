/* command.c - see command.h. */
#include "common/base/command.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/stop.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 80,       /* columns of the help */
    TEXT_COLUMN = 26, /* where the text of an option begins, from 0 */
    MOST_OPTIONS = 64,
    LONG_VALUE = 256, /* getopt returns LONG_VALUE + row for long options, letters for short ones */
};

static void full_name(const struct command *c, char out[64])
{
    snprintf(out, 64, "%s%s%s", c->program, c->word ? " " : "", c->word ? c->word : "");
}

/* --- one option: its words, its default, its argument --- */

static const char *argument_of(const struct command_option *o)
{
    return o->words ? o->words() : o->argument;
}

/* Word number k among words separated by '|'; *n gets its length. NULL: there are fewer. */
static const char *word_at(const char *words, int k, size_t *n)
{
    for (; k > 0 && words; k--)
        words = (words = strchr(words, '|')) ? words + 1 : NULL;
    *n = words ? strcspn(words, "|") : 0;
    return words;
}

static int find_word(const struct command_option *o, const char *text)
{
    size_t n;
    for (int k = 0;; k++) {
        const char *word = word_at(argument_of(o), k, &n);
        if (!word || (n == strlen(text) && !strncmp(word, text, n)))
            return word ? k : -1;
    }
}

/* "--io up: must be auto, direct, buffered or gds" */
static int no_such_word(const struct command_option *o, const char *text, struct err *e)
{
    char list[256] = "";
    size_t n, next;
    for (int k = 0; word_at(argument_of(o), k, &n); k++) {
        const char *word = word_at(argument_of(o), k, &n);
        const bool last = !word_at(argument_of(o), k + 1, &next);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.*s",
                 k == 0 ? ""
                 : last ? " or "
                        : ", ",
                 (int)n, word);
    }
    return err_set(e, "--%s %s: must be %s", o->name, text, list);
}

static int get_number(const struct command_option *o, const void *field)
{
    return o->bytes == 1 ? *(const bool *)field : *(const int *)field;
}

static bool is_valid(const struct command_option *o, double v)
{
    return v >= o->low && v <= o->high;
}

/* Text of a number, if it is a valid one: 0 or NaN often says that there is no default. */
static const char *number_of(const struct command_option *o, const void *field, char buf[64])
{
    const int64_t *whole = field;
    const double *real = field;
    switch (o->kind) {
    case COMMAND_IS_INT: snprintf(buf, 64, "%" PRId64, *whole); break;
    case COMMAND_IS_BYTES: number_size(buf, (double)*whole); break;
    case COMMAND_IS_SPAN: snprintf(buf, 64, "%g:%g", real[0], real[1]); break;
    default: snprintf(buf, 64, "%g", *real); break;
    }
    if (o->kind == COMMAND_IS_SPAN)
        return real[0] < real[1] ? buf : NULL;
    return is_valid(o, o->kind == COMMAND_IS_REAL ? *real : (double)*whole) ? buf : NULL;
}

/* Text of the default, in buf or elsewhere; NULL when there is none. */
static const char *default_of(const struct command_option *o, const void *defaults, char buf[64])
{
    const void *field = (const char *)defaults + o->at;
    const char *word;
    size_t n;
    switch (o->kind) {
    case COMMAND_IS_TEXT: return *(const char *const *)field;
    case COMMAND_IS_COPY: return field;
    case COMMAND_IS_WORD:
        word = word_at(argument_of(o), get_number(o, field), &n);
        snprintf(buf, 64, "%.*s", (int)n, word);
        return buf;
    case COMMAND_IS_THREADS:
        snprintf(buf, 64, "all processors, here %d", *(const int *)field);
        return buf;
    case COMMAND_IS_INT:
    case COMMAND_IS_REAL:
    case COMMAND_IS_BYTES:
    case COMMAND_IS_SPAN: return number_of(o, field, buf);
    default: return o->shown;
    }
}

static int set_word(const struct command_option *o, const char *arg, void *field, struct err *e)
{
    const int k = find_word(o, arg);
    if (k < 0)
        return no_such_word(o, arg, e);
    if (o->kind == COMMAND_IS_COPY)
        snprintf(field, o->bytes, "%s", arg);
    else if (o->bytes == 1)
        *(bool *)field = k;
    else
        *(int *)field = k;
    return 0;
}

static int set_threads(const struct command_option *o, const char *what, const char *arg,
                       int *threads, struct err *e)
{
    int64_t n;
    if (number_int(what, arg, (int64_t)o->low, (int64_t)o->high, &n, e))
        return -1;
    *threads = (int)n;
    return 0;
}

/* Takes an option; arg is NULL when it has no argument. -1 is a usage error. */
static int set_option(const struct command_option *o, const char *arg, void *ctx, struct err *e)
{
    char what[64];
    void *field = (char *)ctx + o->at;
    const int64_t low = (int64_t)o->low, high = (int64_t)o->high;
    snprintf(what, sizeof what, "--%s", o->name);
    if (o->given)
        *(bool *)((char *)ctx + o->given) = true;
    switch (o->kind) {
    case COMMAND_IS_FLAG: *(bool *)field = true; return 0;
    case COMMAND_IS_TEXT: *(const char **)field = arg; return 0;
    case COMMAND_IS_COPY:
    case COMMAND_IS_WORD: return set_word(o, arg, field, e);
    case COMMAND_IS_INT: return number_int(what, arg, low, high, field, e);
    case COMMAND_IS_REAL: return number_real(what, arg, o->low, o->high, field, e);
    case COMMAND_IS_BYTES: return number_bytes(what, arg, low, high, field, e);
    case COMMAND_IS_SPAN:
        return number_span(what, arg, o->low, o->high, field, (double *)field + 1, e);
    case COMMAND_IS_THREADS: return set_threads(o, what, arg, field, e);
    default: return o->set(field, arg, e);
    }
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

static void option_text(const struct command_option *o, const void *defaults, char out[512])
{
    char buf[64];
    const char *value = default_of(o, defaults, buf);
    const char *place = strstr(o->help, "%s");
    if (place)
        snprintf(out, 512, "%.*s%s%s", (int)(place - o->help), o->help, value ? value : "",
                 place + 2);
    else if (value)
        snprintf(out, 512, "%s (default: %s)", o->help, value);
    else
        snprintf(out, 512, "%s", o->help);
}

static void print_option(const struct command_option *o, const void *defaults)
{
    char text[512], letter[8] = "    ";
    const char *argument = argument_of(o);
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int at = printf("  %s--%s%s%s", letter, o->name, argument ? " " : "", argument ? argument : "");
    if (at > TEXT_COLUMN - 2) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", TEXT_COLUMN - at, "");
    option_text(o, defaults, text);
    command_print_wrapped(text, TEXT_COLUMN);
}

void command_print_statuses(void)
{
    puts("\nExit status: 0 all done; 1 some input is bad, the rest was done; 2 wrong usage;\n"
         "3 stopped by a signal, no unfinished file remains; 4 all written, some tiles\n"
         "are damaged; 5 disk, memory or device failed: try again.");
}

static void set_defaults(const struct command *c, void *ctx)
{
    memset(ctx, 0, c->bytes);
    if (c->defaults)
        c->defaults(ctx);
}

int command_help(const struct command *c)
{
    char name[64];
    void *defaults = memory_need(1, c->bytes);
    set_defaults(c, defaults);
    full_name(c, name);
    printf("Usage: %s %s\n\n", name, c->usage);
    if (c->details)
        command_print_wrapped(c->details, 0);
    else
        printf("%s\n", c->summary);
    for (const struct command_option *o = c->options; o->name; o++) {
        if (o->section)
            printf("\n%s:\n", o->section);
        if (o->help)
            print_option(o, defaults);
    }
    printf("\nExample:\n  %s\n", c->example);
    command_print_statuses();
    free(defaults);
    return EXIT_DONE;
}

/* --- usage errors --- */

int command_usage_error(const struct command *c, const struct err *e)
{
    char name[64];
    full_name(c, name);
    cli_say_as(name, "%s", e->msg);
    if (stop_signal())
        return EXIT_STOPPED;
    if (err_is_trouble(e)) /* the usage may be right */
        return EXIT_TROUBLE;
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
        table[n] = (struct option){o->name, argument_of(o) ? required_argument : no_argument, NULL,
                                   LONG_VALUE + n};
        if (o->letter) {
            *letters++ = o->letter;
            if (argument_of(o))
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

/* The long options that begin with the word's name, as a list; returns how many there are. */
static int list_prefixed(const struct command_option *options, const char *word, char out[512])
{
    const size_t n = strcspn(word, "=");
    size_t used = 0;
    int count = 0;
    out[0] = 0;
    for (const struct command_option *o = options; o->name; o++)
        if (!strncmp(o->name, word, n) && used < 512)
            used +=
                (size_t)snprintf(out + used, 512 - used, "%s--%s", count++ ? ", " : "", o->name);
    return count;
}

/* Why getopt_long has refused `word`. */
static void explain(const struct command *c, int got, const char *word,
                    const struct command_option *row, struct err *e)
{
    char candidates[512];
    if (row && got == ':' && !strncmp(word, "--", 2))
        err_set(e, "option '--%s' requires an argument: %s", row->name, argument_of(row));
    else if (row && got == ':')
        err_set(e, "option '-%c' requires an argument: %s", row->letter, argument_of(row));
    else if (row)
        err_set(e, "option '--%s' takes no argument", row->name);
    else if (optopt)
        err_set(e, "unrecognized option '-%c'", optopt);
    else if (list_prefixed(c->options, word + 2, candidates) > 1)
        err_set(e, "option '%.*s' is ambiguous: %s", (int)strcspn(word, "="), word, candidates);
    else
        err_set(e, "unrecognized option '%.*s'", (int)strcspn(word, "="), word);
}

int command_parse(const struct command *c, int argc, char **argv, void *ctx, int *first)
{
    struct option table[MOST_OPTIONS + 1];
    char letters[2 * MOST_OPTIONS + 2];
    struct err e = {0};
    const int n = make_tables(c->options, table, letters);
    set_defaults(c, ctx);
    optind = opterr = 0;
    for (int got; (got = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        const bool bad = got == '?' || got == ':';
        const struct command_option *row = row_of(c->options, bad ? optopt : got, n);
        if (bad) {
            explain(c, got, argv[optind - 1], row, &e);
            return command_usage_error(c, &e);
        }
        if (row->kind == COMMAND_IS_HELP)
            return command_help(c);
        if (row->kind == COMMAND_IS_VERSION) {
            c->version();
            return EXIT_DONE;
        }
        if (set_option(row, optarg, ctx, &e))
            return command_usage_error(c, &e);
    }
    *first = optind;
    return -1;
}
