/* failed_list.c - see failed_list.h. */
#include "common/base/failed_list.h"

#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"

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

struct row {
    char *slide, *reason; /* owned; NULL: the row is gone */
};

struct failed_list {
    enum failed_list_of what;
    char *folder, *path;
    int64_t tasks, n, n_old; /* rows; the first n_old are of earlier runs */
    struct row *rows;
};

/* --- names --- */

static bool is_name(const char *name)
{
    int64_t task, tasks;
    char again[64];
    if (!strcmp(name, "failed.csv"))
        return true;
    if (sscanf(name, "failed.%" SCNd64 "-of-%" SCNd64 ".csv", &task, &tasks) != 2)
        return false;
    snprintf(again, sizeof again, "failed.%" PRId64 "-of-%" PRId64 ".csv", task, tasks);
    return !strcmp(name, again);
}

static int is_list(const struct dirent *d)
{
    return is_name(d->d_name);
}

int failed_list_find(const char *folder, int (*file)(void *ctx, const char *path, struct err *e),
                     void *ctx, struct err *e)
{
    struct dirent **found = NULL;
    int bad = 0;
    const int n = scandir(folder, &found, is_list, alphasort);
    for (int k = 0; k < n; k++) {
        char *path = folder_join(folder, found[k]->d_name);
        bad = bad || (text_file_begins_with(path, HEAD) && file(ctx, path, e));
        free(path);
        free(found[k]);
    }
    free(found);
    return bad ? -1 : 0;
}

/* --- rows --- */

static void add_row(struct failed_list *l, const char *slide, const char *reason)
{
    l->rows = memory_grow(l->rows, l->n, sizeof *l->rows);
    l->rows[l->n++] = (struct row){memory_copy(slide), memory_copy(reason)};
}

static void drop_row(struct row *r)
{
    free(r->slide);
    free(r->reason);
    *r = (struct row){0};
}

int failed_list_rows(const char *path, failed_list_row *row, void *ctx, struct err *e)
{
    struct table t = {0};
    int bad = table_read(&t, path, e);
    const int64_t slide = bad ? 0 : table_column(&t, "slide");
    const int64_t reason = bad ? 0 : table_column(&t, "reason");
    if (!bad && (slide < 0 || reason < 0))
        bad = err_set(e, "%s: the header is not slide,reason", path);
    for (int64_t k = 1; !bad && k <= t.rows; k++)
        bad = row(ctx, table_cell(&t, k, slide), table_cell(&t, k, reason), e);
    table_free(&t);
    return bad ? -1 : 0;
}

struct reading {
    failed_list_row *row;
    void *ctx;
};

static int read_list(void *ctx, const char *path, struct err *e)
{
    const struct reading *r = ctx;
    return failed_list_rows(path, r->row, r->ctx, e);
}

int failed_list_read(const char *folder, failed_list_row *row, void *ctx, struct err *e)
{
    struct reading r = {row, ctx};
    return failed_list_find(folder, read_list, &r, e);
}

static int add_old(void *ctx, const char *slide, const char *reason, struct err *e)
{
    (void)e;
    add_row(ctx, slide, reason);
    return 0;
}

/* Takes the rows of a list of earlier runs that this run replaces. */
static int take_old(void *ctx, const char *path, struct err *e)
{
    const struct failed_list *l = ctx;
    return l->tasks && strcmp(path, l->path) != 0 ? 0 : failed_list_rows(path, add_old, ctx, e);
}

struct failed_list *failed_list_create(enum failed_list_of what, const char *folder, int64_t task,
                                       int64_t tasks, bool anew, struct err *e)
{
    char name[64] = "failed.csv";
    struct failed_list *l = memory_need(1, sizeof *l);
    if (tasks > 1)
        snprintf(name, sizeof name, "failed.%" PRId64 "-of-%" PRId64 ".csv", task, tasks);
    l->what = what;
    l->tasks = tasks > 1 ? tasks : 0;
    l->folder = memory_copy(folder);
    l->path = folder_join(folder, name);
    const int bad = anew ? 0 : failed_list_find(folder, take_old, l, e);
    l->n_old = l->n;
    if (!bad)
        return l;
    failed_list_free(l);
    return NULL;
}

/* Are these the last parts of the path? */
static bool ends_path(const char *path, const char *parts)
{
    const size_t n = strlen(path), m = strlen(parts);
    return n >= m && !strcmp(path + n - m, parts) && (n == m || path[n - m - 1] == '/');
}

/* The name without its folder and ending. Points into path; *n gets its length. */
static const char *stem_of(const char *path, size_t *n)
{
    const char *base = path_base_name(path), *dot = strrchr(base, '.');
    *n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    return base;
}

/* Would the slides or stores at these paths have one result? */
static bool names_result(const char *a, const char *b)
{
    size_t n, m;
    a = stem_of(a, &n);
    b = stem_of(b, &m);
    return n == m && !memcmp(a, b, n);
}

void failed_list_done(struct failed_list *l, const char *path)
{
    if (!l || !l->n_old)
        return;
    char *whole = l->what == FAILED_STORES ? realpath(path, NULL) : NULL;
    for (struct row *r = l->rows; r < l->rows + l->n_old; r++)
        if (r->slide && (l->what == FAILED_RESULTS ? names_result(r->slide, path)
                                                   : ends_path(whole ? whole : path, r->slide)))
            drop_row(r);
    free(whole);
}

/* A relative path is what the user can open again. Folders of an absolute one stay out of the list,
 * as out of every file, but those below the given folder. */
static const char *row_name(const char *path, size_t below)
{
    while (!strncmp(path, "./", 2)) {
        path += 2;
        below = below > 2 ? below - 2 : 0;
    }
    return *path == '/' || !strncmp(path, "..", 2) ? path + below : path;
}

void failed_list_add(struct failed_list *l, const char *path, size_t below, const char *reason)
{
    struct err text, shown; /* as messages show the path */
    if (!l)
        return;
    const char *name = row_name(path, below);
    err_set(&text, "%s", reason);
    err_set(&shown, "%s", path);
    if (name != path)
        err_replace(&text, shown.msg, name);
    for (struct row *r = l->rows; r < l->rows + l->n_old; r++)
        if (r->slide &&
            (l->what == FAILED_RESULTS ? names_result(r->slide, path) : !strcmp(r->slide, name)))
            drop_row(r);
    add_row(l, name, text.msg);
}

/* --- writing --- */

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

static int write_rows(const struct failed_list *l, int fd)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return -1;
    fputs(HEAD, f);
    for (const struct row *r = l->rows; r < l->rows + l->n; r++) {
        if (!r->slide)
            continue;
        put_cell(f, r->slide, ',');
        put_cell(f, r->reason, '\n');
    }
    const int bad = ferror(f) || fclose(f) ? -1 : write_whole(fd, text, size);
    free(text);
    return bad;
}

static int publish_text(const struct failed_list *l, struct err *e)
{
    struct publish p;
    struct stat st;
    if (lstat(l->path, &st) == 0 && !text_file_begins_with(l->path, HEAD))
        return err_set(e, "already exists and is not a list of failed slides; not overwritten: "
                          "rename it");
    if (publish_begin(&p, l->path, e))
        return -1;
    if (write_rows(l, p.fd)) {
        err_sys(e, "cannot be written");
        publish_abort(&p);
        return -1;
    }
    return publish_commit(&p, e);
}

static int64_t count_rows(const struct failed_list *l)
{
    int64_t n = 0;
    for (int64_t k = 0; k < l->n; k++)
        n += l->rows[k].slide != NULL;
    return n;
}

/* Removes a list that this run replaces: its own, and those of shares whose rows it has. */
static int remove_old(void *ctx, const char *path, struct err *e)
{
    const struct failed_list *l = ctx;
    const bool own = !strcmp(path, l->path);
    if (own ? count_rows(l) > 0 : l->tasks > 0)
        return 0;
    return unlink(path) && errno != ENOENT ? err_sys(e, "%s: cannot be removed", path) : 0;
}

int failed_list_write(struct failed_list *l, bool quiet, struct err *e)
{
    const int64_t n = l ? count_rows(l) : 0;
    if (n > 0 && publish_text(l, e))
        return err_add(e, "%s", l->path);
    if (l && failed_list_find(l->folder, remove_old, l, e))
        return -1;
    if (n > 0 && !quiet)
        cli_say("%" PRId64 " slide%s no %s; %s lists %s", n, n == 1 ? " has" : "s have",
                l->what == FAILED_STORES ? "store" : "result", l->path, n == 1 ? "it" : "them");
    return 0;
}

void failed_list_free(struct failed_list *l)
{
    if (!l)
        return;
    for (int64_t k = 0; k < l->n; k++)
        drop_row(&l->rows[k]);
    free(l->rows);
    free(l->folder);
    free(l->path);
    free(l);
}
