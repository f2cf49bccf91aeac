/* live.c - see live.h. */
#include "process/run/live.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/result/result.h"
#include "process/draw/html.h"
#include "process/draw/png_file.h"
#include "process/draw/raster.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * --- picture ---
 *
 * The map of a slide as far as it is computed.
 */

enum { MOST_SIDE = 1024 };

static void make_row(const struct result_slide *s, int map, int64_t y, int64_t width, int64_t block,
                     uint8_t *out)
{
    const struct result_map_kind *kind = s->maps[map].kind;
    for (int64_t x = 0; x < width; x++) {
        const double mean = shrink_map(s, map, x, y, block);
        const int k = colours_number(mean, kind->low, kind->high, COLOURS_MAP);
        out[x] = (uint8_t)(k < 0 ? COLOURS_STROKE : k);
    }
}

/* Writes a PNG picture of all rows of map RESULT_FOCUS or RESULT_MEAN. Window rows from `rows` on
 * are transparent, and so, by another entry of the palette, is what has no value. Maps of more than
 * 1,024 columns or rows are reduced by a whole number; their rows are drawn when all window rows in
 * them are final. */
static int live_picture(FILE *f, const struct result_slide *s, int map, int64_t rows, struct err *e)
{
    const int64_t longest = s->nx > s->ny ? s->nx : s->ny;
    const int64_t block = (longest + MOST_SIDE - 1) / MOST_SIDE;
    const int64_t width = (s->nx + block - 1) / block, height = (s->ny + block - 1) / block;
    uint32_t palette[COLOURS_PALETTE];
    uint8_t *row = memory_need((size_t)width, 1); /* at most MOST_SIDE */
    colours_palette(palette, 255);
    palette[COLOURS_STROKE] = 0; /* the page hatches behind it */
    const struct png_file_setup setup = {.width = width,
                                         .height = height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE,
                                         .level = 1};
    struct png_file *p = png_file_begin(f, &setup, e);
    int bad = p ? 0 : -1;
    for (int64_t y = 0; y < height && !bad; y++) {
        const int64_t end = (y + 1) * block < s->ny ? (y + 1) * block : s->ny;
        if (end <= rows)
            make_row(s, map, y, width, block, row);
        else
            memset(row, COLOURS_CLEAR, (size_t)width);
        bad = png_file_row(p, row, e);
    }
    bad = bad || png_file_end(p, e);
    png_file_free(p);
    free(row);
    return bad ? -1 : 0;
}

/* --- page --- */

enum { NEWEST = 12, MOST_FAILURES = 100, MOST_NAME = 4000 };
#define MOST_SHARE 0.002 /* of the run's time that updates may take of the processor */
#define ALLOWANCE 0.1    /* seconds that they may take beyond it */
#define MOST_WAITING 8.0 /* times that they may wait. A busy machine must not cost pictures */

struct failed {
    char *name, *reason; /* owned */
};

/* Seconds. */
struct spent {
    double clock, processor;
};

struct live {
    char *dir;
    double begun, shown;
    struct spent spent, now; /* on updates; when the one in progress began */
    int64_t stores, before, done, failures;
    int64_t windows, current;   /* current: number of the slide in progress, from 1; 0: none */
    int64_t computing;          /* windows of the slide in progress that are computed */
    double share;               /* of the run that is computed */
    int64_t drawn_slide, drawn; /* the slide drawn last, and how many of its rows */
    int64_t newest[NEWEST];     /* numbers of slides that were done last; 0: none */
    struct failed failed[MOST_FAILURES];
    struct result_params params;
    bool broken;    /* a file could not be written; it has been reported */
    bool stateless; /* another process writes the state */
};

/* Seconds from one update to the next: a tenth of the run so far, so that short runs show
 * something. */
static double every(const struct live *l)
{
    return fmax(0.1, fmin((l->shown - l->begun) / 10, 2));
}

/* --- files that are replaced as a whole --- */

struct live_file {
    FILE *f;
    char path[MOST_NAME + 64], temp[MOST_NAME + 64];
};

static int file_begin(struct live_file *t, const struct live *l, const char *name)
{
    snprintf(t->path, sizeof t->path, "%s/%s", l->dir, name);
    snprintf(t->temp, sizeof t->temp, "%s/.%s.part", l->dir, name);
    unlink(t->temp); /* of a run that was killed, or a link that someone else has put there */
    t->f = publish_create_stream(t->temp);
    return t->f ? 0 : -1;
}

/* Closes the file; publishes it if nothing has gone wrong. Not flushed to disk: after a crash of
 * the machine nobody watches the run. */
static int file_end(struct live_file *t, int bad)
{
    errno = 0;
    bad |= fflush(t->f) || ferror(t->f);
    bad |= fclose(t->f) != 0;
    if (!bad && !rename(t->temp, t->path))
        return 0;
    const int number = errno;
    unlink(t->temp);
    errno = number;
    return -1;
}

/* Reports the first file that cannot be written. */
static void check(struct live *l, const struct live_file *t, int bad)
{
    if (!bad || l->broken)
        return;
    l->broken = true;
    cli_say("%s: cannot be written (%s); the live page may be out of date, the run goes on",
            t->path, strerror(errno ? errno : EIO));
}

/* --- the state --- */

/* cost: processor seconds that the page has taken, but for this update. */
static void put_state(const struct live *l, FILE *f, const char *status, double now)
{
    const double seconds = now - l->begun;
    const double left = l->share > 0.001 ? seconds * (1 - l->share) / l->share : NAN;
    fprintf(f,
            "live({\"status\":\"%s\",\"stores\":%" PRId64 ",\"before\":%" PRId64
            ",\"done\":%" PRId64 ",\"failed\":%" PRId64 ",\"current\":%" PRId64 ",\"share\":%.4f,"
            "\"every\":%g,\"at\":%.0f,\"seconds\":%.1f,\"cost\":%.6f,\"rate\":%.1f,\"left\":",
            status, l->stores, l->before, l->done, l->failures, l->current, l->share, every(l),
            (double)time(NULL), seconds, l->spent.processor,
            seconds > 0 ? (double)(l->windows + l->computing) / seconds : 0);
    html_number(f, left, 4);
    fputs(",\"newest\":[", f);
    for (int k = 0; k < NEWEST && l->newest[k]; k++)
        fprintf(f, "%s%" PRId64, k ? "," : "", l->newest[k]);
    fputs("],\"failures\":[", f);
    for (int64_t k = 0; k < l->failures && k < MOST_FAILURES; k++) {
        fputs(k ? ",\n[" : "\n[", f);
        html_json(f, l->failed[k].name);
        putc(',', f);
        html_json(f, l->failed[k].reason);
        putc(']', f);
    }
    fputs("]});\n", f);
}

static void write_state(struct live *l, const char *status)
{
    struct live_file t = {.f = NULL};
    const double now = clock_now();
    int bad = l->stateless ? 0 : file_begin(&t, l, "state.js");
    if (!bad && t.f) {
        put_state(l, t.f, status, now);
        bad = file_end(&t, 0);
    }
    check(l, &t, bad);
    l->shown = clock_now();
}

/* --- a slide --- */

enum { SHOWN_MAP = RESULT_FOCUS };
static const char shown_feature[] = "focus_db";

static void write_slide(struct live *l, int64_t number, const struct result_slide *s, int64_t rows)
{
    struct live_file t = {.f = NULL};
    char name[48];
    double sharp[FEATURES_QUANTILES] = {NAN, NAN, NAN};
    const bool counted = rows == s->ny; /* until then other threads write counts and maps */
    if (counted)
        result_find_quantiles(s, SHOWN_MAP, sharp);
    snprintf(name, sizeof name, "%" PRId64 ".js", number);
    int bad = file_begin(&t, l, name);
    if (!bad) {
        fprintf(t.f, "slide({\"number\":%" PRId64 ",\"name\":", number);
        html_json(t.f, s->name);
        fprintf(t.f,
                ",\"nx\":%" PRId64 ",\"ny\":%" PRId64 ",\"rows\":%" PRId64 ",\"drawn\":%" PRId64
                ",\"windows\":%" PRId64 ",\"feature\":\"%s\",\"sharpness\":",
                s->nx, s->ny, rows, l->drawn, counted ? s->counts.windows : INT64_C(0),
                shown_feature);
        html_number(t.f, sharp[1], 4);
        fputs("});\n", t.f);
        bad = file_end(&t, 0);
    }
    check(l, &t, bad);
}

static void write_picture(struct live *l, int64_t number, const struct result_slide *s,
                          int64_t rows)
{
    struct live_file t = {.f = NULL};
    struct err e = {0};
    char name[48];
    snprintf(name, sizeof name, "%" PRId64 ".png", number);
    int bad = file_begin(&t, l, name);
    if (!bad)
        bad = file_end(&t, live_picture(t.f, s, SHOWN_MAP, rows, &e));
    check(l, &t, bad);
}

static struct spent spent_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (struct spent){clock_now(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

static void update_begin(struct live *l)
{
    l->now = spent_now();
}

static void update_end(struct live *l)
{
    const struct spent now = spent_now();
    l->spent.clock += now.clock - l->now.clock;
    l->spent.processor += now.processor - l->now.processor;
}

/* Processor seconds of the whole run so far. */
static double run_processor(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* May a picture be drawn, or has the page taken its share of the run already? The share is one of
 * the processors: where others use these, the run gets fewer seconds than the clock shows. Half of
 * it is kept for slides that are done. Only pictures of a slide in progress wait for a slow disk or
 * a busy machine: a slide that is done is drawn now or never. */
static bool has_time(const struct live *l, bool done)
{
    const double part = done ? 1 : 0.5, clock = clock_now() - l->begun;
    const double most = part * (ALLOWANCE + MOST_SHARE * fmin(clock, run_processor()));
    const double wait = part * (ALLOWANCE + MOST_SHARE * clock) * MOST_WAITING;
    return l->spent.processor < most && (done || l->spent.clock < wait);
}

/* The picture comes before the numbers, which say how far it is. */
static void show(struct live *l, int64_t number, const struct result_slide *s, int64_t rows)
{
    if (l->drawn_slide != number)
        l->drawn = 0;
    if (s->nx * s->ny > 0 && has_time(l, rows == s->ny)) {
        write_picture(l, number, s, rows);
        l->drawn_slide = number;
        l->drawn = rows;
    }
    write_slide(l, number, s, rows);
}

void live_progress(struct live *l, int64_t k, const struct result_slide *s, int64_t rows,
                   double done)
{
    if (clock_now() - l->shown < every(l))
        return;
    update_begin(l);
    l->current = k + 1;
    l->share = done;
    l->computing = rows * s->nx;
    show(l, k + 1, s, rows);
    write_state(l, "running");
    update_end(l);
}

void live_leave_state(struct live *l)
{
    l->stateless = true;
}

void live_working(struct live *l, int64_t k, int64_t windows, double done)
{
    if (clock_now() - l->shown < every(l))
        return;
    update_begin(l);
    l->current = k + 1;
    l->share = fmax(l->share, done);
    l->computing = windows;
    write_state(l, "running");
    update_end(l);
}

static void note_failure(struct live *l, const char *path, const char *why)
{
    if (l->failures < MOST_FAILURES) {
        struct failed *f = &l->failed[l->failures];
        *f = (struct failed){memory_copy(path_base_name(path)), memory_copy(why)};
        path_drop_folder(f->reason, path);
    }
    l->failures++;
}

void live_slide(struct live *l, int64_t k, const char *path, const struct result_slide *s,
                const char *why, double done)
{
    update_begin(l);
    l->share = fmax(l->share, done); /* others that are at work may be further */
    if (l->current == k + 1)
        l->current = l->computing = 0;
    if (!s) {
        if (*why)
            note_failure(l, path, why);
    } else {
        l->done++;
        l->windows += s->counts.windows;
        memmove(l->newest + 1, l->newest, (NEWEST - 1) * sizeof *l->newest);
        l->newest[0] = k + 1;
        if (s->maps[SHOWN_MAP].values)
            show(l, k + 1, s, s->ny);
    }
    if (l->now.clock - l->shown >= every(l))
        write_state(l, "running");
    update_end(l);
}

/* --- begin and end --- */

/* What the page needs to draw a scale: the colours, and the dB at their ends. */
static void put_colours(FILE *f)
{
    const struct result_map_kind *kind = result_map_kind(SHOWN_MAP);
    uint32_t palette[COLOURS_PALETTE];
    colours_palette(palette, 255);
    fprintf(f,
            "<script type=\"application/json\" id=\"colours\">{\"low\":%g,\"high\":%g,"
            "\"feature\":\"%s\",\"colours\":\"",
            kind->low, kind->high, shown_feature);
    for (int k = 0; k < COLOURS_MAP; k++)
        fprintf(f, "%06" PRIx32, palette[k] >> 8);
    fputs("\"}</script>\n", f);
}

static int write_page(const struct live *l, struct err *e)
{
    char path[MOST_NAME + 64];
    struct text_file t;
    snprintf(path, sizeof path, "%s/index.html", l->dir);
    if (text_file_check(path, PAGE_LIVE_HEAD, "a live page made by h5spec", e) ||
        text_file_begin(&t, path, e))
        return -1;
    page_begin(t.f, PAGE_LIVE, "h5spec run");
    fputs("<header><h1>h5spec run</h1></header>\n"
          "<noscript><p>This page needs JavaScript.</p></noscript>\n<main id=\"app\"></main>\n",
          t.f);
    put_colours(t.f);
    page_script(t.f, PAGE_LIVE);
    fputs("</body>\n</html>\n", t.f);
    return text_file_commit(&t, e);
}

static void live_free(struct live *l)
{
    for (int k = 0; k < MOST_FAILURES; k++) {
        free(l->failed[k].name);
        free(l->failed[k].reason);
    }
    free(l->dir);
    free(l);
}

struct live *live_open(const char *dir, int64_t stores, int64_t before,
                       const struct result_params *p, struct err *e)
{
    if (strlen(dir) > MOST_NAME) {
        err_set(e, "--live %.100s...: the name is longer than %d bytes", dir, MOST_NAME);
        return NULL;
    }
    struct live *l = memory_need(1, sizeof *l);
    *l = (struct live){.dir = memory_copy(dir),
                       .stores = stores,
                       .before = before,
                       .params = *p,
                       .begun = clock_now()};
    update_begin(l);
    if (mkdir(dir, 0777) && errno != EEXIST)
        err_write(e, "--live %s: cannot be made", dir);
    else if (write_page(l, e))
        err_add(e, "--live");
    else {
        write_state(l, "running");
        update_end(l);
        return l;
    }
    live_free(l);
    return NULL;
}

void live_close(struct live *l, enum live_end how)
{
    static const char *const status[] = {"complete", "stopped", "failed"};
    if (!l)
        return;
    if (how == LIVE_COMPLETE) { /* else the page keeps the slide in progress */
        l->current = l->computing = 0;
        l->share = 1;
    }
    write_state(l, status[how]);
    live_free(l);
}
