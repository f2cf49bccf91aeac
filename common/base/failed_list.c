/* failed_list.c - see failed_list.h. */
#include "common/base/failed_list.h"

#include "common/base/folder.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "slide,reason\n"

struct failed_list {
    char *folder, *path;
    int64_t tasks, n;
    FILE *f; /* rows; in memory */
    char *text;
    size_t size;
};

/* --- names --- */

/* Is this the name of a list? *tasks: 0 for failed.csv, N for failed.I-of-N.csv. */
static bool is_name(const char *name, int64_t *tasks)
{
    int64_t task;
    char again[64];
    *tasks = 0;
    if (!strcmp(name, "failed.csv"))
        return true;
    if (sscanf(name, "failed.%" SCNd64 "-of-%" SCNd64 ".csv", &task, tasks) != 2)
        return false;
    snprintf(again, sizeof again, "failed.%" PRId64 "-of-%" PRId64 ".csv", task, *tasks);
    return !strcmp(name, again);
}

static bool is_ours(const char *path)
{
    char head[sizeof HEAD] = "";
    struct stat st;
    FILE *f = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    const size_t n = f ? fread(head, 1, sizeof HEAD - 1, f) : 0;
    if (f)
        fclose(f);
    return n == sizeof HEAD - 1 && !memcmp(head, HEAD, n);
}

static int is_list(const struct dirent *d)
{
    int64_t tasks;
    return is_name(d->d_name, &tasks);
}

int failed_list_find(const char *folder, int (*file)(void *ctx, const char *path, struct err *e),
                     void *ctx, struct err *e)
{
    struct dirent **found = NULL;
    int bad = 0;
    const int n = scandir(folder, &found, is_list, alphasort);
    for (int k = 0; k < n; k++) {
        char *path = bad ? NULL : folder_join(folder, found[k]->d_name);
        if (!bad)
            bad = path ? is_ours(path) && file(ctx, path, e) : err_set(e, "out of memory");
        free(path);
        free(found[k]);
    }
    free(found);
    return bad ? -1 : 0;
}

/* --- writing --- */

struct failed_list *failed_list_create(const char *folder, int64_t task, int64_t tasks)
{
    char name[64] = "failed.csv";
    struct failed_list *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    if (tasks > 1)
        snprintf(name, sizeof name, "failed.%" PRId64 "-of-%" PRId64 ".csv", task, tasks);
    l->tasks = tasks > 1 ? tasks : 0;
    l->folder = strdup(folder);
    l->path = folder_join(folder, name);
    l->f = open_memstream(&l->text, &l->size);
    if (l->folder && l->path && l->f && fputs(HEAD, l->f) >= 0)
        return l;
    failed_list_free(l);
    return NULL;
}

static void put_cell(FILE *f, const char *s, char after)
{
    putc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            putc('"', f);
        putc(*s, f);
    }
    putc('"', f);
    putc(after, f);
}

void failed_list_add(struct failed_list *l, const char *slide, const char *reason)
{
    struct err text, shown; /* as messages show the path */
    const char *slash = strrchr(slide, '/'), *name = slash && slash[1] ? slash + 1 : slide;
    if (!l)
        return;
    err_set(&text, "%s", reason);
    err_set(&shown, "%s", slide);
    if (name != slide) /* the folder stays out of the list, as out of every file */
        text_replace(text.msg, sizeof text.msg, shown.msg, name);
    put_cell(l->f, name, ',');
    put_cell(l->f, text.msg, '\n');
    l->n++;
}

static int publish_text(const struct failed_list *l, struct err *e)
{
    struct publish p;
    struct stat st;
    if (lstat(l->path, &st) == 0 && !is_ours(l->path))
        return err_set(e, "already exists and is not a list of failed slides; not overwritten: "
                          "rename it");
    if (publish_begin(&p, l->path, e))
        return -1;
    if (write_whole(p.fd, l->text, l->size)) {
        err_sys(e, "cannot be written");
        publish_abort(&p);
        return -1;
    }
    return publish_commit(&p, e);
}

/* Removes a list that this run makes obsolete. */
static int remove_old(void *ctx, const char *path, struct err *e)
{
    const struct failed_list *l = ctx;
    int64_t tasks;
    const bool own = !strcmp(path, l->path);
    is_name(strrchr(path, '/') + 1, &tasks);
    if (own ? l->n > 0 : tasks == l->tasks)
        return 0;
    return unlink(path) && errno != ENOENT ? err_sys(e, "%s: cannot be removed", path) : 0;
}

int failed_list_write(struct failed_list *l, struct err *e)
{
    const bool failed = fflush(l->f) || ferror(l->f);
    if (failed)
        return err_set(e, "%s: out of memory", l->path);
    if (l->n > 0 && publish_text(l, e))
        return err_add(e, "%s", l->path);
    return failed_list_find(l->folder, remove_old, l, e);
}

int64_t failed_list_count(const struct failed_list *l)
{
    return l->n;
}

const char *failed_list_path(const struct failed_list *l)
{
    return l->path;
}

void failed_list_free(struct failed_list *l)
{
    if (!l)
        return;
    if (l->f)
        fclose(l->f);
    free(l->text);
    free(l->folder);
    free(l->path);
    free(l);
}
