/* compare_command.c - see compare_command.h. */
#include "process/commands/compare_command.h"

#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "process/commands/compare.h"
#include "process/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_COLUMNS = 20, MOST_COLUMNS = 48 }; /* of the names in the table */

struct arguments {
    const char *paths[2], *pairs;
    double limit; /* NaN: none */
    bool json, quiet;
};

#define ARGUMENTS struct arguments

static const struct command_option rows[] = {
    {"Input", 0, "pairs", "FILE.csv",
     "compare only the slides of its columns a and b: names in A.h5 and in B.h5",
     COMMAND_TEXT(pairs)},
    {"Output", 0, "limit", "DB",
     "end with status 1 if the W1 distance of any slide is greater, if a slide's um per px differ, "
     "if a slide is in one result only, or if no slide is in both",
     COMMAND_REAL(limit, 0, 2000)},
    {NULL, 0, "json", NULL, "print one JSON line instead of the table", COMMAND_FLAG(json)},
    {NULL, 'q', "quiet", NULL, "print errors only, besides the table", COMMAND_FLAG(quiet)},
    COMMAND_LAST_ROWS};

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx = (struct arguments){.limit = NAN};
}

const struct command compare_options = {
    OPTIONS_COMMAND("compare", rows, set_defaults), .usage = "[options] A.h5 B.h5",
    .summary = "show what changed between two results of the same slides",
    .details = "Compares the slides of two results: did another scanner firmware, a new export or "
               "another codec change anything? Slides are matched by name, those without a match "
               "by OpenSlide's quickhash; results of one slide each are compared whatever its "
               "name. If nothing can be compared, the status is 1. For each slide, worst first, it "
               "prints the Wasserstein-1 "
               "distance W1 between the histograms, the change of mean and std from A to B, and "
               "how much window_mean_db, window_focus_db, window_fine_db and window_sharp_db "
               "differ: the mean over all windows. Windows of glass are among them, unless h5spec "
               "run left them out (--tissue-only). The parameters of both results must be equal. "
               "The results of a folder are compared after h5spec merge.",
    .example = "h5spec compare --limit 0.1 before.h5 after.h5"};

/* --- the verdict --- */

static int64_t above_limit(const struct compare *c, double limit)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += !(c->slides[k].w1_db <= limit);
    return n;
}

static int64_t identical(const struct compare *c)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += c->slides[k].identical;
    return n;
}

/* A spectrum has frequencies in cycles/px: at another resolution even W1 = 0 does not say that the
 * slide is the same. */
static int64_t other_resolution(const struct compare *c)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++)
        n += c->slides[k].other_resolution;
    return n;
}

static bool is_within(const struct compare *c, double limit)
{
    return c->n > 0 && c->n_only[0] == 0 && c->n_only[1] == 0 && above_limit(c, limit) == 0 &&
           other_resolution(c) == 0;
}

/* --- JSON --- */

static void put_change(const char *name, const struct compare_change *c)
{
    printf(", \"%s\": {\"windows\": %" PRId64 ", \"changed\": %" PRId64, name, c->windows,
           c->changed);
    json_real("mean", c->mean);
    json_real("most", c->most);
    putchar('}');
}

static void put_slide(const struct compare_slide *s, const bool *maps)
{
    json_begin("slide", s->name);
    json_text("slide_b", s->name_b);
    json_real("w1_db", s->w1_db);
    json_real("mean_db", s->mean_db);
    json_real("std_db", s->std_db);
    json_int("windows_a", s->windows_a);
    json_int("windows_b", s->windows_b);
    json_real("mpp_a", s->mpp_a);
    json_real("mpp_b", s->mpp_b);
    json_bool("other_resolution", s->other_resolution);
    json_bool("identical", s->identical);
    for (int m = 0; m < RESULT_MAPS; m++)
        if (s->same_shape && maps[m])
            put_change(result_map_kind(m)->name, &s->maps[m]);
    putchar('}');
}

static void put_names(const char *key, char *const *names, int64_t n)
{
    printf(", \"%s\": [", key);
    for (int64_t k = 0; k < n; k++) {
        fputs(k ? ", " : "", stdout);
        json_write_string(stdout, names[k]);
    }
    putchar(']');
}

static void print_json(const struct arguments *a, const struct compare *c)
{
    json_begin("a", a->paths[0]);
    json_text("b", a->paths[1]);
    json_int("compared", c->n);
    json_int("identical", identical(c));
    json_int("other_resolution", other_resolution(c));
    json_real("limit", a->limit);
    if (!isnan(a->limit)) {
        json_bool("within_limit", is_within(c, a->limit));
        json_int("above_limit", above_limit(c, a->limit));
    }
    put_names("only_in_a", c->only[0], c->n_only[0]);
    put_names("only_in_b", c->only[1], c->n_only[1]);
    fputs(", \"slides\": [", stdout);
    for (int64_t k = 0; k < c->n; k++) {
        fputs(k ? ", " : "", stdout);
        put_slide(&c->slides[k], c->maps);
    }
    puts("]}");
}

/* --- the table --- */

static int columns_of(const char *name)
{
    const int columns = text_columns(name);
    return columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
}

static int name_columns(const struct compare *c)
{
    int most = LEAST_COLUMNS;
    for (int64_t k = 0; k < c->n; k++) {
        const int columns = columns_of(c->slides[k].name);
        most = columns > most ? columns : most;
    }
    return most;
}

static void print_name(const char *name, int columns)
{
    char out[4 * sizeof((struct compare_slide){0}.name)];
    const int used = text_fit(out, sizeof out, name, columns);
    printf("%s%*s", out, columns - used, "");
}

static void print_db(double value, const char *form)
{
    char out[32];
    snprintf(out, sizeof out, form, value);
    printf(" %9s", isnan(value) ? "-" : out);
}

/* What the numbers do not show. */
static void print_note(const struct compare_slide *s)
{
    if (s->identical)
        fputs("  identical", stdout);
    else if (!s->same_shape)
        fputs("  different size", stdout);
    else if (s->windows_a != s->windows_b)
        printf("  %" PRId64 " and %" PRId64 " windows", s->windows_a, s->windows_b);
    if (s->other_resolution)
        printf("  %g and %g um/px", s->mpp_a, s->mpp_b);
    if (strcmp(s->name, s->name_b)) {
        fputs("  in B: ", stdout);
        print_name(s->name_b, columns_of(s->name_b));
    }
    putchar('\n');
}

static void print_slide(const struct compare_slide *s, int columns, const bool *maps)
{
    print_name(s->name, columns);
    print_db(s->w1_db, "%.4f");
    print_db(s->mean_db, "%+.4f");
    print_db(s->std_db, "%+.4f");
    for (int m = 0; m < RESULT_MAPS; m++)
        if (maps[m])
            print_db(s->same_shape ? s->maps[m].mean : NAN,
                     result_map_kind(m)->type == RESULT_INT16 ? "%.2f" : "%.3f");
    print_note(s);
}

static void print_only(char *const *names, int64_t n, const char *path)
{
    for (int64_t k = 0; k < n; k++) {
        print_name(names[k], LEAST_COLUMNS);
        printf(" only in %s\n", path);
    }
}

static void print_table(const struct arguments *a, const struct compare *c)
{
    const int columns = name_columns(c);
    printf("%-*s %9s %9s %9s", columns, "slide", "W1 dB", "mean dB", "std dB");
    for (int m = 0; m < RESULT_MAPS; m++)
        if (c->maps[m])
            printf(" %9s", result_map_kind(m)->change);
    putchar('\n');
    for (int64_t k = 0; k < c->n; k++)
        print_slide(&c->slides[k], columns, c->maps);
    for (int k = 0; k < 2; k++)
        print_only(c->only[k], c->n_only[k], a->paths[k]);
}

static void last_line(const struct arguments *a, const struct compare *c)
{
    char limit[96] = "", worst[64] = "", other[64] = "", renamed[64] = "";
    double largest = -1; /* of the slides that have windows in both */
    for (int64_t k = 0; k < c->n; k++)
        largest = c->slides[k].w1_db > largest ? c->slides[k].w1_db : largest;
    if (!isnan(a->limit))
        snprintf(limit, sizeof limit, "; %" PRId64 " above the limit of %g dB",
                 above_limit(c, a->limit), a->limit);
    if (largest >= 0)
        snprintf(worst, sizeof worst, "; largest W1 %.4f dB", largest);
    if (c->n_renamed > 0)
        snprintf(renamed, sizeof renamed, " (%" PRId64 " by quickhash: other names)", c->n_renamed);
    if (other_resolution(c) > 0)
        snprintf(other, sizeof other, "; %" PRId64 " with other um/px", other_resolution(c));
    cli_say("%" PRId64 " slide%s compared%s, %" PRId64 " identical, %" PRId64 " only in A, %" PRId64
            " only in B%s%s%s",
            c->n, c->n == 1 ? "" : "s", renamed, identical(c), c->n_only[0], c->n_only[1], worst,
            limit, other);
}

/* --- the run --- */

static int print_all(const struct arguments *a, const struct compare *c)
{
    if (a->json)
        print_json(a, c);
    else
        print_table(a, c);
    if (!a->quiet)
        last_line(a, c);
    if (c->n == 0)
        cli_say("nothing was compared: no slide of A is in B; --pairs FILE.csv names pairs");
    return c->n > 0 && (isnan(a->limit) || is_within(c, a->limit)) ? EXIT_DONE : EXIT_PART;
}

int compare_main(int argc, char **argv)
{
    struct arguments a;
    struct compare c = {0};
    struct err e = {""};
    int first;
    int status = command_parse(&compare_options, argc, argv, &a, &first);
    if (status >= 0)
        return status;
    if (argc - first != 2) {
        err_set(&e, "name two results, not %d", argc - first);
        return command_usage_error(&compare_options, &e);
    }
    for (int k = 0; k < 2; k++) {
        a.paths[k] = argv[first + k];
        if (!folder_is(a.paths[k]))
            continue;
        err_set(&e,
                "%s: a folder; merge its results into one file first: h5spec merge -o CORPUS.h5 %s",
                a.paths[k], a.paths[k]);
        return command_usage_error(&compare_options, &e);
    }
    stop_catch_signals();
    if (compare_results(a.paths[0], a.paths[1], a.pairs, &c, &e) == 0)
        status = print_all(&a, &c);
    else
        status = cli_failed(&e);
    compare_free(&c);
    return status;
}
