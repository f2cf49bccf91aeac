/* lookup.c - see lookup.h. */
#include "process/lookup.h"

#include "common/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void lookup_begin(void)
{
    puts("Start\tEnd\tName");
}

int lookup_print(const char *path, int64_t *groups, struct err *e)
{
    if (strpbrk(path, "\t\n\r"))
        return err_set(e, "%s: a name with a tab or a line's end cannot be in the table; rename it", path);
    struct store *s = store_open(path, e);
    if (!s)
        return -1;
    const int64_t first = *groups + 1;
    *groups += store_info(s)->group_count;
    store_close(s);
    printf("%" PRId64 "\t%" PRId64 "\t%s\n", first, *groups, path);
    return 0;
}
