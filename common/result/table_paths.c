/* table_paths.c - see table_paths.h. */
#include "common/result/table_paths.h"

#include "common/base/path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct table_paths {
    char *folders[2];       /* of the table, as it is named and as it is; end in a slash; owned */
    char *last, *last_from; /* a folder of results, as it was named, and seen from it; owned */
};

/* The folder of a file as it is named, from the root and with a slash at the end; to be free()d.
 * NULL if it has none, or without memory. */
static char *named_folder(const char *path)
{
    char here[PATH_MAX] = "", *folder = NULL;
    const char *base = path_base_name(path);
    if (*path != '/' && !getcwd(here, sizeof here))
        return NULL;
    if (asprintf(&folder, "%s%s%.*s", here, *path == '/' ? "" : "/", (int)(base - path), path) < 0)
        return NULL;
    /* The parts "." and empty ones say nothing. */
    char *to = folder;
    for (const char *at = folder; *at;) {
        const size_t n = strcspn(at + 1, "/");
        if (n > 0 && !(n == 1 && at[1] == '.')) {
            memmove(to, at, n + 1);
            to += n + 1;
        }
        at += n + 1;
    }
    strcpy(to, "/");
    return folder;
}

/* The same with links and ".." followed. */
static char *real_folder(const char *path)
{
    char *named = named_folder(path), *real = named ? realpath(named, NULL) : NULL, *folder = NULL;
    if (real && asprintf(&folder, "%s%s", real, real[1] ? "/" : "") < 0)
        folder = NULL;
    free(named);
    free(real);
    return folder;
}

struct table_paths *table_paths_create(const char *table, struct err *e)
{
    struct table_paths *p = calloc(1, sizeof *p);
    if (!p) {
        err_set(e, "out of memory");
        return NULL;
    }
    p->folders[0] = named_folder(table);
    p->folders[1] = real_folder(table);
    return p;
}

/* A folder seen from another one, which is the same or above it; NULL: it is not. */
static const char *seen_from(const char *folder, const char *other)
{
    const size_t n = folder ? strlen(folder) : 0;
    return n > 0 && other && !strncmp(folder, other, n) && !strstr(other + n - 1, "/../")
               ? other + n
               : NULL;
}

/* Many results are in one folder: what was found for the last one holds for the next. */
static const char *find_folder(struct table_paths *p, const char *result)
{
    const size_t n = (size_t)(path_base_name(result) - result);
    if (p->last && strlen(p->last) == n && !strncmp(p->last, result, n))
        return p->last_from;
    free(p->last);
    free(p->last_from);
    p->last_from = NULL;
    for (int k = 0; k < 2 && !p->last_from; k++) {
        char *folder = k == 0 ? named_folder(result) : real_folder(result);
        const char *seen = seen_from(p->folders[k], folder);
        p->last_from = seen ? strdup(seen) : NULL;
        free(folder);
    }
    p->last = strndup(result, n);
    return p->last_from;
}

int table_paths_find(struct table_paths *p, const char *result, char *out, size_t size,
                     struct err *e)
{
    const char *folder = find_folder(p, result);
    return folder && (size_t)snprintf(out, size, "%s%s", folder, path_base_name(result)) < size
               ? 0
               : err_set(e,
                         "%s: is not below the folder of the table, which refers to it; write "
                         "the table beside the folder of its results",
                         result);
}

void table_paths_free(struct table_paths *p)
{
    if (!p)
        return;
    free(p->folders[0]);
    free(p->folders[1]);
    free(p->last);
    free(p->last_from);
    free(p);
}
