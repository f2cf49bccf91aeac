/*
 * fuzz_table.c - tables that users write: CSV files as such, and as --limits, --meta and --failed of
 * `h5spec report`. The first byte chooses; the rest is the text.
 */
#include "common/base/csv.h"
#include "tests/fuzz/fuzz.h"
#ifdef HAVE_PNG
#include "process/report/verdict/report_groups.h"
#include "process/report/words/report_view.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cells lie in the text one behind the other, each with its end; rows begin on ascending lines. */
static void check_table(const struct table *t, size_t n)
{
    const char *end = t->text;
    FUZZ_MUST(t->columns >= 1 && t->rows >= 0);
    for (int64_t row = 0; row <= t->rows; row++) {
        FUZZ_MUST(t->lines[row] >= (row ? t->lines[row - 1] + 1 : 1));
        for (int64_t k = 0; k < t->columns; k++) {
            const char *cell = table_cell(t, row, k);
            FUZZ_MUST(cell >= end && (size_t)(cell - t->text) <= n);
            end = cell + strlen(cell) + 1;
            FUZZ_MUST((size_t)(end - t->text) <= n + 1);
        }
    }
    const int64_t found = table_column(t, table_cell(t, 0, t->columns - 1));
    FUZZ_MUST(found >= 0 && found < t->columns);
}

static void table(const char *path, size_t n)
{
    struct err e = {0};
    struct table t;
    if (table_read(&t, path, &e)) {
        FUZZ_MUST(e.msg[0]);
    } else {
        check_table(&t, n);
        fuzz_accepted++;
    }
    table_free(&t);
}

#ifdef HAVE_PNG
/* Three slides, by name, as report_load() leaves them. */
enum { SLIDES = 3 };
static void begin(struct report_slides *s, struct report_slide slide[SLIDES])
{
    static char *const names[SLIDES] = {(char *)"A", (char *)"A.b", (char *)"slide 3"};
    static char nobody[] = "";
    *s = (struct report_slides){.n = SLIDES, .slide = slide};
    for (int k = 0; k < SLIDES; k++) {
        slide[k] = (struct report_slide){.name = names[k], .vendor = nobody, .objective = NAN};
        slide[k].um = slide[k].downsample = NAN;
    }
}

static void limits(const char *path)
{
    const struct report_setup setup = {.limits = path};
    struct report_slide slide[SLIDES];
    struct report_slides s;
    struct report_groups g = {0};
    struct report_limits l = {0};
    struct err e = {0};
    begin(&s, slide);
    if (report_limits_read(path, &l, &e) || report_group(&setup, &s, &g, &e) ||
        report_limits_place(path, &s, &g, &l, &e))
        FUZZ_MUST(e.msg[0]);
    else
        fuzz_accepted++;
    for (int64_t k = 0; k < l.n && !e.msg[0]; k++) {
        const struct report_limit *x = &l.limit[k];
        FUZZ_MUST(x->metric >= 0 && x->metric <= REPORT_METRICS);
        FUZZ_MUST(!isinf(x->warn) && !isinf(x->fail));
        FUZZ_MUST(x->group >= REPORT_NO_GROUP && x->group < g.n);
    }
    report_groups_free(&g);
    report_limits_free(&l);
}

/* Every slide has a name and a group that exists. */
static void groups(const struct report_setup *setup)
{
    struct report_slide slide[SLIDES];
    struct report_slides s;
    struct report_groups g = {0};
    struct report_failures f = {0};
    struct report_names names = {0};
    struct err e = {0};
    begin(&s, slide);
    if (report_group(setup, &s, &g, &e) || report_read_failed(setup, &s, &f, &e)) {
        FUZZ_MUST(e.msg[0]);
    } else {
        report_name(setup, &s, &g, &f, &names);
        fuzz_accepted++;
    }
    for (int64_t k = 0; k < s.n && !e.msg[0]; k++)
        FUZZ_MUST(names.slide[k] && g.of[k] >= 0 && g.of[k] < g.n);
    for (int64_t k = 0; k < s.n; k++)
        free(s.slide[k].failed);
    report_groups_free(&g);
    report_failures_free(&f);
    report_names_free(&names);
}

#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[FUZZ_PATH];
    if (n == 0)
        return 0;
    fuzz_file(data + 1, n - 1, path);
#ifdef HAVE_PNG
    const bool numbered = data[0] & 8;
    struct report_setup setup = {.key = numbered ? "key.csv" : NULL};
    switch (data[0] % 5) {
    case 0: limits(path); break;
    case 1:
        setup.meta = path;
        setup.group = "site";
        groups(&setup);
        break;
    case 2:
        setup.failed = path;
        groups(&setup);
        break;
    default: table(path, n - 1);
    }
#else
    table(path, n - 1);
#endif
    return 0;
}
