/*
 * bench_read - the host's share of the GPU backend, each step alone:
 *
 *   bench_read read STORE THREADS       reads all chunks from the page cache, 2 MiB at a time
 *   bench_read check STORE THREADS      the same, and computes their CRC-32
 *   bench_read inflate STORE THREADS    unpacks all chunks; their bytes are in memory before
 *
 * Prints the median of five runs in seconds.
 */
#include "common/base/clock.h"
#include "common/base/pipe.h"
#include "common/codec/codec.h"
#include "common/store/store_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 2 << 20, RUNS = 5 };

struct job {
    struct store *store;
    struct store_chunk *chunks;
    int64_t n, next;
    unsigned char **packed;     /* inflate: each chunk's bytes */
    unsigned char **buffers;    /* [threads] */
    struct codec_work **codecs; /* [threads] */
    bool check;
};

struct item {
    int64_t first, n; /* consecutive chunks of the file */
};

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct job *j = ctx;
    struct item *it = slot;
    size_t bytes = 0;
    (void)number, (void)e;
    if (j->next == j->n)
        return PIPE_END;
    it->first = j->next;
    do
        bytes += j->chunks[j->next++].bytes;
    while (!j->packed && j->next < j->n && bytes + j->chunks[j->next].bytes <= READ_BYTES &&
           j->chunks[j->next].offset ==
               j->chunks[j->next - 1].offset + j->chunks[j->next - 1].bytes);
    it->n = j->next - it->first;
    return PIPE_ITEM;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct job *j = ctx;
    const struct item *it = slot;
    const struct store_chunk *c = j->chunks + it->first;
    const struct codec_params params = store_codec_params(store_info(j->store));
    unsigned char *at = j->buffers[thread];
    size_t bytes = 0;
    if (j->packed)
        return c->raw
                   ? 0
                   : codec_decode(j->codecs[thread], &params, j->packed[it->first], c->bytes, at);
    for (int64_t k = 0; k < it->n; k++)
        bytes += c[k].bytes;
    if (store_read(j->store, c->offset, at, bytes, e))
        return -1;
    for (int64_t k = 0; j->check && k < it->n; at += c[k++].bytes)
        if (codec_crc32(at, c[k].bytes) != c[k].crc32)
            return err_set(e, "damaged");
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

static int list(struct job *j, struct err *e)
{
    const struct store_info *i = store_info(j->store);
    const int64_t columns = store_chunk_columns(i);
    const int64_t most = (i->height / i->chunk_rows + 1 + i->group_count) * columns;
    j->chunks = calloc((size_t)most, sizeof *j->chunks);
    for (int64_t g = 0; g < i->group_count; g++) {
        if (!j->chunks || store_map_group(j->store, g, j->chunks + j->n, e))
            return -1;
        j->n += store_group_chunk_rows(i, g) * columns;
    }
    return 0;
}

static int load(struct job *j, struct err *e)
{
    j->packed = calloc((size_t)j->n, sizeof *j->packed);
    for (int64_t k = 0; k < j->n; k++)
        if (!(j->packed[k] = malloc(j->chunks[k].bytes + 1)) ||
            store_read(j->store, j->chunks[k].offset, j->packed[k], j->chunks[k].bytes, e))
            return -1;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    struct err e = {0};
    double seconds[RUNS];
    const int threads = argc == 4 ? atoi(argv[3]) : 0;
    struct job j = {.check = argc > 1 && !strcmp(argv[1], "check")};
    if (threads < 1)
        return fprintf(stderr, "usage: bench_read read|check|inflate STORE THREADS\n"), 2;
    if (!(j.store = store_open(argv[2], &e)) || list(&j, &e) ||
        (!strcmp(argv[1], "inflate") && load(&j, &e)))
        return fprintf(stderr, "bench_read: %s\n", e.msg), 1;
    struct item *items = calloc((size_t)(8 * threads), sizeof *items);
    j.buffers = calloc((size_t)threads, sizeof *j.buffers);
    j.codecs = calloc((size_t)threads, sizeof *j.codecs);
    for (int t = 0; t < threads; t++) {
        j.buffers[t] = malloc(2 * READ_BYTES + (size_t)store_chunk_bytes(store_info(j.store)));
        j.codecs[t] = codec_create();
    }
    for (int r = 0; r < RUNS; r++) {
        j.next = 0;
        seconds[r] = clock_now();
        if (pipe_run(&ops, &j, items, sizeof *items, 8 * threads, threads, &e))
            return fprintf(stderr, "bench_read: %s\n", e.msg), 1;
        seconds[r] = clock_now() - seconds[r];
    }
    qsort(seconds, RUNS, sizeof *seconds, by_size);
    printf("%.3f\n", seconds[RUNS / 2]);
    return 0;
}
