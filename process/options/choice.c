/* choice.c - see choice.h. */
#include "process/options/choice.h"

#include "common/base/memory.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

void choice_add(const char ***patterns, int *n, const char *word)
{
    *patterns = memory_grow(*patterns, *n, sizeof **patterns);
    (*patterns)[(*n)++] = word;
}

void choice_begin(struct choice *c, const char *const *patterns, int n)
{
    *c = (struct choice){.patterns = patterns, .n = n};
    c->found = memory_need((size_t)n, sizeof *c->found);
}

bool choice_has(struct choice *c, const char *name)
{
    bool chosen = c->n == 0;
    for (int k = 0; k < c->n; k++)
        if (!strcmp(c->patterns[k], name) || !fnmatch(c->patterns[k], name, 0))
            chosen = c->found[k] = true;
    return chosen;
}

int choice_check(const struct choice *c, struct err *e)
{
    for (int k = 0; k < c->n; k++)
        if (!c->found[k])
            return err_set(e, "--slide %s: matches no slide of the results", c->patterns[k]);
    return 0;
}

void choice_end(struct choice *c)
{
    free(c->found);
    c->found = NULL;
}
