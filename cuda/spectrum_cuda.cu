/* spectrum_cuda.cu - the CUDA backend: a lane a device; see device.h for what one does. */
#include "cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = 64,
    PIECES = 2, /* of a thread: one is filled while the other is copied */
    PIECE_BYTES = 2 << 20, /* of pixels; smaller ones are copied slower */
    MOST_BYTES = 1 << 30,  /* of all pieces */
    /* With more devices than FEW what is on its way must stay in the processors' caches, as their memory is
     * not fast enough to take it and give it again. */
    FEW = 2,
    SMALL_PIECE_BYTES = 1 << 20,
};

struct piece {
    struct device *sent_to; /* NULL: nothing is under way */
};

struct spectrum {
    struct device *devices[MOST_DEVICES];
    int lanes, threads;
    char name[128];
    int64_t memory;   /* bytes of pieces at most */
    uint8_t *pages;   /* page-locked, for all pieces */
    size_t bytes;     /* of pixels in a piece */
    struct piece *pieces; /* [threads][PIECES] */
    int *turns;           /* [threads]: which of its pieces a thread has had last */
};

/* --- pieces --- */

static size_t bytes_apart(size_t bytes)
{
    return (bytes + SPECTRUM_PAGE - 1) / SPECTRUM_PAGE * SPECTRUM_PAGE + SPECTRUM_PIECE_MORE;
}

/* Nobody fills one any more. */
static void release_pieces(struct spectrum *b)
{
    int alive = 0;
    for (int k = 0; b->pages && k < b->threads * PIECES; k++)
        if (b->pieces[k].sent_to)
            device_wait(b->pieces[k].sent_to, k);
    for (int k = 0; b->pages && k < b->lanes; k++) {
        device_end_copies(b->devices[k]);
        alive = device_alive(b->devices[k]) ? k : alive;
    }
    if (b->pages)
        device_unlock_pages(b->devices[alive], b->pages);
    b->pages = NULL;
    b->bytes = 0;
}

static int reserve_pieces(struct spectrum *b, const struct spectrum_slide *s, struct err *e)
{
    const int64_t chunk = s->chunk_rows * s->chunk_cols * s->channels, n = (int64_t)b->threads * PIECES;
    const int64_t most = b->lanes > FEW ? SMALL_PIECE_BYTES : PIECE_BYTES, share = b->memory / n - SPECTRUM_PIECE_MORE;
    int64_t bytes = share < most ? share : most;
    bytes = bytes < chunk ? chunk : bytes;
    uint8_t *pages;
    if ((size_t)chunk <= b->bytes)
        return 0;
    if (chunk > PIECE_BYTES && (chunk > MOST_BYTES / n || chunk > b->memory / n))
        return err_set(e, "its chunks of %lld MiB are too large for %d threads within --memory; take fewer (-j)",
                       (long long)(chunk >> 20), b->threads);
    /* where this fails, other lanes' parts go on with the pieces that there are */
    if (device_lock_pages(b->devices[s->lane], (size_t)n * bytes_apart((size_t)bytes), &pages, e))
        return -1;
    release_pieces(b);
    b->pages = pages;
    b->bytes = (size_t)bytes;
    return 0;
}

static struct spectrum_piece cuda_piece(struct spectrum *b, int thread)
{
    const int number = thread * PIECES + (b->turns[thread] = (b->turns[thread] + 1) % PIECES);
    struct piece *p = &b->pieces[number];
    if (p->sent_to)
        device_wait(p->sent_to, number);
    p->sent_to = NULL;
    return {b->pages + (size_t)number * bytes_apart(b->bytes), b->bytes, number};
}

static int cuda_send(struct spectrum *b, const struct spectrum_slab *s, const struct spectrum_piece *p,
                     const uint8_t *from, size_t offset, size_t bytes, struct err *e)
{
    struct device *d = b->pieces[p->number].sent_to = b->devices[s->slide->lane];
    return device_send(d, s, p->number, from, offset, bytes, e);
}

/* --- the backend --- */

static void cuda_close(struct spectrum *b)
{
    if (!b)
        return;
    release_pieces(b);
    for (int k = 0; k < b->lanes; k++)
        device_close(b->devices[k]);
    free(b->pieces);
    free(b->turns);
    free(b);
}

/* The numbers in "0,1"; all devices for "". */
static int parse_devices(const char *text, int count, int *numbers, int *n, struct err *e)
{
    for (*n = 0; !*text && *n < count && *n < MOST_DEVICES; ++*n)
        numbers[*n] = *n;
    while (*text) {
        char *end;
        const long k = strtol(text, &end, 10);
        if (end == text || (*end && (*end != ',' || !end[1])))
            return err_set(e, "cuda:%s: not numbers of devices", text);
        if (k < 0 || k >= count)
            return err_set(e, "there is no device cuda:%ld: this machine has %d, cuda:0%s%.0d", k, count,
                           count > 1 ? " to cuda:" : "", count > 1 ? count - 1 : 0);
        for (int i = 0; i < *n; i++)
            if (numbers[i] == (int)k)
                return err_set(e, "device cuda:%ld is named twice", k);
        if (*n == MOST_DEVICES)
            return err_set(e, "too many devices");
        numbers[(*n)++] = (int)k;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static struct spectrum *create(int threads, int64_t memory)
{
    struct spectrum *b = (struct spectrum *)calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->threads = threads;
    b->memory = memory;
    b->pieces = (struct piece *)calloc((size_t)threads * PIECES, sizeof *b->pieces);
    b->turns = (int *)calloc((size_t)threads, sizeof *b->turns);
    if (b->pieces && b->turns)
        return b;
    cuda_close(b);
    return NULL;
}

static int cuda_open(struct spectrum **out, const char *devices, const struct result_params *p, int threads,
                     int64_t memory, struct err *e)
{
    int numbers[MOST_DEVICES], n;
    const int count = device_count(e);
    *out = NULL;
    if (count == 0 || parse_devices(devices, count, numbers, &n, e))
        return -1;
    struct spectrum *b = create(threads, memory);
    if (!b)
        return err_set(e, "out of memory");
    for (; b->lanes < n; b->lanes++)
        if (device_open(&b->devices[b->lanes], numbers[b->lanes], p, threads * PIECES, e)) {
            device_close(b->devices[b->lanes]);
            cuda_close(b);
            return -1;
        }
    if (n == 1)
        snprintf(b->name, sizeof b->name, "%s", device_name(b->devices[0]));
    else
        snprintf(b->name, sizeof b->name, "%d x %s", n, device_name(b->devices[0]));
    *out = b;
    return 0;
}

static int cuda_lanes(const struct spectrum *b)
{
    return b->lanes;
}

static bool cuda_alive(const struct spectrum *b, int lane)
{
    return device_alive(b->devices[lane]);
}

static const char *cuda_device(const struct spectrum *b)
{
    return b->name;
}

static const char *cuda_kernel(const struct spectrum *b)
{
    return device_kernel(b->devices[0]);
}

static bool cuda_fits(const struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes)
{
    return (size_t)(s->chunk_rows * s->chunk_cols * s->channels) <= b->bytes &&
           device_fits(b->devices[s->lane], s, slot_bytes);
}

static int cuda_reserve(struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes, struct err *e)
{
    return reserve_pieces(b, s, e) || device_reserve(b->devices[s->lane], s, slot_bytes, e) ? -1 : 0;
}

static bool cuda_slot_free(const struct spectrum *b, int lane, int k)
{
    return device_slot_free(b->devices[lane], k);
}

static int64_t cuda_parts(const struct spectrum *b, const struct spectrum_slab *s)
{
    (void)b, (void)s;
    return 1; /* also a slab that completes no window must reach the device */
}

static int cuda_run(struct spectrum *b, const struct spectrum_slab *s, int64_t k, int thread,
                    struct result_counts *counts, struct err *e)
{
    (void)k, (void)thread, (void)counts; /* the device counts; cuda_finish() tells */
    return device_run(b->devices[s->slide->lane], s, e);
}

static int cuda_finish(struct spectrum *b, const struct spectrum_slide *s, struct result_counts *counts,
                       struct spectrum_times *times, struct err *e)
{
    return device_finish(b->devices[s->lane], s, counts, times, e);
}

extern "C" {
extern const struct spectrum_backend spectrum_cuda;
const struct spectrum_backend spectrum_cuda = {
    "cuda",      SPECTRUM_CHUNKS, INT64_C(768) << 20, cuda_open,      cuda_lanes, cuda_alive,
    cuda_device, cuda_kernel,     cuda_fits,          cuda_reserve,   cuda_slot_free, NULL,
    cuda_piece,  cuda_send,       cuda_parts,         cuda_run,       cuda_finish,    cuda_close,
};
}
