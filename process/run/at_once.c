/* at_once.c - see at_once.h. */
#include "process/run/at_once.h"

#include "common/base/cli.h"
#include "common/base/crew_line.h"
#include "common/base/failed_list.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_library.h"
#include "common/store/store.h"
#include "process/engine/stream.h"
#include "process/run/slide_bytes.h"
#include "process/spectrum/spectrum_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a member says about its slide; first, when it asks, the quickhash alone. */
struct answer {
    char quickhash[80];
    enum { SLIDE_FAILED, SLIDE_UNWRITTEN, SLIDE_DONE } how;
    bool stopped; /* by a signal */
    struct err why;
    struct result_slide slide; /* points to nothing */
    uint64_t histogram[];      /* [bins] */
};

/* A computed slide, until its result is written. */
struct handed {
    int fd;             /* slide_bytes.h */
    char quickhash[80]; /* of the slide */
    struct err why;     /* it has failed, and the file holds nothing; "": it has not */
};

/* A run, and in a member what it works on. */
struct work {
    const struct at_once *a;
    int members; /* at most */
    bool ends;   /* a result could not be written: of the stores at work only those done count */
    struct handed *handed; /* [n_handed]: slide k is in k % n_handed; NULL: members compute */
    int n_handed;
    int64_t computed; /* slides before this one have been handed over */
    /* in a member */
    struct spectrum_use use;
    int64_t item;
    struct crew_seat *seat;
    struct answer *answer;
};

bool at_once_serves(const struct options *o, struct err *note)
{
    struct spectrum_choice choice = o->choice;
    *note = (struct err){0};
    if (!output_is_folder(o->output, RESULT_ENDING) || o->files.n < 2 || o->threads < 2 ||
        o->memory || o->io == STREAM_GDS)
        return false;
    spectrum_settle(&choice, note); /* not where one process serves: it opens devices itself */
    return choice.kind == SPECTRUM_CPU;
}

int at_once_same(const char *path, const char *first, struct err *e)
{
    size_t n;
    const char *name = path_stem(first, &n);
    return err_blame(e, ERR_COPY, "%s: " FAILED_COPY_OF "%.*s", path, (int)n, name);
}

static const char *path_of(const struct work *w, int64_t item)
{
    return w->a->o->files.paths[item];
}

static struct handed *handed_of(const struct work *w, int64_t item)
{
    return &w->handed[item % w->n_handed];
}

/* --- a member --- */

static int ask(void *ctx, int64_t k, const char *quickhash, struct err *e)
{
    struct work *w = ctx;
    struct answer *a = w->answer;
    (void)k;
    if (w->a->o->duplicates == DUPLICATES_COUNT)
        return 0;
    snprintf(a->quickhash, sizeof a->quickhash, "%s", quickhash);
    if (crew_ask(w->seat, a))
        return 0;
    return stop_check(e) ? -1 : err_set(e, "given up");
}

static void note_progress(void *ctx, int64_t k, double fraction, int64_t windows)
{
    const struct work *w = ctx;
    (void)k;
    atomic_store(&w->seat->amount, fraction * (double)windows);
    atomic_store(&w->seat->fraction, fraction);
}

#ifdef HAVE_PNG

static void show_live(void *ctx, int64_t k, const struct result_slide *s, int64_t rows)
{
    const struct work *w = ctx;
    (void)k;
    live_progress(w->a->live, w->item, s, rows, 0);
}

static void show_done(const struct work *w, const struct result_slide *s)
{
    if (w->a->live)
        live_slide(w->a->live, w->item, path_of(w, w->item), s, NULL, 0);
}

static void leave_state(struct live *l)
{
    if (l)
        live_leave_state(l);
}

#else

static void show_live(void *ctx, int64_t k, const struct result_slide *s, int64_t rows)
{
    (void)ctx, (void)k, (void)s, (void)rows;
}

static void show_done(const struct work *w, const struct result_slide *s)
{
    (void)w, (void)s;
}

static void leave_state(struct live *l)
{
    (void)l;
}

#endif

/* The numbers of a slide, without what they point to. */
static void copy_slide(const struct result_params *p, const struct result_slide *s,
                       struct answer *a)
{
    a->slide = *s;
    memcpy(a->histogram, s->counts.histogram, (size_t)p->bins * sizeof *a->histogram);
    a->slide.counts.histogram = NULL;
    a->slide.groups = NULL;
    a->slide.thumbnail.rgb = NULL;
    for (int m = 0; m < RESULT_MAPS; m++)
        a->slide.maps[m].values = NULL;
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        a->slide.spectra[k].sums = NULL;
}

static int write_slide(void *ctx, int64_t k, const struct result_slide *s, const struct err *why,
                       struct err *e)
{
    struct work *w = ctx;
    struct answer *a = w->answer;
    (void)k, (void)e;
    if (!s) {
        a->why = *why;
        return 0;
    }
    show_done(w, s);
    a->how = run_output_put(w->a->out, s, &a->why) ? SLIDE_UNWRITTEN : SLIDE_DONE;
    copy_slide(&w->a->o->params, s, a);
    return 0;
}

/* Of the last slides each gets, as others end, more threads than its share of now. */
static int threads_for(const struct work *w)
{
    const struct options *o = w->a->o;
    return o->files.n - w->item <= w->members ? o->threads : atomic_load(&w->seat->threads);
}

static int compute(struct work *w, struct err *e)
{
    const struct options *o = w->a->o;
    const struct spectrum_setup want = {
        .choice = {.kind = SPECTRUM_CPU}, .params = o->params, .threads = o->threads};
    struct err note;
    if (w->use.n == 0 && spectrum_open(&w->use, &want, &note, e))
        return err_add(e, "%s: --device cpu", path_of(w, w->item));
    w->use.threads = threads_for(w);
    const struct stream_setup setup = {.use = &w->use,
                                       .io = o->io,
                                       .params = o->params,
                                       .paths = o->files.paths + w->item,
                                       .n_paths = 1,
                                       .regions = &o->regions,
                                       .reject_damaged = o->reject_damaged,
                                       .threads_now = &w->seat->threads,
                                       .ctx = w,
                                       .opened = ask,
                                       .report = write_slide,
                                       .progress = w->a->bytes ? note_progress : NULL,
                                       .live = w->a->live ? show_live : NULL};
    return stream_run(&setup, e) ? err_add(e, "%s", path_of(w, w->item)) : 0;
}

/* The slide that the parent has computed. */
static int write_handed(struct work *w, struct err *e)
{
    const struct handed *h = handed_of(w, w->item);
    struct slide_bytes b;
    if (slide_bytes_take(h->fd, &w->a->o->params, &b, e))
        return err_add(e, "%s", path_of(w, w->item));
    snprintf(w->answer->quickhash, sizeof w->answer->quickhash, "%s", b.slide.quickhash);
    const int bad = write_slide(w, 0, &b.slide, NULL, e);
    slide_bytes_drop(&b);
    return bad;
}

static void work(void *ctx, int64_t item, struct crew_seat *seat, void *answer)
{
    struct work *w = ctx;
    struct answer *a = answer;
    struct err e = {0};
    w->item = item;
    w->seat = seat;
    w->answer = a;
    leave_state(w->a->live);
    if (w->handed ? write_handed(w, &e) : compute(w, &e))
        a->why = e;
    a->stopped = a->how != SLIDE_DONE && stop_signal() != 0;
    if (a->stopped) { /* if somebody stops this process alone, another try may succeed */
        a->how = SLIDE_FAILED;
        a->why.kind = ERR_TROUBLE;
    }
}

/* --- the parent --- */

/* Among the stores that are not reported: one of the same slide, before store k. */
static enum crew_line_word find_same(const struct work *w, const struct crew_line *l, int64_t k,
                                     struct answer *a)
{
    for (int64_t j = crew_line_first(l); j < k; j++) {
        const struct answer *other = crew_line_answer(l, j);
        const bool at_work = crew_line_at_work(l, j);
        const char *hash = at_work && w->handed ? handed_of(w, j)->quickhash
                           : other              ? other->quickhash
                                                : "";
        if (strcmp(hash, a->quickhash) != 0)
            continue;
        if (at_work)
            return CREW_LINE_LATER;
        if (other->how != SLIDE_FAILED) {
            at_once_same(path_of(w, k), path_of(w, j), &a->why);
            return CREW_LINE_NO;
        }
    }
    return CREW_LINE_YES;
}

static enum crew_line_word allow(void *ctx, const struct crew_line *l, int64_t k, void *answer)
{
    const struct work *w = ctx;
    struct answer *a = answer;
    if (!*a->quickhash)
        return CREW_LINE_YES;
    const char *first = w->a->reported(w->a->ctx, a->quickhash);
    if (!first)
        return find_same(w, l, k, a);
    at_once_same(path_of(w, k), first, &a->why);
    return CREW_LINE_NO;
}

/* May its result be written? */
static enum crew_line_word decide(void *ctx, const struct crew_line *l, int64_t k, void *answer)
{
    struct work *w = ctx;
    struct answer *a = answer;
    if (k >= w->computed)
        return CREW_LINE_LATER;
    const struct handed *h = handed_of(w, k);
    if (*h->why.msg) {
        a->why = h->why;
        return CREW_LINE_NO;
    }
    if (w->a->o->duplicates == DUPLICATES_COUNT)
        return CREW_LINE_YES;
    memcpy(a->quickhash, h->quickhash, sizeof a->quickhash);
    return allow(w, l, k, a);
}

static void died(void *ctx, int64_t k, int status, void *answer)
{
    const struct work *w = ctx;
    struct answer *a = answer;
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    a->how = SLIDE_FAILED;
    a->stopped = stop_signal() != 0;
    if (number == SIGKILL || (!number && WEXITSTATUS(status) == EXIT_TROUBLE))
        err_blame(&a->why, ERR_MEMORY,
                  "%s: its process was ended, as happens when memory is short; try again, with "
                  "fewer threads (-j)",
                  path_of(w, k));
    else if (w->handed)
        err_blame(&a->why, ERR_TROUBLE,
                  "%s: the program or a library crashed while its result was written (%s); run "
                  "again",
                  path_of(w, k), number ? strsignal(number) : "see above");
    else
        err_set(
            &a->why,
            "%s: the program or a library crashed while the store was read (%s); " ERR_MAKE_AGAIN,
            path_of(w, k), number ? strsignal(number) : "see above");
}

static int report(void *ctx, int64_t k, void *answer, struct err *e)
{
    struct work *w = ctx;
    const struct at_once *t = w->a;
    struct answer *a = answer;
    if (!a || (a->how != SLIDE_DONE && w->ends) ||
        (a->how == SLIDE_FAILED && a->stopped && stop_signal()))
        return 1;
    if (a->how == SLIDE_UNWRITTEN) {
        w->ends = true;
        return t->unwritten(t->ctx, k, &a->why, e);
    }
    a->slide.counts.histogram = a->histogram;
    const int bad = t->report(t->ctx, k, a->how == SLIDE_DONE ? &a->slide : NULL, &a->why, e);
    fflush(stdout);
    return bad;
}

/* The first store at work stands for all of them. */
static void show(void *ctx, const struct crew_line *l)
{
    const struct work *w = ctx;
    const double *bytes = w->a->bytes, all = bytes[w->a->o->files.n];
    const struct crew_seat *first = NULL, *seat;
    double done = bytes[crew_line_first(l)], windows = 0;
    int64_t shown = 0;
    for (int64_t k = crew_line_first(l); k < crew_line_end(l); k++) {
        const double share = bytes[k + 1] - bytes[k];
        if (!crew_line_at_work(l, k))
            done += share;
        else if ((seat = crew_line_seat(l, k))) {
            shown = first ? shown : k;
            done += first ? share * atomic_load(&seat->fraction) : 0;
            first = first ? first : seat;
            windows += atomic_load(&seat->amount);
        }
    }
    if (first)
        w->a->progress(w->a->ctx, shown, atomic_load(&first->fraction), done / all,
                       (bytes[shown + 1] - bytes[shown]) / all, windows);
}

/* The setup that both kinds of runs share. */
static struct crew_line_setup setup_of(struct work *w)
{
    const struct options *o = w->a->o;
    const size_t bins = (size_t)o->params.bins;
    store_init(); /* changes the environment, which only one thread may do */
    return (struct crew_line_setup){
        .crew = {.members = w->members,
                 .cores = o->threads,
                 .answer_bytes = sizeof(struct answer) + bins * sizeof(uint64_t),
                 .work = work,
                 .leave = h5_exit,
                 .ctx = w},
        .items = o->files.n,
        .died = died,
        .report = report};
}

int at_once_run(const struct at_once *a, int64_t *peak, struct err *e)
{
    const struct options *o = a->o;
    struct work w = {.a = a, .members = o->threads < o->files.n ? o->threads : o->files.n};
    struct crew_line_setup s = setup_of(&w);
    struct crew_line_end end;
    s.allow = o->duplicates == DUPLICATES_COUNT ? NULL : allow;
    s.show = a->bytes ? show : NULL;
    const int bad = crew_line_run(&s, &end, e);
    *peak = end.peak_memory;
    return bad && end.refused ? err_add(e, "%s", path_of(&w, end.begun)) : bad;
}

/* --- members that write --- */

enum {
    LEAST_STORES = 8,
    MOST_WRITERS = 8,
    THREADS_EACH = 4, /* of the run, per writer: HDF5 is called by less than one thread in four */
    AHEAD = 2,        /* slides per writer that wait or are being written */
    WAIT_MS = 200,    /* between looks at signals */
};

struct at_once_writers {
    struct at_once a;
    struct work w;
    struct crew_line_setup setup;
    struct crew_line *line;
};

/* None with --memory, which is for one process, and where files, also those in memory, must not
 * grow: maps lie packed in a result. */
static int count_writers(const struct options *o)
{
    const int n = o->threads / THREADS_EACH;
    struct rlimit files;
    if (!output_is_folder(o->output, RESULT_ENDING) || o->files.n < LEAST_STORES || o->memory ||
        o->choice.kind == SPECTRUM_CPU || getrlimit(RLIMIT_FSIZE, &files) ||
        files.rlim_cur != RLIM_INFINITY)
        return 0;
    return n < MOST_WRITERS ? n : MOST_WRITERS;
}

static void free_writers(struct at_once_writers *w)
{
    for (int k = 0; k < w->w.n_handed; k++)
        if (w->w.handed[k].fd >= 0)
            close(w->w.handed[k].fd);
    free(w->w.handed);
    free(w);
}

static int fork_writers(struct at_once_writers *w, struct err *e)
{
    for (int k = 0; k < w->w.n_handed; k++)
        if ((w->w.handed[k].fd = slide_bytes_create(e)) < 0)
            return -1;
    w->setup = setup_of(&w->w);
    w->setup.decide = decide;
    w->line = crew_line_open(&w->setup, e);
    return w->line ? 0 : -1;
}

struct at_once_writers *at_once_open_writers(const struct at_once *a)
{
    const int n = count_writers(a->o);
    struct err why;
    if (n == 0)
        return NULL;
    struct at_once_writers *w = memory_need(1, sizeof *w);
    w->a = *a;
    w->w = (struct work){.a = &w->a, .members = n, .n_handed = AHEAD * n};
    w->w.handed = memory_need((size_t)w->w.n_handed, sizeof *w->w.handed);
    for (int k = 0; k < w->w.n_handed; k++)
        w->w.handed[k].fd = -1;
    if (!fork_writers(w, &why))
        return w;
    free_writers(w);
    return NULL;
}

/* Waits until the place of slide k is free. */
static int wait_for_place(struct at_once_writers *w, int64_t k, struct err *e)
{
    const int64_t before = k - w->w.n_handed;
    while (before >= 0 && (before >= crew_line_end(w->line) || crew_line_at_work(w->line, before)))
        if (stop_check(e) || crew_line_step(w->line, WAIT_MS, e))
            return -1;
    return 0;
}

int at_once_put(struct at_once_writers *w, int64_t k, const struct result_slide *slide,
                const struct err *why, struct err *e)
{
    struct handed *h = handed_of(&w->w, k);
    if (wait_for_place(w, k, e))
        return -1;
    *h = (struct handed){.fd = h->fd};
    if (!slide)
        h->why = *why;
    snprintf(h->quickhash, sizeof h->quickhash, "%s", slide ? slide->quickhash : "");
    if (slide && slide_bytes_put(h->fd, &w->a.o->params, slide, &h->why))
        err_add(&h->why, "%s", path_of(&w->w, k));
    w->w.computed = k + 1;
    return crew_line_step(w->line, 0, e);
}

int at_once_close_writers(struct at_once_writers *w, bool failed, int64_t *peak, struct err *e)
{
    struct crew_line_end end;
    struct err later; /* a failure before is the reason */
    int bad = failed;
    if (!w)
        return bad ? -1 : 0;
    if (!failed || stop_signal())
        bad |= crew_line_finish(w->line, failed ? &later : e) != 0;
    crew_line_close(w->line, &end);
    *peak = end.peak_memory;
    free_writers(w);
    return bad ? -1 : 0;
}
