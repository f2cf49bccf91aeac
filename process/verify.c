/* verify.c - see verify.h. Group by group through the parallel loop; an item is one chunk. */
#include "process/verify.h"

#include "common/cli.h"
#include "common/codec.h"
#include "common/pipe.h"
#include "common/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct area {
    unsigned char *packed, *pixels;
    struct codec_work *codec;
};

struct verify {
    struct store *store;
    struct verify_report *report;
    struct area *areas; /* [threads] */
    struct store_chunk *chunks;
    int64_t group, n, next; /* chunks of the group, and the next one */
};

struct item {
    struct store_chunk chunk;
    int64_t group, number;
    const char *wrong; /* NULL when sound */
};

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct verify *v = ctx;
    struct item *it = slot;
    (void)number, (void)after;
    if (cli_check_stop(e))
        return -1;
    if (v->next == v->n)
        return PIPE_END;
    *it = (struct item){.chunk = v->chunks[v->next], .group = v->group, .number = v->next};
    v->next++;
    return PIPE_ITEM;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct verify *v = ctx;
    struct item *it = slot;
    struct area *a = &v->areas[thread];
    const struct codec_params params = store_codec_params(store_info(v->store));
    const size_t n = it->chunk.bytes;
    if (n == 0)
        return 0;
    if (store_read(v->store, it->chunk.offset, a->packed, n, e))
        return -1;
    if (codec_crc32(a->packed, n) != it->chunk.crc32)
        it->wrong = "its checksum does not fit";
    else if (!it->chunk.raw && codec_decode(a->codec, &params, a->packed, n, a->pixels))
        it->wrong = "it cannot be unpacked";
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct verify *v = ctx;
    struct item *it = slot;
    struct verify_report *r = v->report;
    (void)e;
    r->chunks += it->chunk.bytes > 0;
    r->bytes += it->chunk.bytes;
    r->missing += it->chunk.status == STORE_MISSING;
    r->damaged += it->chunk.status == STORE_DAMAGED;
    r->left_out += it->chunk.status == STORE_LEFT_OUT;
    if (it->wrong && r->bad++ == 0) {
        const int64_t columns = store_chunk_columns(store_info(v->store));
        err_set(&r->first, "group %" PRId64 ", chunk row %" PRId64 ", column %" PRId64 ": %s",
                it->group + 1, it->number / columns, it->number % columns, it->wrong);
    }
    return 0;
}

static int open_areas(struct verify *v, int threads, struct err *e)
{
    const struct store_info *i = store_info(v->store);
    const size_t whole = (size_t)store_chunk_bytes(i);
    v->chunks = calloc((size_t)(store_group_chunk_rows(i, 0) * store_chunk_columns(i)),
                       sizeof *v->chunks);
    v->areas = calloc((size_t)threads, sizeof *v->areas);
    if (!v->chunks || !v->areas)
        return err_set(e, "out of memory");
    for (int t = 0; t < threads; t++) {
        struct area *a = &v->areas[t];
        a->packed = malloc(whole);
        a->pixels = malloc(whole);
        a->codec = codec_create(e);
        if (!a->packed || !a->pixels || !a->codec)
            return err_set(e, "out of memory");
    }
    return 0;
}

static void close_all(struct verify *v, int threads)
{
    for (int t = 0; v->areas && t < threads; t++) {
        free(v->areas[t].packed);
        free(v->areas[t].pixels);
        codec_free(v->areas[t].codec);
    }
    free(v->areas);
    free(v->chunks);
    store_close(v->store);
}

static int verify_groups(struct verify *v, struct item *items, int depth, int threads, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const struct store_info *i = store_info(v->store);
    for (v->group = 0; v->group < i->group_count; v->group++) {
        v->next = 0;
        v->n = store_group_chunk_rows(i, v->group) * store_chunk_columns(i);
        if (store_map_group(v->store, v->group, v->chunks, e) ||
            pipe_run(&ops, v, items, sizeof *items, depth, threads, e))
            return -1;
    }
    const struct verify_report *r = v->report;
    if (r->missing != i->tiles_missing || r->damaged != i->tiles_damaged ||
        r->left_out != i->tiles_left_out)
        return err_set(e, "%s: the tables of tiles do not fit their counts", store_path(v->store));
    return 0;
}

int verify_store(const char *path, int threads, struct verify_report *report, struct err *e)
{
    const int depth = 4 * threads;
    struct verify v = {.report = report};
    *report = (struct verify_report){0};
    if (!(v.store = store_open(path, e)))
        return -1;
    struct item *items = calloc((size_t)depth, sizeof *items);
    int r = !items ? err_set(e, "out of memory") : open_areas(&v, threads, e);
    if (r == 0)
        r = verify_groups(&v, items, depth, threads, e);
    free(items);
    close_all(&v, threads);
    return r;
}
