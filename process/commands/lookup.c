/*
 * lookup.c - the look-up table of groups for array jobs: "Start<TAB>End<TAB>Name", one line per
 * store. All groups of all stores are numbered from 1.
 */
#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/store/store_read.h"
#include "process/options/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the table is one line, and a terminal shows it: no control characters. */
static int check_name(const char *path, struct err *e)
{
    char *clean = memory_copy(path);
    err_clean(clean);
    const bool same = !strcmp(path, clean);
    free(clean);
    if (same)
        return 0;
    return err_set(e, "%s: a name with control characters cannot be in the table; rename the file",
                   path);
}

/* Prints the line of one store, or a JSON line. *groups is the number of groups of all stores
 * before it; those of this store are added. The message of a failure names the store. */
static int print_store(const char *path, bool json, int64_t *groups, struct err *e)
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

int lookup_main(struct options *o)
{
    struct err e = {0};
    int64_t groups = 0;
    int status = EXIT_DONE;
    if (!o->json)
        puts("Start\tEnd\tName");
    for (int k = 0; k < o->files.n; k++)
        if (print_store(o->files.paths[k], o->json, &groups, &e))
            status = cli_worst(status, cli_failed(&e));
    return status;
}
