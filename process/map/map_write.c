/* map_write.c - see map_write.h: slide by slide. */
#include "process/map/map_write.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/regions/geojson.h"
#include "common/result/result_read.h"
#include "process/draw/feature.h"
#include "process/draw/png_file.h"
#include "process/map/map_formats.h"
#include "process/map/map_source.h"
#include "process/options/input_files.h"
#include "process/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_NAME = 180 }; /* bytes of a slide's name in a file name, of the 255 that Linux allows */

static const struct {
    const char *name, *ending;
} formats[MAP_FORMATS] = {
    [MAP_PNG] = {"png", ".png"},
    [MAP_OVERLAY] = {"overlay", ".overlay.png"},
    [MAP_GEOJSON] = {"geojson", ".geojson"},
    [MAP_CSV] = {"csv", ".csv"},
    [MAP_TIFF] = {"tiff", ".ome.tif"},
};

int map_format_find(const char *name)
{
    for (int f = 0; f < MAP_FORMATS; f++)
        if (!strcmp(name, formats[f].name))
            return f;
    return -1;
}

static bool ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), k = strlen(ending);
    return n > k && path[n - k - 1] != '/' && !strcasecmp(path + n - k, ending);
}

int map_format_of_file(const char *path)
{
    if (folder_is(path))
        return -1;
    if (ends_with(path, ".tif") || ends_with(path, ".tiff"))
        return MAP_TIFF;
    if (ends_with(path, ".overlay.png"))
        return MAP_OVERLAY;
    for (int f = 0; f < MAP_FORMATS; f++)
        if (ends_with(path, formats[f].ending))
            return f;
    return -1;
}

/* --- names --- */

/* Bytes of the UTF-8 character at s, 0 if it is not one or may not appear in a file name. Letters
 * may; punctuation from U+2000 on may not: some of it changes the direction of text. */
static size_t harmless(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    const size_t n = utf8_length(s);
    if (n == 1)
        return u[0] >= ' ' && u[0] < 0x7f && !strchr("\"'*/:<>?\\|`$;&", u[0]);
    if (n == 2)
        return u[0] >= 0xc3 && !utf8_unsafe(s) ? 2 : 0;
    return n == 3 && u[0] < 0xee && u[0] != 0xe2 ? 3 : 0;
}

/* The slide's name for a file name; out[] is large enough. */
static void clean_name(const char *slide, char out[MOST_NAME + 16])
{
    size_t n = 0;
    bool changed = false;
    for (const char *s = slide; *s;) {
        size_t bytes = harmless(s);
        if (n == 0 && strchr(" .-=+@~", *s))
            bytes = 0;
        if (n + (bytes ? bytes : 1) > MOST_NAME) {
            changed = true;
            break;
        }
        changed = changed || !bytes;
        if (bytes)
            memcpy(out + n, s, bytes);
        else
            out[n] = '_';
        n += bytes ? bytes : 1;
        s += bytes ? bytes : 1;
    }
    out[n] = 0;
    if (changed)
        snprintf(out + n, 16, "~%08x", (unsigned)codec_crc32(slide, strlen(slide)));
}

/* FOLDER/SLIDE.FEATURE.png, to be free()d. `feature` NULL: without. */
static char *file_name(const char *folder, const char *slide, const char *feature,
                       enum map_format f)
{
    char clean[MOST_NAME + 16], name[MOST_NAME + 80];
    clean_name(slide, clean);
    snprintf(name, sizeof name, "%s%s%s%s", clean, feature ? "." : "", feature ? feature : "",
             formats[f].ending);
    return folder_join(folder, name);
}

/* --- files --- */

/* Did this program write the existing file? */
static bool is_ours(const char *path, enum map_format format)
{
    switch (format) {
    case MAP_TIFF: return map_tiff_is_ours(path);
    case MAP_CSV: return text_file_begins_with(path, MAP_CSV_HEAD);
    case MAP_GEOJSON: return text_file_begins_with(path, MAP_GEOJSON_HEAD);
    default: return png_file_is_ours(path);
    }
}

static int check_target(const char *path, enum map_format format, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(e, "%s", path);
    if (S_ISREG(st.st_mode) && is_ours(path, format))
        return 0;
    return err_set(e,
                   "%s: already exists and was not written by h5spec map; not overwritten: choose "
                   "another name",
                   path);
}

/* The contents of a file. */
struct content {
    const struct map_setup *setup;
    struct map_done *done;
    const struct map_slide *m;
    enum map_format format;
    int maps[MAP_MOST]; /* [n] features */
    int n;
};

static int write_content(const struct content *c, struct text_file *file, struct err *e)
{
    const struct map_setup *o = c->setup;
    struct map_picture_setup p = {.map = c->maps[0], .low = o->low, .high = o->high};
    if (!o->range)
        map_feature_range(c->m, p.map, &p.low, &p.high);
    switch (c->format) {
    case MAP_PNG: return map_picture_draw(c->m, &p, file->f, e);
    case MAP_OVERLAY: return map_picture_overlay(c->m, &p, file->f, e);
    case MAP_GEOJSON:
        if (o->class_name)
            return map_write_regions(c->m, o, c->maps[0], c->done, file->f, e);
        return map_write_geojson(c->m, c->maps, c->n, file->f, e);
    case MAP_CSV: return map_write_csv(c->m, c->maps, c->n, file->f, e);
    default: return map_write_tiff(c->m, c->maps, c->n, file->publish.fd, e);
    }
}

static int write_file(const struct content *c, const char *feature, struct err *e)
{
    const char *output = c->setup->output;
    struct text_file file;
    char *path = map_format_of_file(output) >= 0
                     ? memory_copy(output)
                     : file_name(output, c->m->s.name, feature, c->format);
    int bad = check_target(path, c->format, e) || text_file_begin(&file, path, e);
    if (!bad && write_content(c, &file, e)) {
        text_file_abort(&file);
        bad = err_add(e, "%s", path);
    } else if (!bad) {
        bad = text_file_commit(&file, e);
    }
    free(path);
    c->done->files += !bad;
    return bad;
}

static bool is_picture(enum map_format f)
{
    return f == MAP_PNG || f == MAP_OVERLAY;
}

/* One file, or for pictures one per feature. */
static int write_format(const struct content *all, struct err *e)
{
    struct content one = *all;
    if (!is_picture(all->format))
        return write_file(all, NULL, e);
    one.n = 1;
    for (int k = 0; k < all->n; k++) {
        one.maps[0] = all->maps[k];
        if (write_file(&one, map_feature_name(all->m, all->maps[k]), e))
            return -1;
    }
    return 0;
}

int map_output(const struct map_setup *setup, const struct map_slide *m, const int *maps, int n,
               struct map_done *done, struct err *e)
{
    struct content c = {.setup = setup, .done = done, .m = m, .n = n};
    memcpy(c.maps, maps, (size_t)n * sizeof *maps);
    for (int f = 0; f < MAP_FORMATS; f++) {
        c.format = (enum map_format)f;
        if (setup->formats[f] && write_format(&c, e))
            return -1;
    }
    done->slides++;
    return 0;
}

/* A run over results. */
struct run {
    const struct map_setup *setup;
    struct map_done *done;
    struct choice choice;
    struct result_params params; /* of the first result */
    bool begun;                  /* params are set */
    void *names;                 /* set of those of the slides so far (memory_note) */
    struct report_blur *blur;    /* NULL: not needed */
};

/* --- one slide --- */

/* The features that are wanted. Returns their number. */
static int choose_features(const struct map_setup *o, int maps[RESULT_MAPS])
{
    int n = 0;
    bool any = false;
    for (int m = 0; m < RESULT_MAPS; m++)
        any = any || o->features[m];
    for (int m = 0; m < RESULT_MAPS; m++)
        if (feature_is(m) && (!any || o->features[m]))
            maps[n++] = m;
    return n;
}

static int check_slide(const struct map_setup *o, const struct map_slide *m, struct err *e)
{
    if (m->partial && !o->partial)
        return err_set(e, "missing groups %s; compute them and merge, or add --partial",
                       m->missing);
    if (isnan(m->downsample) && (o->formats[MAP_GEOJSON] || o->formats[MAP_CSV]))
        return err_set(e,
                       "its store does not say where level %" PRId64
                       " lies on level 0, which geojson and csv need",
                       m->s.level);
    return 0;
}

void map_set_bounds(const struct map_setup *o, struct map_slide *m, int64_t x, int64_t y)
{
    if (!o->formats[MAP_GEOJSON] || o->no_bounds || (!x && !y))
        return;
    m->from_x = x;
    m->from_y = y;
    if (!o->quiet)
        cli_say("slide %s: places in GeoJSON count from %" PRId64 ", %" PRId64 " " GEOJSON_BOUNDS,
                m->s.name, x, y);
}

static int write_slide(struct run *r, struct map_slide *m, struct err *e)
{
    int maps[RESULT_MAPS];
    const int n = choose_features(r->setup, maps);
    if (check_slide(r->setup, m, e))
        return -1;
    if (m->cols < 1 || m->rows < 1) {
        cli_say("slide %s: no window of %" PRId64 " px fits into %" PRId64 " x %" PRId64
                " px; nothing is written",
                m->s.name, m->params.window, m->s.width, m->s.height);
        return 0;
    }
    map_set_bounds(r->setup, m, m->s.origin.bounds_x, m->s.origin.bounds_y);
    return map_output(r->setup, m, maps, n, r->done, e);
}

/* -1: a slide of this name was written before. */
static int note_name(struct run *r, const char *name, struct err *e)
{
    return !memory_note(&r->names, name, "")
               ? 0
               : err_set(e, "another result has a slide of this name; merge parts of a slide "
                            "first, and map results of different slides of one name one by one");
}

static int do_slide(struct run *r, struct result *result, const char *file, int64_t k,
                    struct err *e)
{
    struct map_slide m = {0};
    const char *name = result_slide_name(result, k);
    int bad = note_name(r, name, e);
    if (!bad && map_slide_open(&m, result, k, r->setup->weights, r->setup->cell, e))
        return -1; /* its message names both */
    m.blurred_below = r->blur ? report_blur_below(r->blur, name) : NAN;
    bad = bad || write_slide(r, &m, e);
    map_slide_free(&m);
    return bad ? err_add(e, "%s: slide %s", file, name) : 0;
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
    struct err e = {0};
    struct result *result = result_open(file, &e);
    if (!result || check_params(r, result_params(result), file, &e)) {
        report(r, &e);
        result_close(result);
        return 0;
    }
    for (int64_t k = 0; k < result_slides(result) && !stop_signal(); k++) {
        if (!choice_has(&r->choice, result_slide_name(result, k)) ||
            !do_slide(r, result, file, k, &e) || stop_signal())
            continue;
        report(r, &e);
    }
    result_close(result);
    return stop_signal() ? -1 : 0;
}

int map_is_one_slide(const struct map_setup *setup, struct err *e)
{
    struct choice choice;
    int64_t chosen = 0;
    int bad = 0;
    choice_begin(&choice, setup->patterns, setup->n_patterns);
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

/* Without a limit of the user, the limit of a report of the same results says what is blurred. */
static int find_blur(struct run *r, struct err *e)
{
    const struct map_setup *o = r->setup;
    if (!o->class_name || !isnan(o->below) || !isnan(o->above) || !o->features[RESULT_FOCUS])
        return 0;
    r->blur = report_blur_open(o->files, o->n_files, e);
    return r->blur ? 0 : -1;
}

int map_write(const struct map_setup *setup, struct map_done *done, struct err *e)
{
    struct run r = {.setup = setup, .done = done};
    *done = (struct map_done){0};
    int bad =
        (map_format_of_file(setup->output) < 0 && folder_make(setup->output, e)) || find_blur(&r, e)
            ? -1
            : 0;
    choice_begin(&r.choice, setup->patterns, setup->n_patterns);
    for (int k = 0; k < setup->n_files && !bad; k++)
        if (do_file(&r, setup->files[k]))
            bad = stop_check(e);
    if (!bad && choice_check(&r.choice, e))
        report(&r, e);
    report_blur_close(r.blur);
    memory_forget(&r.names);
    choice_end(&r.choice);
    return bad;
}
