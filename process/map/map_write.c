/* map_write.c - see map.h: slide by slide, format by format. */
#include "process/map/map.h"

#include "common/base/cli.h"
#include "common/base/folder.h"
#include "common/base/stop.h"
#include "process/draw/feature.h"
#include "process/map/map_picture.h"
#include "process/map/map_places.h"
#include "process/map/map_source.h"
#include "process/map/map_tiff.h"
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
    bool single;                 /* the output is a file */
};

/* --- one file --- */

/* What goes into a file. */
struct content {
    const struct map_slide *m;
    enum map_format format;
    int maps[RESULT_MAPS]; /* [n] features */
    int n;
};

static int write_content(const struct map_setup *o, const struct content *c, struct map_file *file,
                         struct err *e)
{
    struct map_picture_setup p = {.map = c->maps[0],
                                  .low = o->low,
                                  .high = o->high,
                                  .width = o->width,
                                  .opacity = (int)(o->opacity * 255 + 50) / 100};
    if (!o->range)
        p.low = result_map_kind(p.map)->low, p.high = result_map_kind(p.map)->high;
    switch (c->format) {
    case MAP_PNG: return map_picture_draw(c->m, &p, file->f, e);
    case MAP_OVERLAY: return map_picture_overlay(c->m, &p, file->f, e);
    case MAP_GEOJSON: return map_write_geojson(c->m, c->maps, c->n, file->f, e);
    case MAP_CSV: return map_write_csv(c->m, c->maps, c->n, file->f, e);
    default: return map_write_tiff(c->m, c->maps, c->n, file->publish.fd, e);
    }
}

static int write_file(struct run *r, const struct content *c, const char *feature, struct err *e)
{
    struct map_file file;
    char *path = r->single ? strdup(r->setup->output)
                           : map_file_name(r->setup->output, c->m->s.name, feature, c->format);
    if (!path)
        return err_set(e, "out of memory");
    int bad = map_file_begin(&file, path, c->format, e);
    if (!bad && write_content(r->setup, c, &file, e)) {
        map_file_abort(&file);
        bad = err_add(e, "%s", path);
    } else if (!bad) {
        bad = map_file_commit(&file, e);
    }
    free(path);
    r->done->files += !bad;
    return bad;
}

static bool is_picture(enum map_format f)
{
    return f == MAP_PNG || f == MAP_OVERLAY;
}

/* One file, or for pictures one per feature. */
static int write_format(struct run *r, const struct content *all, struct err *e)
{
    struct content one = *all;
    if (!is_picture(all->format))
        return write_file(r, all, NULL, e);
    one.n = 1;
    for (int k = 0; k < all->n; k++) {
        one.maps[0] = all->maps[k];
        if (write_file(r, &one, feature_name(all->maps[k]), e))
            return -1;
    }
    return 0;
}

/* --- one slide --- */

/* The features that are wanted and that the result has. */
static int choose_features(const struct map_setup *o, const struct result *r, struct content *c,
                           struct err *e)
{
    bool any = false;
    for (int m = 0; m < RESULT_MAPS; m++)
        any = any || o->features[m];
    for (int m = 0; m < RESULT_MAPS; m++) {
        if (!feature_is(m) || (any && !o->features[m]))
            continue;
        if (result_has_map(r, m))
            c->maps[c->n++] = m;
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
    struct content c = {.m = m};
    if (check_slide(r->setup, m, e) || choose_features(r->setup, m->result, &c, e))
        return -1;
    if (m->cols < 1 || m->rows < 1) {
        cli_say("slide %s: no window of %" PRId64 " px fits into %" PRId64 " x %" PRId64
                " px; nothing is written",
                m->s.name, m->params.window, m->s.width, m->s.height);
        return 0;
    }
    for (int f = 0; f < MAP_FORMATS; f++) {
        c.format = (enum map_format)f;
        if (r->setup->formats[f] && write_format(r, &c, e))
            return -1;
    }
    r->done->slides++;
    return 0;
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
    if (r->setup->weights != MAP_RAW && map_cell(p, r->setup->cell, e) < 0)
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
    r.single = map_format_of_file(setup->output) >= 0;
    int bad = choice_begin(&r.choice, setup->patterns, setup->n_patterns, e) ||
                      (!r.single && folder_make(setup->output, e))
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
