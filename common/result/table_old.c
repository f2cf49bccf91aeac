/* table_old.c - see table_old.h. */
#include "common/result/table_old.h"

#include "common/base/version.h"
#include "common/result/result_table.h"

#include <stdlib.h>
#include <string.h>

struct table_old {
    struct result *r;
    int64_t n;
    char **paths;  /* [n], sorted; owned */
    int64_t *rows; /* [n], in the same order */
};

struct sorted {
    char *path;
    int64_t row;
};

static int by_path(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    const int order = strcmp(x->path, y->path);
    return order ? order : x->row < y->row ? -1 : x->row > y->row;
}

static bool list_paths(const struct table_old *o, struct sorted *list)
{
    for (int64_t k = 0; k < o->n; k++) {
        char path[RESULT_ROW_PATH];
        struct result_stamp stamp;
        result_table_source(result_table_of(o->r), k, path, &stamp);
        list[k] = (struct sorted){strdup(path), k};
        if (!list[k].path)
            return false;
    }
    return true;
}

/* Also of those that could be listed before memory ended. */
static bool sort_paths(struct table_old *o)
{
    struct sorted *list = calloc((size_t)o->n + 1, sizeof *list);
    o->paths = calloc((size_t)o->n + 1, sizeof *o->paths);
    o->rows = calloc((size_t)o->n + 1, sizeof *o->rows);
    const bool good = list && o->paths && o->rows && list_paths(o, list);
    if (good)
        qsort(list, (size_t)o->n, sizeof *list, by_path);
    for (int64_t k = 0; list && o->paths && o->rows && k < o->n; k++) {
        o->paths[k] = list[k].path;
        o->rows[k] = list[k].row;
    }
    free(list);
    return good;
}

struct table_old *table_old_open(const char *path)
{
    struct err e = {""};
    struct table_old *o = calloc(1, sizeof *o);
    if (o && (o->r = result_open(path, &e)) && result_table_of(o->r) &&
        !strcmp(result_creator(o->r), "h5spec " WSI_VERSION)) {
        o->n = result_slides(o->r);
        if (sort_paths(o))
            return o;
    }
    table_old_close(o);
    return NULL;
}

struct result *table_old_result(const struct table_old *o)
{
    return o->r;
}

/* The first row whose path is not less. */
static int64_t find_first(const struct table_old *o, const char *path)
{
    int64_t low = 0, high = o->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(o->paths[middle], path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Was the result of a row the same, and had it n slides? */
static bool is_same(const struct table_old *o, int64_t row, const struct result_stamp *now,
                    int64_t n)
{
    char path[RESULT_ROW_PATH];
    struct result_stamp then;
    result_table_source(result_table_of(o->r), row, path, &then);
    return then.bytes == now->bytes && then.mtime_ns == now->mtime_ns && then.slides == n;
}

int64_t table_old_find(const struct table_old *o, const char *path, const struct result_stamp *now,
                       const int64_t **rows)
{
    const int64_t first = find_first(o, path);
    int64_t end = first;
    *rows = o->rows + first;
    while (end < o->n && !strcmp(o->paths[end], path))
        end++;
    for (int64_t k = first; k < end; k++)
        if (!is_same(o, o->rows[k], now, end - first))
            return 0;
    return end - first;
}

void table_old_close(struct table_old *o)
{
    if (!o)
        return;
    result_close(o->r);
    for (int64_t k = 0; o->paths && k < o->n; k++)
        free(o->paths[k]);
    free(o->paths);
    free(o->rows);
    free(o);
}
