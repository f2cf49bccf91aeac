/* failures.c - see failures.h. */
#include "process/options/failures.h"

#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/path.h"

#include <inttypes.h>
#include <string.h>

/* --- reading --- */

struct reading {
    int (*row)(void *ctx, const char *slide, const char *reason, struct err *e);
    void *ctx;
};

static int read_list(void *ctx, const char *path, struct err *e)
{
    const struct reading *r = ctx;
    struct table t = {0};
    int bad = table_read(&t, path, e);
    const int64_t slide = bad ? 0 : table_column(&t, "slide");
    const int64_t reason = bad ? 0 : table_column(&t, "reason");
    for (int64_t k = 1; !bad && k <= t.rows; k++)
        bad = r->row(r->ctx, table_cell(&t, k, slide), table_cell(&t, k, reason), e);
    table_free(&t);
    return bad;
}

int failures_read(const char *folder,
                  int (*row)(void *ctx, const char *slide, const char *reason, struct err *e),
                  void *ctx, struct err *e)
{
    struct reading r = {row, ctx};
    return failed_list_find(folder, read_list, &r, e);
}

/* --- the list of a run --- */

static int carry(void *ctx, const char *slide, const char *reason, struct err *e)
{
    (void)e;
    failed_list_add(ctx, slide, 0, reason);
    return 0;
}

/* Of the shares of a run, the first carries on what all have in common. */
int failures_begin(struct failed_list **l, const struct options *o, struct err *e)
{
    int bad = 0;
    *l = NULL;
    if (!output_is_folder(o->output, RESULT_ENDING) || o->first_group)
        return 0;
    if (!(*l = failed_list_create(FAILED_RESULTS, o->output, o->task, o->tasks, false, e)))
        return -1;
    for (int k = 0; k < o->files.n_folders && o->task <= 1 && !bad; k++)
        bad = failures_read(o->files.folders[k], carry, *l, e);
    for (int k = 0; k < o->files.n_problems && o->task <= 1; k++)
        failures_add(*l, o, o->files.problems[k].path, o->files.problems[k].why);
    return bad;
}

void failures_add(struct failed_list *l, const struct options *o, const char *path,
                  const char *reason)
{
    size_t below = (size_t)(path_base_name(path) - path);
    for (int k = 0; k < o->files.n_folders; k++) {
        const char *folder = o->files.folders[k];
        const size_t n = strlen(folder);
        if (!strncmp(path, folder, n) && (path[n] == '/' || (n > 0 && folder[n - 1] == '/')))
            below = n + strspn(path + n, "/");
    }
    failed_list_add(l, path, below, reason);
}

int failures_end(struct failed_list *l, const struct options *o, struct err *e)
{
    if (!l)
        return 0;
    const int64_t n = failed_list_count(l);
    if (failed_list_write(l, e))
        return -1;
    if (n > 0 && !o->quiet)
        cli_say("%" PRId64 " slide%s no result; %s lists %s", n, n == 1 ? " has" : "s have",
                failed_list_path(l), n == 1 ? "it" : "them");
    return 0;
}
