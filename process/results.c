/* results.c - see results.h. */
#include "process/results.h"

#include "common/cli.h"
#include "common/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct results {
    const char *output;
    const struct result_params *params;
    int64_t first_group, last_group; /* 0, 0: all */
    bool folder;
    int64_t slides;
    struct result_writer *one; /* the one file */
};

bool results_is_folder(const char *output)
{
    struct stat st;
    const size_t n = strlen(output);
    return (n > 0 && output[n - 1] == '/') || (stat(output, &st) == 0 && S_ISDIR(st.st_mode));
}

static int check_folder(const char *folder, struct err *e)
{
    struct stat st;
    if (stat(folder, &st))
        return err_sys(e, "%s: no such output folder; create it first", folder);
    return S_ISDIR(st.st_mode) ? 0 : err_set(e, "%s: is not a folder", folder);
}

struct results *results_open(const char *output, const struct result_params *p, int64_t first_group,
                             int64_t last_group, struct err *e)
{
    struct results *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, "out of memory");
        return NULL;
    }
    *r = (struct results){.output = output, .params = p, .first_group = first_group,
                          .last_group = last_group, .folder = results_is_folder(output)};
    int bad = r->folder ? check_folder(output, e)
                        : result_check_target(output, e) || !(r->one = result_create(output, p, e));
    if (!bad)
        return r;
    free(r);
    return NULL;
}

/* The file of one slide in the folder. NULL when out of memory. */
static char *target_of(const struct results *r, const char *name, size_t n)
{
    char *target;
    const char *slash = r->output[strlen(r->output) - 1] == '/' ? "" : "/";
    const int got = r->first_group
        ? asprintf(&target, "%s%s%.*s.%" PRId64 "-%" PRId64 ".h5", r->output, slash, (int)n, name,
                   r->first_group, r->last_group)
        : asprintf(&target, "%s%s%.*s.h5", r->output, slash, (int)n, name);
    return got < 0 ? NULL : target;
}

/* --- is it there already? --- */

/* Is the slide that of the store, and does it hold the groups that are asked for? */
static int same(const struct results *r, const struct result_slide *s, const struct store_info *i)
{
    const int64_t first = r->first_group ? r->first_group : 1;
    const int64_t last = r->first_group ? r->last_group : i->group_count;
    if (strcmp(s->source_name, i->source_name) || strcmp(s->quickhash, i->quickhash) ||
        s->source_bytes != i->source_bytes || s->level != i->level || s->width != i->width ||
        s->height != i->height || s->source_gray != (i->channels == 1) ||
        s->group_rows != i->group_rows || s->group_count != i->group_count)
        return 0;
    for (int64_t g = 0; g < s->group_count; g++)
        if (s->groups[g] != (g + 1 >= first && g + 1 <= last))
            return 0;
    return 1;
}

/* 1, or -1 saying what is another. */
static int judge_slide(const struct results *r, struct result *old, const char *store, const char *target,
                       struct err *e)
{
    struct err why = {""};
    struct result_slide slide;
    if (result_same_params(result_params(old), r->params, &why))
        return err_set(e, "%s: its result %s has other parameters (%s); take another folder, or --force to "
                          "replace it", store, target, why.msg);
    if (result_slides(old) != 1 || result_load_slide(old, 0, &slide, &why))
        return err_set(e, "%s: %s is not the result of one slide; take another folder, or --force to replace "
                          "it", store, target);
    struct store *s = store_open(store, e);
    int is = s ? same(r, &slide, store_info(s)) : -1;
    store_close(s);
    result_slide_free(&slide);
    return is ? is : err_set(e, "%s: the result of another store stands at %s; take another folder, or "
                                "--force to replace it", store, target);
}

static int judge(const struct results *r, const char *store, const char *target, struct err *e)
{
    struct stat mine, its;
    struct err why = {""};
    if (stat(target, &mine) && errno == ENOENT)
        return 0;
    if (result_check_target(target, e))
        return err_add(e, "%s", store);
    if (!stat(store, &its) && (its.st_mtim.tv_sec > mine.st_mtim.tv_sec ||
                               (its.st_mtim.tv_sec == mine.st_mtim.tv_sec &&
                                its.st_mtim.tv_nsec > mine.st_mtim.tv_nsec)))
        return 0; /* the store has been made anew since */
    struct result *old = result_open(target, &why);
    if (!old)
        return 0; /* damaged */
    int is = judge_slide(r, old, store, target, e);
    result_close(old);
    return is;
}

int results_have(const struct results *r, const char *store, struct err *e)
{
    const char *base = cli_base_name(store);
    size_t n = strlen(base);
    if (!r->folder)
        return 0;
    if (n > 3 && !strcmp(base + n - 3, ".h5"))
        n -= 3;
    char *target = target_of(r, base, n);
    int is = target ? judge(r, store, target, e) : err_set(e, "out of memory");
    free(target);
    return is;
}

/* --- writing --- */

static int put_own(const struct results *r, const struct result_slide *s, struct err *e)
{
    char *target = target_of(r, s->name, strlen(s->name));
    if (!target)
        return err_set(e, "out of memory");
    struct result_writer *w = result_create(target, r->params, e);
    int bad = !w || result_put_slide(w, s, e);
    if (bad)
        result_abort(w);
    else
        bad = result_commit(w, e);
    if (bad)
        err_add(e, "%s", target);
    free(target);
    return bad ? -1 : 0;
}

int results_put(struct results *r, const struct result_slide *s, struct err *e)
{
    if (r->folder)
        return put_own(r, s, e);
    r->slides++;
    return result_put_slide(r->one, s, e) ? err_add(e, "%s", r->output) : 0;
}

int results_commit(struct results *r, struct err *e)
{
    int bad = 0;
    if (!r->folder && r->slides > 0) {
        if ((bad = result_commit(r->one, e)))
            err_add(e, "%s", r->output);
        r->one = NULL;
    }
    results_abort(r);
    return bad;
}

void results_abort(struct results *r)
{
    if (!r)
        return;
    result_abort(r->one);
    free(r);
}
