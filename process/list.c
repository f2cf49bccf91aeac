/* list.c - see list.h. */
#include "process/list.h"

#include <limits.h>
#include <stdio.h>
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

int list_add_file(struct list *l, const char *file, struct err *e)
{
    char *line = NULL;
    size_t size = 0;
    int r = 0;
    FILE *f = fopen(file, "r");
    if (!f)
        return err_sys(e, "%s: cannot read the list", file);
    for (ssize_t n; r == 0 && (n = getline(&line, &size, f)) >= 0;) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = 0;
        if (n > 0 && line[0] != '#')
            r = list_add(l, line, e);
    }
    if (r == 0 && ferror(f))
        r = err_sys(e, "%s: cannot read the list", file);
    free(line);
    fclose(f);
    return r;
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
