/* spectrum_cuda.c - the CUDA backend: several devices as one; device.h is one device. */
#include "cuda/device.h"

#include "common/codec/codec.h"
#include "cuda/gds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = SPECTRUM_MOST_DEVICES,
    MOST_WINDOWS = 1 << 19, /* of a band: SPECTRUM_SUMS x 12 MiB on the device and on the host */
    MOST_LOADS = 24,        /* of a device at once: more do not make its bus faster */
    PACKED_LOADS = 8, /* the same for JPEG tiles, of which few bytes cross the bus: more threads
                               only wait for each other in the driver */
    STAGING = 2,      /* staging buffers per thread: one is filled while the other is copied */
    STAGING_BYTES = 2 << 20, /* of pixels; smaller buffers are copied more slowly */
    MOST_BYTES = 1 << 30,    /* of all staging buffers */
    /* With more devices than FEW the staging buffers must stay in the processors' caches: the
     * memory of the host is too slow for writing and reading all bytes once more. */
    FEW = 2,
    SMALL_STAGING_BYTES = 1 << 20,
};

struct staging {
    struct device *sent_to; /* NULL: nothing is being copied */
};

struct spectrum {
    struct device *devices[MOST_DEVICES];
    int n_devices, threads;
    bool gds;                /* gds_open() has succeeded */
    int64_t memory;          /* bytes of staging buffers at most */
    uint8_t *pages;          /* page-locked, for all staging buffers */
    size_t bytes;            /* of pixels in a staging buffer */
    struct staging *staging; /* [threads][STAGING] */
    int *turns;              /* [threads]: the staging buffer that the thread used last */
};

/* --- staging buffers --- */

static size_t bytes_apart(size_t bytes)
{
    return (bytes + SPECTRUM_PAGE - 1) / SPECTRUM_PAGE * SPECTRUM_PAGE + SPECTRUM_STAGING_MORE;
}

/* No thread fills one any more. */
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
    const int64_t chunk = s->chunk_rows * s->chunk_cols * s->channels,
                  n = (int64_t)b->threads * STAGING;
    const int64_t most = b->n_devices > FEW ? SMALL_STAGING_BYTES : STAGING_BYTES,
                  share = b->memory / n - SPECTRUM_STAGING_MORE;
    int64_t bytes = share < most ? share : most;
    bytes = bytes < chunk ? chunk : bytes;
    uint8_t *pages;
    if ((size_t)chunk <= b->bytes)
        return 0;
    if (chunk > STAGING_BYTES && (chunk > MOST_BYTES / n || chunk > b->memory / n))
        return err_set(e,
                       "its chunks of %lld MiB are too large for %d threads within --memory; "
                       "choose fewer (--threads)",
                       (long long)(chunk >> 20), b->threads);
    /* If this fails, other devices go on with the existing staging buffers. */
    if (device_lock_pages(b->devices[s->assigned.device], (size_t)n * bytes_apart((size_t)bytes),
                          &pages, e))
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
    return (struct spectrum_staging){.memory = b->pages + (size_t)number * bytes_apart(b->bytes),
                                     .bytes = b->bytes,
                                     .number = number};
}

static int cuda_send(struct spectrum *b, const struct spectrum_slab *s,
                     const struct spectrum_staging *p, const uint8_t *from, size_t offset,
                     size_t bytes, struct err *e)
{
    struct device *d = b->staging[p->number].sent_to = b->devices[s->band->assigned.device];
    return device_send(d, s, p->number, from, offset, bytes, e);
}

static int cuda_blank(struct spectrum *b, const struct spectrum_slab *s, size_t offset,
                      size_t bytes, struct err *e)
{
    return device_blank(b->devices[s->band->assigned.device], s, offset, bytes, e);
}

static int64_t cuda_send_packed(struct spectrum *b, const struct spectrum_slab *s,
                                const struct spectrum_staging *p, const uint8_t *from,
                                int64_t first, const struct store_chunk *chunks, int64_t n,
                                uint8_t *left, struct err *e)
{
    struct device *d = b->staging[p->number].sent_to = b->devices[s->band->assigned.device];
    return device_send_packed(d, s, p->number, from, first, chunks, n, left, e);
}

static struct spectrum_file *cuda_open_file(struct spectrum *b, int fd, struct err *e)
{
    (void)b;
    return gds_file_open(fd, e);
}

static int64_t cuda_read(struct spectrum *b, const struct spectrum_slab *s,
                         struct spectrum_read *r, int thread, struct err *e)
{
    return device_read(b->devices[s->band->assigned.device], s, r, thread, e);
}

static int cuda_next_left(struct spectrum *b, const struct spectrum_slab *s, int64_t *place,
                          struct err *e)
{
    return device_next_left(b->devices[s->band->assigned.device], s, place, e);
}

/* --- opening and closing --- */

static void append(char *text, size_t bytes, const char *more)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", more);
}

/* Is device k the first of its name among those in the mask? */
static bool is_first_of_name(const struct spectrum *b, uint64_t mask, int k)
{
    for (int i = 0; i < k; i++)
        if (mask >> i & 1 && !strcmp(device_name(b->devices[i]), device_name(b->devices[k])))
            return false;
    return true;
}

/* Devices of one name are listed together: "cuda:0,1 NVIDIA H200, cuda:2 NVIDIA A100". */
static void cuda_describe(const struct spectrum *b, uint64_t devices, char *text, size_t bytes)
{
    const uint64_t mask = devices ? devices : UINT64_MAX;
    *text = 0;
    for (int k = 0; k < b->n_devices; k++) {
        const char *name = device_name(b->devices[k]), *separator = "cuda:";
        if (!(mask >> k & 1) || !is_first_of_name(b, mask, k))
            continue;
        append(text, bytes, *text ? ", " : "");
        for (int i = k; i < b->n_devices; i++) {
            char number[16];
            if (!(mask >> i & 1) || strcmp(device_name(b->devices[i]), name))
                continue;
            snprintf(number, sizeof number, "%s%d", separator, device_number(b->devices[i]));
            append(text, bytes, number);
            separator = ",";
        }
        append(text, bytes, " ");
        append(text, bytes, name);
    }
}

static void cuda_close(struct spectrum *b)
{
    if (!b)
        return;
    release_staging(b);
    for (int k = 0; k < b->n_devices; k++)
        device_close(b->devices[k]);
    if (b->gds)
        gds_close();
    free(b->staging);
    free(b->turns);
    free(b);
}

static struct spectrum *create(const struct spectrum_setup *s, struct err *e)
{
    struct spectrum *b = calloc(1, sizeof *b);
    if (b) {
        b->threads = s->threads;
        b->memory = s->memory ? s->memory : INT64_MAX;
        b->staging = calloc((size_t)s->threads * STAGING, sizeof *b->staging);
        b->turns = calloc((size_t)s->threads, sizeof *b->turns);
    }
    if (b && b->staging && b->turns)
        return b;
    err_set(e, "out of memory");
    cuda_close(b);
    return NULL;
}

/* Appends to the note on the devices. */
static void add_note(struct err *note, const char *what, const char *text)
{
    const struct err before = *note;
    err_set(note, "%.600s%s%s%.400s", before.msg, *before.msg ? "; " : "", what, text);
}

static void drop_device(struct spectrum *b, int k)
{
    device_close(b->devices[k]);
    b->n_devices--;
    for (; k < b->n_devices; k++)
        b->devices[k] = b->devices[k + 1];
}

/* Device k has failed. Is it left out, so that the others go on? */
static bool leave_out(struct spectrum *b, const struct spectrum_setup *s, int k, struct err *note,
                      const struct err *why)
{
    if (s->choice.kind != SPECTRUM_AUTO)
        return false;
    drop_device(b, k);
    add_note(note, "left out ", why->msg);
    return true;
}

static int open_device(struct spectrum *b, const struct spectrum_setup *s, int number,
                       struct err *e)
{
    struct device **d = &b->devices[b->n_devices++];
    if (device_open(d, number, &s->params, s->threads * STAGING, s->gds ? s->threads : 0, e))
        return -1;
    return s->choice.kind == SPECTRUM_AUTO ? device_check_memory(*d, e) : 0;
}

static int open_devices(struct spectrum *b, const struct spectrum_setup *s, struct err *note,
                        struct err *e)
{
    const struct spectrum_choice *c = &s->choice;
    const int count = device_count(e), most = count < MOST_DEVICES ? count : MOST_DEVICES;
    const int n = c->n ? c->n : most;
    for (int k = 0; k < n && count > 0; k++) {
        const int number = c->n ? c->numbers[k] : k;
        if (number >= count)
            return err_set(e, "there is no device cuda:%d: this machine has %d, numbered from 0",
                           number, count);
        if (open_device(b, s, number, e) && !leave_out(b, s, b->n_devices - 1, note, e))
            return -1;
    }
    return count > 0 ? 0 : -1;
}

/* All devices use the same kernel, so that counts do not depend on which device computes what. */
static int choose_kernels(struct spectrum *b, const struct spectrum_setup *s, struct err *note,
                          struct err *e)
{
    int fuse = 0, cannot = 0;
    for (int k = 0; k < b->n_devices; k++)
        if (device_can_fuse(b->devices[k]))
            fuse++;
        else
            cannot = k;
    const bool fused = fuse == b->n_devices;
    if (fuse > 0 && !fused) {
        char names[128];
        cuda_describe(b, UINT64_C(1) << cannot, names, sizeof names);
        add_note(note,
                 "all devices use cuFFT, because the fused kernel needs more shared memory "
                 "than there is on ",
                 names);
    }
    for (int k = 0; k < b->n_devices;)
        if (!device_choose_kernel(b->devices[k], fused, e))
            k++;
        else if (!leave_out(b, s, k, note, e))
            return -1;
    return 0;
}

static int cuda_open(struct spectrum **out, const struct spectrum_setup *s, struct err *note,
                     struct err *e)
{
    struct spectrum *b = create(s, e);
    *out = NULL;
    if (!b)
        return -1;
    b->gds = s->gds && gds_open(e) == 0;
    if (b->gds != s->gds || open_devices(b, s, note, e) || choose_kernels(b, s, note, e)) {
        cuda_close(b);
        return -1;
    }
    if (b->n_devices == 0) {
        cuda_close(b);
        return err_set(e, "no CUDA device can be used: %.900s", note->msg);
    }
    *out = b;
    return 0;
}

/* --- the backend --- */

static int cuda_devices(const struct spectrum *b)
{
    return b->n_devices;
}

static bool cuda_alive(const struct spectrum *b, int device)
{
    return device_alive(b->devices[device]);
}

static const char *cuda_kernel(const struct spectrum *b)
{
    return device_kernel(b->devices[0]);
}

static bool cuda_fits(const struct spectrum *b, const struct spectrum_band *s, size_t buffer_bytes)
{
    const struct device *d = b->devices[s->assigned.device];
    return (size_t)(s->chunk_rows * s->chunk_cols * s->channels) <= b->bytes &&
           device_reads_fit(d, b->bytes) && device_fits(d, s, buffer_bytes);
}

static int cuda_reserve(struct spectrum *b, const struct spectrum_band *s, size_t buffer_bytes,
                        struct err *e)
{
    struct device *d = b->devices[s->assigned.device];
    return reserve_staging(b, s, e) || device_reserve_reads(d, b->bytes, e) ||
                   device_reserve(d, s, buffer_bytes, e)
               ? -1
               : 0;
}

static bool cuda_buffer_free(const struct spectrum *b, int device, int k)
{
    return device_buffer_free(b->devices[device], k);
}

static int64_t cuda_units(const struct spectrum *b, const struct spectrum_slab *s)
{
    (void)b, (void)s;
    return 1; /* a slab that completes no window must reach the device, too */
}

static int cuda_compute(struct spectrum *b, const struct spectrum_slab *s, int64_t k, int thread,
                        struct result_counts *counts, struct err *e)
{
    (void)k, (void)thread, (void)counts; /* the device counts; cuda_finish() reports */
    return device_compute(b->devices[s->band->assigned.device], s, e);
}

static int cuda_finish(struct spectrum *b, const struct spectrum_band *s,
                       struct result_counts *counts, struct spectrum_times *times, struct err *e)
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
    .buffers = SPECTRUM_MOST_BUFFERS,
    .ahead = SPECTRUM_MOST_BUFFERS - 2,
    .memory = INT64_C(1536) << 20,
    .packed_memory = INT64_C(2304) << 20,
    .most_windows = MOST_WINDOWS,
    .unpacks = 1u << CODEC_NONE | 1u << CODEC_JPEG,
    .most_loads = MOST_LOADS,
    .packed_loads = PACKED_LOADS,
    .available = cuda_available,
    .open = cuda_open,
    .close = cuda_close,
    .devices = cuda_devices,
    .alive = cuda_alive,
    .describe = cuda_describe,
    .kernel = cuda_kernel,
    .fits = cuda_fits,
    .reserve = cuda_reserve,
    .buffer_free = cuda_buffer_free,
    .staging = cuda_staging,
    .send = cuda_send,
    .blank = cuda_blank,
    .send_packed = cuda_send_packed,
    .open_file = cuda_open_file,
    .close_file = gds_file_close,
    .read = cuda_read,
    .file_mode = gds_mode,
    .next_left = cuda_next_left,
    .units = cuda_units,
    .compute = cuda_compute,
    .finish = cuda_finish,
};
