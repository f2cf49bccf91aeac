/* lookup.c - see lookup.h. */
#include "process/commands/lookup.h"

#include "common/base/json.h"
#include "common/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lookup_begin(void)
{
    puts("Start\tEnd\tName");
}

/* A row of the table is one line, and a terminal shows it: no control characters. */
static int check_name(const char *path, struct err *e)
{
    char *clean = strdup(path);
    if (!clean)
        return err_set(e, "%s: out of memory", path);
    err_clean(clean);
    const bool same = !strcmp(path, clean);
    free(clean);
    if (same)
        return 0;
    return err_set(e, "%s: a name with control characters cannot be in the table; rename the file",
                   path);
}

int lookup_print(const char *path, bool json, int64_t *groups, struct err *e)
{
    if (!json && check_name(path, e))
        return -1;
    struct store *s = store_open(path, e);
    if (!s)
        return -1;
    const int64_t first = *groups + 1;
    *groups += store_info(s)->group_count;
    store_close(s);
    if (!json) {
        printf("%" PRId64 "\t%" PRId64 "\t%s\n", first, *groups, path);
        return 0;
    }
    json_begin("input", path);
    json_text("kind", "store");
    json_int("start", first);
    json_int("end", *groups);
    puts("}");
    return 0;
}
