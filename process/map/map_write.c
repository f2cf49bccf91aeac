/* map_write.c - see map.h: slide by slide. */
#include "process/map/map.h"

#include "common/base/cli.h"
#include "common/base/folder.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "process/draw/feature.h"
#include "process/map/map_output.h"
#include "process/options/choice.h"

#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* A run over results. */
struct run {
    const struct map_setup *setup;
    struct map_done *done;
    struct choice choice;
    struct result_params params; /* of the first result */
    bool begun;                  /* params are set */
    void *names;                 /* of the slides so far (tsearch); each owned */
};

/* --- one slide --- */

/* The features that are wanted and that the result has. */
static int choose_features(const struct map_setup *o, const struct result *r, int maps[RESULT_MAPS],
                           int *n, struct err *e)
{
    bool any = false;
    for (int m = 0; m < RESULT_MAPS; m++)
        any = any || o->features[m];
    for (int m = 0; m < RESULT_MAPS; m++) {
        if (!feature_is(m) || (any && !o->features[m]))
            continue;
        if (result_has_map(r, m))
            maps[(*n)++] = m;
        else if (any)
            return err_set(e,
                           "the result has no %s; compute it again with h5spec run --features "
                           "spectral",
                           feature_name(m));
    }
    return 0;
}

static int check_slide(const struct map_setup *o, const struct map_slide *m, struct err *e)
{
    if (m->partial && !o->partial)
        return err_set(e, "missing groups %s; compute them and merge, or add --partial",
                       m->missing);
    if (isnan(m->downsample) && (o->formats[MAP_GEOJSON] || o->formats[MAP_CSV]))
        return err_set(e,
                       "a result of format_version 1 does not say where level %" PRId64
                       " lies on level 0, which geojson and csv need; compute it again with "
                       "this version of h5spec run",
                       m->s.level);
    return 0;
}

static int write_slide(struct run *r, struct map_slide *m, struct err *e)
{
    int maps[RESULT_MAPS], n = 0;
    if (check_slide(r->setup, m, e) || choose_features(r->setup, m->result, maps, &n, e))
        return -1;
    if (m->cols < 1 || m->rows < 1) {
        cli_say("slide %s: no window of %" PRId64 " px fits into %" PRId64 " x %" PRId64
                " px; nothing is written",
                m->s.name, m->params.window, m->s.width, m->s.height);
        return 0;
    }
    return map_output(r->setup, m, maps, n, r->done, e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* -1: a slide of this name was written before. */
static int note_name(struct run *r, const char *name, struct err *e)
{
    char *copy = strdup(name);
    char **node = copy ? tsearch(copy, &r->names, by_name) : NULL;
    if (!node) {
        free(copy);
        return err_set(e, "out of memory");
    }
    if (*node == copy)
        return 0;
    free(copy);
    return err_set(e, "another result has a slide of this name; merge parts of a slide first, and "
                      "map results of different slides of one name one by one");
}

static int do_slide(struct run *r, struct result *result, int64_t k, struct err *e)
{
    struct map_slide m = {0};
    const char *name = result_slide_name(result, k);
    int bad = note_name(r, name, e) ||
              map_slide_open(&m, result, k, r->setup->weights, r->setup->cell, e) ||
              write_slide(r, &m, e);
    map_slide_free(&m);
    return bad ? err_add(e, "slide %s", name) : 0;
}

/* --- the run --- */

static void report(struct run *r, const struct err *e)
{
    r->done->failed++;
    r->done->trouble += err_is_trouble(e);
    cli_say("%s", e->msg);
}

static int check_params(struct run *r, const struct result_params *p, const char *file,
                        struct err *e)
{
    if (!r->begun)
        r->params = *p;
    r->begun = true;
    if (result_same_params(&r->params, p, e))
        return err_add(e,
                       "%s: parameters differ from those of the results before it; map it by "
                       "itself",
                       file);
    if (r->setup->weights != WEIGHTS_NONE && map_cell(p, r->setup->cell, e) < 0)
        return err_add(e, "%s", file);
    return 0;
}

/* -1: a signal stopped the run. */
static int do_file(struct run *r, const char *file)
{
    struct err e = {""};
    struct result *result = result_open(file, &e);
    if (!result || check_params(r, result_params(result), file, &e)) {
        report(r, &e);
        result_close(result);
        return 0;
    }
    for (int64_t k = 0; k < result_slides(result) && !stop_signal(); k++) {
        if (!choice_has(&r->choice, result_slide_name(result, k)) || !do_slide(r, result, k, &e) ||
            stop_signal())
            continue;
        err_add(&e, "%s", file);
        report(r, &e);
    }
    result_close(result);
    return stop_signal() ? -1 : 0;
}

static void free_names(struct run *r)
{
    while (r->names) {
        char *name = *(char **)r->names;
        tdelete(name, &r->names, by_name);
        free(name);
    }
}

int map_is_one_slide(const struct map_setup *setup, struct err *e)
{
    struct choice choice;
    int64_t chosen = 0;
    int bad = choice_begin(&choice, setup->patterns, setup->n_patterns, e);
    for (int k = 0; k < setup->n_files && !bad; k++) {
        struct result *r = result_open(setup->files[k], e);
        bad = r ? 0 : -1;
        for (int64_t n = 0; r && n < result_slides(r); n++)
            chosen += choice_has(&choice, result_slide_name(r, n));
        result_close(r);
    }
    bad = bad || choice_check(&choice, e) ? -1 : 0;
    if (!bad && chosen != 1)
        bad = err_set(e,
                      "-o %s: one file holds one slide, but %" PRId64 " are chosen; name one with "
                      "--slide, or a folder with -o",
                      setup->output, chosen);
    choice_end(&choice);
    return bad;
}

int map_write(const struct map_setup *setup, struct map_done *done, struct err *e)
{
    struct run r = {.setup = setup, .done = done};
    *done = (struct map_done){0};
    int bad = choice_begin(&r.choice, setup->patterns, setup->n_patterns, e) ||
                      (map_format_of_file(setup->output) < 0 && folder_make(setup->output, e))
                  ? -1
                  : 0;
    for (int k = 0; k < setup->n_files && !bad; k++)
        if (do_file(&r, setup->files[k]))
            bad = stop_check(e);
    if (!bad && choice_check(&r.choice, e))
        report(&r, e);
    free_names(&r);
    choice_end(&r.choice);
    return bad;
}
