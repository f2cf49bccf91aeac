/* spectrum_cuda.c - the CUDA backend: several devices as one; see device.h for what one does. */
#include "cuda/device.h"

#include "common/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = 64,
    MOST_LOADS = 24, /* of a device at once: more do not make its bus faster */
    STAGING = 2, /* of a thread: one is filled while the other is copied */
    STAGING_BYTES = 2 << 20, /* of pixels; smaller ones are copied slower */
    MOST_BYTES = 1 << 30,  /* of all staging buffers */
    /* With more devices than FEW what is on its way must stay in the processors' caches, as their memory is
     * not fast enough to take it and give it again. */
    FEW = 2,
    SMALL_STAGING_BYTES = 1 << 20,
};

struct staging {
    struct device *sent_to; /* NULL: nothing is under way */
};

struct spectrum {
    struct device *devices[MOST_DEVICES];
    int n_devices, threads;
    char name[128];
    int64_t memory;   /* bytes of staging buffers at most */
    uint8_t *pages;   /* page-locked, for all staging buffers */
    size_t bytes;     /* of pixels in a staging buffer */
    struct staging *staging; /* [threads][STAGING] */
    int *turns;           /* [threads]: which of its staging buffers a thread has had last */
};

/* --- staging buffers --- */

static size_t bytes_apart(size_t bytes)
{
    return (bytes + SPECTRUM_PAGE - 1) / SPECTRUM_PAGE * SPECTRUM_PAGE + SPECTRUM_STAGING_MORE;
}

/* Nobody fills one any more. */
static void release_staging(struct spectrum *b)
{
    int alive = 0;
    for (int k = 0; b->pages && k < b->threads * STAGING; k++)
        if (b->staging[k].sent_to)
            device_wait(b->staging[k].sent_to, k);
    for (int k = 0; b->pages && k < b->n_devices; k++) {
        device_end_copies(b->devices[k]);
        alive = device_alive(b->devices[k]) ? k : alive;
    }
    if (b->pages)
        device_unlock_pages(b->devices[alive], b->pages);
    b->pages = NULL;
    b->bytes = 0;
}

static int reserve_staging(struct spectrum *b, const struct spectrum_band *s, struct err *e)
{
    const int64_t chunk = s->chunk_rows * s->chunk_cols * s->channels, n = (int64_t)b->threads * STAGING;
    const int64_t most = b->n_devices > FEW ? SMALL_STAGING_BYTES : STAGING_BYTES, share = b->memory / n - SPECTRUM_STAGING_MORE;
    int64_t bytes = share < most ? share : most;
    bytes = bytes < chunk ? chunk : bytes;
    uint8_t *pages;
    if ((size_t)chunk <= b->bytes)
        return 0;
    if (chunk > STAGING_BYTES && (chunk > MOST_BYTES / n || chunk > b->memory / n))
        return err_set(e, "its chunks of %lld MiB are too large for %d threads within --memory; take fewer (-j)",
                       (long long)(chunk >> 20), b->threads);
    /* where this fails, other devices' bands go on with the staging buffers that exist */
    if (device_lock_pages(b->devices[s->assigned.device], (size_t)n * bytes_apart((size_t)bytes), &pages, e))
        return -1;
    release_staging(b);
    b->pages = pages;
    b->bytes = (size_t)bytes;
    return 0;
}

static struct spectrum_staging cuda_staging(struct spectrum *b, int thread)
{
    const int number = thread * STAGING + (b->turns[thread] = (b->turns[thread] + 1) % STAGING);
    struct staging *p = &b->staging[number];
    if (p->sent_to)
        device_wait(p->sent_to, number);
    p->sent_to = NULL;
    return (struct spectrum_staging){.memory = b->pages + (size_t)number * bytes_apart(b->bytes), .bytes = b->bytes,
                                     .number = number};
}

static int cuda_send(struct spectrum *b, const struct spectrum_slab *s, const struct spectrum_staging *p,
                     const uint8_t *from, size_t offset, size_t bytes, struct err *e)
{
    struct device *d = b->staging[p->number].sent_to = b->devices[s->band->assigned.device];
    return device_send(d, s, p->number, from, offset, bytes, e);
}

/* --- the backend --- */

static void cuda_close(struct spectrum *b)
{
    if (!b)
        return;
    release_staging(b);
    for (int k = 0; k < b->n_devices; k++)
        device_close(b->devices[k]);
    free(b->staging);
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
    struct spectrum *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->threads = threads;
    b->memory = memory;
    b->staging = calloc((size_t)threads * STAGING, sizeof *b->staging);
    b->turns = calloc((size_t)threads, sizeof *b->turns);
    if (b->staging && b->turns)
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
    for (; b->n_devices < n; b->n_devices++)
        if (device_open(&b->devices[b->n_devices], numbers[b->n_devices], p, threads * STAGING, e)) {
            device_close(b->devices[b->n_devices]);
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

static int cuda_devices(const struct spectrum *b)
{
    return b->n_devices;
}

static bool cuda_alive(const struct spectrum *b, int device)
{
    return device_alive(b->devices[device]);
}

static const char *cuda_device_name(const struct spectrum *b)
{
    return b->name;
}

static const char *cuda_kernel(const struct spectrum *b)
{
    return device_kernel(b->devices[0]);
}

static bool cuda_fits(const struct spectrum *b, const struct spectrum_band *s, size_t buffer_bytes)
{
    return (size_t)(s->chunk_rows * s->chunk_cols * s->channels) <= b->bytes &&
           device_fits(b->devices[s->assigned.device], s, buffer_bytes);
}

static int cuda_reserve(struct spectrum *b, const struct spectrum_band *s, size_t buffer_bytes, struct err *e)
{
    return reserve_staging(b, s, e) || device_reserve(b->devices[s->assigned.device], s, buffer_bytes, e) ? -1 : 0;
}

static bool cuda_buffer_free(const struct spectrum *b, int device, int k)
{
    return device_buffer_free(b->devices[device], k);
}

static int64_t cuda_units(const struct spectrum *b, const struct spectrum_slab *s)
{
    (void)b, (void)s;
    return 1; /* also a slab that completes no window must reach the device */
}

static int cuda_compute(struct spectrum *b, const struct spectrum_slab *s, int64_t k, int thread,
                    struct result_counts *counts, struct err *e)
{
    (void)k, (void)thread, (void)counts; /* the device counts; cuda_finish() tells */
    return device_compute(b->devices[s->band->assigned.device], s, e);
}

static int cuda_finish(struct spectrum *b, const struct spectrum_band *s, struct result_counts *counts,
                       struct spectrum_times *times, struct err *e)
{
    return device_finish(b->devices[s->assigned.device], s, counts, times, e);
}

static bool cuda_available(struct err *e)
{
    return device_count(e) > 0;
}

const struct spectrum_backend spectrum_cuda = {
    .name = "cuda",
    .layout = SPECTRUM_CHUNKS,
    .memory = INT64_C(768) << 20,
    .unpacks = 1u << CODEC_NONE,
    .most_loads = MOST_LOADS,
    .available = cuda_available,
    .open = cuda_open,
    .close = cuda_close,
    .devices = cuda_devices,
    .alive = cuda_alive,
    .device_name = cuda_device_name,
    .kernel = cuda_kernel,
    .fits = cuda_fits,
    .reserve = cuda_reserve,
    .buffer_free = cuda_buffer_free,
    .staging = cuda_staging,
    .send = cuda_send,
    .units = cuda_units,
    .compute = cuda_compute,
    .finish = cuda_finish,
};
