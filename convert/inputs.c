/* inputs.c - see inputs.h. */
#include "convert/inputs.h"

#include "common/cli.h"
#include "convert/slide.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 32 };

static int no_memory(struct err *e)
{
    return err_set(e, "out of memory");
}

/* Takes over `problem`. */
static int add(struct inputs *in, const char *path, char *problem, struct err *e)
{
    struct input *more = realloc(in->list, (in->n + 1) * sizeof *more);
    if (!more)
        return no_memory(e);
    in->list = more;
    in->list[in->n] = (struct input){.path = strdup(path), .problem = problem};
    return in->list[in->n++].path ? 0 : no_memory(e);
}

static int add_problem(struct inputs *in, const char *path, const char *what, struct err *e)
{
    char *text;
    if (asprintf(&text, "%s: %s", path, what) < 0)
        return no_memory(e);
    return add(in, path, text, e);
}

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Every slide below a folder; hidden files, and folders that are links, are left out. */
static int search(struct inputs *in, const char *folder, int depth, struct err *e)
{
    DIR *d = opendir(folder);
    if (!d)
        return add_problem(in, folder, strerror(errno), e);
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(d));) {
        struct stat st;
        char *path;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/",
                     entry->d_name) < 0) {
            r = no_memory(e);
            break;
        }
        if (stat(path, &st) == 0) {
            if (S_ISDIR(st.st_mode) && !is_link(path) && depth < MOST_DEPTH)
                r = search(in, path, depth + 1, e);
            else if (S_ISREG(st.st_mode) && slide_has_name(path))
                r = add(in, path, NULL, e);
        }
        free(path);
    }
    closedir(d);
    return r;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->path, ((const struct input *)b)->path);
}

int inputs_add(struct inputs *in, const char *word, struct err *e)
{
    struct stat st;
    if (!*word || stat(word, &st) || !S_ISDIR(st.st_mode))
        return add(in, word, NULL, e);
    const size_t before = in->n;
    if (search(in, word, 0, e))
        return -1;
    if (in->n == before)
        return add_problem(in, word, "a folder without slides; give one that has some", e);
    qsort(in->list + before, in->n - before, sizeof *in->list, by_path);
    return 0;
}

static int add_line(void *ctx, const char *path, struct err *e)
{
    return inputs_add(ctx, path, e);
}

int inputs_add_list(struct inputs *in, const char *file, struct err *e)
{
    return cli_list(file, add_line, in, e);
}

bool inputs_is_file(const char *output)
{
    struct stat st;
    const size_t n = strlen(output);
    return n > 3 && !strcmp(output + n - 3, ".h5") &&
           !(stat(output, &st) == 0 && S_ISDIR(st.st_mode));
}

/* FOLDER/NAME.h5, NAME being the slide's without its ending. NULL when out of memory. */
static char *target_of(const char *folder, const char *path)
{
    char *target;
    const char *base = cli_base_name(path), *dot = strrchr(base, '.');
    const size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    const char *slash = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
    return asprintf(&target, "%s%s%.*s.h5", folder, slash, (int)n, base) < 0 ? NULL : target;
}

static int by_target(const void *a, const void *b)
{
    const struct input *x = *(struct input *const *)a, *y = *(struct input *const *)b;
    const int order = strcmp(x->target, y->target);
    return order ? order : x < y ? -1 : x > y;
}

/* Marks those whose target an earlier one has. */
static int mark_clashes(struct inputs *in, struct err *e)
{
    struct input **sorted = malloc((in->n + 1) * sizeof *sorted);
    if (!sorted)
        return no_memory(e);
    int r = 0;
    for (size_t k = 0; k < in->n; k++)
        sorted[k] = &in->list[k];
    qsort(sorted, in->n, sizeof *sorted, by_target);
    for (size_t k = 1, first = 0; k < in->n && r == 0; k++) {
        if (strcmp(sorted[first]->target, sorted[k]->target)) {
            first = k;
            continue;
        }
        if (!sorted[k]->problem &&
            asprintf(&sorted[k]->problem, "%s: its store %s is also that of %s; convert them into two "
                     "folders", sorted[k]->path, sorted[k]->target, sorted[first]->path) < 0) {
            sorted[k]->problem = NULL;
            r = no_memory(e);
        }
    }
    free(sorted);
    return r;
}

static int by_path_then_order(const void *a, const void *b)
{
    const struct input *x = *(struct input *const *)a, *y = *(struct input *const *)b;
    const int order = strcmp(x->path, y->path);
    return order ? order : x < y ? -1 : x > y;
}

/* A slide that was named twice is converted once. */
static int drop_repeats(struct inputs *in, struct err *e)
{
    struct input **sorted = malloc((in->n + 1) * sizeof *sorted);
    size_t kept = 0;
    if (!sorted)
        return no_memory(e);
    for (size_t k = 0; k < in->n; k++)
        sorted[k] = &in->list[k];
    qsort(sorted, in->n, sizeof *sorted, by_path_then_order);
    for (size_t k = in->n; k > 1; k--)
        if (!strcmp(sorted[k - 1]->path, sorted[k - 2]->path)) {
            free(sorted[k - 1]->path);
            free(sorted[k - 1]->problem);
            sorted[k - 1]->path = NULL;
        }
    for (size_t k = 0; k < in->n; k++)
        if (in->list[k].path)
            in->list[kept++] = in->list[k];
    in->n = kept;
    free(sorted);
    return 0;
}

int inputs_assign(struct inputs *in, const char *output, struct err *e)
{
    if (drop_repeats(in, e))
        return -1;
    for (size_t k = 0; k < in->n; k++) {
        struct input *i = &in->list[k];
        i->target = inputs_is_file(output) ? strdup(output) : target_of(output, i->path);
        if (!i->target)
            return no_memory(e);
    }
    return mark_clashes(in, e);
}

static void input_free(struct input *i)
{
    free(i->path);
    free(i->target);
    free(i->problem);
}

void inputs_share(struct inputs *in, int64_t task, int64_t tasks)
{
    size_t kept = 0;
    for (size_t k = 0; k < in->n; k++) {
        if ((int64_t)k % tasks == task - 1)
            in->list[kept++] = in->list[k];
        else
            input_free(&in->list[k]);
    }
    in->n = kept;
}

void inputs_free(struct inputs *in)
{
    for (size_t k = 0; k < in->n; k++)
        input_free(&in->list[k]);
    free(in->list);
    *in = (struct inputs){0};
}
