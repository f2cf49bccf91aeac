/* run_output.c - see run_output.h. */
#include "process/run/run_output.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/result/result_read.h"
#include "common/result/result_write.h"
#include "common/store/store_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct run_output {
    const char *output;
    const struct result_params *params;
    const struct regions_choice *regions;
    int64_t first_group, last_group; /* 0, 0: all */
    bool no_damage;                  /* --on-damage fail */
    bool folder;
    int64_t slides;
    struct result_writer *one; /* the one file */
    char *partial_path;        /* beside it; owned */
    struct result *partial;    /* of an earlier run, or NULL */
    struct stat taken;         /* of its file, if there is one */
};

/* --- the partial result --- */

/* The slides of an earlier run that ended early, unless they were computed otherwise. */
static void open_partial(struct run_output *r, bool quiet)
{
    struct err e = {0}, other = {0};
    if (stat(r->partial_path, &r->taken))
        return;
    if (!(r->partial = result_open(r->partial_path, &e))) {
        if (!quiet)
            cli_say("%s; all slides are computed again", e.msg);
    } else if (result_same_params(result_params(r->partial), r->params, &other)) {
        if (!quiet)
            cli_say(
                "%s: has other parameters (existing and new: %s); not used, and replaced by this "
                "run",
                r->partial_path, other.msg);
        result_close(r->partial);
        r->partial = NULL;
    }
}

static int open_one(struct run_output *r, const struct options *o, struct err *e)
{
    r->partial_path = memory_print("%s" RUN_OUTPUT_PARTIAL, r->output);
    if (result_check_target(r->output, e) || result_check_target(r->partial_path, e))
        return -1;
    if (!o->force)
        open_partial(r, o->quiet);
    r->one = result_create(r->output, r->params, e);
    return r->one ? 0 : err_add(e, "%s", r->output);
}

/* Has another program published a partial result since this run has begun, with as many slides? */
static bool is_behind(const struct run_output *r)
{
    struct stat now;
    struct err e = {0};
    if (stat(r->partial_path, &now) ||
        (now.st_dev == r->taken.st_dev && now.st_ino == r->taken.st_ino))
        return false;
    struct result *other = result_open(r->partial_path, &e);
    const bool is = other && !result_same_params(result_params(other), r->params, &e) &&
                    result_slides(other) >= r->slides;
    result_close(other);
    return is;
}

struct run_output *run_output_open(const struct options *o, struct err *e)
{
    const char *output = o->output;
    const struct result_params *p = &o->params;
    struct run_output *r = memory_need(1, sizeof *r);
    *r = (struct run_output){.output = output,
                             .params = p,
                             .regions = &o->regions,
                             .first_group = o->first_group,
                             .last_group = o->last_group,
                             .no_damage = o->reject_damaged,
                             .folder = output_is_folder(output, RESULT_ENDING)};
    const int bad = r->folder ? folder_make(output, e) : open_one(r, o, e);
    if (!bad && r->folder)
        publish_clean_folder(output); /* also of stores that will not be computed */
    if (!bad)
        return r;
    run_output_abort(r);
    return NULL;
}

/* Path of the file of one slide in the folder. */
static char *target_of(const struct run_output *r, const char *name, size_t n)
{
    const char *slash = r->output[strlen(r->output) - 1] == '/' ? "" : "/";
    return r->first_group ? memory_print("%s%s%.*s.%" PRId64 "-%" PRId64 ".h5", r->output, slash,
                                         (int)n, name, r->first_group, r->last_group)
                          : memory_print("%s%s%.*s.h5", r->output, slash, (int)n, name);
}

/* --- existing results --- */

/* Is it a result of the store's slide? */
static bool is_of_slide(const struct result_slide *s, const struct store_info *i)
{
    return !strcmp(s->source_name, i->source_name) && !strcmp(s->quickhash, i->quickhash) &&
           s->source_bytes == i->source_bytes;
}

/* Is the store as it was, in all that the numbers and groups depend on? */
static bool is_of_store(const struct result_slide *s, const struct store_info *i)
{
    return s->content_crc32 == i->content_crc32 && s->group_rows == i->group_rows &&
           s->group_count == i->group_count;
}

/* Has it the groups that are asked for? */
static bool has_groups(const struct run_output *r, const struct result_slide *s)
{
    const int64_t first = r->first_group ? r->first_group : 1;
    const int64_t last = r->first_group ? r->last_group : s->group_count;
    for (int64_t g = 0; g < s->group_count; g++)
        if (s->groups[g] != (g + 1 >= first && g + 1 <= last))
            return false;
    return true;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* A result that is up to date gets a time that says so to others: not older than `source`. */
static void make_newer(const char *target, const struct timespec *source)
{
    struct stat st;
    if (stat(target, &st) == 0 && is_older(&st.st_mtim, source))
        utimensat(AT_FDCWD, target, NULL, 0);
}

/* 1 or 0: is the slide of these regions? -1 if they cannot be read. */
static int judge_regions(const struct run_output *r, const struct result_slide *slide,
                         const char *store, const struct store_info *i, const char *target,
                         struct err *e)
{
    struct polygons p;
    struct regions_version v;
    if (!r->params->roi)
        return 1;
    if (regions_load(r->regions, store, i, &p, &v, e))
        return -1;
    polygons_free(&p);
    if (slide->roi_crc32 == v.crc32) {
        make_newer(target, &v.changed);
        return 1;
    }
    err_set(e, "%s: of other regions (--roi) than now; computed again", target);
    return 0;
}

/* As run_output_have, of a result of this store. */
static int judge_current(const struct run_output *r, const struct result_slide *slide,
                         const char *store, const struct store_info *i, const char *target,
                         struct err *e)
{
    struct stat source;
    if (stat(store, &source))
        return err_sys(e, "%s: cannot read", store);
    const int is = judge_regions(r, slide, store, i, target, e);
    if (is > 0)
        make_newer(target, &source.st_mtim);
    return is;
}

static bool is_newer_file(const char *store, const char *target)
{
    struct stat result, source;
    return stat(store, &source) == 0 && stat(target, &result) == 0 &&
           is_older(&result.st_mtim, &source.st_mtim);
}

/* As run_output_have: does the slide belong to the store? A store that another one has replaced
 * makes the result out of date: of the same slide always, of another slide of this name when the
 * store is newer. */
static int judge_slide(const struct run_output *r, const struct result_slide *slide,
                       const char *store, const char *target, struct err *e)
{
    int is = -1;
    struct store *s = store_open(store, e);
    if (!s)
        return -1;
    const bool same = is_of_slide(slide, store_info(s));
    const bool current = same && is_of_store(slide, store_info(s));
    if (current && has_groups(r, slide))
        is = judge_current(r, slide, store, store_info(s), target, e);
    else if (!current && (same || is_newer_file(store, target))) {
        err_set(e, "%s: its store has changed since; computed again", target);
        is = 0;
    } else
        err_set(e,
                "%s: %s exists and is the result of another store; name another folder, or "
                "replace it with --force",
                store, target);
    store_close(s);
    return is;
}

/* Damage that is to be rejected. */
static int reject_damaged(const struct run_output_found *found, const char *store,
                          const char *target, struct err *e)
{
    return err_set(e,
                   "%s: its result %s has %" PRId64 " damaged tile%s; rejected (--on-damage fail)",
                   store, target, found->damaged, found->damaged == 1 ? "" : "s");
}

/* See run_output_is_others(). A result that a user has renamed is not meant. */
static bool is_others(const struct result *old, const char *store, const char *target,
                      struct err *e)
{
    size_t n;
    const char *stem = path_stem(store, &n);
    const char *slide = result_slides(old) == 1 ? result_slide_name(old, 0) : "";
    if (!result_has_own_name(old, target) || (strlen(slide) == n && !memcmp(slide, stem, n)))
        return false;
    err_set(e, "%s: %s exists and is the result of slide %s; name another folder", store, target,
            slide);
    return true;
}

/* As run_output_have, of a result that can be opened. */
static int judge_result(const struct run_output *r, struct result *old, const char *store,
                        const char *target, struct run_output_found *found, struct err *e)
{
    struct result_slide slide;
    if (is_others(old, store, target, e))
        return -1;
    if (result_same_params(result_params(old), r->params, &found->other)) {
        found->kept = true;
        return err_set(e,
                       "%s: %s exists with other parameters (existing and new: %s); name another "
                       "folder, or replace it with --force",
                       store, target, found->other.msg);
    }
    if (result_slides(old) != 1)
        return err_set(e,
                       "%s: %s exists and is not the result of one slide; name another folder, "
                       "or replace it with --force",
                       store, target);
    if (result_load_slide(old, 0, &slide, e))
        return -1;
    const int is = judge_slide(r, &slide, store, target, e);
    snprintf(found->quickhash, sizeof found->quickhash, "%s", slide.quickhash);
    found->damaged = slide.origin.tiles_damaged;
    result_slide_free(&slide);
    found->kept = is > 0;
    return is > 0 && found->damaged && r->no_damage ? reject_damaged(found, store, target, e) : is;
}

static int judge(const struct run_output *r, const char *store, const char *target,
                 struct run_output_found *found, struct err *e)
{
    struct stat result;
    struct err why = {0};
    if (stat(target, &result))
        return errno == ENOENT ? 0 : err_sys(e, "%s: cannot look for its result %s", store, target);
    if (result_check_target(target, e))
        return err_add(e, "%s", store);
    struct result *old = result_check(target, &why) ? NULL : result_open(target, &why);
    if (!old) {
        err_set(e, "%s; computed again", why.msg);
        return 0;
    }
    const int is = judge_result(r, old, store, target, found, e);
    result_close(old);
    return is;
}

int run_output_have(const struct run_output *r, const char *store, struct run_output_found *found,
                    struct err *e)
{
    size_t n;
    const char *name = path_stem(store, &n);
    if (!r->folder)
        return 0;
    char *target = target_of(r, name, n);
    const int is = judge(r, store, target, found, e);
    free(target);
    return is;
}

bool run_output_is_others(const struct run_output *r, const char *store, struct err *e)
{
    size_t n;
    struct err why = {0};
    const char *name = path_stem(store, &n);
    char *target = r->folder ? target_of(r, name, n) : memory_copy("");
    const char *stem = path_stem(target, &n);
    struct result *old = result_part_of(stem, n) ? result_open(target, &why) : NULL;
    const bool is = old && is_others(old, store, target, e);
    result_close(old);
    free(target);
    return is;
}

int run_output_take(struct run_output *r, const char *store, struct result_slide *s, struct err *e)
{
    size_t n;
    struct err unread = {0};
    const char *stem = path_stem(store, &n);
    if (!r->partial)
        return 0;
    char *name = memory_copy_part(stem, n);
    const int64_t k = result_find_slide(r->partial, name);
    free(name);
    if (k < 0)
        return 0;
    if (result_load_slide(r->partial, k, s, &unread)) {
        err_set(e, "%s; computed again", unread.msg);
        return 0;
    }
    const int is = judge_slide(r, s, store, r->partial_path, e);
    if (is > 0 && !(r->no_damage && s->origin.tiles_damaged))
        return 1;
    if (is < 0) /* of another store, or the run will say what is wrong with this one */
        *e = (struct err){0};
    result_slide_free(s);
    return 0;
}

/* --- writing --- */

static int put_own(const struct run_output *r, const struct result_slide *s, struct err *e)
{
    char *target = target_of(r, s->name, strlen(s->name));
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

int run_output_put(struct run_output *r, const struct result_slide *s, struct err *e)
{
    if (r->folder)
        return put_own(r, s, e);
    r->slides++;
    return result_put_slide(r->one, s, e) ? err_add(e, "%s", r->output) : 0;
}

int run_output_commit(struct run_output *r, struct err *e)
{
    int bad = 0;
    if (!r->folder && r->slides > 0) {
        if ((bad = result_commit(r->one, e)))
            err_add(e, "%s", r->output);
        else
            unlink(r->partial_path);
        r->one = NULL;
    }
    run_output_abort(r);
    return bad;
}

int run_output_keep(struct run_output *r, struct err *e)
{
    int kept = 1;
    if (is_behind(r)) {
        result_abort(r->one);
    } else if (result_commit_as(r->one, r->partial_path, e)) {
        err_add(e, "%s", r->partial_path);
        kept = -1;
    }
    r->one = NULL;
    run_output_abort(r);
    return kept;
}

void run_output_abort(struct run_output *r)
{
    if (!r)
        return;
    result_abort(r->one);
    result_close(r->partial);
    free(r->partial_path);
    free(r);
}

/* --- the list of slides without a result --- */

struct carrying {
    struct failed_list *to;
    const char *folder; /* of stores */
};

/* An older store of the slide has a result of its name here. */
static int carry(void *ctx, const char *slide, const char *output, const char *reason,
                 struct err *e)
{
    const struct carrying *c = ctx;
    char *store = folder_join(c->folder, output);
    const bool has = *output && access(store, F_OK) == 0;
    (void)e;
    failed_list_add(c->to, slide, 0, has ? path_base_name(output) : "", reason);
    free(store);
    return 0;
}

/* A row about a file that has, or would have, the result of this name; or none. */
static void add_failure(struct failed_list *l, const struct options *o, const char *path,
                        const char *output, const char *reason)
{
    size_t below = (size_t)(path_base_name(path) - path);
    for (int k = 0; k < o->files.n_folders; k++) {
        const char *folder = o->files.folders[k];
        const size_t n = strlen(folder);
        if (!strncmp(path, folder, n) && (path[n] == '/' || (n > 0 && folder[n - 1] == '/')))
            below = n + strspn(path + n, "/");
    }
    failed_list_add(l, path, below, output, reason);
}

void failures_add(struct failed_list *l, const struct options *o, const char *store,
                  const char *reason)
{
    size_t n;
    const char *stem = path_stem(store, &n);
    char *output = memory_print("%.*s" RESULT_ENDING, (int)n, stem);
    add_failure(l, o, store, output, reason);
    free(output);
}

/* Of the shares of a run, the first carries on what all have in common. Parts of stores that
 * --by group shares out are as whole stores: the other parts are in the lists of other shares. */
int failures_begin(struct failed_list **l, const struct options *o, struct err *e)
{
    int bad = 0;
    *l = NULL;
    if (!output_is_folder(o->output, RESULT_ENDING) ||
        (o->first_group && !(o->by_group && o->tasks)))
        return 0;
    if (!(*l = failed_list_create(FAILED_RESULTS, o->output, o->task, o->tasks, false, e)))
        return -1;
    for (int k = 0; k < o->files.n_folders && o->task <= 1 && !bad; k++)
        bad = failed_list_read(o->files.folders[k], carry,
                               &(struct carrying){*l, o->files.folders[k]}, e);
    for (int k = 0; k < o->files.n_problems && o->task <= 1; k++) {
        const struct input_files_problem *p = &o->files.problems[k];
        if (folder_is(p->path))
            add_failure(*l, o, p->path, "", p->why);
        else
            failures_add(*l, o, p->path, p->why);
    }
    return bad;
}
