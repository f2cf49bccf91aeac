/* list.c - see list.h. */
#include "process/list.h"

#include "common/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int list_add(struct list *l, const char *path, struct err *e)
{
    if (l->n == INT_MAX)
        return err_set(e, "more files than can be counted");
    if ((l->n & (l->n + 1)) == 0) { /* grows at 0, 1, 3, 7 ... */
        char **more = realloc(l->paths, (2 * (size_t)l->n + 2) * sizeof *more);
        if (!more)
            return err_set(e, "out of memory");
        l->paths = more;
    }
    l->paths[l->n] = strdup(path);
    return l->paths[l->n] ? (l->n++, 0) : err_set(e, "out of memory");
}

static int add_line(void *ctx, const char *path, struct err *e)
{
    return list_add(ctx, path, e);
}

int list_add_file(struct list *l, const char *file, struct err *e)
{
    return cli_list(file, add_line, l, e);
}

void list_share(struct list *l, int64_t task, int64_t tasks)
{
    int kept = 0;
    for (int k = 0; k < l->n; k++) {
        if (k % tasks == task - 1)
            l->paths[kept++] = l->paths[k];
        else
            free(l->paths[k]);
    }
    l->n = kept;
}

void list_free(struct list *l)
{
    for (int k = 0; k < l->n; k++)
        free(l->paths[k]);
    free(l->paths);
    *l = (struct list){0};
}
