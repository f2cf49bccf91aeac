/*
 * unit.h - what the C unit tests share: one line per test, as tests/check expects it.
 *
 * A test is a function without arguments that calls EXPECT. The first EXPECT that does not hold
 * fails the test; later ones are still evaluated, so a test must survive its own failure.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <stddef.h>
#include <stdio.h>

static const char *broken; /* the first condition that did not hold in the running test, or NULL */

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition) && !broken)                                                               \
            broken = #condition;                                                                   \
    } while (0)

struct unit_test {
    const char *name;
    void (*run)(void);
};

/* Runs n tests, prints "ok PROGRAM.NAME" or "not ok PROGRAM.NAME: CONDITION" for each, and returns
 * main's exit status. */
static inline int unit_run(const char *program, const struct unit_test *tests, size_t n)
{
    int failed = 0;
    for (size_t k = 0; k < n; k++) {
        broken = NULL;
        tests[k].run();
        if (broken)
            printf("not ok %s.%s: %s\n", program, tests[k].name, broken);
        else
            printf("ok %s.%s\n", program, tests[k].name);
        fflush(stdout);
        failed += broken != NULL;
    }
    return failed > 0;
}

/* The same of UNIT(NAME), UNIT(NAME) ...; the function of each is test_NAME. */
#define UNIT(what)                                                                                 \
    {                                                                                              \
        .name = #what, .run = test_##what                                                          \
    }
#define UNIT_RUN(program, ...)                                                                     \
    unit_run(program, (const struct unit_test[]){__VA_ARGS__},                                     \
             sizeof((const struct unit_test[]){__VA_ARGS__}) / sizeof(struct unit_test))

#endif
