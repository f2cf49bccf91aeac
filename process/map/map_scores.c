/* map_scores.c - maps of scores of other programs; see map_write.h. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "common/store/store_read.h"
#include "process/map/map_formats.h"
#include "process/map/map_source.h"
#include "process/map/map_write.h"
#include "process/scores/score_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * Waits for a file of scores that another program writes.
 */
struct map_follow {
    const struct map_scores_setup *o;
    int fd;               /* -1: the file does not exist yet */
    int64_t at, whole;    /* bytes: looked at; up to the end of the last whole line */
    int64_t rows;         /* lines with a patch among them */
    bool ended;           /* one of them is "#end" */
    char line[8];         /* the begin of the line at hand */
    int filled;           /* bytes of it, at most sizeof line */
    double changed, told; /* s: when the file grew last; when maps were asked for last */
    bool fresh;           /* it has grown since */
    char said[256];       /* the message that was printed last */
};

enum { BLOCK = 1 << 16 };
#define PAUSE 0.1    /* s between looks at the file */
#define LEAST 2.0    /* s between maps */
#define PATIENCE 10. /* times as long as the last maps took */

static void map_follow_begin(struct map_follow *f, const struct map_scores_setup *o)
{
    *f = (struct map_follow){.o = o, .fd = -1, .rows = -1, .changed = clock_now()};
}

static void map_follow_end(struct map_follow *f)
{
    if (f->fd >= 0)
        close(f->fd);
}

/* Prints a message, unless it was the last one, too. */
static void map_follow_say(struct map_follow *f, const char *text)
{
    if (strncmp(f->said, text, sizeof f->said - 1))
        cli_say("%s", text);
    snprintf(f->said, sizeof f->said, "%.*s", (int)sizeof f->said - 1, text);
}

/* A line has ended. The first one that is no comment is the header: rows begin at -1. */
static void end_line(struct map_follow *f)
{
    const int n = f->filled && f->line[f->filled - 1] == '\r' ? f->filled - 1 : f->filled;
    if (n == 4 && !memcmp(f->line, "#end", 4))
        f->ended = true;
    else if (n > 0 && f->line[0] != '#')
        f->rows++;
    f->filled = 0;
}

static void take(struct map_follow *f, const char *data, size_t n)
{
    for (size_t k = 0; k < n && !f->ended; k++) {
        f->at++;
        if (data[k] != '\n') {
            if (f->filled < (int)sizeof f->line)
                f->line[f->filled++] = data[k];
            continue;
        }
        end_line(f);
        f->whole = f->at;
    }
}

/* Reads what was appended. */
static int look(struct map_follow *f, struct err *e)
{
    static char data[BLOCK];
    struct stat st;
    if (f->fd < 0 && (f->fd = open(f->o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return errno == ENOENT ? 0 : err_open(e, "%s: cannot open it", f->o->path);
    if (fstat(f->fd, &st) || st.st_size < f->at)
        return err_set(e, "%s: became shorter while it was followed", f->o->path);
    if (st.st_size > 0 && f->at == 0 && !score_file_grows(f->o->path))
        return err_set(e,
                       "%s: only CSV can be read while it grows; map npy and HDF5 files when "
                       "they are complete",
                       f->o->path);
    while (f->at < st.st_size && !f->ended) {
        const size_t n = read_at_least(f->fd, (uint64_t)f->at, data, 1, sizeof data);
        if (n < 1)
            return err_sys(e, "%s: cannot be read", f->o->path);
        take(f, data, n);
        f->changed = clock_now();
        f->fresh = true;
    }
    return 0;
}

static bool is_complete(const struct map_follow *f)
{
    return f->ended || clock_now() - f->changed >= f->o->follow;
}

/* Waits until the file has grown: 0, maps may be made of its first `whole` bytes; or is complete:
 * 1. -1: stopped by a signal, or it cannot be read. Calls that return 0 are at least two seconds
 * apart, and ten times as long as the caller needed for its maps. */
static int map_follow_wait(struct map_follow *f, struct err *e)
{
    const struct timespec pause = {0, (long)(PAUSE * 1e9)};
    const double took = f->told > 0 ? clock_now() - f->told : 0;
    const double next = clock_now() + (took * PATIENCE > LEAST ? took * PATIENCE : LEAST);
    for (;; nanosleep(&pause, NULL)) {
        if (stop_check(e) || look(f, e))
            return -1;
        if (is_complete(f))
            return 1;
        if (f->fresh && (f->told == 0 || clock_now() >= next)) {
            f->fresh = false;
            f->told = clock_now();
            return 0;
        }
    }
}

/* The slide that the scores are of. */
struct scored {
    char name[256];
    int64_t width, height;      /* px of level 0; 0: not known */
    double mpp_x, mpp_y;        /* of level 0; NaN: not known */
    int64_t bounds_x, bounds_y; /* as of a store */
};

/* --- the slide --- */

/* The file's name without folder and ending. */
static void name_of_file(const char *path, char name[256])
{
    const char *base = path_base_name(path), *dot = strrchr(base, '.');
    const int n = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    snprintf(name, 256, "%.*s", n < 255 ? n : 255, base);
}

static void set_size(struct scored *s, int64_t width, int64_t height, double downsample)
{
    s->width = llround((double)width * downsample);
    s->height = llround((double)height * downsample);
}

static int of_store(const char *path, struct scored *s, struct err *e)
{
    struct store *store = store_open(path, e);
    if (!store)
        return -1;
    const struct store_info *i = store_info(store);
    name_of_file(path, s->name);
    set_size(s, i->width, i->height, i->downsample);
    s->mpp_x = i->mpp_x;
    s->mpp_y = i->mpp_y;
    s->bounds_x = i->bounds_x;
    s->bounds_y = i->bounds_y;
    store_close(store);
    return 0;
}

/* The number of the slide of a result; -1: none, or it is not clear which. */
static int64_t find_slide(const struct result *r, const struct map_setup *setup, const char *name,
                          struct err *e)
{
    const char *wanted = setup->n_patterns ? setup->patterns[0] : name;
    const int64_t k = result_find_slide(r, wanted);
    if (k >= 0)
        return k;
    if (result_slides(r) == 1 && !setup->n_patterns)
        return 0;
    return err_set(e, "%s: has no slide %s, as the scores are called; name the slide with --slide",
                   setup->files[0], wanted);
}

static int of_result(const struct map_setup *setup, struct scored *s, struct err *e)
{
    struct map_slide m = {0};
    struct result *r = result_open(setup->files[0], e);
    const int64_t k = r ? find_slide(r, setup, s->name, e) : -1;
    int bad = k < 0 || map_slide_open(&m, r, k, WEIGHTS_NONE, 0, e) ? -1 : 0;
    if (!bad && isnan(m.downsample))
        bad = err_set(e, "%s: does not say where its level lies on level 0; give --slide-size",
                      setup->files[0]);
    if (!bad) {
        snprintf(s->name, sizeof s->name, "%s", m.s.name);
        set_size(s, m.s.width, m.s.height, m.downsample);
        s->mpp_x = m.s.origin.mpp_x;
        s->mpp_y = m.s.origin.mpp_y;
        s->bounds_x = m.s.origin.bounds_x;
        s->bounds_y = m.s.origin.bounds_y;
    }
    map_slide_free(&m);
    result_close(r);
    return bad;
}

static int find_scored(const struct map_setup *setup, struct scored *s, struct err *e)
{
    *s = (struct scored){
        .width = setup->scores.width, .height = setup->scores.height, .mpp_x = NAN, .mpp_y = NAN};
    name_of_file(setup->scores.path, s->name);
    if (setup->n_files == 0) {
        if (setup->n_patterns)
            snprintf(s->name, sizeof s->name, "%s", setup->patterns[0]);
        return 0;
    }
    return store_is(setup->files[0]) ? of_store(setup->files[0], s, e) : of_result(setup, s, e);
}

/* --- maps --- */

enum { CELL_MEMORY = 64 << 20 }; /* bytes; where cells need more, the file is read several times */

static struct score_map_setup map_setup_of(const struct map_setup *setup, const struct scored *s)
{
    const struct map_scores_setup *o = &setup->scores;
    return (struct score_map_setup){.path = o->path,
                                    .file = {o->names, o->n_names, o->patch, -1},
                                    .weights = setup->weights,
                                    .width = s->width,
                                    .height = s->height,
                                    .cell = setup->cell,
                                    .side = SCORES_SIDE,
                                    .memory = CELL_MEMORY,
                                    .lenient = setup->partial};
}

/* A picture, and the colours that the user gives, are of one value. */
static int check_values(const struct map_setup *setup, const struct score_map *m, struct err *e)
{
    const int format = map_format_of_file(setup->output);
    const bool picture = format == MAP_PNG || format == MAP_OVERLAY;
    if (m->n == 1 || (!picture && !setup->range))
        return 0;
    return err_set(e, "%s: has %d values; name the one for %s with --feature", setup->scores.path,
                   m->n, picture ? setup->output : "--colours");
}

/* Makes and writes the maps of the file's first `limit` bytes; -1: of all of it, which is
 * complete. */
static int write_maps(const struct map_setup *setup, const struct scored *s, int64_t limit,
                      struct map_done *done, struct err *e)
{
    struct score_map map;
    struct map_slide m;
    int maps[SCORES_MOST];
    struct score_map_setup o = map_setup_of(setup, s);
    o.file.limit = limit;
    int bad = score_map_make(&o, &map, e) || check_values(setup, &map, e);
    if (!bad && map.cols * map.rows == 0)
        bad = err_set(e, "%s: has no patches, and the size of the slide is not known", o.path);
    if (!bad && limit >= 0 && !map.missing[0])
        snprintf(map.missing, sizeof map.missing, "%" PRId64 " patches so far", map.patches);
    if (!bad) {
        for (int k = 0; k < map.n; k++)
            maps[k] = k;
        map_slide_of_scores(&m, &map, s->name, setup->weights, s->mpp_x, s->mpp_y);
        map_set_bounds(setup, &m, s->bounds_x, s->bounds_y);
        bad = map_output(setup, &m, maps, map.n, done, e);
    }
    score_map_free(&map);
    return bad;
}

/* Waits for the file to be complete, and writes maps meanwhile. */
static int follow(const struct map_setup *setup, const struct scored *s, struct err *e)
{
    struct map_done done;
    struct map_follow f;
    int got;
    map_follow_begin(&f, &setup->scores);
    while ((got = map_follow_wait(&f, e)) == 0) {
        struct err why = {0};
        if (setup->partial && f.rows && write_maps(setup, s, f.whole, &done, &why))
            map_follow_say(&f, why.msg);
    }
    map_follow_end(&f);
    return got < 0 ? -1 : 0;
}

int map_scores_write(const struct map_setup *setup, struct map_done *done, struct err *e)
{
    struct scored s;
    *done = (struct map_done){0};
    if (find_scored(setup, &s, e))
        return -1;
    if (map_format_of_file(setup->output) < 0 && folder_make(setup->output, e))
        return -1;
    if (setup->scores.follow > 0 && follow(setup, &s, e))
        return -1;
    return write_maps(setup, &s, -1, done, e);
}
