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
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "slide,reason,output\n"

struct row {
    char *slide, *output, *reason; /* owned */
    char *path;                    /* of a row of this run: of the slide, as given; owned */
};

struct rows {
    struct row *list; /* owned */
    int64_t n;
    void *seen; /* set of rows that were read */
};

struct failed_list {
    enum failed_list_of what;
    char *folder, *path;
    int64_t tasks;
    char share[48];   /* "I-of-N.", or "" */
    struct rows rows; /* of this run */
    char **done;      /* [n_done]: what this run has done; owned */
    int64_t n_done;
};

/* --- names --- */

#define CLAIMED "claimed-"

/* What follows "failed." and the share in the name of a list, "I-of-N." or nothing; NULL: it is
 * another file. *n gets the length of the share. */
static const char *after_share(const char *name, size_t *n)
{
    static const char begin[] = "failed.";
    int64_t task, tasks;
    char again[48];
    *n = 0;
    if (strncmp(name, begin, strlen(begin)) != 0)
        return NULL;
    name += strlen(begin);
    if (sscanf(name, "%" SCNd64 "-of-%" SCNd64 ".", &task, &tasks) != 2)
        return name;
    *n = (size_t)snprintf(again, sizeof again, "%" PRId64 "-of-%" PRId64 ".", task, tasks);
    return strncmp(name, again, *n) ? NULL : name + *n;
}

/* "claimed-0123456789abcdef.csv" */
static bool is_claim(const char *rest)
{
    const size_t mark = strlen(CLAIMED);
    return !strncmp(rest, CLAIMED, mark) && strspn(rest + mark, "0123456789abcdef") == 16 &&
           !strcmp(rest + mark + 16, ".csv");
}

static bool is_name(const char *name)
{
    size_t n;
    const char *rest = after_share(name, &n);
    return rest && (!strcmp(rest, "csv") || is_claim(rest));
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

static struct row *add_row(struct rows *r, const char *slide, const char *output,
                           const char *reason)
{
    r->list = memory_grow(r->list, r->n, sizeof *r->list);
    r->list[r->n] =
        (struct row){memory_copy(slide), memory_copy(output), memory_copy(reason), NULL};
    return &r->list[r->n++];
}

static void free_rows(struct rows *r)
{
    for (int64_t k = 0; k < r->n; k++) {
        free(r->list[k].slide);
        free(r->list[k].output);
        free(r->list[k].reason);
        free(r->list[k].path);
    }
    free(r->list);
    memory_forget(&r->seen);
    *r = (struct rows){0};
}

int failed_list_rows(const char *path, failed_list_row *row, void *ctx, struct err *e)
{
    struct table t = {0};
    int bad = table_read(&t, path, e);
    const int64_t slide = bad ? 0 : table_column(&t, "slide");
    const int64_t reason = bad ? 0 : table_column(&t, "reason");
    const int64_t output = bad ? 0 : table_column(&t, "output");
    if (!bad && (slide < 0 || reason < 0))
        bad = err_set(e, "%s: the header is not slide,reason", path);
    for (int64_t k = 1; !bad && k <= t.rows; k++)
        bad = row(ctx, table_cell(&t, k, slide), output < 0 ? "" : table_cell(&t, k, output),
                  table_cell(&t, k, reason), e);
    table_free(&t);
    return bad ? -1 : 0;
}

/* Two files may hold the same row for a moment. */
static int take_row(void *ctx, const char *slide, const char *output, const char *reason,
                    struct err *e)
{
    struct rows *rows = ctx;
    char *both = memory_print("%s\n%s", slide, reason);
    (void)e;
    if (!memory_note(&rows->seen, both, ""))
        add_row(rows, slide, output, reason);
    free(both);
    return 0;
}

struct reading {
    struct rows rows;
    bool vanished; /* a file that another program has renamed meanwhile */
};

static int read_list(void *ctx, const char *path, struct err *e)
{
    struct reading *r = ctx;
    struct err why = {0};
    if (!failed_list_rows(path, take_row, &r->rows, &why))
        return 0;
    r->vanished = r->vanished || why.kind == ERR_ABSENT;
    return why.kind == ERR_ABSENT ? 0 : err_copy(e, &why);
}

int failed_list_read(const char *folder, failed_list_row *row, void *ctx, struct err *e)
{
    enum { TRIES = 20 };
    struct reading r = {.vanished = true};
    int bad = 0;
    for (int k = 0; k < TRIES && r.vanished && !bad; k++) {
        free_rows(&r.rows);
        r.vanished = false;
        bad = failed_list_find(folder, read_list, &r, e);
    }
    for (int64_t k = 0; k < r.rows.n && !bad; k++)
        bad = row(ctx, r.rows.list[k].slide, r.rows.list[k].output, r.rows.list[k].reason, e);
    free_rows(&r.rows);
    return bad ? -1 : 0;
}

/* Is the list one that this run replaces: its own, and without shares those of all? */
static bool is_replaced(const struct failed_list *l, const char *path)
{
    size_t n;
    const char *name = path_base_name(path), *rest = after_share(name, &n);
    return !l->tasks || (rest && n == strlen(l->share) && !strncmp(rest - n, l->share, n));
}

static int drop_list(void *ctx, const char *path, struct err *e)
{
    if (!is_replaced(ctx, path) || !unlink(path) || errno == ENOENT)
        return 0;
    return err_write(e, "%s: cannot be removed", path);
}

static int check_list(void *ctx, const char *path, struct err *e)
{
    struct reading r = {0};
    const int bad = is_replaced(ctx, path) ? read_list(&r, path, e) : 0;
    free_rows(&r.rows);
    return bad;
}

struct failed_list *failed_list_create(enum failed_list_of what, const char *folder, int64_t task,
                                       int64_t tasks, bool anew, struct err *e)
{
    struct failed_list *l = memory_need(1, sizeof *l);
    l->what = what;
    l->tasks = tasks > 1 ? tasks : 0;
    if (l->tasks)
        snprintf(l->share, sizeof l->share, "%" PRId64 "-of-%" PRId64 ".", task, tasks);
    l->folder = memory_copy(folder);
    char *name = memory_print("failed.%scsv", l->share);
    l->path = folder_join(folder, name);
    free(name);
    if (!failed_list_find(folder, anew ? drop_list : check_list, l, e))
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
    if (!l)
        return;
    l->done = memory_grow(l->done, l->n_done, sizeof *l->done);
    l->done[l->n_done++] = memory_copy(path);
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

bool failed_list_is_copy(const char *slide, const char *reason)
{
    bool is = false;
    for (int shown = 0; shown <= 1 && !is; shown++) { /* the name, or as messages show it */
        char *begin = memory_print("%s: " FAILED_COPY_OF, slide);
        if (shown)
            err_clean(begin);
        is = !strncmp(reason, begin, strlen(begin));
        free(begin);
    }
    return is;
}

void failed_list_add(struct failed_list *l, const char *path, size_t below, const char *output,
                     const char *reason)
{
    struct err text, shown; /* as messages show the path */
    if (!l)
        return;
    const char *name = row_name(path, below);
    err_set(&text, "%s", reason);
    err_set(&shown, "%s", path);
    if (name != path)
        err_replace(&text, shown.msg, name);
    add_row(&l->rows, name, output, text.msg)->path = memory_copy(path);
}

/* --- the rows of lists that this run replaces --- */

/* The path below the root. A slide that is a link keeps its own name, which is that of its row. */
static char *whole_path(const char *path)
{
    const char *base = path_base_name(path);
    char *folder = base > path ? memory_copy_part(path, (size_t)(base - path)) : memory_copy(".");
    char *real = realpath(folder, NULL);
    char *whole = real ? folder_join(real, base) : memory_copy(path);
    free(folder);
    free(real);
    return whole;
}

/* Rows name slides as runs were given them, from whatever folder: any end of the path may be the
 * name. */
static bool is_of(const struct failed_list *l, const struct row *r, const char *path,
                  const char *whole)
{
    return l->what == FAILED_RESULTS ? names_result(r->slide, path)
                                     : ends_path(path, r->slide) || ends_path(whole, r->slide);
}

/* The rows of a list: those of older lists about slides that this run has not met, and this
 * run's. */
static void join(const struct failed_list *l, const struct rows *old, struct rows *all)
{
    const int64_t n = old->n > 0 ? l->n_done + l->rows.n : 0;
    const char **met = memory_need((size_t)n + 1, sizeof *met);
    char **whole = memory_need((size_t)n + 1, sizeof *whole);
    for (int64_t k = 0; k < n; k++) {
        met[k] = k < l->n_done ? l->done[k] : l->rows.list[k - l->n_done].path;
        whole[k] = whole_path(met[k]);
    }
    for (int64_t k = 0; k < old->n; k++) {
        const struct row *r = &old->list[k];
        bool is_met = false;
        for (int64_t m = 0; m < n && !is_met; m++)
            is_met = is_of(l, r, met[m], whole[m]);
        if (!is_met)
            add_row(all, r->slide, r->output, r->reason);
    }
    for (int64_t k = 0; k < l->rows.n; k++)
        add_row(all, l->rows.list[k].slide, l->rows.list[k].output, l->rows.list[k].reason);
    for (int64_t k = 0; k < n; k++)
        free(whole[k]);
    free(whole);
    free(met);
}

/* --- writing ---
 *
 * Several programs may write the list at once, on nodes that share no locks. Each takes lists over
 * by renaming them to a name of its own, which succeeds for one program only, writes a list with
 * their rows, and links it to the final name, which succeeds only while there is no file. If there
 * is one, it is taken over, too. Files that were taken over go when their rows are in another file:
 * whenever a program ends, every row is in a file that readers find.
 */

/* Names that this program has taken lists over to. */
struct claims {
    char **paths; /* [n]; owned */
    int64_t n;
};

static void free_claims(struct claims *c)
{
    for (int64_t k = 0; k < c->n; k++)
        free(c->paths[k]);
    free(c->paths);
    *c = (struct claims){0};
}

/* A new name for a list of this run's share. Owned by `c`. NULL: errno says why. */
static const char *new_claim(const struct failed_list *l, struct claims *c)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return NULL;
    char *name = memory_print("failed.%s" CLAIMED "%016" PRIx64 ".csv", l->share, number);
    c->paths = memory_grow(c->paths, c->n, sizeof *c->paths);
    c->paths[c->n++] = folder_join(l->folder, name);
    free(name);
    return c->paths[c->n - 1];
}

struct claiming {
    const struct failed_list *l;
    struct claims *claims;
    bool foreign; /* also what another program has taken over */
};

static bool is_mine(const struct claims *c, const char *path)
{
    for (int64_t k = 0; k < c->n; k++)
        if (!strcmp(path, c->paths[k]))
            return true;
    return false;
}

static bool is_foreign(const struct claims *c, const char *path)
{
    size_t n;
    const char *rest = after_share(path_base_name(path), &n);
    return rest && is_claim(rest) && !is_mine(c, path);
}

/* Takes a list over, unless another program is faster. */
static int claim(void *ctx, const char *path, struct err *e)
{
    struct claiming *c = ctx;
    if (!is_replaced(c->l, path) || is_mine(c->claims, path) ||
        (!c->foreign && is_foreign(c->claims, path)))
        return 0;
    const char *to = new_claim(c->l, c->claims);
    if (!to || (rename(path, to) && errno != ENOENT))
        return err_write(e, "%s: cannot be renamed", path);
    return 0;
}

static int note_foreign(void *ctx, const char *path, struct err *e)
{
    struct claiming *c = ctx;
    (void)e;
    c->foreign = c->foreign || (is_replaced(c->l, path) && is_foreign(c->claims, path));
    return 0;
}

/* Another program that is at work with a list is done in a moment. One that has died is not. */
static void wait_for_others(const struct failed_list *l, struct claims *claims)
{
    enum { TRIES = 100, PAUSE = 20000 }; /* us */
    struct claiming c = {l, claims, true};
    for (int k = 0; k < TRIES && c.foreign; k++) {
        c.foreign = false;
        failed_list_find(l->folder, note_foreign, &c, NULL);
        if (c.foreign)
            usleep(PAUSE);
    }
}

static int write_rows(const struct rows *r, int fd)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = memory_stream(&text, &size);
    fputs(HEAD, f);
    for (int64_t k = 0; k < r->n; k++) {
        csv_exact(f, r->list[k].slide);
        putc(',', f);
        csv_exact(f, r->list[k].reason);
        putc(',', f);
        csv_exact(f, r->list[k].output);
        putc('\n', f);
    }
    memory_stream_end(f);
    const int bad = write_whole(fd, text, size);
    free(text);
    return bad;
}

static int publish_rows(const struct rows *r, const char *path, struct err *e)
{
    struct publish p;
    if (publish_begin(&p, path, e))
        return -1;
    if (write_rows(r, p.fd)) {
        err_write(e, "cannot be written");
        publish_abort(&p);
        return -1;
    }
    return publish_commit(&p, e);
}

/* Removes lists that were taken over, but for `kept`. */
static int remove_claims(const struct claims *c, const char *kept, struct err *e)
{
    for (int64_t k = 0; k < c->n; k++)
        if (c->paths[k] != kept && unlink(c->paths[k]) && errno != ENOENT)
            return err_write(e, "%s: cannot be removed", c->paths[k]);
    return 0;
}

static int read_claims(const struct claims *c, struct rows *rows, struct err *e)
{
    struct reading r = {.rows = *rows};
    int bad = 0;
    for (int64_t k = 0; k < c->n && !bad; k++)
        bad = read_list(&r, c->paths[k], e);
    *rows = r.rows;
    return bad;
}

/* Does the file system make no second names of files? */
static bool lacks_links(int code)
{
    return code == EPERM || code == ENOTSUP || code == EOPNOTSUPP || code == ENOSYS ||
           code == EMLINK || code == EXDEV;
}

/* Gives a list its final name. 1: there is a file of this name; -1: failed. On a file system
 * without links it keeps its name, which readers find, too. */
static int give_name(const struct failed_list *l, const char *path, const char **kept,
                     struct err *e)
{
    *kept = NULL;
    if (!link(path, l->path))
        return publish_sync_folder_of(l->path, e);
    if (errno == EEXIST)
        return 1;
    if (!lacks_links(errno))
        return err_write(e, "cannot be created");
    *kept = path;
    return 0;
}

/* Takes lists over and writes one with all rows, whose number *n gets, and *copies that of copies. 1: there is another list
 * again. */
static int write_once(const struct failed_list *l, struct claims *c, bool foreign, int64_t *n,
                      int64_t *copies, struct err *e)
{
    struct claiming how = {l, c, foreign};
    struct rows old = {0}, all = {0};
    struct stat st;
    const char *kept = NULL;
    int bad = failed_list_find(l->folder, claim, &how, e) || read_claims(c, &old, e) ? -1 : 0;
    join(l, &old, &all);
    *n = all.n;
    *copies = 0;
    for (int64_t k = 0; k < all.n; k++)
        *copies += failed_list_is_copy(all.list[k].slide, all.list[k].reason);
    if (!bad && all.n > 0 && lstat(l->path, &st) == 0 && !text_file_begins_with(l->path, HEAD))
        bad = err_set(e,
                      "%s: already exists and is not a list of failed slides; not overwritten: "
                      "rename it",
                      l->path);
    else if (!bad && all.n > 0) {
        const char *path = new_claim(l, c);
        bad = !path || publish_rows(&all, path, e) ? err_add(e, "%s", l->path)
                                                   : give_name(l, path, &kept, e);
    }
    if (!bad)
        bad = remove_claims(c, kept, e);
    free_rows(&old);
    free_rows(&all);
    return bad;
}

static int has_list(void *ctx, const char *path, struct err *e)
{
    struct claiming *c = ctx;
    (void)e;
    c->foreign = c->foreign || is_replaced(c->l, path);
    return 0;
}

int failed_list_write(struct failed_list *l, bool quiet, struct err *e)
{
    enum { TRIES = 1000 };
    struct claims c = {0};
    struct claiming any = {l, &c, false};
    int64_t n = 0, copies = 0;
    char of_these[64] = "";
    int r = 1;
    if (!l || failed_list_find(l->folder, has_list, &any, e) || (!any.foreign && l->rows.n == 0))
        return 0;
    wait_for_others(l, &c);
    for (int k = 0; k < TRIES && r == 1; k++)
        r = write_once(l, &c, k == 0, &n, &copies, e);
    free_claims(&c);
    if (r)
        return r < 0 ? -1
                     : err_blame(e, ERR_TROUBLE, "%s: other programs keep replacing it", l->path);
    if (copies)
        snprintf(of_these, sizeof of_these, " (%" PRId64 " %s)", copies,
                 copies == 1 ? "copy" : "copies");
    if (n > 0 && !quiet)
        cli_say("%" PRId64 " slide%s no %s%s; %s lists %s", n, n == 1 ? " has" : "s have",
                l->what == FAILED_STORES ? "store" : "result", of_these, l->path,
                n == 1 ? "it" : "them");
    return 0;
}

void failed_list_free(struct failed_list *l)
{
    if (!l)
        return;
    free_rows(&l->rows);
    for (int64_t k = 0; k < l->n_done; k++)
        free(l->done[k]);
    free(l->done);
    free(l->folder);
    free(l->path);
    free(l);
}
