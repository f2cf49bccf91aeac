/*
 * tune.c - measures which size of groups is read fastest on this machine.
 *
 * A task with one group opens the store, lists the group's chunks, then reads, checks and unpacks
 * them as the stream does: extents of neighbouring chunks, on all threads. Opening and listing are
 * measured once, reading for every size. The best size yields the most pixels per second of all
 * three together. "Window by window" is what reading patch by patch costs: each window reads and
 * unpacks the chunks that it touches, on one thread; as many of them as fit into a second are
 * measured, and the rest is extrapolated.
 */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "common/store/chunks.h"
#include "common/store/store_read.h"
#include "process/options/commands.h"
#include "process/spectrum/spectrum.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXTENT_BYTES = 2 << 20, REPEATS = 3, MOST_BYTES = 1 << 30 };

struct tune {
    struct store *store;
    int fd;                   /* to look at the kernel's pages of the file, and to drop them */
    struct store_chunk *list; /* [rows][columns] of the whole store */
    struct chunks chunks;
    int64_t rows;                   /* of chunks */
    struct chunks_scratch *scratch; /* [threads] */
    int threads;
    double open_seconds, list_seconds; /* list_seconds: per chunk */
    bool cold;                         /* the kernel does drop the file's pages */
    int64_t row, end, col;             /* where source is */
};

/* --- reading --- */

static void ignore(void *ctx, int64_t col, const uint8_t *pixels)
{
    (void)ctx, (void)col, (void)pixels;
}

static int read_extent(const struct tune *t, struct chunks_extent x, int thread, struct err *e)
{
    return chunks_visit(&t->chunks, &t->scratch[thread], x, ignore, NULL, e);
}

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct tune *t = ctx;
    struct chunks_extent *x = slot;
    (void)number;
    if (stop_check(e))
        return -1;
    if (t->row == t->end)
        return PIPE_END;
    const int64_t most = EXTENT_BYTES / store_chunk_bytes(store_info(t->store));
    *x = chunks_extent_at(&t->chunks, t->row, t->col, most);
    t->col += x->n;
    if (t->col == t->chunks.columns) {
        t->col = 0;
        t->row++;
    }
    return PIPE_ITEM;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    return read_extent(ctx, *(struct chunks_extent *)slot, thread, e);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

/* Reads n rows of chunks. Returns the seconds, or -1 on failure. */
static double read_rows(struct tune *t, int64_t row, int64_t n, int threads, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    struct chunks_extent items[64];
    const int depth = 4 * threads < 64 ? 4 * threads : 64;
    t->row = row;
    t->end = row + n;
    t->col = 0;
    const double begun = clock_now();
    return pipe_run(&ops, t, items, sizeof *items, depth, threads, e) ? -1 : clock_now() - begun;
}

/* Reads the chunks of one window, one by one. */
static int read_window(const struct tune *t, int64_t x, int64_t y, int64_t window, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    for (int64_t r = y / i->chunk_rows; r <= (y + window - 1) / i->chunk_rows; r++)
        for (int64_t c = x / i->chunk_cols; c <= (x + window - 1) / i->chunk_cols; c++)
            if (read_extent(t, (struct chunks_extent){r, c, 1}, 0, e))
                return -1;
    return stop_check(e);
}

/* Reads the windows in n rows of chunks one by one, for at most a second. Returns the seconds for
 * all of them, -1 on failure, 0 if there are none. */
static double read_windows(struct tune *t, int64_t row, int64_t n, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const struct result_params p = spectrum_defaults();
    const int64_t below = i->height - row * i->chunk_rows;
    const int64_t height = n * i->chunk_rows < below ? n * i->chunk_rows : below;
    const int64_t nx = result_windows_along(i->width, &p), ny = result_windows_along(height, &p);
    const double begun = clock_now();
    int64_t k = 0;
    for (; k < nx * ny && clock_now() - begun < 1; k++) {
        const int64_t x = k % nx * p.stride, y = row * i->chunk_rows + k / nx * p.stride;
        if (read_window(t, x, y, p.window, e))
            return -1;
    }
    return k ? (clock_now() - begun) * (double)(nx * ny) / (double)k : 0;
}

/* --- the kernel's pages --- */

enum { ASKED = 64, DROPS = 5 };

/* Are these rows of chunks in memory, as far as the kernel says? Few pages are asked: the question
 * itself may read a page of another user's file, and from a fast disk it may be there at once. */
static bool are_resident(const struct tune *t, int64_t row, int64_t n)
{
    uint64_t offset, bytes;
    if (!chunks_range(&t->chunks, row, n, &offset, &bytes))
        return true;
    return store_cached_pages(t->store, offset, bytes, ASKED) == ASKED;
}

/* Drops the file's pages, so that reading is cold. False if they stay, on a file system in memory,
 * say. Pages that wait to be written would stay, as would pages that are being read. */
static bool drop_pages(const struct tune *t, int64_t row, int64_t n)
{
    fdatasync(t->fd);
    for (int k = 0; k < DROPS; k++) {
        posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
        if (!are_resident(t, row, n))
            return true;
        usleep(1000);
    }
    return false;
}

/* --- one cell of the table --- */

/* Seconds of reading n rows of chunks, or their windows: cold at several places, warm at one. The
 * fastest of a few repeats counts, as other processes only ever make it slower. */
static int measure(struct tune *t, int64_t n, int threads, bool cold, bool windows, double *out,
                   struct err *e)
{
    double spent = 0;
    *out = HUGE_VAL;
    for (int k = 0; k < REPEATS && spent < 4; k++) {
        const int64_t row = cold ? (t->rows - n) * k / REPEATS : 0;
        if (cold && !drop_pages(t, row, n))
            t->cold = false;
        if (!cold && k == 0 && read_rows(t, row, n, t->threads, e) < 0)
            return -1;
        const double s = windows ? read_windows(t, row, n, e) : read_rows(t, row, n, threads, e);
        if (s < 0)
            return -1;
        *out = s < *out ? s : *out;
        spent += s;
    }
    return 0;
}

/* "  812" or "    -". */
static void print_speed(double bytes, double seconds)
{
    if (seconds > 0)
        printf(" %9.0f", bytes / 1e6 / seconds);
    else
        printf(" %9s", "-");
}

static void print_factor(double windows, double whole)
{
    if (windows > 0 && whole > 0)
        printf(" %9.1f x", windows / whole);
    else
        printf(" %11s", "-");
}

/* The measurement of one size with one number of threads; 0 seconds: not measured. */
struct row {
    int64_t rows;
    double bytes;
    int threads;
    double cold, warm;                 /* seconds for the group */
    double cold_windows, warm_windows; /* seconds for its windows, one by one */
};

static void print_row(const struct row *r)
{
    char size[32];
    printf("%9s %7" PRId64 " %7d", number_size(size, r->bytes), r->rows, r->threads);
    print_speed(r->bytes, r->cold);
    print_speed(r->bytes, r->warm);
    print_factor(r->cold_windows, r->cold);
    print_factor(r->warm_windows, r->warm);
    puts("");
    fflush(stdout);
}

/* Prints the lines of one size; *speed gets the bytes per second of a task with one such group. */
static int print_size(struct tune *t, int64_t n, double *speed, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const int64_t rows = n * i->chunk_rows < i->height ? n * i->chunk_rows : i->height;
    struct row r = {.rows = rows, .bytes = (double)rows * (double)i->width * (double)i->channels};
    if (measure(t, n, 1, false, true, &r.warm_windows, e) ||
        (t->cold && measure(t, n, 1, true, true, &r.cold_windows, e)))
        return -1;
    for (int j = 1;; j = 2 * j < t->threads ? 2 * j : t->threads) {
        if ((t->cold && measure(t, n, j, true, false, &r.cold, e)) ||
            measure(t, n, j, false, false, &r.warm, e))
            return -1;
        r.threads = j;
        r.cold = t->cold ? r.cold : 0;
        r.cold_windows = t->cold ? r.cold_windows : 0;
        print_row(&r);
        if (j == t->threads)
            break;
    }
    const double listing = t->list_seconds * (double)(n * t->chunks.columns);
    *speed = r.bytes / (t->open_seconds + listing + (t->cold ? r.cold : r.warm));
    return 0;
}

/* --- a store --- */

static int list_all(struct tune *t, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const int64_t columns = store_chunk_columns(i);
    for (int64_t g = 0; g < i->group_count; g++)
        t->rows += store_group_chunk_rows(i, g);
    if (!(t->list = memory_try_zero((size_t)(t->rows * columns), sizeof *t->list, e)))
        return err_add(e, "%s", store_path(t->store));
    struct store_chunk *out = t->list;
    const double begun = clock_now();
    for (int64_t g = 0; g < i->group_count; g++) {
        if (store_map_group(t->store, g, out, e))
            return -1;
        out += store_group_chunk_rows(i, g) * columns;
    }
    t->list_seconds = (clock_now() - begun) / (double)(t->rows * columns);
    t->chunks = chunks_of(t->store, t->list, 0);
    return 0;
}

static int open_all(struct tune *t, const char *path, struct err *e)
{
    t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t->fd >= 0)
        posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
    const double begun = clock_now();
    if (!(t->store = store_open(path, e)))
        return -1;
    t->open_seconds = clock_now() - begun;
    if (t->fd < 0)
        return err_sys(e, "%s: cannot open", path);
    if (list_all(t, e))
        return -1;
    t->scratch = memory_need((size_t)t->threads, sizeof *t->scratch);
    t->cold = drop_pages(t, 0, t->rows);
    return 0;
}

static void close_all(struct tune *t)
{
    for (int k = 0; t->scratch && k < t->threads; k++)
        chunks_scratch_free(&t->scratch[k]);
    free(t->scratch);
    free(t->list);
    store_close(t->store);
    if (t->fd >= 0)
        close(t->fd);
}

/* The smallest size that is within a tenth of the best; *best gets the best speed. */
static int64_t recommended(const double *speed, const int64_t *bytes, int n, double *best)
{
    int k = 0;
    *best = 0;
    for (int s = 0; s < n; s++)
        *best = speed[s] > *best ? speed[s] : *best;
    while (speed[k] < 0.9 * *best)
        k++;
    return bytes[k];
}

static void print_head(const struct tune *t)
{
    const struct store_info *i = store_info(t->store);
    cli_print_text(stdout, store_path(t->store));
    printf(": %" PRId64 " x %" PRId64 " px, %s, chunks of %" PRId64 " x %" PRId64 "\n", i->width,
           i->height, i->codec->name, i->chunk_cols, i->chunk_rows);
    printf("opening: %.1f ms, listing: %.1f us per chunk%s\n", t->open_seconds * 1e3,
           t->list_seconds * 1e6,
           t->cold ? "" : "; the file stays in the page cache, so these are speeds of cached data");
    printf("%9s %7s %7s %9s %9s %11s %11s\n", "group", "rows", "threads", "cold", "warm", "cold",
           "warm");
    printf("%9s %7s %7s %9s %9s %23s\n", "", "", "", "MB/s", "MB/s", "over single windows");
}

/* The size is in whole MiB. */
static void print_end(const struct tune *t, int64_t bytes, double best)
{
    printf("within a tenth of the fastest (%.0f MB/s with %d threads, %s, opening and listing "
           "included):\n--group-bytes %" PRId64 "M\n",
           best / 1e6, t->threads, t->cold ? "cold" : "warm", (bytes >> 20) + 1);
}

/* Measures all sizes and prints them. */
static int measure_sizes(struct tune *t, int64_t *bytes, double *best, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const int64_t row_bytes = i->chunk_rows * i->width * i->channels;
    double speed[64];
    int64_t size[64], before = 0;
    int n = 0;
    for (int64_t want = row_bytes;; want *= 2) {
        int64_t rows = want / row_bytes < t->rows ? want / row_bytes : t->rows;
        rows = rows * row_bytes > MOST_BYTES && n > 0 ? MOST_BYTES / row_bytes : rows;
        if (rows <= before)
            break;
        size[n] = rows * row_bytes;
        if (print_size(t, rows, &speed[n++], e))
            return -1;
        before = rows;
    }
    *bytes = recommended(speed, size, n, best);
    return 0;
}

static int print_all(struct tune *t, struct err *e)
{
    int64_t bytes;
    double best;
    print_head(t);
    if (measure_sizes(t, &bytes, &best, e))
        return -1;
    print_end(t, bytes, best);
    return 0;
}

/*
 * Reads parts of a store as groups of growing size, from one row of chunks to 1 GiB of pixels (or
 * the whole store), with 1, 2, 4 ... `threads` threads, warm, and also cold if the kernel drops the
 * file's pages. Compares each with reading the windows in it one by one. Prints the table and the
 * best --group-bytes for wsi2h5 on stdout. -1 if the store is damaged or cannot be read; the
 * message names it.
 */
static int tune(const char *path, int threads, struct err *e)
{
    struct tune t = {.threads = threads, .fd = -1};
    int r = open_all(&t, path, e) || print_all(&t, e) ? -1 : 0;
    close_all(&t);
    return r;
}

int tune_main(struct options *o)
{
    struct err e = {0};
    int status = EXIT_DONE;
    stop_catch_signals();
    for (int k = 0; k < o->files.n && !stop_signal(); k++)
        if (tune(o->files.paths[k], o->threads, &e)) {
            fflush(stdout);
            status = cli_worst(status, cli_failed(&e));
        }
    return stop_signal() ? EXIT_STOPPED : status;
}
