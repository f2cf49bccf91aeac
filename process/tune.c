/*
 * tune.c - see tune.h.
 *
 * What a task with one group pays: opening the store, listing the group's chunks, then reading, checking
 * and unpacking them, here as in the stream (runs of neighbouring chunks, on all threads). The first two
 * are measured once, the third for every size; a size is better the more pixels a second all three together
 * leave. Windows one by one means what reading patch by patch means: each fetches and unpacks
 * the chunks that it touches, on one thread; so many of them as take a second stand for the rest.
 */
#include "process/tune.h"

#include "common/cli.h"
#include "common/codec.h"
#include "common/pipe.h"
#include "common/store.h"
#include "process/spectrum.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUN_BYTES = 2 << 20, REPEATS = 3, MOST_BYTES = 1 << 30 };

struct area { /* of one thread */
    unsigned char *packed, *pixels;
    struct codec_work *codec;
};

struct tune {
    struct store *store;
    int fd;                     /* for the kernel's pages of the file */
    struct store_chunk *chunks; /* [rows][columns] of the whole store */
    int64_t rows, columns;      /* of chunks */
    size_t chunk_bytes;
    struct area *areas; /* [threads] */
    int threads;
    double open_seconds, list_seconds; /* the latter for one chunk */
    bool cold;                         /* the kernel does let go */
    int64_t row, end, column;          /* where source is */
};

struct item {
    const struct store_chunk *chunks;
    int64_t n;
};

/* --- reading --- */

static int read_run(const struct tune *t, struct area *a, const struct store_chunk *c, int64_t n, struct err *e)
{
    size_t bytes = 0, at = 0;
    for (int64_t k = 0; k < n; k++)
        bytes += c[k].bytes;
    if (bytes == 0)
        return 0;
    if (store_read(t->store, c[0].offset, a->packed, bytes, e))
        return -1;
    const struct codec_params params = store_codec_params(store_info(t->store));
    for (int64_t k = 0; k < n; at += c[k++].bytes)
        if (c[k].bytes > 0 &&
            (codec_crc32(a->packed + at, c[k].bytes) != c[k].crc32 ||
             (!c[k].raw && codec_decode(a->codec, &params, a->packed + at, c[k].bytes, a->pixels))))
            return err_set(e, "%s: a chunk is damaged; convert the slide again", store_path(t->store));
    return 0;
}

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct tune *t = ctx;
    struct item *it = slot;
    (void)number, (void)after;
    if (cli_check_stop(e))
        return -1;
    if (t->row == t->end)
        return PIPE_END;
    const int64_t most = RUN_BYTES / (int64_t)t->chunk_bytes > 1 ? RUN_BYTES / (int64_t)t->chunk_bytes : 1;
    const struct store_chunk *c = &t->chunks[t->row * t->columns + t->column];
    int64_t n = 1;
    while (n < most && t->column + n < t->columns && c[n].offset == c[n - 1].offset + c[n - 1].bytes)
        n++;
    *it = (struct item){c, n};
    t->column += n;
    if (t->column == t->columns) {
        t->column = 0;
        t->row++;
    }
    return PIPE_ITEM;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct tune *t = ctx;
    struct item *it = slot;
    return read_run(t, &t->areas[thread], it->chunks, it->n, e);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

/* Reads rows of chunks. Returns the seconds, -1 on failure. */
static double read_rows(struct tune *t, int64_t row, int64_t n, int threads, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    struct item items[64];
    const int depth = 4 * threads < 64 ? 4 * threads : 64;
    t->row = row;
    t->end = row + n;
    t->column = 0;
    const double begun = cli_now();
    return pipe_run(&ops, t, items, sizeof *items, depth, threads, e) ? -1 : cli_now() - begun;
}

/* Reads every window in n rows of chunks by itself, or as many as take a second. Returns the seconds for all
 * of them, -1 on failure, 0 when there is none. */
static double read_windows(struct tune *t, int64_t row, int64_t n, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const struct result_params p = spectrum_defaults();
    const int64_t height =
        (row + n) * i->chunk_rows < i->height ? n * i->chunk_rows : i->height - row * i->chunk_rows;
    const int64_t nx = spectrum_windows(i->width, &p), ny = spectrum_windows(height, &p);
    const double begun = cli_now();
    int64_t k = 0;
    for (; k < nx * ny && cli_now() - begun < 1; k++) {
        const int64_t x = k % nx * p.stride, y = row * i->chunk_rows + k / nx * p.stride;
        for (int64_t r = y / i->chunk_rows; r <= (y + p.window - 1) / i->chunk_rows; r++)
            for (int64_t c = x / i->chunk_cols; c <= (x + p.window - 1) / i->chunk_cols; c++)
                if (read_run(t, &t->areas[0], &t->chunks[r * t->columns + c], 1, e))
                    return -1;
        if (cli_check_stop(e))
            return -1;
    }
    return k ? (cli_now() - begun) * (double)(nx * ny) / (double)k : 0;
}

/* --- the kernel's pages --- */

/* The share of these rows of chunks that the kernel has in memory. */
static double resident(const struct tune *t, int64_t row, int64_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t low = UINT64_MAX, high = 0;
    size_t there = 0;
    for (int64_t k = row * t->columns; k < (row + n) * t->columns; k++) {
        const struct store_chunk *c = &t->chunks[k];
        if (c->bytes == 0)
            continue;
        low = c->offset < low ? c->offset : low;
        high = c->offset + c->bytes > high ? c->offset + c->bytes : high;
    }
    if (high <= low)
        return 1;
    low = low / page * page;
    const size_t length = (size_t)(high - low), pages = (length + page - 1) / page;
    unsigned char *seen = malloc(pages);
    void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, t->fd, (off_t)low);
    if (!seen || map == MAP_FAILED || mincore(map, length, seen))
        there = pages;
    else
        for (size_t k = 0; k < pages; k++)
            there += seen[k] & 1;
    if (map != MAP_FAILED)
        munmap(map, length);
    free(seen);
    return (double)there / (double)pages;
}

/* After this, reading them is cold; false where the file's pages stay (on a file system in memory, say). */
static bool let_go(const struct tune *t, int64_t row, int64_t n)
{
    posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
    return resident(t, row, n) < 0.05;
}

/* --- one cell of the table --- */

/* Seconds of reading n rows of chunks, or their windows: cold at several places, warm at one. The fastest of
 * a few: what others do on the machine only ever makes it slower. */
static int measure(struct tune *t, int64_t n, int threads, bool cold, bool windows, double *out, struct err *e)
{
    double spent = 0;
    *out = HUGE_VAL;
    for (int k = 0; k < REPEATS && spent < 4; k++) {
        const int64_t row = cold ? (t->rows - n) * k / REPEATS : 0;
        if (cold && !let_go(t, row, n))
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

/* Lines of one size; *speed gets the bytes a second that a task with one such group leaves. */
static int print_size(struct tune *t, int64_t n, double *speed, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const int64_t rows = n * i->chunk_rows < i->height ? n * i->chunk_rows : i->height;
    const double bytes = (double)rows * (double)i->width * (double)i->channels;
    double cold_windows = 0, warm_windows = 0, cold = 0, warm = 0;
    char size[32];
    if (measure(t, n, 1, false, true, &warm_windows, e) ||
        (t->cold && measure(t, n, 1, true, true, &cold_windows, e)))
        return -1;
    for (int j = 1;; j = 2 * j < t->threads ? 2 * j : t->threads) {
        if ((t->cold && measure(t, n, j, true, false, &cold, e)) || measure(t, n, j, false, false, &warm, e))
            return -1;
        printf("%9s %7" PRId64 " %7d", cli_size(size, bytes), rows, j);
        print_speed(bytes, t->cold ? cold : 0);
        print_speed(bytes, warm);
        print_factor(t->cold ? cold_windows : 0, cold);
        print_factor(warm_windows, warm);
        puts("");
        fflush(stdout);
        if (j == t->threads)
            break;
    }
    *speed = bytes / (t->open_seconds + t->list_seconds * (double)(n * t->columns) + (t->cold ? cold : warm));
    return 0;
}

/* --- a store --- */

static int list_all(struct tune *t, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    for (int64_t g = 0; g < i->group_count; g++)
        t->rows += store_group_chunk_rows(i, g);
    t->columns = store_chunk_columns(i);
    t->chunk_bytes = (size_t)store_chunk_bytes(i);
    t->chunks = calloc((size_t)(t->rows * t->columns), sizeof *t->chunks);
    if (!t->chunks)
        return err_set(e, "out of memory");
    struct store_chunk *out = t->chunks;
    const double begun = cli_now();
    for (int64_t g = 0; g < i->group_count; g++) {
        if (store_map_group(t->store, g, out, e))
            return -1;
        out += store_group_chunk_rows(i, g) * t->columns;
    }
    t->list_seconds = (cli_now() - begun) / (double)(t->rows * t->columns);
    return 0;
}

static int open_all(struct tune *t, const char *path, struct err *e)
{
    t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t->fd >= 0)
        posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
    const double begun = cli_now();
    if (!(t->store = store_open(path, e)))
        return -1;
    t->open_seconds = cli_now() - begun;
    if (t->fd < 0)
        return err_sys(e, "%s: cannot open", path);
    if (list_all(t, e))
        return -1;
    if (!(t->areas = calloc((size_t)t->threads, sizeof *t->areas)))
        return err_set(e, "out of memory");
    for (int k = 0; k < t->threads; k++) {
        struct area *a = &t->areas[k];
        a->packed = malloc(t->chunk_bytes > RUN_BYTES ? t->chunk_bytes : RUN_BYTES);
        a->pixels = malloc(t->chunk_bytes);
        if (!a->packed || !a->pixels)
            return err_set(e, "out of memory");
        if (!(a->codec = codec_create(e)))
            return -1;
    }
    t->cold = let_go(t, 0, t->rows);
    return 0;
}

static void close_all(struct tune *t)
{
    for (int k = 0; t->areas && k < t->threads; k++) {
        free(t->areas[k].packed);
        free(t->areas[k].pixels);
        codec_free(t->areas[k].codec);
    }
    free(t->areas);
    free(t->chunks);
    store_close(t->store);
    if (t->fd >= 0)
        close(t->fd);
}

/* The smallest size that is within a tenth of the best, in whole MiB. */
static void recommend(const struct tune *t, const double *speed, const int64_t *bytes, int n)
{
    double best = 0;
    int k = 0;
    for (int s = 0; s < n; s++)
        best = speed[s] > best ? speed[s] : best;
    while (speed[k] < 0.9 * best)
        k++;
    printf("within a tenth of the fastest (%.0f MB/s with %d threads, %s, opening and listing included):\n"
           "--group-bytes %" PRId64 "M\n",
           best / 1e6, t->threads, t->cold ? "cold" : "warm", (bytes[k] >> 20) + 1);
}

static int print_table(struct tune *t, struct err *e)
{
    const struct store_info *i = store_info(t->store);
    const int64_t row_bytes = i->chunk_rows * i->width * i->channels;
    double speed[64];
    int64_t bytes[64], before = 0;
    int n = 0;
    printf("%s: %" PRId64 " x %" PRId64 " px, %s, chunks of %" PRId64 " x %" PRId64 "\n", store_path(t->store),
           i->width, i->height, i->codec->name, i->chunk_cols, i->chunk_rows);
    printf("opened in %.1f ms, a chunk listed in %.1f us%s\n", t->open_seconds * 1e3, t->list_seconds * 1e6,
           t->cold ? "" : "; the file's pages stay in memory here: nothing is cold");
    printf("%9s %7s %7s %9s %9s %11s %11s\n", "group", "rows", "threads", "cold", "warm", "cold", "warm");
    printf("%9s %7s %7s %9s %9s %23s\n", "", "", "", "MB/s", "MB/s", "over window by window");
    for (int64_t want = row_bytes;; want *= 2) {
        int64_t rows = want / row_bytes < t->rows ? want / row_bytes : t->rows;
        rows = rows * row_bytes > MOST_BYTES && n > 0 ? MOST_BYTES / row_bytes : rows;
        if (rows <= before)
            break;
        bytes[n] = rows * row_bytes;
        if (print_size(t, rows, &speed[n++], e))
            return -1;
        before = rows;
    }
    recommend(t, speed, bytes, n);
    return 0;
}

int tune_print(const char *path, int threads, struct err *e)
{
    struct tune t = {.threads = threads, .fd = -1};
    int r = open_all(&t, path, e) || print_table(&t, e) ? -1 : 0;
    close_all(&t);
    return r;
}
